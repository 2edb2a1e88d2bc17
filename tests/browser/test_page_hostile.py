"""Sixty hostile texts through every door by which a text comes to the page (SEC-21).

The stage's end asserts that nothing was asked of another origin, no dialog opened and no policy
was violated.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, expect

from agent_lab import Agent
from agent_lab.domain.messages import ModelRequest
from agent_lab.infrastructure.models.scripted import ScriptedReply
from agent_lab.testing import ScriptedModel, call, fail, reply
from tests.browser.helpers_acts import Acted, asking
from tests.browser.helpers_page import Desk, Guide, staged, welcomed
from tests.browser.payloads import PAYLOADS

pytestmark = [
    pytest.mark.browser,
    pytest.mark.fault("SEC-21"),
    pytest.mark.asyncio(loop_scope="session"),
]

MADE = (
    "body :is(script, img, image, iframe, object, embed, video, audio, a, base, link, meta, style,"
    " template, marquee, math, use, animate, [onerror], [onload], [onclick], [onfocus],"
    " [onmouseover], [ontoggle], [srcdoc])"
)
ALL = "\n\n".join(PAYLOADS)


async def nothing_was_made_of_it(desk: Desk) -> None:
    """No element came of a text, and no text pushed the page wider than its window."""
    await expect(desk.page.locator(MADE)).to_have_count(0)
    root = desk.page.locator("html")
    assert await root.evaluate("root => root.scrollWidth <= root.clientWidth")


async def every_entry_is_read(desk: Desk) -> None:
    """Each entry in the inspector, one by one."""
    await desk.entries.focus()
    await desk.page.keyboard.press("Home")
    for _ in range(12):
        await desk.page.keyboard.press("PageDown")
        await desk.page.keyboard.press("ArrowUp")


async def test_user_text_and_a_whole_answer_are_shown_as_they_are(chromium: Browser) -> None:
    async with staged(chromium, Agent("echo", model=ScriptedModel([ALL]))) as stage:
        desk = await stage.open()
        await desk.say(ALL)
        await expect(desk.ends).to_have_text(["✓ turn 1 done"])
        await desk.page.locator("article.user .more").click()

        assert (await desk.users.all_text_contents())[0].startswith(ALL)
        assert await desk.answers.locator("> *").all_text_contents() == PAYLOADS
        await every_entry_is_read(desk)
        await nothing_was_made_of_it(desk)


async def test_pieces_of_an_answer_are_shown_as_they_are_at_each_piece(chromium: Browser) -> None:
    text = "\n\n".join(PAYLOADS[:-1])

    async def tells(_: ModelRequest) -> AsyncIterator[str]:
        for at in range(0, len(text), 7):
            yield text[at : at + 7]

    async with staged(chromium, Agent("teller", model=tells)) as stage:
        desk = await stage.open()
        await desk.say("go")
        await expect(desk.ends).to_have_text(["✓ turn 1 done"])

        shown = await desk.answers.locator("> *").all_text_contents()
        assert shown == PAYLOADS[:-1]
        await nothing_was_made_of_it(desk)


async def test_tool_names_arguments_and_results_are_shown_as_they_are(chromium: Browser) -> None:
    async def echo(text: str) -> str:
        return text

    names = [call(text[:200], f"n{i}", **{text: text}) for i, text in enumerate(PAYLOADS)]
    results = [call("echo", text[:200], text=text) for text in PAYLOADS]
    model = ScriptedModel([reply(calls=names), reply(calls=results), "So."])
    async with staged(chromium, Agent("echo", model=model, tools=[echo])) as stage:
        desk = await stage.open()
        await desk.say("go")
        await desk.told("go", answers=["So."], ends=["✓ turn 1 done"])
        while await desk.page.locator(".calls + .rest:visible").count():
            await desk.page.locator(".calls + .rest:visible").first.click()

        replies = await desk.calls.locator(".reply").all_text_contents()
        shown = [text[:600] for text in replies[len(PAYLOADS) :]]
        assert shown == [text[:600] for text in PAYLOADS]
        signatures = await desk.calls.locator(".sig").all_text_contents()
        for shown_name, text in zip(signatures, PAYLOADS, strict=False):
            assert shown_name.startswith(" ".join(text.split())[:12])
        await every_entry_is_read(desk)
        await nothing_was_made_of_it(desk)


async def test_a_tools_error_and_a_turns_error_are_shown_as_they_are(chromium: Browser) -> None:
    async def breaks(number: int) -> str:
        raise ValueError(PAYLOADS[number])

    calls = [call("breaks", f"c{i}", number=i) for i in range(len(PAYLOADS))]
    model = ScriptedModel([reply(calls=calls), fail("model_refused", ALL, hint=ALL)])
    async with staged(chromium, Agent("breaker", model=model, tools=[breaks])) as stage:
        desk = await stage.open()
        await desk.say("go")
        await expect(desk.page.locator(".end .rule b")).to_have_text("✕ turn 1 failed")
        while await desk.page.locator(".calls + .rest:visible").count():
            await desk.page.locator(".calls + .rest:visible").first.click()

        replies = await desk.calls.locator(".reply").all_text_contents()
        for shown, text in zip(replies, PAYLOADS, strict=True):
            assert text[:500] in shown
        box = desk.page.locator(".end .box")
        assert PAYLOADS[0] in await box.inner_text()
        assert PAYLOADS[0] in await box.locator(".hint").inner_text()
        await every_entry_is_read(desk)
        await nothing_was_made_of_it(desk)


async def test_names_of_agents_and_their_instructions_are_shown_as_they_are(
    chromium: Browser,
) -> None:
    agents = [
        Agent(text[:120], model=ScriptedModel(["So."], repeat_last=True), instructions=text)
        for text in PAYLOADS
    ]
    async with staged(chromium, *agents) as stage:
        desk = await stage.open()
        chooser = desk.page.get_by_label("Agent", exact=True)
        await expect(chooser.locator("option")).to_have_count(60)
        assert await chooser.locator("option").evaluate_all(
            "options => options.map((option) => option.value)"
        ) == [text[:120] for text in PAYLOADS]
        for text in PAYLOADS[:30:5]:
            await chooser.select_option(text[:120])
            await expect(desk.page.locator(".welcome h3")).to_have_text(text[:120])
        await desk.say("go")
        await expect(desk.ends).to_have_count(1)
        await desk.click("Sessions")
        await expect(desk.page.locator("button.session")).to_contain_text(PAYLOADS[25])
        await nothing_was_made_of_it(desk)


async def test_what_asks_for_permission_is_shown_as_it_is(chromium: Browser) -> None:
    async with staged(chromium, Guide().agent) as stage:
        server = Acted(asking({text[:80]: text for text in PAYLOADS}), agent="guide")
        desk = await stage.open(server=server)
        await desk.say("Book it")
        card = desk.page.locator(".ask")
        await card.locator(".more").click()

        assert "<img src=x onerror=alert(2)>" in await card.locator(".args").inner_text()
        await nothing_was_made_of_it(desk)


def history_of(texts: list[str]) -> list[dict[str, Any]]:
    """A list of messages that says each text in each place, and one that no provider takes."""
    messages: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        key = f"{text[:40]}#{number}"
        function = {"name": text[:60], "arguments": json.dumps({text[:40]: text})}
        asked = [{"id": key, "type": "function", "function": function}]
        messages += [
            {"role": "user", "content": text},
            {"role": "assistant", "content": text, "tool_calls": asked},
            {"role": "tool", "tool_call_id": key, "content": text},
        ]
    return [*messages, {"role": "tool", "tool_call_id": texts[4], "content": texts[4]}]


async def test_a_history_from_elsewhere_is_shown_as_it_is(chromium: Browser) -> None:
    async with staged(chromium, Guide().agent) as stage:
        desk = await welcomed(stage)
        await desk.page.keyboard.press("o")
        given = json.dumps(history_of(PAYLOADS))
        await desk.page.get_by_label("A history", exact=True).fill(given)
        await desk.click("Open it")
        await expect(desk.page.locator("dialog[open]")).to_contain_text(PAYLOADS[4])
        await nothing_was_made_of_it(desk)
        await desk.click("Look at it")
        await desk.page.locator(".earlier").click()

        past = desk.page.locator("article.past")
        for role in ("user", "assistant", "tool"):
            texts = past.and_(desk.page.locator(f".{role}")).locator("> .text")
            shown = await texts.all_text_contents()
            assert [text[:1600] for text in shown[: len(PAYLOADS)]] == [
                text[:1600] for text in PAYLOADS
            ]
        await desk.page.keyboard.press("v")
        window = desk.page.locator("dialog[open]")
        await window.get_by_label("A provider's error").fill(f"no reply for {PAYLOADS[4]}#4")
        await window.get_by_role("button", name="Explain it").click()
        await expect(window.locator(".found-rules")).to_contain_text(PAYLOADS[4])
        await nothing_was_made_of_it(desk)
        await desk.page.keyboard.press("Escape")
        await every_entry_is_read(desk)
        await nothing_was_made_of_it(desk)


async def test_agents_and_executions_in_the_line_are_shown_as_they_are(chromium: Browser) -> None:
    def refuses(request: ModelRequest) -> ScriptedReply:
        said = request.history()[-1].content or ""
        return fail("model_refused", said, hint=said)

    names = [text[:120] for text in PAYLOADS[:8]]
    agents = [Agent(name, model=refuses) for name in names]
    async with staged(chromium, *agents) as stage:
        for half in (PAYLOADS[:30], PAYLOADS[30:]):
            said = {"tasks": [{"message": text} for text in half], "max_concurrent": 10}
            path = f"/api/agents/{quote(names[0], safe='')}/fan-out"
            answer = await stage.serving.get(path, method="POST", json=said)
            assert answer.json()["status"] == "failed", answer.text
        desk = await stage.open()
        await expect(desk.page.locator(".welcome")).to_be_visible()
        await desk.page.keyboard.press("l")
        heads = desk.page.locator(".line-agent h3 b")
        await expect(heads).to_have_count(len(names))

        assert await heads.all_text_contents() == names
        records = desk.page.locator(".executions button.execution")
        await expect(records).to_have_count(50)
        shown = " ".join(await records.locator(".what").all_text_contents())
        for text in PAYLOADS[30:]:
            assert re.sub(r"[\s\ufeff]+", " ", text)[:40] in shown
        await nothing_was_made_of_it(desk)
        await records.first.click()
        await expect(desk.page.locator(".end .rule b")).to_have_text("✕ turn 1 failed")
        await nothing_was_made_of_it(desk)
