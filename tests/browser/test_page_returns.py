"""What was typed is never lost, and the page of a server that is gone stands still."""

from __future__ import annotations

import time
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import expect

from agent_lab.presentation.guard_rules import TokenCheck
from tests.browser.helpers_page import Desk, Guide, Stage, looking

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

NO_KEY = ("status of 401", "HTTP Authentication failed")


@pytest_asyncio.fixture(loop_scope="session")
async def desk(stage: Stage, guide: Guide) -> Desk:
    """A tab in which the guide looks at Oslo, and the held “And Rome?” is being changed."""
    desk = await looking(stage, guide)
    await desk.say("And Rome?")
    await desk.held.get_by_role("button", name="edit").click()
    await expect(desk.page.get_by_label("Change the held message")).to_be_focused()
    return desk


async def test_a_message_that_is_delivered_while_it_is_changed_leaves_the_text_in_the_composer(
    desk: Desk, guide: Guide
) -> None:
    await desk.page.keyboard.type(" And Vienna")
    guide.open("Oslo")
    await expect(desk.ends).to_have_count(1)

    area = desk.page.locator("#message")
    await expect(area).to_have_value("And Rome? And Vienna")
    await expect(area).to_be_focused()
    await expect(desk.page.locator(".note")).to_have_text(
        "It was delivered while you changed it. What you wrote is here, not sent."
    )
    await desk.page.keyboard.type("?")
    await expect(area).to_have_value("And Rome? And Vienna?")


async def test_an_editor_that_was_not_used_leaves_only_the_focus(desk: Desk, guide: Guide) -> None:
    await desk.click("withdraw")
    await expect(desk.page.locator("article.user[data-status=withdrawn]")).to_have_count(1)

    await expect(desk.page.locator("#message")).to_have_value("")
    await expect(desk.page.locator("#message")).to_be_focused()


async def test_an_enter_that_was_meant_for_the_editor_does_not_send(
    desk: Desk, guide: Guide
) -> None:
    await desk.page.keyboard.type(" And Vienna")
    guide.open("Oslo")
    await expect(desk.page.locator("#message")).to_have_value("And Rome? And Vienna")
    await desk.page.keyboard.press("Enter")

    await expect(desk.users).to_have_text(["Look at Oslo", "And Rome?"])


async def test_a_message_that_was_refused_gives_its_text_back(stage: Stage, desk: Desk) -> None:
    await desk.page.keyboard.press("Escape")
    await desk.say("Only if nothing runs", "reject")
    refused = desk.page.locator("article.user[data-status=rejected]")
    await expect(refused).to_contain_text("rejected · busy")
    await refused.get_by_role("button", name="write again").click()

    await expect(desk.page.locator("#message")).to_have_value("Only if nothing runs")


async def test_a_session_that_takes_nothing_any_more_gives_the_text_back(stage: Stage) -> None:
    desk = await stage.open()
    await desk.say("Hello")
    await expect(desk.ends).to_have_count(1)
    await stage.serving.agents.sessions()[0].runtime.close()
    await desk.say("Again")

    await expect(desk.page.locator("#message")).to_have_value("Again")
    await expect(desk.page.locator(".note")).to_contain_text("Not sent: ")


async def test_the_page_of_a_server_that_was_started_again_stands_still_and_says_so(
    stage: Stage, desk: Desk
) -> None:
    await desk.page.keyboard.press("Escape")
    guard: Any = stage.line._guard
    guard._check_token = TokenCheck("N" * 43, clock=time.monotonic)
    stage.line.cut()
    stage.line.mend()
    await expect(desk.why).to_contain_text("The server has another key now")
    stage.refused(*NO_KEY)

    await expect(desk.page.locator("main")).to_have_attribute("data-still", "true")
    await expect(desk.held).to_have_count(1)
    bar = await desk.bar("held")
    await desk.page.evaluate("new Promise((done) => setTimeout(done, 300))")
    assert await desk.bar("held") == bar
    await expect(desk.page.locator(".promise")).to_have_text("Nothing can be sent here any more.")
    if stage.faults:  # it was asked once more
        stage.refused(*NO_KEY)
