"""A viewer who is cut off at any byte, a thousand times, and one who reads a byte now and then."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator

import pytest

from agent_lab.presentation.downstream import SocketLimits
from tests.presentation.helpers_server import BOUND, Frame, Serving
from tests.presentation.test_connections import FIN, TEXT, frame, raw, upgrade
from tests.presentation.test_sockets_faults import storyteller

CUTS = 1000


def frames(said: bytes) -> Iterator[str]:
    """The whole text frames in what the server sent, up to where it was cut."""
    at = 0
    while len(said) >= at + 2:
        size, start = said[at + 1], at + 2
        for mark, width in ((126, 2), (127, 8)):
            if size == mark:
                size, start = int.from_bytes(said[start : start + width], "big"), start + width
                break
        if len(said) < start + size:
            return
        if said[at] == TEXT | FIN:
            yield said[start : start + size].decode()
        at = start + size


async def until_cut(serving: Serving, session_id: str, after: int, size: int) -> list[Frame]:
    """The entries behind `after` that come in so many bytes; then the connection is reset."""
    attach = json.dumps({"type": "attach", "session_id": session_id, "after": after}).encode()
    async with raw(serving) as (reader, writer):
        writer.write(upgrade(serving))
        await reader.readuntil(b"\r\n\r\n")
        writer.write(frame(TEXT | FIN, attach))
        said = b""
        while len(said) < size and b'"type":"done"' not in said:
            piece = await reader.read(size - len(said))
            assert piece, said
            said += piece
    found: list[Frame] = []
    for text in frames(said):
        value = json.loads(text)
        found += value if isinstance(value, list) else [value]
    return [entry for entry in found if "seq" in entry]


@pytest.mark.fault("C24")
@pytest.mark.scenario("S50")
async def test_a_thousand_cuts_at_any_byte_miss_nothing_and_double_nothing() -> None:
    chance = random.Random(24)
    limits = SocketLimits(backlog=40, viewers=1000, sockets=1000)
    async with Serving(storyteller(300), limits=limits) as serving:
        whole = await serving.run()
        await whole.end()
        cuts = 0
        while cuts < CUTS:
            seen: list[Frame] = []
            while cuts < CUTS and len(seen) < len(whole.entries):
                size = chance.randrange(1, 4_000)
                seen += await until_cut(serving, whole.session_id, len(seen), size)
                cuts += 1
                assert seen == whole.entries[: len(seen)]

    assert cuts == CUTS


@pytest.mark.fault("C05")
@pytest.mark.scenario("S49")
async def test_who_reads_a_little_now_and_then_is_closed_and_costs_little() -> None:
    limits = SocketLimits(progress=0.3)
    async with Serving(storyteller(400, size=50_000), limits=limits) as serving:
        other = await serving.run()
        await other.end()
        attach = json.dumps({"type": "attach", "session_id": other.session_id}).encode()
        async with raw(serving) as (reader, writer):
            writer.write(upgrade(serving))
            await reader.readuntil(b"\r\n\r\n")
            reader._limit = 1  # type: ignore[attr-defined]  # reads no more than it is asked for
            writer.write(frame(TEXT | FIN, attach))
            left = asyncio.ensure_future(alone(serving))
            most = 0
            while not left.done():
                await reader.read(100)
                most = max(most, *map(buffered, serving.server._uvicorn.server_state.connections))
                await asyncio.wait({left}, timeout=0.02)

    assert 0 < most < 4 << 20


async def alone(serving: Serving) -> None:
    """Wait until only one socket is left."""
    async with asyncio.timeout(BOUND):
        while len(serving.app.sockets) > 1:
            serving.app.sockets._left.clear()
            await serving.app.sockets._left.wait()


def buffered(connection: object) -> int:
    transport = getattr(connection, "transport", None)
    return transport.get_write_buffer_size() if transport is not None else 0
