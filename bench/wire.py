"""What one rude client costs the others, and the server's memory (SEC-24, C04, C05, S49).

    python -m bench.wire [--seconds N]

Four sessions ask and are answered, again and again, first alone; then while one socket sends 200
messages a second; then while seven viewers read nothing of 20 MB. Prints the 99th percentile of an
answer each time, what the rude ones were told, and by how much the server's memory grew for each
viewer that does not read. The server is a process of its own. Exit status 1 when one of these is
missed: twice the percentile, a flood that is not refused by name, 4 MiB a viewer.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from agent_lab import Agent, Limits, tool
from agent_lab.bootstrap import open_agents
from agent_lab.domain.messages import ModelRequest
from agent_lab.infrastructure.models.scripted import ScriptedReply
from agent_lab.presentation.guard import allowed_hosts
from agent_lab.presentation.server import Server, listen
from agent_lab.presentation.web import make_app
from agent_lab.testing import call, reply

TOKEN = "T" * 43
OTHERS, PACE, READERS, MOST = 4, 0.02, 7, 4 << 20
ENDS = ("done", "error", "cancelled")


def main() -> int:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="bench.wire", description="rude clients")
    options.add_argument("--seconds", type=float, default=5.0, help="how long each part lasts")
    options.add_argument("--server", action="store_true", help="be the server")
    chosen = options.parse_args()
    if chosen.server:
        asyncio.run(serve())
        return 0
    command = [sys.executable, "-m", "bench.wire", "--server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout and it.stdin
        missed = asyncio.run(measure(int(it.stdout.readline()), it.pid, chosen.seconds))
        it.stdin.close()
    for said in missed:
        print(f"missed: {said}")
    return 1 if missed else 0


# -- the server ----------------------------------------------------------------------------------


async def serve() -> None:
    """Serve until standard input ends."""
    listener = listen()
    port: int = listener.getsockname()[1]
    agents = open_agents([talker(), stuck(), teller()])
    server = Server(make_app(agents, token=TOKEN, hosts=allowed_hosts(port)), listener)
    async with agents:
        served = asyncio.ensure_future(server.serve())
        print(port, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        server.stop()
        await served


def talker() -> Agent:
    """Answers at once."""

    def says(_: ModelRequest) -> str:
        return "Well."

    return Agent("talker", model=says)


def stuck() -> Agent:
    """Its tool does not end, so what it is told is held."""

    @tool(timeout=3600)
    async def wait() -> str:
        """Wait for ever."""
        await asyncio.Event().wait()
        return ""

    def says(_: ModelRequest) -> ScriptedReply:
        return reply(calls=[call("wait")])

    return Agent("stuck", model=says, tools=[wait])


def teller() -> Agent:
    """Streams 20 MB."""

    async def tells(_: ModelRequest) -> AsyncIterator[str]:
        for _part in range(400):
            yield "x" * 50_000
            await asyncio.sleep(0)

    return Agent("teller", model=tells, limits=Limits(text_interval=0, journal_bytes=8 << 20))


# -- the clients ---------------------------------------------------------------------------------


async def measure(port: int, pid: int, seconds: float) -> list[str]:
    """Each part; what was missed."""
    missed: list[str] = []
    alone = await percentile(port, seconds)
    print(f"answers, alone: {1000 * alone:.1f} ms at the 99th percentile")
    told = asyncio.ensure_future(flood(port, seconds))
    flooded = await percentile(port, seconds)
    refused, is_kept = await told
    print(
        f"while one socket sends 200 messages a second: {1000 * flooded:.1f} ms; "
        f"{refused} refused as rate_limited, its socket {'kept' if is_kept else 'closed'}"
    )
    if flooded > 2 * alone:
        missed.append(f"others wait {flooded / alone:.1f} times as long beside a flood")
    if not refused or not is_kept:
        missed.append("the flood was not refused by name on a socket that is kept")
    print(f"1,000 frames a second: closed with {await storm(port)}")
    grown = [await memory(port, pid, readers) for readers in (0, READERS)]
    each = (grown[1] - grown[0]) / READERS
    print(
        f"a session that tells 20 MB costs {grown[0] / (1 << 20):.1f} MiB, and each of "
        f"{READERS} viewers who read nothing {max(each, 0.0) / (1 << 20):.1f} MiB more"
    )
    if each > MOST:
        missed.append(f"{each / (1 << 20):.1f} MiB a viewer who stands still")
    standing = await watched(port, READERS)
    beside = await percentile(port, seconds)
    print(f"while {READERS} sockets read nothing: {1000 * beside:.1f} ms")
    if beside > 2 * alone:
        missed.append(f"others wait {beside / alone:.1f} times as long beside readers who stand")
    for reader in standing:
        reader.transport.abort()
    return missed


async def memory(port: int, pid: int, readers: int) -> int:
    """By how much the server grows over a session of 20 MB that so many look on and do not read."""
    before = resident(pid)
    standing = await watched(port, readers)
    grown = resident(pid) - before
    for reader in standing:
        reader.transport.abort()
    return grown


async def watched(port: int, readers: int) -> list[ClientConnection]:
    """A session that was told to its end before viewers who read nothing of it."""
    client = await opened(port, agent="teller", content="Go")
    session_id = json.loads(await client.recv())["session_id"]
    attach = {"type": "attach", "session_id": session_id}
    standing = [await connected(port, attach) for _ in range(readers)]
    for reader in standing:
        reader.transport.pause_reading()
    await ended(client)
    await client.close()
    return standing


async def percentile(port: int, seconds: float) -> float:
    """How long an answer takes in four sessions that ask 50 times a second each, in seconds."""
    parts = await asyncio.gather(*(asking(port, seconds) for _ in range(OTHERS)))
    return statistics.quantiles([took for part in parts for took in part], n=100)[98]


async def asking(port: int, seconds: float) -> list[float]:
    """One session's answers."""
    client = await opened(port, agent="talker", content="Hello")
    await ended(client)
    took: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        await client.send(json.dumps({"type": "user_message", "content": "And?"}))
        await ended(client)
        took.append(time.monotonic() - began)
        await asyncio.sleep(PACE)
    await client.close()
    return took


async def flood(port: int, seconds: float) -> tuple[int, bool]:
    """200 messages a second; how many were refused as too fast, and whether the socket lives."""
    client = await opened(port, agent="stuck", content="Go")
    reading = asyncio.ensure_future(refusals(client))
    began = time.monotonic()
    for number in range(int(200 * seconds)):
        await client.send(json.dumps({"type": "user_message", "content": f"{number}"}))
        await asyncio.sleep(max(0.0, began + number / 200 - time.monotonic()))
    await client.send(json.dumps({"type": "cancel", "drop_waiting": True}))
    is_kept = not client.close_code
    return await reading, is_kept


async def storm(port: int) -> int | None:
    """2,000 frames as fast as they go; the code with which the socket ends."""
    client = await opened(port, agent="stuck", content="Go")
    with suppress(ConnectionClosed):
        for number in range(2_000):
            await client.send(json.dumps({"type": "user_message", "content": f"{number}"}))
        async with asyncio.timeout(10):
            async for _ in client:
                pass
    return client.close_code


async def refusals(client: ClientConnection) -> int:
    """How many messages were `rate_limited` until the turn ended."""
    refused = 0
    async for text in client:
        frame = json.loads(text)
        refused += frame.get("code") == "rate_limited" if isinstance(frame, dict) else 0
        if isinstance(frame, dict) and frame["type"] == "cancelled":
            break
    return refused


async def opened(port: int, **fields: Any) -> ClientConnection:
    """A socket that has sent a run."""
    return await connected(port, {"type": "run", **fields})


async def connected(port: int, first: dict[str, Any]) -> ClientConnection:
    """A socket that has sent this frame."""
    protocols = [Subprotocol("agent-lab.v1"), Subprotocol(f"agent-lab.token.{TOKEN}")]
    url = f"ws://127.0.0.1:{port}/ws"
    client = await connect(url, subprotocols=protocols, proxy=None, max_size=None)
    await client.send(json.dumps(first))
    return client


async def ended(client: ClientConnection) -> None:
    """Read on to the end of a turn."""
    async for text in client:
        said = json.loads(text)
        if any(frame["type"] in ENDS for frame in (said if isinstance(said, list) else [said])):
            return


def resident(pid: int) -> int:
    """Memory of a process, in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
