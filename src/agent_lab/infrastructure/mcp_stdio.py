"""A program that speaks MCP on standard input and output, as the SDK's client wants a transport.

The SDK's own keeps no bound on a line and does not let go of the process id, so that a server that
ignores the end of its input outlives a close that is cancelled.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from signal import SIGKILL, SIGTERM, Signals
from subprocess import PIPE, Popen
from threading import Thread
from typing import IO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from agent_lab.domain.errors import McpError
from agent_lab.domain.limits import McpLimits
from agent_lab.domain.mcp_server import McpServer
from agent_lab.domain.redaction import SECRETS

log = logging.getLogger("agent_lab")
_PATIENCE = 1.0
"""Seconds that a server has to end after its input did, and again after SIGTERM."""
_POST_MORTEM = 0.5
"""Seconds that its exit status may come behind the end of its output."""
_SHOWN = 300
"""Characters shown of what it said last."""
Reading = MemoryObjectReceiveStream[SessionMessage | Exception]
Writing = MemoryObjectSendStream[SessionMessage]


class Program:
    """A server's process. `junk` counts its lines that are no messages."""

    def __init__(self, server: McpServer, limits: McpLimits) -> None:
        """Start it; raises McpError if that cannot be."""
        self.junk = 0
        self._loop = asyncio.get_running_loop()
        self._ended, self._exited = self._loop.create_future(), self._loop.create_future()
        self._name, self._limits = server.name, limits
        self._last_words = bytearray()
        try:
            self._process = Popen(  # noqa: S603 - the command is the user's own
                [*server.command],
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=get_default_environment() | {**server.env},
                cwd=server.cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            what = f"MCP server {server.name!r} cannot be started: {error}; mend its command"
            raise McpError("mcp_gone", what) from error
        Thread(target=self._wait, name=f"wait for {server.name}", daemon=True).start()

    async def gone(self) -> McpError:
        """Wait until it has ended, or said its last word; why, and what it said last."""
        await asyncio.shield(self._ended)
        await asyncio.wait({self._exited}, timeout=_POST_MORTEM)
        code = self._process.poll()
        how = "closed its output" if code is None else f"ended with exit status {code}"
        words = " ".join(self._last_words.decode("utf-8", "replace").split())
        said = f"; it said last: {SECRETS.redact(words)[-_SHOWN:]}" if words else ""
        return McpError("mcp_gone", f"MCP server {self._name!r} {how}{said}")

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[tuple[Reading, Writing]]:
        """Messages from it and to it; on the way out it is ended, for certain."""
        to_us, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writing, to_it = anyio.create_memory_object_stream[SessionMessage](0)
        pipes: list[asyncio.BaseTransport] = []
        try:
            said = await self._reader(self._process.stdout, self._limits.line, pipes)
            words = await self._reader(self._process.stderr, self._limits.stderr, pipes)
            given = await self._writer(pipes)
            async with anyio.create_task_group() as group:
                group.start_soon(self._read, said, to_us)
                group.start_soon(self._write, given, to_it)
                group.start_soon(self._listen, words)
                try:
                    yield reading, writing
                finally:
                    reading.close()
                    writing.close()
                    await self._part(given)
                    group.cancel_scope.cancel()
        finally:
            self._signal(SIGKILL)
            for stream in (to_us, reading, writing, to_it):
                stream.close()
            for pipe in pipes:
                pipe.close()

    async def _read(self, said: asyncio.StreamReader, to_us: "_ToUs") -> None:
        with to_us, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while line := await _line(said):
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    self._note(line)
                else:
                    await to_us.send(SessionMessage(message))
        self._over()

    def _note(self, line: bytes) -> None:
        """A line that is no message: a print, or worse. It may go on all the same."""
        self.junk += bool(line.strip())
        if self.junk == 1:
            shown = SECRETS.redact(line[:200].decode("utf-8", "replace").strip())
            log.warning(
                "mcp_bad_message: MCP server %r says what is no MCP on standard output: %r",
                self._name,
                shown,
            )

    async def _write(self, given: asyncio.StreamWriter, to_it: "_ToIt") -> None:
        with to_it, suppress(OSError):
            async for message in to_it:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                given.write(text.encode() + b"\n")
                await given.drain()

    async def _listen(self, words: asyncio.StreamReader) -> None:
        """Standard error is read always, so that it can be flooded; its end is kept."""
        while data := await words.read(1 << 16):
            self._last_words += data
            del self._last_words[: -self._limits.stderr]

    async def _part(self, given: asyncio.StreamWriter) -> None:
        """The end of its input is the sign to go; then it is told, and at last by force."""
        given.close()
        await asyncio.wait({self._exited}, timeout=_PATIENCE)
        if not self._exited.done():
            self._signal(SIGTERM)
            await asyncio.wait({self._exited}, timeout=_PATIENCE)

    def _signal(self, signal: Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nobody is left
            os.killpg(self._process.pid, signal)

    def _wait(self) -> None:
        self._process.wait()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._over, self._exited)

    def _over(self, *futures: asyncio.Future[None]) -> None:
        for future in (*futures, self._ended):
            if not future.done():
                future.set_result(None)

    async def _reader(
        self, pipe: IO[bytes] | None, limit: int, pipes: list[asyncio.BaseTransport]
    ) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=limit)
        transport, _ = await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        pipes.append(transport)
        return reader

    async def _writer(self, pipes: list[asyncio.BaseTransport]) -> asyncio.StreamWriter:
        unread = asyncio.StreamReader()
        transport, protocol = await self._loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(unread), self._process.stdin
        )
        pipes.append(transport)
        return asyncio.StreamWriter(transport, protocol, None, self._loop)


_ToUs = MemoryObjectSendStream[SessionMessage | Exception]
_ToIt = MemoryObjectReceiveStream[SessionMessage]


async def _line(said: asyncio.StreamReader) -> bytes:
    """The next line, with its end; one that is too long is cut, and so no message."""
    try:
        return await said.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        return await said.read(error.consumed)
