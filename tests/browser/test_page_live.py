"""The page in a real Chromium against the real server; a tool ends when the test says so."""

from __future__ import annotations

import re

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.helpers_page import (
    Desk,
    Guide,
    Stage,
    Teller,
    attached,
    call_named,
    looking,
    staged,
    welcomed,
)

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def desk(stage: Stage, guide: Guide) -> Desk:
    """A tab in which the guide looks at Oslo, and waits to be let go."""
    return await looking(stage, guide)


# -- held, and delivered -------------------------------------------------------------------------


async def test_what_is_typed_during_a_tool_is_held_and_says_which_call_it_waits_for(
    desk: Desk,
) -> None:
    await desk.say("And Rome?")

    await expect(desk.held).to_have_count(1)
    await expect(desk.held).to_contain_text(re.compile(r"held .*waits for c1"))
    await expect(desk.held.locator(".text")).to_have_text("And Rome?")
    await expect(desk.why).to_contain_text("1 user message is held behind it")


async def test_a_held_message_is_delivered_when_the_tool_ends_and_answered_once(
    desk: Desk, guide: Guide
) -> None:
    await desk.say("And Rome?")
    await expect(desk.held).to_have_count(1)
    guide.open("Oslo")

    await desk.told(
        "Look at Oslo", "And Rome?", answers=["You said: And Rome?"], ends=["✓ turn 1 done"]
    )
    await expect(desk.held).to_have_count(0)
    await expect(call_named(desk, "Oslo").locator(".reply")).to_have_text("seen Oslo")


async def test_the_held_bar_ends_where_the_tool_bar_ends(desk: Desk, guide: Guide) -> None:
    await desk.say("And Rome?")
    await expect(desk.page.locator("svg.plot rect.bar.held[data-open]")).to_have_count(1)
    guide.open("Oslo")
    await expect(desk.ends).to_have_text(["✓ turn 1 done"])

    held, tool = await desk.bar("held"), await desk.bar("tool")
    assert held[1] == pytest.approx(tool[1], abs=0.2)
    assert tool[0] < held[0] < held[1]


async def test_a_reload_in_the_middle_of_a_tool_tells_the_same_story_once(
    desk: Desk, guide: Guide
) -> None:
    await desk.say("And Rome?")
    await expect(desk.held).to_have_count(1)

    await desk.page.reload()

    await expect(desk.held).to_contain_text("waits for c1")
    await expect(desk.users).to_have_text(["Look at Oslo", "And Rome?"])
    await expect(desk.calls).to_have_count(1)
    guide.open("Oslo")
    await desk.told(
        "Look at Oslo", "And Rome?", answers=["You said: And Rome?"], ends=["✓ turn 1 done"]
    )


async def test_a_draft_outlives_a_reload(desk: Desk) -> None:
    await desk.page.locator("#message").fill("half a thou")
    await desk.page.reload()

    await expect(desk.page.locator("#message")).to_have_value("half a thou")


# -- cancel --------------------------------------------------------------------------------------


async def test_a_cancel_shows_the_open_call_and_the_turn_as_cancelled(desk: Desk) -> None:
    await desk.click("Cancel")

    await expect(desk.ends).to_have_text(["■ turn 1 cancelled"])
    await expect(call_named(desk, "Oslo")).to_contain_text("cancelled")
    await expect(desk.page.locator("svg.plot rect.bar.tool[data-cut]")).to_have_count(1)


async def test_the_next_message_works_after_a_cancel(desk: Desk) -> None:
    await desk.click("Cancel")
    await expect(desk.ends).to_have_text(["■ turn 1 cancelled"])
    await desk.say("Hello")

    await desk.told(
        "Look at Oslo",
        "Hello",
        answers=["You said: Hello"],
        ends=["■ turn 1 cancelled", "✓ turn 2 done"],
    )


async def test_a_cancel_that_drops_what_waits_shows_it_as_withdrawn(desk: Desk) -> None:
    await desk.say("And Rome?")
    await desk.click("Cancel and drop 1")

    await expect(desk.ends).to_have_text(["■ turn 1 cancelled"])
    await expect(desk.page.locator("article.user[data-status=withdrawn]")).to_contain_text(
        "And Rome?"
    )


async def test_one_call_can_be_cancelled_and_the_turn_goes_on(desk: Desk) -> None:
    await call_named(desk, "Oslo").get_by_role("button").click()

    await desk.told("Look at Oslo", answers=["You said: Look at Oslo"], ends=["✓ turn 1 done"])
    await expect(call_named(desk, "Oslo")).to_contain_text("cancelled")


# -- while it waits ------------------------------------------------------------------------------


async def test_a_held_message_can_be_edited_and_goes_in_as_it_was_last(
    desk: Desk, guide: Guide
) -> None:
    await desk.say("And Rome?")
    await desk.click("edit")
    area = desk.page.get_by_label("Change the held message")
    await area.fill("And Vienna?")
    await area.press("Enter")

    await expect(desk.held).to_contain_text("edited")
    guide.open("Oslo")
    await desk.told(
        "Look at Oslo", "And Vienna?", answers=["You said: And Vienna?"], ends=["✓ turn 1 done"]
    )


async def test_a_withdrawn_message_stays_in_sight_and_is_not_delivered(
    desk: Desk, guide: Guide
) -> None:
    await desk.say("And Rome?")
    await desk.click("withdraw")

    await expect(desk.page.locator("article.user[data-status=withdrawn]")).to_have_count(1)
    guide.open("Oslo")
    await desk.told(
        "Look at Oslo", "And Rome?", answers=["You said: Look at Oslo"], ends=["✓ turn 1 done"]
    )


async def test_a_follow_up_waits_for_the_turn_and_starts_the_next(desk: Desk, guide: Guide) -> None:
    await desk.say("And Rome?", "follow up")
    await expect(desk.held).to_contain_text("waits for the end of this turn")
    guide.open("Oslo")

    await desk.told(
        "Look at Oslo",
        "And Rome?",
        answers=["You said: Look at Oslo", "You said: And Rome?"],
        ends=["✓ turn 1 done", "✓ turn 2 done"],
    )


async def test_an_interrupt_stops_the_tool_and_starts_the_next_turn(desk: Desk) -> None:
    await desk.say("Stop it", "interrupt")

    await desk.told(
        "Look at Oslo",
        "Stop it",
        answers=["You said: Stop it"],
        ends=["■ turn 1 interrupted", "✓ turn 2 done"],
    )
    await expect(call_named(desk, "Oslo")).to_contain_text("cancelled")


# -- tabs and lines ------------------------------------------------------------------------------


async def test_two_tabs_on_one_session_see_the_same_entries_and_both_messages(
    stage: Stage, desk: Desk, guide: Guide
) -> None:
    other = await attached(stage)
    await expect(other.users).to_have_text(["Look at Oslo"])
    await other.say("And Rome?")
    await expect(desk.held.locator(".text")).to_have_text("And Rome?")
    guide.open("Oslo")

    for tab in (desk, other):
        await tab.told(
            "Look at Oslo", "And Rome?", answers=["You said: And Rome?"], ends=["✓ turn 1 done"]
        )
    assert desk.seqs == other.seqs == list(range(1, desk.seqs[-1] + 1))


async def test_a_cut_line_is_said_and_comes_back_with_nothing_doubled_or_lost(
    stage: Stage, desk: Desk, guide: Guide
) -> None:
    await desk.say("And Rome?")
    await expect(desk.held).to_have_count(1)

    stage.line.cut()
    await expect(desk.why).to_contain_text("Disconnected")
    guide.open("Oslo")
    await desk.say("And Vienna?")
    await expect(desk.page.locator("article.user[data-status=sending]")).to_have_count(1)
    stage.line.mend()

    await desk.told(
        "Look at Oslo",
        "And Rome?",
        "And Vienna?",
        answers=["You said: And Rome?", "You said: And Vienna?"],
        ends=["✓ turn 1 done", "✓ turn 2 done"],
    )
    await expect(desk.page.locator(".link")).to_have_text("connected")
    assert desk.seqs == list(range(1, desk.seqs[-1] + 1))


async def test_a_message_that_waits_for_the_line_outlives_the_page(
    stage: Stage, desk: Desk, guide: Guide
) -> None:
    guide.open("Oslo")
    await expect(desk.ends).to_have_count(1)
    stage.line.cut()
    await expect(desk.why).to_contain_text("Disconnected")
    await desk.say("And Rome?")
    await desk.page.goto("about:blank")  # the page is gone before the line is there again
    stage.line.mend()
    await desk.page.goto(f"{stage.origin}/")

    await desk.told(
        "Look at Oslo",
        "And Rome?",
        answers=["You said: Look at Oslo", "You said: And Rome?"],
        ends=["✓ turn 1 done", "✓ turn 2 done"],
    )


# -- what is told --------------------------------------------------------------------------------


async def test_streamed_text_is_there_before_the_turn_ends_and_stands_once_after_it(
    chromium: Browser,
) -> None:
    teller = Teller()
    async with staged(chromium, teller.agent) as stage:
        desk = await stage.open()
        await desk.say("Tell me")
        teller.tell("Once ", "upon ")
        await expect(desk.answers).to_have_text(["Once upon"])
        await expect(desk.ends).to_have_count(0)
        await expect(desk.page.locator("article.assistant")).to_contain_text("writes")

        teller.tell("a time.", None)
        await desk.told("Tell me", answers=["Once upon a time."], ends=["✓ turn 1 done"])
        await expect(desk.page.locator("article.assistant")).not_to_contain_text("writes")


async def test_parallel_tools_have_bars_of_their_own(stage: Stage, guide: Guide) -> None:
    desk = await stage.open()
    await desk.say("Look at Oslo and Rome and Lima")
    await expect(desk.page.locator("svg.plot rect.bar.tool[data-open]")).to_have_count(3)
    guide.open("Rome")
    await expect(call_named(desk, "Rome").locator(".reply")).to_have_text("seen Rome")
    await expect(desk.page.locator("svg.plot rect.bar.tool[data-open]")).to_have_count(2)
    guide.open("Oslo", "Lima")
    await expect(desk.ends).to_have_text(["✓ turn 1 done"])

    bars = desk.page.locator("svg.plot rect.bar.tool")
    rows = [await bar.get_attribute("y") for bar in await bars.all()]
    assert len(set(rows)) == 3


async def test_a_message_that_no_turn_has_taken_yet_is_drawn(stage: Stage) -> None:
    desk = await stage.open()

    marks = await desk.page.evaluate("""async () => {
        const { EMPTY, reduce } = await import("/static/store.js");
        const { createScale, windowOf } = await import("/static/timescale.js");
        const { layout } = await import("/static/track.js");
        const at = "2026-11-30T10:00:00.000Z";
        const entry = { seq: 1, at, type: "accepted", turn: null, step: null };
        const message = { message_id: "m_1", content: "go", mode: "steer" };
        const state = reduce(EMPTY, [{ ...entry, ...message }]);
        const now = Date.parse(at) + 1;
        const scale = createScale(windowOf(state, { scope: "turn", now }), 900);
        return layout(state, { scale, now, left: 0, right: 900 }).marks.map((mark) => mark.key);
    }""")
    assert marks == ["you m_1"]


async def test_a_failed_tool_is_shown_as_failed_in_words_and_in_its_bar(
    stage: Stage, guide: Guide
) -> None:
    guide.open("nowhere")
    desk = await stage.open()
    await desk.say("Look at nowhere")
    await expect(desk.ends).to_have_text(["✓ turn 1 done"])

    failed = call_named(desk, "nowhere")
    await expect(failed.locator(".st")).to_have_text("✕")
    await expect(failed.locator(".reply")).to_contain_text("there is no such place")
    await expect(desk.page.locator("svg.plot rect.bar.bad")).to_have_count(1)


async def test_a_failed_turn_says_what_happened_and_what_to_do(stage: Stage) -> None:
    desk = await stage.open()
    await desk.say("Fail")

    await expect(desk.page.locator(".end .rule")).to_contain_text("✕ turn 1 failed")
    box = desk.page.locator(".end .box")
    await expect(box).to_contain_text("model_refused")
    await expect(box).to_contain_text("the provider said no")
    await expect(box.locator(".hint")).to_contain_text("ask it again tomorrow")
    await expect(desk.why).to_contain_text("Turn 1 failed")


# -- the key -------------------------------------------------------------------------------------


async def test_the_token_is_gone_from_the_address(stage: Stage) -> None:
    desk = await stage.open()

    await expect(desk.page).to_have_url(f"{stage.origin}/")
    await expect(desk.page.locator(".welcome")).to_contain_text("guide")


async def test_without_a_token_the_page_explains_itself(stage: Stage) -> None:
    desk = await stage.open("/")

    locked = desk.page.get_by_role("alert")
    await expect(locked).to_contain_text("This page needs its key")
    await expect(locked).to_contain_text("agent-lab serve")


# -- keys ----------------------------------------------------------------------------------------


async def test_arrow_keys_in_the_entries_move_the_choice_and_the_inspector_follows(
    desk: Desk,
) -> None:
    await desk.entries.focus()
    await desk.page.keyboard.press("Home")
    await expect(desk.inspector.locator("h2")).to_contain_text("Entry 1 · accepted")
    await desk.page.keyboard.press("ArrowDown")
    await desk.page.keyboard.press("ArrowDown")
    await desk.page.keyboard.press("ArrowUp")

    await expect(desk.inspector.locator("h2")).to_contain_text("Entry 2 · ")
    chosen = desk.entries.get_by_role("option", selected=True)
    await expect(chosen).to_have_attribute("data-seq", "2")


async def test_a_question_mark_opens_the_keys_and_escape_closes_them(stage: Stage) -> None:
    desk = await welcomed(stage)
    await desk.page.keyboard.press("?")
    keys = desk.page.get_by_role("dialog", name="Keys")
    await expect(keys).to_be_visible()
    await expect(keys).to_contain_text("cancel the turn")

    await desk.page.keyboard.press("Escape")
    await expect(keys).to_be_hidden()
