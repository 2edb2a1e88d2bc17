"""Schedules on the page: the next fire, the last result; on, off and now."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser.helpers_page import Desk, Guide, Stage, staged

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def stage(chromium: Browser) -> AsyncIterator[Stage]:
    async with staged(chromium, Guide().agent) as stage:
        yield stage


@pytest_asyncio.fixture(loop_scope="session")
async def desk(stage: Stage) -> Desk:
    """A tab with the line open, and one schedule."""
    said = {"message": "How <b>is</b> it?", "cron": "0 9 * * 1-5", "timezone": "Europe/Oslo"}
    path = "/api/agents/guide/schedules"
    answer = await stage.serving.get(path, method="POST", json=said)
    assert answer.status_code == 201, answer.text
    desk = await stage.open()
    await expect(desk.page.locator(".welcome")).to_contain_text("guide")
    await desk.page.keyboard.press("l")
    return desk


async def test_a_schedule_shows_its_rhythm_and_next_fire_and_is_turned_off(desk: Desk) -> None:
    row = desk.page.locator(".schedule")
    await expect(row).to_contain_text("● on")
    await expect(row).to_contain_text("guide · 0 9 * * 1-5 (Europe/Oslo) · How <b>is</b> it?")
    await expect(row).to_contain_text("has not fired yet")
    await expect(row.locator(".time")).not_to_have_text("never")

    await row.get_by_role("button", name="Turn off").click()
    await expect(row).to_contain_text("○ off")
    await expect(row.locator(".time")).to_have_text("never")
    await row.get_by_role("button", name="Now").click()
    await expect(row).to_contain_text("– skipped at")


async def test_a_schedule_fires_now_and_says_what_came_of_it(desk: Desk) -> None:
    row = desk.page.locator(".schedule")
    await row.get_by_role("button", name="Now").click()

    await expect(row).to_contain_text("✓ completed at")
    records = desk.page.locator(".executions button.execution")
    await expect(records.first).to_contain_text("schedule")
