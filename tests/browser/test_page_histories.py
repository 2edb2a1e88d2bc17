"""Verdicts on the page: a badge for the history, an error explained, a history opened."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import expect

from tests.browser.helpers_page import Desk, Guide, Stage, looking, welcomed

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

INTERRUPTED = [
    {"role": "user", "content": "Weather in Oslo?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": "{}"},
            }
        ],
    },
    {"role": "user", "content": "And in Rome?"},
]
ERROR = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
    " 'tool_call_id'. The following tool_call_ids did not have response messages: call_1"
)


async def opened(stage: Stage) -> Desk:
    """A tab in which the interrupted history was pasted and opened, and its report is shown."""
    desk = await welcomed(stage)
    await desk.page.keyboard.press("o")
    await desk.page.get_by_label("A history", exact=True).fill(json.dumps(INTERRUPTED))
    await desk.click("Open it")
    await expect(desk.page.get_by_role("button", name="Look at it")).to_be_visible()
    return desk


async def test_the_badge_says_that_each_dialect_accepts_what_the_loop_made(
    stage: Stage, guide: Guide
) -> None:
    guide.open("Oslo")
    desk = await stage.open()
    await desk.say("Look at Oslo")
    badge = desk.page.locator(".verdict-badge")
    await expect(badge).to_have_text("✓ 14 dialects")
    await badge.click()

    chips = desk.page.locator("dialog[open] .verdict")
    await expect(chips).to_have_count(14)
    await expect(chips.first).to_have_text("✓ openai_chat")


async def test_an_entry_says_what_the_provider_would_have_said_if_nothing_had_been_held(
    stage: Stage, guide: Guide
) -> None:
    desk = await looking(stage, guide)
    await desk.say("And Rome?")
    await expect(desk.held).to_have_count(1)
    await desk.page.locator(".entry .type:text-is('held')").click()

    told = desk.inspector.locator(".unheld")
    await expect(told.locator(".box")).to_contain_text("must be followed by tool messages")
    await expect(told.locator(".would [data-bad]")).to_have_count(1)


async def test_a_providers_error_is_explained_with_the_message_at_fault(stage: Stage) -> None:
    desk = await opened(stage)
    await desk.click("Look at it")
    await desk.page.keyboard.press("v")
    window = desk.page.locator("dialog[open]")
    await window.get_by_label("A provider's error").fill(ERROR)
    await window.get_by_role("button", name="Explain it").click()
    found = window.locator(".found-rules")
    await expect(found).to_contain_text("In this history")
    await found.get_by_role("button", name="entry 2").first.click()

    await expect(window).to_have_count(0)
    await expect(desk.inspector.locator("h2")).to_contain_text("Entry 2 · imported")


async def test_an_error_that_nobody_knows_is_said_to_be_unknown(stage: Stage) -> None:
    desk = await welcomed(stage)
    await desk.page.keyboard.press("v")
    window = desk.page.locator("dialog[open]")
    await expect(window).to_contain_text("There is no history yet.")
    await window.get_by_label("A provider's error").fill("zzz")
    await window.get_by_role("button", name="Explain it").click()

    await expect(window.locator(".found-rules")).to_contain_text("No rule that is known here")


async def test_an_opened_history_says_what_was_mended_and_goes_on(
    stage: Stage, guide: Guide
) -> None:
    desk = await opened(stage)
    report = desk.page.locator("dialog[open]")
    await expect(report).to_contain_text("Opened: 3 messages of openai_chat")
    await expect(report.locator(".changes li")).not_to_have_count(0)
    await desk.click("Look at it")

    past = desk.page.locator("article.past")
    await expect(past).to_have_count(4)
    await expect(desk.page.locator("article.past[data-fate=made]")).to_contain_text("stand-in")
    await expect(desk.page.locator(".verdict-badge")).to_have_text("! mended, ✓ 14 dialects")
    await desk.say("Hello")
    said = ("Weather in Oslo?", "And in Rome?")
    await desk.told(*said, "Hello", answers=["You said: Hello"], ends=["✓ turn 1 done"])


async def test_what_is_no_history_is_refused_in_words(stage: Stage) -> None:
    desk = await welcomed(stage)
    await desk.page.keyboard.press("o")
    await desk.page.get_by_label("A history", exact=True).fill("well, hello")
    await desk.click("Open it")

    await expect(desk.page.locator("dialog[open] .bad")).not_to_be_empty()
    stage.refused("status of 422")
