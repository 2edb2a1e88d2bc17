"""What comes in over raw sockets and never becomes a request, or a frame."""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import cast

import pytest
from starlette.types import Receive, Scope, Send

from agent_lab.presentation.connections import ConnectionLimits
from agent_lab.presentation.server import Server, listen
from agent_lab.presentation.web import App
from tests.presentation.helpers_server import BOUND, TOKEN, Serving, talker

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]
QUICK = ConnectionLimits(head=0.1, body=0.1, fragment=0.1)
KEY = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
TEXT, CONT, PING, FIN = 0x1, 0x0, 0x9, 0x80


@asynccontextmanager
async def raw(serving: Serving) -> AsyncIterator[Pipe]:
    """A TCP connection and nothing else."""
    reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
    try:
        async with asyncio.timeout(BOUND):
            yield reader, writer
    finally:
        writer.transport.abort()


def head(serving: Serving, line: str, *more: str) -> bytes:
    lines = (line, f"Host: 127.0.0.1:{serving.port}", f"Authorization: Bearer {TOKEN}", *more)
    return "\r\n".join((*lines, "", "")).encode()


def upgrade(serving: Serving, *more: str, path: str = "/ws") -> bytes:
    line = f"GET {path} HTTP/1.1"
    return head(serving, line, "Connection: Upgrade", "Upgrade: websocket", KEY, *more)


async def answer(reader: asyncio.StreamReader) -> tuple[int, str]:
    """Status and machine code of the answer, after which the connection ends."""
    said = await to_the_end(reader)
    top, _, body = said.partition(b"\r\n\r\n")
    status = int(top.split(b" ")[1])
    code = json.loads(body)["error"]
    assert f"X-Agent-Lab-Error-Code: {code}".lower() in top.decode().lower()
    return status, code


async def to_the_end(reader: asyncio.StreamReader) -> bytes:
    said = b""
    with suppress(ConnectionResetError):
        while piece := await reader.read(1 << 16):
            said += piece
    return said


async def opened(serving: Serving, pipe: Pipe) -> None:
    """Have the socket opened and a session attached."""
    reader, writer = pipe
    writer.write(upgrade(serving))
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    writer.write(frame(TEXT | FIN, b'{"content":"go"}'))
    assert b'"type":"session"' in await reader.readuntil(b"}")


def frame(first: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    sizes = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size)
    return bytes([first]) + sizes + b"\0\0\0\0" + payload


async def close_code(reader: asyncio.StreamReader) -> int:
    """The code of the close frame at the end of what comes."""
    said = await to_the_end(reader)
    at = said.rindex(b"\x88", 0, len(said) - 2)
    return int.from_bytes(said[at + 2 : at + 4], "big")


# -- heads and bodies that do not come -----------------------------------------------------------


@pytest.mark.fault("T5")
@pytest.mark.fault("SEC-26")
@pytest.mark.parametrize(
    "sent", ["GET /heal", "GET / HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nA"]
)
async def test_a_head_that_does_not_come_whole_is_told_408(sent: str) -> None:
    async with Serving(talker(), connections=QUICK) as serving, raw(serving) as (reader, writer):
        writer.write(sent.encode())

        assert await answer(reader) == (408, "request_timeout")
    assert ConnectionLimits().head == 5


@pytest.mark.fault("T5")
@pytest.mark.fault("SEC-26")
async def test_bytes_that_trickle_put_nothing_off() -> None:
    async with Serving(talker(), connections=QUICK) as serving, raw(serving) as (reader, writer):
        said = asyncio.ensure_future(answer(reader))
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        while not said.done():
            writer.write(b"x")
            await asyncio.wait({said}, timeout=0.01)

        assert said.result() == (408, "request_timeout")


@pytest.mark.fault("T5")
async def test_a_second_head_has_its_time_too() -> None:
    async with Serving(talker(), connections=QUICK) as serving, raw(serving) as (reader, writer):
        writer.write(head(serving, "GET /healthz HTTP/1.1"))
        await reader.readuntil(b'{"status":"ok"}')
        writer.write(b"GET /healthz HT")

        assert await answer(reader) == (408, "request_timeout")


@pytest.mark.fault("SEC-25")
async def test_who_says_nothing_is_dropped_without_a_word() -> None:
    async with Serving(talker(), connections=QUICK) as serving, raw(serving) as (reader, _):
        assert await to_the_end(reader) == b""


class Reading:
    """An application that wants the whole body."""

    mcp = nullcontext()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.fault("C32")
async def test_a_body_that_does_not_come_is_told_408() -> None:
    listener = listen()
    server = Server(cast("App", Reading()), listener, limits=QUICK)
    async with asyncio.timeout(BOUND), asyncio.TaskGroup() as group:
        group.create_task(server.serve())
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")

        assert await answer(reader) == (408, "request_timeout")
        writer.close()
        server.stop()
    assert ConnectionLimits().body == 10


async def test_what_is_in_time_is_not_cut() -> None:
    async with Serving(talker(), connections=QUICK) as serving, raw(serving) as pipe:
        await opened(serving, pipe)
        done = await serving.run()
        await done.end()
        await asyncio.wait_for(pipe[0].readuntil(b'"type":"done"'), BOUND)


# -- too many ------------------------------------------------------------------------------------


@pytest.mark.fault("SEC-25")
async def test_the_oldest_of_too_many_half_open_connections_goes() -> None:
    limits = ConnectionLimits(half_open=2, head=BOUND)
    async with (
        Serving(talker(), connections=limits) as serving,
        raw(serving) as (oldest, _),
        raw(serving),
        raw(serving),
    ):
        assert await to_the_end(oldest) == b""
        assert (await serving.get("/healthz")).status_code == 200
    assert ConnectionLimits().half_open == 16


@pytest.mark.fault("T5")
@pytest.mark.fault("SEC-25")
async def test_one_connection_more_than_there_may_be_is_told_503() -> None:
    limits = ConnectionLimits(connections=2)
    async with Serving(talker(), connections=limits) as serving:
        clients = [await serving.run() for _ in range(2)]
        for client in clients:
            await client.end()
        async with raw(serving) as (reader, _):
            assert await answer(reader) == (503, "too_many_connections")
        await clients[0].send({"type": "user_message", "content": "still here"})
        await clients[0].end()


# -- what is no request --------------------------------------------------------------------------


@pytest.mark.fault("T40")
@pytest.mark.fault("SEC-26")
@pytest.mark.parametrize("size", [8 << 10, 9_000, 40_000])
async def test_an_upgrade_with_a_long_header_line_is_told_431(size: int) -> None:
    async with Serving(talker()) as serving, raw(serving) as (reader, writer):
        writer.write(upgrade(serving, "X-Long: " + "x" * size))

        assert await answer(reader) == (431, "headers_too_large")


@pytest.mark.fault("T40")
async def test_an_upgrade_with_too_many_lines_or_a_long_path_is_told_431() -> None:
    async with Serving(talker()) as serving:
        for request in (
            upgrade(serving, *["X: y"] * 130),
            upgrade(serving, path="/ws?" + "x" * 9000),
        ):
            async with raw(serving) as (reader, writer):
                writer.write(request)
                assert await answer(reader) == (431, "headers_too_large")


@pytest.mark.fault("T40")
async def test_an_upgrade_with_lines_just_short_enough_is_let_in() -> None:
    async with Serving(talker()) as serving, raw(serving) as (reader, writer):
        writer.write(upgrade(serving, "X-Long: " + "x" * 8000, *["X: y"] * 100))

        assert (await reader.readline()).startswith(b"HTTP/1.1 101")


@pytest.mark.fault("T4")
async def test_headers_beyond_what_h11_takes_are_told_431() -> None:
    async with Serving(talker()) as serving, raw(serving) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * (70 << 10))

        assert await answer(reader) == (431, "headers_too_large")


@pytest.mark.fault("T3")
@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_told_400(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with Serving(talker()) as serving, raw(serving) as (reader, writer):
        writer.write(sent)

        assert await answer(reader) == (400, "malformed_request")
    assert [r for r in caplog.records if r.levelno > logging.WARNING] == []


@pytest.mark.fault("T41")
async def test_a_refused_socket_is_logged_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    async with Serving(talker()) as serving, raw(serving) as (reader, writer):
        writer.write(upgrade(serving).replace(TOKEN.encode(), b"wrong"))

        assert await answer(reader) == (401, "token_wrong")
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


# -- frames that never end, and too many of them -------------------------------------------------


@pytest.mark.fault("C19")
@pytest.mark.parametrize("sent", [frame(TEXT, b"{"), frame(TEXT, b"{") + frame(CONT, b" ")])
async def test_a_message_whose_last_fragment_never_comes_ends_the_socket(sent: bytes) -> None:
    async with Serving(talker(), connections=QUICK) as serving, raw(serving) as pipe:
        await opened(serving, pipe)
        pipe[1].write(sent)

        assert await close_code(pipe[0]) == 1008
        await asyncio.wait_for(serving.app.sockets.all_left(), BOUND)
    assert ConnectionLimits().fragment == 10


@pytest.mark.fault("C19")
async def test_fragments_of_nothing_do_not_pile_up() -> None:
    limits = ConnectionLimits(fragments=50)
    async with Serving(talker(), connections=limits) as serving, raw(serving) as pipe:
        await opened(serving, pipe)
        pipe[1].write(frame(TEXT, b"{") + frame(CONT) * 60)

        assert await close_code(pipe[0]) == 1008


async def test_a_message_in_fragments_is_one_message() -> None:
    async with Serving(talker(), connections=QUICK) as serving, raw(serving) as pipe:
        await opened(serving, pipe)
        said = b'{"type":"user_message","content":"in pieces"}'
        pipe[1].write(frame(TEXT, said[:9]) + frame(PING | FIN, b"x") + frame(CONT, said[9:20]))
        pipe[1].write(frame(CONT | FIN, said[20:]))

        await pipe[0].readuntil(b'"content":"in pieces"')


@pytest.mark.fault("C20")
async def test_a_flood_of_pings_is_closed_with_1008_and_its_pongs_are_bounded() -> None:
    async with Serving(talker()) as serving:
        async with raw(serving) as pipe:
            await opened(serving, pipe)
            with suppress(ConnectionResetError):
                pipe[1].write(frame(PING | FIN, b"p" * 100) * 10_000)
            said = await to_the_end(pipe[0])

        assert b"too many control frames" in said
        assert said.count(b"p" * 100) <= 200
        await asyncio.wait_for(serving.app.sockets.all_left(), BOUND)


async def test_a_ping_is_answered() -> None:
    async with Serving(talker()) as serving, raw(serving) as pipe:
        await opened(serving, pipe)
        pipe[1].write(frame(PING | FIN, b"hello there"))

        await pipe[0].readuntil(b"\x8a\x0bhello there")


@pytest.mark.fault("SEC-23")
@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(0x3 | FIN, b"x"), 1002),
        (frame(0xB | FIN, b"x"), 1002),
        (frame(CONT | FIN, b"x"), 1002),
        (bytes([TEXT | FIN, 1]) + b"x", 1002),
        (frame(TEXT | FIN, b"\xff"), 1007),
    ],
)
async def test_a_frame_of_no_known_kind_closes_with_its_code(sent: bytes, code: int) -> None:
    async with Serving(talker()) as serving, raw(serving) as pipe:
        await opened(serving, pipe)
        pipe[1].write(sent)

        assert await close_code(pipe[0]) == code


@pytest.mark.fault("SEC-22")
@pytest.mark.fault("C11")
async def test_a_message_too_large_in_fragments_or_by_its_own_word_closes_with_1009() -> None:
    half = (1 << 19).to_bytes(8, "big")
    pieces = [bytes([first, 0xFF]) + half + bytes(4 + (1 << 19)) for first in (TEXT, CONT, CONT)]
    declared = bytes([TEXT | FIN, 0xFF]) + ((1 << 63) - 1).to_bytes(8, "big") + b"\0\0\0\0x"
    async with Serving(talker()) as serving:
        for sent in (b"".join(pieces), declared):
            async with raw(serving) as pipe:
                await opened(serving, pipe)
                pipe[1].write(sent)
                assert await close_code(pipe[0]) in (1009, 1002)


@pytest.mark.fault("C03")
@pytest.mark.scenario("S51")
async def test_a_peer_that_is_gone_without_a_word_is_noticed_by_its_missing_pong() -> None:
    limits = ConnectionLimits(ping=0.05, pong=0.1)
    before = asyncio.all_tasks()
    async with Serving(talker(), connections=limits) as serving:
        async with raw(serving) as pipe:
            await opened(serving, pipe)
            await asyncio.wait_for(serving.app.sockets.all_left(), BOUND)
        (session,) = serving.agents.sessions()
        assert (session.viewers, session.state) == (0, "idle")
    assert asyncio.all_tasks() == before
