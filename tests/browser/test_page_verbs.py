"""What a person can do on the page, verb by verb, in a real Chromium against the real server."""

from __future__ import annotations

import ast
import json
import re
import shlex
from functools import partial

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from agent_lab import Agent, DebugRuntime
from agent_lab.testing import HandGate, ScriptedModel
from tests.browser.helpers_acts import ASKED, SHOWN, Acted, asking, crowd
from tests.browser.helpers_page import Desk, Guide, Stage, looking, staged

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def desk(stage: Stage, guide: Guide) -> Desk:
    """A tab in which the guide looks at Oslo, and “And Rome?” is held."""
    desk = await looking(stage, guide)
    await desk.say("And Rome?")
    await expect(desk.held).to_have_count(1)
    await desk.page.evaluate("document.activeElement.blur()")
    return desk


def row(desk: Desk, kind: str) -> Locator:
    """The first line of this type in the list of entries."""
    of_kind = desk.page.locator(f".type:text-is('{kind}')")
    return desk.entries.get_by_role("option").filter(has=of_kind).first


# -- choose and point ----------------------------------------------------------------------------


async def test_choosing_an_entry_marks_it_in_timeline_and_conversation_and_opens_it(
    desk: Desk,
) -> None:
    await row(desk, "held").click()

    await expect(desk.inspector.locator("h2")).to_contain_text("held")
    await expect(desk.held).to_have_attribute("data-chosen", "true")
    await expect(desk.page.locator("svg.plot rect.bar.held")).to_have_attribute(
        "data-chosen", "entry"
    )
    await desk.page.keyboard.press("Escape")
    await expect(desk.inspector.locator("h2")).to_have_text("Inspector")


async def test_pointing_at_an_arrow_says_what_it_carries_and_marks_it_everywhere(
    desk: Desk,
) -> None:
    arrows = desk.page.locator("svg.plot path.hit[data-label='you → input: “And Rome?”']")
    await arrows.first.hover(force=True)

    await expect(desk.page.locator(".tooltip")).to_have_text("you → input: “And Rome?”")
    await expect(desk.held).to_have_attribute("data-near", "true")
    await expect(row(desk, "held")).to_have_attribute("data-near", "ref")
    await arrows.first.click(force=True)
    await expect(desk.inspector.locator("h2")).to_contain_text("accepted")


async def test_pointing_at_a_message_marks_its_bar(desk: Desk) -> None:
    await desk.held.hover()

    await expect(desk.page.locator("svg.plot rect.bar.held")).to_have_attribute("data-near", "true")


async def test_a_bar_is_named_where_the_pointer_is(desk: Desk) -> None:
    await desk.page.locator("svg.plot rect.bar.tool").hover()

    await expect(desk.page.locator(".tooltip")).to_contain_text('look(place="Oslo")')


# -- the timeline --------------------------------------------------------------------------------


async def scrolled(desk: Desk) -> float:
    return await desk.page.locator(".track").evaluate("track => track.scrollLeft")


async def test_the_timeline_is_zoomed_dragged_and_moved_by_keys(stage: Stage, guide: Guide) -> None:
    guide.open("Oslo")
    desk = await stage.open()
    await desk.say("Look at Oslo")
    await expect(desk.ends).to_have_count(1)
    await desk.page.evaluate("document.activeElement.blur()")
    track = desk.page.locator(".track")
    box = await track.bounding_box()
    assert box

    async def wide(times: float) -> None:
        width = round(int(box["width"]) * times)
        await expect(track.locator(".spacer")).to_have_attribute("style", f"width: {width}px;")

    for _ in range(4):
        await desk.page.keyboard.press("+")
    await wide(1.5**4)
    start, at = await scrolled(desk), (box["x"] + box["width"] / 2, box["y"] + 8)
    await desk.page.mouse.move(*at)
    await desk.page.mouse.down()
    await desk.page.mouse.move(at[0] - 150, at[1], steps=4)
    await desk.page.mouse.up()
    assert await scrolled(desk) == start + 150
    await desk.page.keyboard.press("Shift+ArrowRight")
    quarter = int(box["width"]) / 4
    assert await scrolled(desk) == pytest.approx(start + 150 + quarter, abs=1)
    await desk.page.keyboard.press("0")
    await wide(1)


async def test_a_reader_who_drags_away_from_now_is_not_dragged_back(desk: Desk) -> None:
    follow = desk.page.get_by_role("button", name="follow", exact=True)
    await expect(follow).to_have_attribute("aria-pressed", "true")
    for _ in range(5):
        await desk.page.keyboard.press("+")
    await desk.page.locator(".track").evaluate("track => (track.scrollLeft = 0)")
    await expect(follow).to_have_attribute("aria-pressed", "false")

    await desk.page.keyboard.press("f")
    await expect(follow).to_have_attribute("aria-pressed", "true")
    assert await scrolled(desk) > 0


# -- entries -------------------------------------------------------------------------------------


async def test_entries_are_filtered_by_words_types_and_kinds(desk: Desk) -> None:
    shown = desk.entries.get_by_role("option").locator(".type")
    await desk.page.keyboard.press("/")
    await desk.page.keyboard.type("type:tool_* c1")
    await expect(shown).to_have_text(["tool_call", "tool_started"])
    await expect(desk.page.locator(".found")).to_have_text(re.compile(r"^2 of \d+$"))

    await desk.page.locator("#filter").fill("")
    await desk.click("messages")
    await expect(shown).to_have_text(["accepted", "delivered", "accepted", "held"])
    await desk.page.locator("#filter").fill("nothing like it")
    await expect(desk.page.locator("#entries .empty")).to_contain_text("No entry fits this filter")


# -- copies --------------------------------------------------------------------------------------


async def test_an_entry_is_copied_as_json_curl_and_python(desk: Desk) -> None:
    await desk.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await row(desk, "model_request").click()

    async def copied(name: str) -> str:
        button = desk.page.get_by_role("button", name=f"Copy as {name}", exact=True)
        await button.click()
        await expect(button).to_have_text("copied")
        return await desk.page.evaluate("navigator.clipboard.readText()")

    body = json.loads(await copied("JSON"))
    assert body["messages"] == [{"role": "user", "content": "Look at Oslo"}]
    words = shlex.split((await copied("curl")).replace("\\\n", ""))
    assert words[0] == "curl"
    assert json.loads(words[-1]) == body
    program = ast.parse(await copied("Python"))
    [said] = [
        ast.literal_eval(line.value)
        for line in program.body
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "body"
    ]
    assert said == body
    await row(desk, "held").click()
    assert json.loads(await copied("JSON"))["blocked_by"] == ["c1"]


async def test_the_inspector_shows_what_changed_since_the_request_before(
    desk: Desk, guide: Guide
) -> None:
    guide.open("Oslo")
    await expect(desk.ends).to_have_count(1)
    await desk.page.locator("#filter").fill("type:model_request")
    await desk.entries.get_by_role("option").nth(1).click()

    changes = desk.inspector.locator(".change summary")
    await expect(changes).to_have_count(3)
    said = [text.split()[0:2] for text in await changes.all_inner_texts()]
    assert said == [["+#1", "assistant"], ["+#2", "tool"], ["+#3", "user"]]


# -- keys ----------------------------------------------------------------------------------------


async def test_the_waiting_message_is_edited_and_withdrawn_by_keys(desk: Desk) -> None:
    await desk.page.keyboard.press("e")
    editor = desk.page.get_by_label("Change the held message")
    await expect(editor).to_be_focused()
    await editor.fill("And Vienna?")
    await editor.press("Enter")
    await expect(desk.held).to_contain_text("And Vienna?")
    await expect(desk.page.locator("#message")).to_be_focused()

    await desk.page.keyboard.press("Escape")
    await desk.page.keyboard.press("w")
    await expect(desk.page.locator("article.user[data-status=withdrawn]")).to_have_count(1)


async def test_the_turn_is_cancelled_by_a_key_and_what_waits_with_it(desk: Desk) -> None:
    await desk.page.keyboard.press("Shift+X")

    await expect(desk.ends).to_have_text(["■ turn 1 cancelled"])
    await expect(desk.page.locator("article.user[data-status=withdrawn]")).to_have_count(1)


async def test_modes_have_keys_and_the_composer_says_when_it_will_be_delivered(desk: Desk) -> None:
    area, promise = desk.page.locator("#message"), desk.page.locator(".promise")
    await desk.page.keyboard.press("m")
    await expect(area).to_be_focused()
    for key, words in (
        ("1", "Held until c1 has replied, then delivered."),
        ("2", "Delivered after this turn, as the next one."),
        ("3", "Stops 1 tool call, then starts the next turn."),
        ("4", "Rejected, because a turn runs."),
    ):
        await area.press(f"Alt+{key}")
        await expect(promise).to_have_text(words)


async def test_keys_choose_entries_turns_scope_and_theme(stage: Stage, guide: Guide) -> None:
    desk = await stage.open()
    for text in ("Hello", "Again"):
        await desk.say(text)
        await expect(desk.page.locator(".end").filter(has_text="done")).to_have_count(
            1 if text == "Hello" else 2
        )
    await desk.page.evaluate("document.activeElement.blur()")
    press, title = desk.page.keyboard.press, desk.page.locator("#timeline .range")
    await press("[")
    await expect(title).to_contain_text("turn 1")
    await press("]")
    await expect(title).to_contain_text("turn 2")
    await press("a")
    await expect(title).to_contain_text("2 turns")
    await press("Home")
    await expect(desk.inspector.locator("h2")).to_contain_text("Entry 1 ")
    await press("j")
    await expect(desk.inspector.locator("h2")).to_contain_text("Entry 2 ")
    await press("i")
    await expect(desk.inspector.locator(".body")).to_be_focused()
    await press("t")
    await expect(desk.page.locator("html")).to_have_attribute("data-theme", "light")
    await press("s")
    await expect(desk.page.get_by_role("dialog", name="Sessions")).to_be_visible()
    await press("Escape")
    await press("n")
    await expect(desk.page.locator(".welcome")).to_be_visible()


# -- sessions ------------------------------------------------------------------------------------


async def test_the_list_of_sessions_says_when_it_is_empty_and_opens_what_it_lists(
    stage: Stage, guide: Guide
) -> None:
    desk = await stage.open()
    await desk.click("Sessions")
    window = desk.page.get_by_role("dialog", name="Sessions")
    await expect(window).to_contain_text("No session yet")
    await desk.page.keyboard.press("Escape")
    await desk.say("Hello")
    await expect(desk.ends).to_have_count(1)
    await desk.click("Sessions")
    await expect(desk.page.locator("button.session")).to_contain_text("Hello")
    await desk.click("New session")
    await desk.say("Again")
    await expect(desk.answers).to_have_text(["You said: Again"])

    await desk.click("Sessions")
    await desk.page.locator("button.session").nth(1).click()
    await expect(desk.answers).to_have_text(["You said: Hello"])


async def test_a_reader_who_comes_late_is_told_which_entries_are_gone(chromium: Browser) -> None:
    async with staged(chromium, crowd(40, keep=200)) as stage:
        client = await stage.serving.run("Go")
        await client.end()
        desk = await stage.open()
        await desk.click("Sessions")
        await desk.page.locator("button.session").click()
        await expect(desk.ends).to_have_count(1)

        gone = desk.page.locator(".end[data-end=gap]")
        await expect(gone).to_contain_text("entries 1 to ")
        await expect(desk.page.locator("svg.plot text.gaptext")).to_contain_text("are not kept")


# -- a first visit -------------------------------------------------------------------------------


async def test_a_first_visit_shows_how_to_read_the_timeline_until_there_is_one(
    stage: Stage,
) -> None:
    desk = await stage.open()
    sample = desk.page.locator(".sample")
    await expect(sample.locator(":scope > svg rect.bar.held")).to_have_count(1)
    await expect(sample.locator(".legend")).to_contain_text("held: your message waits")
    await desk.say("Hello")
    await expect(desk.ends).to_have_count(1)

    await expect(sample).to_be_hidden()


# -- narrow --------------------------------------------------------------------------------------


async def test_a_narrow_window_shows_the_conversation_and_the_others_as_tabs(desk: Desk) -> None:
    await desk.page.set_viewport_size({"width": 390, "height": 844})
    panels = desk.page.locator("main > .panel:visible")
    await expect(panels).to_have_attribute("id", "conversation")
    for name in ("Timeline", "Entries", "Inspector", "Conversation"):
        await desk.click(name)
        await expect(panels).to_have_attribute("id", name.lower())
    await desk.click("Entries")
    await row(desk, "held").click()
    await expect(panels).to_have_attribute("id", "inspector")
    root = desk.page.locator("html")
    assert await root.evaluate("root => root.scrollWidth <= root.clientWidth")


# -- asked and paused ----------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="session")
async def acted(stage: Stage) -> tuple[Desk, Acted]:
    """A tab whose server is played: a tool asks for permission."""
    acted = Acted(asking(), agent="guide")
    desk = await stage.open(server=acted)
    await desk.say("Book it")
    return desk, acted


async def test_a_permission_is_asked_with_its_arguments_and_dead_for_a_moment(
    acted: tuple[Desk, Acted],
) -> None:
    desk, server = acted
    card = desk.page.get_by_role("region", name="Permission for book_seat")
    await expect(card).to_contain_text('"train": "10:53 to Oslo"')
    await expect(desk.why).to_contain_text("book_seat asks for your permission")
    allow = card.get_by_role("button", name="Allow", exact=True)
    since = await desk.page.evaluate("performance.now()")
    await card.evaluate("card => (card.dataset.born ??= performance.now())")
    await expect(allow).to_be_enabled()
    await desk.page.evaluate("dispatchEvent(new Event('focus'))")
    assert await allow.is_disabled()  # whoever comes back to the window has not read it yet
    await expect(allow).to_be_enabled()
    assert await desk.page.evaluate("performance.now()") - since >= 400
    assert not server.heard


@pytest.mark.parametrize("decision", ["allow", "deny", "edit"])
async def test_a_permission_is_answered_once_and_the_card_goes_with_the_answer(
    acted: tuple[Desk, Acted], decision: str
) -> None:
    desk, server = acted
    card = desk.page.locator(".ask")
    if decision == "deny":
        await card.get_by_label("What the model is told").fill("too dear")
    if decision == "edit":
        await card.get_by_role("button", name="edit arguments").click()
        await card.get_by_role("textbox", name="edit arguments").fill('{"train": "8:53"}')
    name = "Deny" if decision == "deny" else "Allow"
    await card.get_by_role("button", name=name, exact=True).click()
    await expect(card.get_by_role("button", name=name, exact=True)).to_be_disabled()
    await expect(card).to_contain_text("the server is told")

    answer = {
        "allow": {},
        "deny": {"message": "too dear"},
        "edit": {"arguments": {"train": "8:53"}},
    }
    frame = {"type": "permission", "request_id": ASKED, "decision": name.lower(), "sha256": SHOWN}
    assert server.heard == [{**frame, **answer[decision]}]
    await server.add(
        "permission_resolved",
        request_id=ASKED,
        call_id="call_1",
        decision=name.lower(),
        reason="answered",
    )
    await expect(card).to_have_count(0)


async def test_arguments_that_are_no_object_are_not_sent(acted: tuple[Desk, Acted]) -> None:
    desk, server = acted
    card = desk.page.locator(".ask")
    await card.get_by_role("button", name="edit arguments").click()
    await card.get_by_role("textbox", name="edit arguments").fill("[1")
    await card.get_by_role("button", name="Allow", exact=True).click()

    await expect(card).to_contain_text("These arguments are not a JSON object.")
    assert not server.heard


async def test_a_hop_that_stands_at_the_gate_is_shown_until_it_is_released(
    chromium: Browser,
) -> None:
    gate = HandGate("model")
    async with staged(chromium, Agent("held", model=ScriptedModel(["So."]))) as stage:
        stage.serving.agents._sessions._open_runtime = partial(DebugRuntime, gate=gate)
        desk = await stage.open()
        await desk.say("Go")
        card = desk.page.get_by_role("region", name="Paused: model")
        await expect(card).to_be_visible()
        await expect(desk.why).to_contain_text("Nothing moves until it is released")
        await expect(desk.page.locator("svg.plot rect.bar.held[data-open]")).to_have_count(1)

        gate.release(gate.parked[0].number)
        await desk.told("Go", answers=["So."], ends=["✓ turn 1 done"])
        await expect(card).to_have_count(0)
