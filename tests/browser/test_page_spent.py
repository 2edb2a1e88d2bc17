"""Context and cost on the page: a turn's, the session's, and those of a record."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from agent_lab import Agent
from agent_lab.domain.messages import Usage
from agent_lab.domain.usage import Prices
from agent_lab.testing import ScriptedModel, reply
from tests.browser.helpers_page import staged

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def agent() -> Agent:
    """Its first answer was read in part from a cache, counted beside the input; 8,000 is full."""
    first = Usage(500, 100, cache_read_tokens=1_500, context_tokens=2_000)
    says = [reply("One.", usage=first), reply("Two.", usage=Usage(3_000, 100)), reply("Three.")]
    prices = Prices(input=3, output=15)
    return Agent("priced", model=ScriptedModel(says), context_window=8_000, prices=prices)


async def test_context_and_cost_are_told_a_turn_a_session_and_a_record(chromium: Browser) -> None:
    async with staged(chromium, agent()) as stage:
        desk = await stage.open()
        ends, spent = desk.page.locator(".end"), desk.page.locator(".top .spent")
        for turn, content in enumerate(("First?", "Second?", "Third?"), 1):
            await desk.say(content)
            await expect(desk.ends).to_have_count(turn)
            if turn == 1:
                await expect(spent).to_have_text("context 2,000 of 8,000 (25 %) · $0.0075")
        await expect(spent).to_have_text("context 3,000 of 8,000 (37.5 %) · $0.02")
        await expect(ends.nth(0)).to_contain_text("2,000 tokens in, 100 out · $0.0075")
        await expect(ends.nth(1)).to_contain_text("3,000 tokens in, 100 out · $0.01")
        await expect(ends.nth(2)).not_to_contain_text("tokens")

        chat = await stage.serving.get(
            "/api/agents/priced/chat", method="POST", json={"message": "Again?"}
        )
        assert chat.status_code == 200
        await desk.click("line")
        record = desk.page.locator("button.execution").first
        await expect(record).to_contain_text("context 2,000 of 8,000 (25 %) · $0.0075")
