"""Tools that ask on the page, before a real server; of two tabs one answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from agent_lab import Agent, tool
from agent_lab.domain.messages import ModelRequest
from agent_lab.infrastructure.models.scripted import ScriptedReply
from agent_lab.testing import call, reply
from tests.browser.helpers_page import Desk, Stage, attached, staged

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


class Till:
    """An agent whose tool asks before it takes money, and what it took."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(needs_approval=True)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.agent = Agent("till", model=self._says, tools=[pay])

    def _says(self, request: ModelRequest) -> ScriptedReply:
        history = request.history()
        if history[-1].role == "tool":
            return reply(history[-1].content)
        return reply(calls=[call("pay", f"c{len(history)}", amount=5)])


@pytest_asyncio.fixture(loop_scope="session")
async def till() -> Till:
    return Till()


@pytest_asyncio.fixture(loop_scope="session")
async def stage(chromium: Browser, till: Till) -> AsyncIterator[Stage]:
    async with staged(chromium, till.agent) as stage:
        yield stage


def card(desk: Desk) -> Locator:
    return desk.page.get_by_role("region", name="Permission for pay")


async def test_allowed_with_other_arguments_it_runs_with_these(stage: Stage, till: Till) -> None:
    desk = await stage.open()
    await desk.say("Pay")
    await card(desk).get_by_role("button", name="edit arguments").click()
    await card(desk).get_by_role("textbox", name="edit arguments").fill('{"amount": "much"}')
    await desk.click("Allow")
    await expect(desk.page.get_by_text("the new arguments do not fit pay").first).to_be_visible()
    assert till.paid == []

    await card(desk).get_by_role("textbox", name="edit arguments").fill('{"amount": 3}')
    await desk.click("Allow")
    await desk.told("Pay", answers=["paid 3"], ends=["✓ turn 1 done"])
    await expect(card(desk)).to_have_count(0)
    assert till.paid == [3]


async def test_denied_the_model_reads_why(stage: Stage, till: Till) -> None:
    desk = await stage.open()
    await desk.say("Pay")
    await card(desk).get_by_label("What the model is told").fill("too dear")
    await desk.click("Deny")

    said = "Error: denied by the user, who says: too dear"
    await desk.told("Pay", answers=[said], ends=["✓ turn 1 done"])
    assert till.paid == []


async def test_denied_and_stopped_the_turn_ends(stage: Stage, till: Till) -> None:
    desk = await stage.open()
    await desk.say("Pay")
    await desk.click("Deny and stop")

    await expect(desk.ends).to_have_count(1)
    await expect(desk.ends).to_contain_text("turn 1 cancelled")
    await expect(card(desk)).to_have_count(0)
    assert till.paid == []


async def test_allowed_for_the_session_it_asks_no_more(stage: Stage, till: Till) -> None:
    desk = await stage.open()
    await desk.say("Pay")
    await desk.click("Allow for this session")
    await expect(desk.ends).to_have_text(["✓ turn 1 done"])
    await desk.say("Pay")
    await expect(desk.ends).to_have_text(["✓ turn 1 done", "✓ turn 2 done"])
    assert till.paid == [5, 5]


@pytest.mark.fault("C23")
async def test_of_two_tabs_that_answer_at_once_one_wins_and_the_other_is_told(
    stage: Stage, till: Till
) -> None:
    one = await stage.open()
    await one.say("Pay")
    await expect(card(one)).to_be_visible()
    two = await attached(stage)
    buttons = [card(desk).get_by_role("button", name="Allow", exact=True) for desk in (one, two)]
    for button in buttons:
        await expect(button).to_be_enabled()
    await asyncio.gather(*(button.evaluate("button => button.click()") for button in buttons))

    for desk in (one, two):
        await desk.told("Pay", answers=["paid 5"], ends=["✓ turn 1 done"])
        await expect(card(desk)).to_have_count(0)
    assert till.paid == [5]


async def test_a_request_that_is_open_is_there_once_after_a_reload(
    stage: Stage, till: Till
) -> None:
    desk = await stage.open()
    await desk.say("Pay")
    await expect(card(desk)).to_be_visible()
    await desk.page.reload()
    await expect(card(desk)).to_have_count(1)
    await desk.click("Allow")

    await desk.told("Pay", answers=["paid 5"], ends=["✓ turn 1 done"])
    assert till.paid == [5]
