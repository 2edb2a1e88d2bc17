"""The line on the page: who runs, who waits, what was asked; clear, release and terminate."""

from __future__ import annotations

import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect

from tests.browser.helpers_page import Desk, Guide, Stage, welcomed

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def desk(stage: Stage, guide: Guide) -> Desk:
    """A tab with the line open: “Look at Oslo” runs, and two more wait behind it."""
    for text in ("Look at Oslo", "And Rome?", "And Vienna?"):
        said = {"message": text, "async_mode": True}
        answer = await stage.serving.get("/api/agents/guide/chat", method="POST", json=said)
        assert answer.status_code == 202, answer.text
    await guide.inside("Oslo")
    desk = await welcomed(stage)
    await desk.page.keyboard.press("l")
    return desk


def rows(desk: Desk) -> Locator:
    return desk.page.locator(".line-agent .execution")


async def test_the_line_says_who_runs_who_waits_and_where_from(desk: Desk) -> None:
    await expect(desk.page.locator(".line-agent h3")).to_contain_text("◌ busy1 of 1 runs, 2 wait")
    await expect(rows(desk)).to_have_count(3)
    await expect(rows(desk).nth(0)).to_contain_text("◌ runs")
    await expect(rows(desk).nth(0)).to_contain_text("Look at Oslo")
    await expect(rows(desk).nth(1)).to_contain_text("1. waits")
    await expect(rows(desk).nth(2)).to_contain_text("user")


async def test_who_waits_is_sent_away_after_a_second_press(desk: Desk) -> None:
    clear = desk.page.get_by_role("button", name="Clear")
    await clear.click()
    await expect(clear).to_have_text("Clear? Press again")
    await expect(rows(desk)).to_have_count(3)
    await clear.click()

    await expect(rows(desk)).to_have_count(1)
    await expect(desk.page.locator("dialog[open] > .sheet > [role=status]")).to_have_text(
        "Cleared: 2 sent away"
    )


async def test_one_execution_is_terminated_and_the_next_in_line_runs(desk: Desk) -> None:
    terminate = rows(desk).nth(0).get_by_role("button")
    await terminate.click()
    await terminate.click()

    records = desk.page.locator(".executions button.execution")
    await expect(records.filter(has_text="Look at Oslo")).to_contain_text("■ cancelled")
    await expect(records.filter(has_text="And Rome?")).to_contain_text("✓ completed")


async def test_executions_are_filtered_and_one_opens_its_journal(desk: Desk, guide: Guide) -> None:
    guide.open("Oslo")
    records = desk.page.locator(".executions button.execution")
    await expect(records.filter(has_text="completed")).to_have_count(3)
    await desk.page.get_by_label("Status").select_option("failed")
    await expect(records).to_have_count(0)
    await desk.page.get_by_label("Status").select_option("completed")
    await records.filter(has_text="Look at Oslo").click()

    await expect(desk.users.first).to_have_text("Look at Oslo")
    await expect(desk.page.locator("dialog[open]")).to_have_count(0)
