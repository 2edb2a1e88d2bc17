"""Who answers in the page's larger scenes, and a server that a test plays by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.async_api import Page, WebSocketRoute

from agent_lab import Agent, Limits
from agent_lab.domain.dialects.check import DIALECTS
from agent_lab.domain.messages import ModelRequest
from agent_lab.infrastructure.models.scripted import ScriptedReply
from agent_lab.testing import call, reply

Frame = dict[str, Any]
Part = tuple[str, Frame]
"""The type of an entry, and what it carries."""


def crowd(rounds: int, *, width: int = 1, keep: int = 60_000) -> Agent:
    """An agent whose turn has this many rounds of `width` calls, seven entries each and a few more.

    The newest `keep` entries are kept.
    """

    def says(request: ModelRequest) -> str | ScriptedReply:
        number = request.answers * width
        if request.answers >= rounds:
            return "So."
        calls = [call("count", f"c{n}", n=n) for n in range(number + 1, number + width + 1)]
        return reply(f"Round {request.answers + 1}.", calls=calls)

    async def count(n: int) -> str:
        return f"{n} counted"

    limits = Limits(steps=rounds + 1, journal_entries=keep, journal_bytes=1 << 28)
    return Agent("crowd", model=says, tools=[count], limits=limits)


def giver(text: str) -> Agent:
    """An agent whose tool gives this text."""

    def says(request: ModelRequest) -> str | ScriptedReply:
        return "So." if request.answers else reply(calls=[call("give", "c1")])

    async def give() -> str:
        return text

    return Agent("giver", model=says, tools=[give])


def writer(text: str, *, pause: float, stop: asyncio.Event | None = None) -> Agent:
    """An agent that writes this text word by word, and then waits for `stop`."""

    async def writes(_: ModelRequest) -> AsyncIterator[str]:
        for word in text.split(" "):
            yield f"{word} "
            await asyncio.sleep(pause)
        if stop is not None:
            await stop.wait()

    return Agent("writer", model=writes)


class Acted:
    """The server's side of a page's socket, played by a test: what the server does not do yet.

    The first frame is answered with `session` and these entries; `heard` has what came then.
    """

    def __init__(
        self, parts: Sequence[Part], *, last: int | None = None, agent: str = "demo"
    ) -> None:
        began = datetime.now(UTC) - timedelta(seconds=2)
        self.entries = [self._entry(n, began, *part) for n, part in enumerate(parts, 1)]
        self.heard: list[Frame] = []
        self._session = {
            "type": "session",
            "session_id": "s_acted",
            "agent": {"name": agent, "model": "demo", "dialect": "openai_chat", "tools": []},
            "epoch": "acted",
            "state": "running",
            "last_seq": last or len(parts),
            "started_at": self.entries[0]["at"],
        }
        self._socket: WebSocketRoute | None = None

    @staticmethod
    def _entry(number: int, began: datetime, kind: str, fields: Frame) -> Frame:
        at = began + timedelta(milliseconds=60 * number)
        said = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head = {"seq": number, "session_id": "s_acted", "at": said, "turn": 1, "step": 1}
        return {**head, "type": kind, **fields}

    async def plays(self, page: Page) -> None:
        """Take the place of the server on this page's sockets, and where it asks for verdicts."""
        await page.route_web_socket("**/ws", self._open)
        verdicts: Frame = {"session_id": "s_acted", "last_seq": 1, "messages": 1}
        valid: Frame = {"valid": True, "violations": []}
        verdicts |= {"dialects": dict.fromkeys(DIALECTS, valid), "imported": None}
        await page.route(
            "**/api/sessions/s_acted/check*", lambda route: route.fulfill(json=verdicts)
        )

    async def add(self, kind: str, **fields: Any) -> None:
        """Another entry, now."""
        assert self._socket is not None
        entry = self._entry(len(self.entries) + 1, datetime.now(UTC), kind, fields)
        self.entries.append(entry)
        self._socket.send(json.dumps(entry))

    def _given(self, message_id: str | None) -> None:
        """The first message has the id that the page gave it."""
        for entry in self.entries:
            for field in ("message_id", "item"):
                if message_id and entry.get(field) == "m_1":
                    entry[field] = message_id

    def _open(self, socket: WebSocketRoute) -> None:
        self._socket = socket
        socket.on_message(self._take(socket))

    def _take(self, socket: WebSocketRoute) -> Callable[[str | bytes], None]:
        def take(text: str | bytes) -> None:
            frame = json.loads(text)
            if frame.get("type") not in ("run", "attach"):
                self.heard.append(frame)
                return
            self._given(frame.get("message_id"))
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            socket.send(json.dumps({**self._session, "now": now}))
            for entry in self.entries:
                socket.send(json.dumps(entry))

        return take


ASKED = "ask_1"
SHOWN = "5" * 64
"""The sha256 of what it asks about, as the played server says it."""


def asking(arguments: Frame | None = None) -> list[Part]:
    """A turn whose tool waits for a person's permission."""
    train = arguments or {"train": "10:53 to Oslo", "class": 2}
    told = {"role": "user", "content": "Book me a seat to Oslo."}
    named = {"call_id": "call_1", "name": "book_seat"}
    return [
        ("accepted", {"message_id": "m_1", "content": told["content"], "mode": "steer"}),
        ("queue", {"queue": "input", "op": "put", "item": "m_1", "depth": 1}),
        ("queue", {"queue": "input", "op": "take", "item": "m_1", "depth": 0}),
        ("delivered", {"message_id": "m_1", "position": 0}),
        (
            "model_request",
            {"dialect": "openai_chat", "model": "demo", "body": {"messages": [told]}},
        ),
        ("text_delta", {"text": "There is a train at 10:53. I book a seat."}),
        ("model_response", {"finish_reason": "tool_calls", "usage": None}),
        ("assistant", {"content": "There is a train at 10:53. I book a seat.", "tool_calls": []}),
        ("tool_call", {**named, "arguments": train, "round": 1}),
        ("queue", {"queue": "events", "op": "put", "item": "call_1", "depth": 1}),
        ("queue", {"queue": "events", "op": "take", "item": "call_1", "depth": 0}),
        (
            "permission_requested",
            {
                **named,
                "request_id": ASKED,
                "arguments": train,
                "sha256": SHOWN,
                "timeout": 3600.0,
                "error": None,
            },
        ),
    ]
