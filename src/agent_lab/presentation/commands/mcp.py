"""`agent-lab mcp`: the MCP server on standard input and output, which carry nothing else."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

import anyio
import msgspec

from agent_lab.application.agent import Agent
from agent_lab.application.agents import Agents
from agent_lab.presentation.commands.screen import Screen, Unusable
from agent_lab.presentation.foreground import DONE, leave_now
from agent_lab.presentation.views import Encoders
from agent_lab.presentation.watchdog import watched

if TYPE_CHECKING:
    from agent_lab.presentation.mcp import McpFace

_PATIENCE = 1.0
"""Seconds that answers have to get out when it is told to stop."""
_AHEAD = 64
"""Lines read ahead of the server."""


def claim_input() -> IO[bytes]:
    """Standard input for us alone: what files and tools read there is at its end."""
    ours = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return os.fdopen(ours, "rb")


def serve_mcp(
    screen: Screen,
    open_agents: Callable[[Sequence[Agent]], Agents],
    agents: Sequence[Agent],
    given: IO[bytes],
) -> int:
    """Serve until the input ends, or a signal comes; the exit status."""
    try:
        import_module("agent_lab.presentation.mcp")  # seconds, before anybody waits
    except ModuleNotFoundError as error:
        raise Unusable(
            "the MCP server needs the package mcp; install it with: pip install 'agent-lab[mcp]'"
        ) from error
    registry = open_agents(agents)
    names = ", ".join(agent.name for agent in agents)
    screen.complain(f"{names}: MCP on standard input and output")
    with suppress(BrokenPipeError):  # the client has gone
        asyncio.run(_serve(registry, given, screen))
    return DONE


async def _serve(agents: Agents, given: IO[bytes], screen: Screen) -> None:
    from agent_lab.presentation.mcp import McpFace

    stopping = asyncio.Event()

    def stop() -> None:
        screen.complain("stopping; a second signal leaves at once")
        stopping.set()

    async with agents:
        face, wire = McpFace(agents, Encoders()), _Wire(given, screen.out)
        with watched(stop, leave=leave_now, say=screen.complain):
            async with anyio.create_task_group() as group:
                group.start_soon(_end, stopping, face, wire, group.cancel_scope)
                await _talk(face, wire)
                group.cancel_scope.cancel()


async def _talk(face: "McpFace", wire: "_Wire") -> None:
    from mcp.server.stdio import stdio_server

    both = cast("anyio.AsyncFile[str]", wire)  # the SDK takes lines of one, and writes to the other
    async with stdio_server(both, both) as (reading, writing):
        await face.server.run(reading, writing, face.server.create_initialization_options())


async def _end(
    stopping: asyncio.Event, face: "McpFace", wire: "_Wire", scope: anyio.CancelScope
) -> None:
    """Told to stop: who waits is told why, and when that is written it is over."""
    await stopping.wait()
    face.stop("the server stops")
    with anyio.move_on_after(_PATIENCE):
        await wire.answered()
    scope.cancel()


class _Head(msgspec.Struct):
    """What tells a request, an answer and a notification apart."""

    id: int | str | None = None
    method: str | None = None


class _Wire:
    """Both ways of the wire, in lines; it knows how many requests have no answer yet.

    Lines are read in a daemon thread: the SDK's own reader cannot be cancelled while it waits for
    one, and would hold up the end.
    """

    def __init__(self, given: IO[bytes], out: TextIO) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue(_AHEAD)
        self._out = anyio.wrap_file(out)
        self._open = 0
        self._written = asyncio.Event()
        threading.Thread(target=self._read, args=(given,), name="stdin", daemon=True).start()

    async def answered(self) -> None:
        """Wait until every request has its answer."""
        while self._open > 0:
            self._written.clear()
            await self._written.wait()

    def __aiter__(self) -> AsyncIterator[str]:
        return cast("AsyncIterator[str]", self)

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if not line:
            raise StopAsyncIteration
        head = _head(line)
        if head.method is not None:  # one that is cancelled gets no answer
            self._open += (head.id is not None) - (head.method == "notifications/cancelled")
        return line.decode("utf-8", "replace")

    async def write(self, text: str) -> None:
        """Write a line."""
        await self._out.write(text)
        await self._out.flush()
        head = _head(text.encode())
        self._open -= head.method is None and head.id is not None
        self._written.set()

    async def flush(self) -> None:
        """It is written already."""

    def _read(self, given: IO[bytes]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            line = b"?"
            while line:
                line = given.readline()
                put: Any = asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop)
                put.result()


def _head(line: bytes) -> _Head:
    try:
        return msgspec.json.decode(line, type=_Head)
    except msgspec.DecodeError:
        return _Head()
