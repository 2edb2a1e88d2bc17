"""The page's states, each played to the moment worth a picture: one function a state.

A scene gets a page of its own and the theatre, which serves its agents as the real server does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from playwright.async_api import Page

from agent_lab import Agent
from tests.browser.helpers_acts import Acted, asking, crowd, giver, writer
from tests.browser.helpers_page import Guide, Line
from tests.browser.test_page_histories import ERROR, INTERRUPTED
from tests.presentation.helpers_server import TOKEN, Serving

STEER = "And in Rome?"
PROSE = """## Two ways to Oslo

The **10:53** is direct, the `8:53` changes in Göteborg:

- seats in both
- the first is *quieter*

```python
book(train="10:53", seats=2)
```

I would take the direct one, because the change leaves only nine minutes"""
LONG = "Look at a long text.\n\n" + "Weather in Oslo: fog until noon, then a fresh wind. " * 400


@dataclass
class Theatre:
    """A server for one scene, and the line to it."""

    serving: Serving
    line: Line
    guide: Guide

    async def enter(self, page: Page) -> None:
        """Open the page as the printed address does."""
        await page.goto(f"http://127.0.0.1:{self.serving.port}/#token={TOKEN}")
        await page.locator("#message").wait_for()


Scene: TypeAlias = Callable[[Theatre, Page], Awaitable[None]]


@asynccontextmanager
async def theatre(guide: Guide, *agents: Agent) -> AsyncGenerator[Theatre, None]:
    """A server with these agents, and the line to it."""
    async with Serving(*agents) as serving:
        stage = Theatre(serving, Line(serving), guide)
        try:
            yield stage
        finally:
            stage.line.mend()


async def say(page: Page, text: str) -> None:
    """Write a message and send it."""
    await page.locator("#message").fill(text)
    await page.locator("#message").press("Enter")


async def choose(page: Page, agent: str) -> None:
    """Another agent than the first."""
    await page.get_by_label("Agent", exact=True).select_option(agent)


# -- a run of the demo ---------------------------------------------------------------------------


async def first(stage: Theatre, page: Page) -> None:
    """A first visit."""
    await stage.enter(page)
    await page.get_by_role("button", name="Start the demo").wait_for()


async def tip(stage: Theatre, page: Page) -> None:
    """The demo runs its slow tool, and a line points at the composer."""
    await first(stage, page)
    await page.get_by_role("button", name="Start the demo").click()
    await page.get_by_text("22 degrees").first.wait_for()


async def held(stage: Theatre, page: Page) -> None:
    """Something was said while a tool runs."""
    await tip(stage, page)
    await say(page, STEER)
    await page.locator("article.user[data-status=held]").wait_for()
    await page.locator(".entry .type.held").click(timeout=2_000)
    await page.wait_for_timeout(1800)  # long enough for the held bar to be seen


async def held_narrow(stage: Theatre, page: Page) -> None:
    """The same in a narrow window: the conversation first."""
    await tip(stage, page)
    await say(page, STEER)
    await page.locator("article.user[data-status=held]").wait_for()
    await page.wait_for_timeout(1800)


async def finished(stage: Theatre, page: Page) -> None:
    """The turn is done, and its second request is chosen."""
    await tip(stage, page)
    await say(page, STEER)
    await page.locator(".end").wait_for()
    await page.keyboard.press("Escape")
    await page.locator("#filter").fill("type:model_request")
    await page.locator(".entry").nth(1).click()
    await page.locator("#filter").fill("")


async def tab(stage: Theatre, page: Page, name: str) -> None:
    """A finished turn in a narrow window, with this tab."""
    await tip(stage, page)
    await say(page, STEER)
    await page.locator(".end").wait_for()
    await page.locator("#tabs").get_by_text("Entries").click()
    await page.locator("#filter").fill("type:held")
    await page.locator(".entry .type.held").click()  # which opens it in the inspector
    await page.locator("#tabs").get_by_text("Entries").click()
    await page.locator("#filter").fill("")
    await page.locator("#tabs").get_by_text(name).click()


# -- other states --------------------------------------------------------------------------------


async def running(stage: Theatre, page: Page) -> None:
    """An answer is being written."""
    await stage.enter(page)
    await choose(page, "writer")
    await say(page, "Which train shall I take?")
    await page.get_by_text("nine minutes").wait_for()


async def permission(stage: Theatre, page: Page) -> None:
    """A tool asks before it runs."""
    await Acted(asking()).plays(page)
    await stage.enter(page)
    await say(page, "Book me a seat to Oslo.")
    await page.locator(".ask[data-armed]").wait_for()


async def paused(stage: Theatre, page: Page) -> None:
    """A hop stands at the gate."""
    parts = [*asking()[:-1], ("paused", {"hop": "tool", "queue": None, "item": "call_1"})]
    await Acted(parts).plays(page)
    await stage.enter(page)
    await say(page, "Book me a seat to Oslo.")
    await page.locator(".ask[data-armed]").wait_for()


async def disconnected(stage: Theatre, page: Page) -> None:
    """The line is cut while a tool runs, and a message waits for it."""
    await tip(stage, page)
    stage.line.cut()
    await page.get_by_text("Disconnected", exact=True).wait_for()
    await say(page, STEER)
    await page.locator("article.user[data-status=sending]").wait_for()


async def catching_up(stage: Theatre, page: Page) -> None:
    """Half of what there is has arrived."""
    await Acted(asking()[:-1], last=2_400).plays(page)
    await stage.enter(page)
    await say(page, "Book me a seat to Oslo.")
    await page.get_by_text("Catching up", exact=True).wait_for()


async def open_newest(page: Page) -> None:
    """The newest session, from the list."""
    await page.get_by_role("button", name="Sessions").click()
    await page.locator("button.session").first.click()


async def gap(stage: Theatre, page: Page) -> None:
    """Somebody comes to a session whose first entries are no longer kept."""
    await first_of(stage, page, "crowd")
    await page.locator(".entry").first.click()
    await page.keyboard.press("Home")
    await page.get_by_text("are not kept any more").scroll_into_view_if_needed()


async def first_of(stage: Theatre, page: Page, agent: str) -> None:
    """Let this agent have a turn, then come to it anew."""
    client = await stage.serving.run("Go", agent=agent)
    await client.connection.close()
    session = stage.serving.agents.session(client.session_id) if client.frames else None
    while (session or stage.serving.agents.sessions()[0]).state != "idle":
        await page.wait_for_timeout(100)
    await stage.enter(page)
    await open_newest(page)
    await page.locator(".end").last.wait_for()


async def many(stage: Theatre, page: Page) -> None:
    """50,000 entries."""
    await first_of(stage, page, "crowd")
    await page.locator(".found", has_text="51,").wait_for()
    await page.locator(".verdict-badge", has_text="dialects").wait_for(timeout=120_000)


async def failed(stage: Theatre, page: Page) -> None:
    """A turn failed, with what to do about it."""
    await stage.enter(page)
    await choose(page, "guide")
    await say(page, "Fail")
    await page.locator(".end .box").wait_for()
    await page.locator(".entry .type.bad").last.click(timeout=2_000)


async def failed_narrow(stage: Theatre, page: Page) -> None:
    """The same in a narrow window: the conversation says it."""
    await stage.enter(page)
    await choose(page, "guide")
    await say(page, "Fail")
    await page.locator(".end .box").wait_for()


async def sessions(stage: Theatre, page: Page) -> None:
    """The list of sessions."""
    for text in ("Plan a trip to Oslo.", "Look at Rome", "Fail"):
        agent = "demo" if text.startswith("Plan") else "guide"
        client = await stage.serving.run(text, agent=agent)
        await client.next()
        await client.connection.close()
    await stage.enter(page)
    await page.get_by_role("button", name="Sessions").click()
    await page.locator("button.session").nth(2).wait_for()


async def line(stage: Theatre, page: Page) -> None:
    """Who runs, who waits, and what was asked before."""
    asked = ("Hello", "Fail", "Look at Oslo", "And in Rome?", "And in Vienna?")
    for text in asked:
        said = {"message": text, "async_mode": True}
        await stage.serving.get("/api/agents/guide/chat", method="POST", json=said)
        while text in asked[:2] and stage.serving.agents.line.book.depth("guide")[0]:
            await page.wait_for_timeout(50)
    await stage.guide.inside("Oslo")
    await stage.enter(page)
    await page.get_by_role("button", name="Start the demo").wait_for()
    await page.keyboard.press("l")
    await page.locator(".line-agent .execution").nth(2).wait_for()
    await page.locator(".executions button.execution").nth(4).wait_for()


async def no_sessions(stage: Theatre, page: Page) -> None:
    """The list of sessions before there is one."""
    await stage.enter(page)
    await page.get_by_role("button", name="Sessions").click()
    await page.get_by_text("No session yet").wait_for()


async def long_text(stage: Theatre, page: Page) -> None:
    """A tool gave a megabyte, and a user a page."""
    await stage.enter(page)
    await choose(page, "giver")
    await say(page, LONG)
    await page.locator(".end").wait_for()
    await page.locator("#filter").fill("type:tool_reply")
    await page.locator(".entry").click()
    await page.locator("#filter").fill("")


async def keys(stage: Theatre, page: Page) -> None:
    """Every key, and what colours and shapes mean."""
    await first(stage, page)
    await page.keyboard.press("?")


async def locked(stage: Theatre, page: Page) -> None:
    """The page without its token."""
    await page.goto(f"http://127.0.0.1:{stage.serving.port}/")


async def opened(stage: Theatre, page: Page) -> None:
    """A history was pasted that no provider takes, and it was mended and opened."""
    await stage.enter(page)
    await page.get_by_role("button", name="Start the demo").wait_for()
    await page.keyboard.press("o")
    await page.get_by_label("A history", exact=True).fill(json.dumps(INTERRUPTED))
    await page.get_by_role("button", name="Open it").click()
    await page.get_by_role("button", name="Look at it").wait_for()


async def verdicts(stage: Theatre, page: Page) -> None:
    """That history as a session, with its verdicts and a provider's error explained."""
    await opened(stage, page)
    await page.get_by_role("button", name="Look at it").click()
    await page.keyboard.press("v")
    await page.get_by_label("A provider's error").fill(ERROR)
    await page.get_by_role("button", name="Explain it").click()
    await page.get_by_text("In this history").wait_for()


@dataclass(frozen=True)
class State:
    """A state, who is on stage, and whether only wide or narrow windows show it."""

    scene: Scene
    cast: Callable[[], Sequence[Agent]] = tuple
    narrow: Scene | None = None


def _narrow(name: str) -> Scene:
    return lambda stage, page: tab(stage, page, name)


STATES: dict[str, State] = {
    "first-visit": State(first, narrow=first),
    "demo-tip": State(tip, narrow=tip),
    "running": State(
        running, lambda: [writer(PROSE, pause=0.03, stop=asyncio.Event())], narrow=running
    ),
    "held": State(held, narrow=held_narrow),
    "permission": State(permission, narrow=permission),
    "paused": State(paused, narrow=paused),
    "disconnected": State(disconnected, narrow=disconnected),
    "catching-up": State(catching_up, narrow=catching_up),
    "gap": State(gap, lambda: [crowd(60, keep=300)]),
    "finished": State(finished),
    "failed": State(failed, narrow=failed_narrow),
    "sessions": State(sessions, narrow=sessions),
    "no-sessions": State(no_sessions),
    "line": State(line, narrow=line),
    "long-text": State(long_text, lambda: [giver("fog until noon, " * 65_536)]),
    "many-entries": State(many, lambda: [crowd(57, width=128)]),
    "opened": State(opened),
    "verdicts": State(verdicts, narrow=verdicts),
    "keys": State(keys),
    "no-token": State(locked),
    "tab-timeline": State(finished, narrow=_narrow("Timeline")),
    "tab-entries": State(finished, narrow=_narrow("Entries")),
    "tab-inspector": State(finished, narrow=_narrow("Inspector")),
}
