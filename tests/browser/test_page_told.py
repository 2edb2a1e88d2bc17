"""What the server tells the page, and what the page does not ask for again and again."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, Request, expect

from agent_lab.presentation.downstream import SocketLimits
from tests.browser.helpers_page import Desk, Guide, looking, staged, welcomed

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


def asked(desk: Desk, *paths: str) -> list[str]:
    """The paths that the page asks for from now on, of those that begin so."""
    found: list[str] = []

    def look(request: Request) -> None:
        path = request.url.split("/", 3)[3]
        if path.startswith(paths):
            found.append(path)

    desk.page.on("request", look)
    return found


async def test_messages_that_come_too_fast_go_again_by_themselves(chromium: Browser) -> None:
    guide = Guide()
    limits = SocketLimits(messages=0.4, message_burst=2)
    async with staged(chromium, guide.agent, limits=limits) as stage:
        desk = await looking(stage, guide)
        words = [f"word {number}" for number in range(3)]
        for text in words:
            await desk.say(text)
        await expect(desk.page.get_by_text("too fast for the server").first).to_be_visible()

        await expect(desk.held).to_have_count(3)
        await expect(desk.held.locator(".text")).to_have_text(words)
        await expect(desk.page.locator(".toast")).to_have_count(0)
        guide.open("Oslo")
        await desk.told(
            "Look at Oslo", *words, answers=["You said: word 2"], ends=["✓ turn 1 done"]
        )
        journal = stage.serving.agents.sessions()[0].runtime.session.journal
        accepted = [e.payload for e in journal.read(0)[1] if e.payload.type == "accepted"]
        assert len(accepted) == 4


async def test_the_list_of_sessions_is_told_what_changes_and_asks_once(chromium: Browser) -> None:
    guide = Guide()
    async with staged(chromium, guide.agent) as stage:
        desk = await stage.open()
        questions = asked(desk, "api/sessions")
        await desk.click("Sessions")
        await expect(desk.page.get_by_text("No session yet")).to_be_visible()
        await stage.serving.run("Look at Oslo")
        rows = desk.page.locator("button.session")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("◌ running")
        await rows.focus()
        guide.open("Oslo")

        await expect(rows).to_contain_text("○ idle")
        await expect(rows).to_be_focused()
        assert questions == ["api/sessions"]


async def test_the_line_is_looked_at_when_it_changes_only(chromium: Browser) -> None:
    guide = Guide()
    async with staged(chromium, guide.agent) as stage:
        desk = await welcomed(stage)
        questions = asked(desk, "api/agents/guide/queue")
        await desk.page.keyboard.press("l")
        head = desk.page.locator(".line-agent h3")
        await expect(head).to_contain_text("○ free")
        said = {"message": "Look at Oslo", "async_mode": True}
        await stage.serving.get("/api/agents/guide/chat", method="POST", json=said)
        await expect(head).to_contain_text("1 of 1 runs")
        await guide.inside("Oslo")
        await desk.page.clock.install()
        await desk.page.clock.fast_forward(2_000)  # what was told is looked at
        before = len(questions)
        for _ in range(5):
            await desk.page.clock.fast_forward(60_000)

        assert len(questions) == before
        guide.open("Oslo")
        await expect(desk.page.locator(".executions")).to_contain_text("✓ completed")


async def test_the_line_says_when_nobody_tells_it_anything_any_more(chromium: Browser) -> None:
    async with staged(chromium, Guide().agent) as stage:
        desk = await welcomed(stage)
        await desk.page.keyboard.press("l")
        await expect(desk.page.locator(".line-agent h3")).to_contain_text("○ free")
        stage.line.cut()
        note = desk.page.locator("dialog[open] [role=status]")
        await expect(note).to_have_text("The line to the server is broken: this is how it was.")
        stage.line.mend()

        await expect(note).to_have_text("")
