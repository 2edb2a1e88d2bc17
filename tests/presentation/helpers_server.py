"""A server on loopback in the test's own loop, and a client that speaks to it over real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from agent_lab import Agent, Limits, tool
from agent_lab.application.agents import Agents
from agent_lab.application.ports import Store
from agent_lab.bootstrap import open_agents
from agent_lab.domain.limits import LineLimits
from agent_lab.presentation.connections import LIMITS, ConnectionLimits
from agent_lab.presentation.downstream import SocketLimits
from agent_lab.presentation.guard import SUBPROTOCOL, allowed_hosts
from agent_lab.presentation.server import Server, listen
from agent_lab.presentation.web import App, make_app
from agent_lab.testing import ScriptedModel, call, reply

TOKEN = "T" * 43
BOUND = 5.0
ENDS = ("done", "error", "cancelled")
Frame = dict[str, Any]


class Serving:
    """Agents behind a real server, for as long as the `async with` lasts."""

    agents: Agents
    app: App

    def __init__(
        self,
        *agents: Agent,
        limits: SocketLimits | None = None,
        idle: int = 200,
        line: LineLimits | None = None,
        connections: ConnectionLimits = LIMITS,
        store: Store | None = None,
    ) -> None:
        self._definitions = agents
        self._limits = limits
        self._idle = idle
        self._line = line
        self._connections = connections
        self._store = store
        self._clients: list[Client] = []

    async def __aenter__(self) -> Self:
        listener = listen()
        self.port: int = listener.getsockname()[1]
        self.agents = open_agents(
            self._definitions, idle=self._idle, line=self._line, store=self._store
        )
        self.app = make_app(
            self.agents, token=TOKEN, hosts=allowed_hosts(self.port), limits=self._limits
        )
        self.server = Server(self.app, listener, limits=self._connections)
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        await self.agents.__aenter__()
        self._served = self._group.create_task(self.server.serve())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for client in self._clients:
            client.connection.transport.abort()
        await self.stop()
        await self._group.__aexit__(None, None, None)

    async def stop(self) -> None:
        """Stop the server, then the sessions, as serve() does."""
        async with asyncio.timeout(BOUND):
            self.server.stop()
            await asyncio.wait({self._served})
            await self.agents.__aexit__(None, None, None)

    async def connect(self, *frames: Frame | str | bytes, **options: Any) -> Client:
        """A socket that has sent these frames."""
        url = f"ws://127.0.0.1:{self.port}/ws"
        protocols = [Subprotocol(SUBPROTOCOL), Subprotocol(f"agent-lab.token.{TOKEN}")]
        options = {"proxy": None, "max_size": None, "compression": None, **options}
        async with asyncio.timeout(BOUND):
            client = Client(await connect(url, subprotocols=protocols, **options))
            self._clients.append(client)
            for frame in frames:
                await client.send(frame)
        return client

    async def run(self, content: str = "go", **fields: Any) -> Client:
        """A socket that has sent a run."""
        return await self.connect({"type": "run", "content": content, **fields})

    async def attach(self, session_id: str, after: int = 0, **fields: Any) -> Client:
        """A socket that has sent an attach."""
        return await self.connect(
            {"type": "attach", "session_id": session_id, "after": after, **fields}
        )

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        """What HTTP answers, with the token and `extra` headers."""
        headers = {"Authorization": f"Bearer {TOKEN}", **options.pop("extra", {})}
        base = f"http://127.0.0.1:{self.port}"
        async with httpx2.AsyncClient(headers=headers, base_url=base, trust_env=False) as client:
            async with asyncio.timeout(BOUND):
                return await client.request(options.pop("method", "GET"), path, **options)


class Client:
    """One socket's other end: `frames` has all that came, arrays taken apart."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.frames: list[Frame] = []
        self.texts: list[str] = []
        self._read = 0

    async def send(self, frame: Frame | str | bytes) -> None:
        """Send a frame, or a text or bytes as they are."""
        said = json.dumps(frame) if isinstance(frame, dict) else frame
        await self.connection.send(said)

    async def until(self, *types: str, **fields: Any) -> Frame:
        """Read on to a frame of one of these types with these fields, and give it."""
        while True:
            frame = await self.next()
            if frame["type"] in types and fields.items() <= frame.items():
                return frame

    async def next(self) -> Frame:
        """The next frame."""
        if self._read == len(self.frames):
            async with asyncio.timeout(BOUND):
                self._take(await self.connection.recv())
        self._read += 1
        return self.frames[self._read - 1]

    async def end(self) -> Frame:
        """Read on to the end of a turn that leaves nothing pending."""
        while True:
            frame = await self.until(*ENDS)
            if "seq" in frame and not frame["pending"]:
                return frame

    async def closed(self) -> int:
        """Read on to the close, and give its code."""
        async with asyncio.timeout(BOUND):
            with suppress(ConnectionClosed):
                while True:
                    self._take(await self.connection.recv())
        assert self.connection.close_code is not None
        return self.connection.close_code

    def _take(self, text: str | bytes) -> None:
        assert isinstance(text, str)
        self.texts.append(text)
        said = json.loads(text)
        self.frames += said if isinstance(said, list) else [said]

    async def close(self) -> None:
        """Say goodbye."""
        await self.connection.close()

    def cut(self) -> None:
        """Go without a word: the peer gets a TCP reset."""
        transport = self.connection.transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        transport.abort()

    @property
    def session_id(self) -> str:
        """The session's id, once its frame came."""
        return self.frames[0]["session_id"]

    @property
    def entries(self) -> list[Frame]:
        """The numbered frames."""
        return [frame for frame in self.frames if "seq" in frame]

    def said(self, *types: str) -> list[Frame]:
        """The numbered frames of these types."""
        return [frame for frame in self.entries if frame["type"] in types]


class Doors:
    """A tool that stands still until the test opens its door, and says when it is there."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.door = asyncio.Event()

        @tool
        async def look(place: str = "here") -> str:
            """Look there."""
            self.entered.set()
            await self.door.wait()
            return f"seen {place}"

        self.look = look

    async def inside(self) -> None:
        """Wait until the tool stands before its door."""
        async with asyncio.timeout(BOUND):
            await self.entered.wait()


def talker(name: str = "talker", *said: str) -> Agent:
    """An agent that just answers."""
    return Agent(name, model=ScriptedModel(said or ("Well.",), repeat_last=True))


def looker(doors: Doors, *, limits: Limits | None = None, name: str = "looker") -> Agent:
    """An agent whose first answer calls the tool, and whose others just say so."""
    script = [reply(calls=[call("look", "c1", place="Oslo")]), "So.", "So."]
    model = ScriptedModel(script, repeat_last=True)
    return Agent(name, model=model, tools=[doors.look], limits=limits, instructions="Be brief.")


def seqs(frames: Sequence[Frame]) -> list[int]:
    """The numbers of numbered frames."""
    return [frame["seq"] for frame in frames]
