"""The page in Chromium before a real server in the test's loop, and who answers there."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    ViewportSize,
    WebSocket,
    expect,
)
from starlette.types import Receive, Scope, Send

from agent_lab import Agent, tool
from agent_lab.domain.messages import ModelRequest
from agent_lab.infrastructure.models.scripted import ScriptedReply
from agent_lab.presentation.downstream import SocketLimits
from agent_lab.testing import call, fail, reply
from tests.browser.helpers_acts import Acted
from tests.presentation.helpers_server import BOUND, TOKEN, Serving

SIZE: ViewportSize = {"width": 1440, "height": 900}
Bar = tuple[float, float]
"""Where a bar begins and ends, in pixels."""


# -- who answers ---------------------------------------------------------------------------------


class Guide:
    """An agent that looks where it is told to, and each look waits until the test lets it go.

    “Look at Oslo and Rome” makes two calls, c1 and c2; “Fail” fails the turn; after anything else,
    and after its looks, it says back what it was told last.
    """

    def __init__(self) -> None:
        self._inside: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._doors: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.agent = Agent("guide", model=self._says, tools=[self._look()])

    async def inside(self, place: str = "Oslo") -> None:
        """Wait until the tool looks there."""
        async with asyncio.timeout(BOUND):
            await self._inside[place].wait()

    def open(self, *places: str) -> None:
        """Let the looks at these places end."""
        for place in places:
            self._doors[place].set()

    def _look(self) -> Any:
        @tool
        async def look(place: str) -> str:
            """Look there."""
            self._inside[place].set()
            await self._doors[place].wait()
            if place == "nowhere":
                raise LookupError("there is no such place")
            return f"seen {place}"

        return look

    def _says(self, request: ModelRequest) -> str | ScriptedReply:
        history = request.history()
        last = history[-1]
        told = [message.content or "" for message in history if message.role == "user"][-1]
        if last.role == "user" and told.startswith("Look at "):
            first = 1 + sum(len(message.tool_calls) for message in history)
            places = enumerate(told.removeprefix("Look at ").split(" and "), first)
            return reply(
                calls=[call("look", f"c{number}", place=place) for number, place in places]
            )
        if told == "Fail":
            return fail("model_refused", "the provider said no", hint="ask it again tomorrow")
        return f"You said: {told}"


class Teller:
    """An agent that streams one word for each that the test gives it, and ends with the last."""

    def __init__(self) -> None:
        self._words: asyncio.Queue[str | None] = asyncio.Queue()
        self.agent = Agent("teller", model=self._tells)

    def tell(self, *words: str | None) -> None:
        """Stream these words; None ends the answer."""
        for word in words:
            self._words.put_nowait(word)

    async def _tells(self, _: ModelRequest) -> AsyncIterator[str]:
        while (word := await self._words.get()) is not None:
            yield word


# -- the page ------------------------------------------------------------------------------------


class Desk:
    """One tab with the page: what a person does there, and what there is to see."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.seqs: list[int] = []
        """The numbers of the entries that came over its sockets, in order of arrival."""
        page.set_default_timeout(BOUND * 1000)
        page.set_default_navigation_timeout(60_000)  # a new process on a machine that is busy
        page.on("websocket", lambda socket: socket.on("framereceived", self._received))
        self.users = page.locator("article.user > .text")
        self.answers = page.locator("article.assistant > .text:visible")
        self.held = page.locator("article.user[data-status=held]")
        self.calls = page.locator(".call")
        self.ends = page.locator(".end b:first-child")
        self.bars = page.locator("svg.plot rect.bar")
        self.inspector = page.locator("#inspector")
        self.why = page.locator("#why")
        self.entries = page.get_by_role("listbox", name="Entries")

    def _received(self, text: str | bytes) -> None:
        said = json.loads(text)
        frames: list[dict[str, Any]] = said if isinstance(said, list) else [said]
        self.seqs += [frame["seq"] for frame in frames if "seq" in frame]

    async def say(self, text: str, mode: str | None = None) -> None:
        """Write a message and send it."""
        if mode is not None:
            await self.page.get_by_role("button", name=mode, exact=True).click()
        await self.page.locator("#message").fill(text)
        await self.page.locator("#message").press("Enter")

    async def click(self, name: str) -> None:
        """Press a button."""
        await self.page.get_by_role("button", name=name, exact=True).click()

    async def bar(self, kind: str, nth: int = 0) -> Bar:
        """Where a bar of this kind begins and ends."""
        bar = self.bars.and_(self.page.locator(f".{kind}")).nth(nth)
        x, width = [float(await bar.get_attribute(name) or "") for name in ("x", "width")]
        return x, round(x + width, 1)

    async def told(self, *users: str, answers: list[str], ends: list[str]) -> None:
        """The conversation comes to say this, each of it once and in this order."""
        await expect(self.ends).to_have_text(ends)
        await expect(self.users).to_have_text(list(users))
        await expect(self.answers).to_have_text(answers)


class Line:
    """The line between the pages and the server, which a test can cut and mend."""

    def __init__(self, serving: Serving) -> None:
        self._connections = serving.server._uvicorn.server_state.connections
        self._guard = serving.app._guard
        serving.app._guard = self  # pyright: ignore[reportAttributeAccessIssue]  # it stands before it
        self._is_whole = asyncio.Event()
        self._is_whole.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._is_whole.wait()
        await self._guard(scope, receive, send)

    def cut(self) -> None:
        """Reset every connection; who connects from now on waits."""
        self._is_whole.clear()
        for connection in list(self._connections):
            connection.transport.abort()

    def mend(self) -> None:
        """Let in who waits."""
        self._is_whole.set()


class Stage:
    """A server, its line, and a browser context; `faults` has whatever a page must not do."""

    def __init__(self, serving: Serving, context: BrowserContext) -> None:
        self.serving = serving
        self.line = Line(serving)
        self.origin = f"http://127.0.0.1:{serving.port}"
        self.faults: list[str] = []
        self._context = context
        context.on("console", self._console)
        context.on("weberror", lambda error: self.faults.append(f"uncaught: {error.error}"))
        context.on("dialog", self._dialog)
        context.on("request", lambda request: self._left(request.url))

    async def open(self, path: str = f"/#token={TOKEN}", *, server: Acted | None = None) -> Desk:
        """Another tab with the page; `server` plays the other end of its sockets."""
        page = await self._context.new_page()
        if server is not None:
            await server.plays(page)
        page.on("websocket", self._socket)
        desk = Desk(page)
        await page.goto(self.origin + path)
        return desk

    def refused(self, *words: str) -> None:
        """The browser logs each refused request; those that say one of these are no faults."""
        logged = [fault for fault in self.faults if any(word in fault for word in words)]
        assert logged, self.faults
        self.faults = [fault for fault in self.faults if fault not in logged]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):  # a policy that was violated is said here too
            self.faults.append(f"console {message.type}: {message.text}")

    async def _dialog(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def _socket(self, socket: WebSocket) -> None:
        self._left(socket.url.replace("ws://", "http://", 1))

    def _left(self, url: str) -> None:
        if not url.startswith(f"{self.origin}/") or TOKEN in url:
            self.faults.append(f"request: {url}")


@asynccontextmanager
async def staged(
    chromium: Browser, *agents: Agent, limits: SocketLimits | None = None
) -> AsyncGenerator[Stage, None]:
    """A stage with these agents; it ends with the assertion that no page misbehaved."""
    async with Serving(*agents, limits=limits) as serving:
        context = await chromium.new_context(viewport=SIZE, reduced_motion="reduce")
        stage = Stage(serving, context)
        try:
            yield stage
        finally:
            stage.line.mend()
            await context.close()
        assert not stage.faults, stage.faults


async def attached(stage: Stage) -> Desk:
    """Another tab, in which the newest session was chosen from the list."""
    desk = await stage.open()
    await desk.click("Sessions")
    await desk.page.locator("button.session").first.click()
    return desk


async def welcomed(stage: Stage) -> Desk:
    """Another tab, which knows its agents."""
    desk = await stage.open()
    await expect(desk.page.locator(".welcome")).to_contain_text("guide")
    return desk


async def looking(stage: Stage, guide: Guide) -> Desk:
    """Another tab, in which the guide looks at Oslo and waits to be let go."""
    desk = await stage.open()
    await desk.say("Look at Oslo")
    await guide.inside("Oslo")
    return desk


def call_named(desk: Desk, words: str) -> Locator:
    """The conversation's line of a call, by a part of its text."""
    return desk.calls.filter(has_text=words)
