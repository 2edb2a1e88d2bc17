"""What a provider's stream costs us beside its SDK, and how soon its pieces reach the page.

    python -m bench.stream [--deltas 1000] [--pause 5] [--rounds 5] [--json]

A provider in a process of its own sends OpenAI Chat over real HTTP, with so many milliseconds
between its pieces. Read once with the bare SDK and once by a whole session, in turn; the medians
are compared, of wall time and of the processor's. Without pauses the ratio is that of the work
alone. Then several sessions are streamed to a socket each, as the page opens it; each piece carries
the time it was sent at, so the delay is from the provider's send to the frame in the client.
"""

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from openai import AsyncOpenAI
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from agent_lab import Agent, DebugRuntime, Limits
from agent_lab.bootstrap import open_agents
from agent_lab.domain.payloads import Text
from agent_lab.presentation.guard import SUBPROTOCOL, allowed_hosts, new_token
from agent_lab.presentation.server import Server, listen
from agent_lab.presentation.web import make_app

SOCKETS = (1, 8)
Told = dict[str, Any]


def main() -> int:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="bench.stream", description="a provider's stream")
    options.add_argument("--deltas", type=int, default=1000, help="pieces of the answer")
    options.add_argument("--pause", type=float, default=5.0, help="milliseconds between two")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", action="store_true")
    options.add_argument("--provider", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.provider:
        asyncio.run(provide(chosen.deltas, chosen.pause / 1000))
        return 0
    told = asyncio.run(measure(chosen.deltas, chosen.pause, chosen.rounds))
    if chosen.json:
        print(json.dumps(told))
        return 0
    for name in ("paced", "unpaced"):
        one = told[name]
        print(
            f"{chosen.deltas} deltas, {one['pause']:g} ms apart: bare SDK {one['sdk']:.0f} ms "
            f"({one['sdk_cpu']:.0f} of the processor's), agent_lab {one['ours']:.0f} ms "
            f"({one['ours_cpu']:.0f}): {one['overhead']:+.1%} wall, {one['overhead_cpu']:+.1%} "
            "processor"
        )
    for one in told["page"]:
        print(
            f"to {one['sockets']} sockets: {one['median']:.1f} ms in the median, "
            f"{one['p99']:.1f} at the 99th percentile, {one['most']:.1f} at most; "
            f"{one['deltas']} deltas in {one['frames']} frames"
        )
    return 0


async def measure(deltas: int, pause: float, rounds: int) -> Told:
    """All figures."""
    async with provider(deltas, pause) as paced, provider(deltas, 0) as unpaced:
        return {
            "paced": {"pause": pause, **await beside(paced, rounds)},
            "unpaced": {"pause": 0, **await beside(unpaced, 4 * rounds)},
            "page": [await to_page(paced, sockets) for sockets in SOCKETS],
        }


# -- beside the SDK ------------------------------------------------------------------------------


async def beside(url: str, rounds: int) -> Told:
    """Medians of both in turn, in milliseconds; the first of each is not counted."""
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        taken: dict[str, list[tuple[float, float]]] = {"sdk": [], "ours": []}
        for _ in range(rounds + 1):
            taken["sdk"].append(await timed(lambda: by_sdk(client)))
            taken["ours"].append(await timed(lambda: by_session(url)))
    told = {
        f"{name}{end}": statistics.median(one[place] for one in times[1:])
        for name, times in taken.items()
        for place, end in enumerate(("", "_cpu"))
    }
    told["overhead"] = told["ours"] / told["sdk"] - 1
    told["overhead_cpu"] = told["ours_cpu"] / told["sdk_cpu"] - 1
    return told


async def timed(do: Callable[[], Awaitable[int]]) -> tuple[float, float]:
    """Wall and processor time in milliseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    length = await do()
    times = 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)
    assert length, "no text came"
    return times


async def by_sdk(client: AsyncOpenAI) -> int:
    """The length of the text, by the SDK alone."""
    length = 0
    stream = await client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "go"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    async for chunk in stream:
        for choice in chunk.choices:
            length += len(choice.delta.content or "")
    return length


async def by_session(url: str) -> int:
    """The length of the text, by a whole session: queues, journal, payloads."""
    length = 0
    async with DebugRuntime(streaming(url)) as runtime, runtime.run("go") as run:
        async for payload in run:
            if isinstance(payload, Text):
                length += len(payload.text)
    return length


def streaming(url: str) -> Agent:
    """An agent that says what the provider says."""
    return Agent("a", model="openai:m", base_url=url, limits=Limits(model_timeout=600))


# -- to the page ---------------------------------------------------------------------------------


async def to_page(url: str, sockets: int) -> Told:
    """How long a piece is under way, over so many sockets at once, in milliseconds."""
    listener, token = listen(), new_token()
    port: int = listener.getsockname()[1]
    agents = open_agents([streaming(url)])
    server = Server(make_app(agents, token=token, hosts=allowed_hosts(port)), listener)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve())
        async with agents:
            looking = [look(f"ws://127.0.0.1:{port}/ws", token) for _ in range(sockets)]
            seen = await asyncio.gather(*looking)
            server.stop()
            await serving
    delays = [delay for each, _ in seen for delay in each]
    return {
        "sockets": sockets,
        "median": statistics.median(delays),
        "p99": statistics.quantiles(delays, n=100)[98],
        "most": max(delays),
        "deltas": len(delays),
        "frames": sum(frames for _, frames in seen),
    }


async def look(url: str, token: str) -> tuple[list[float], int]:
    """The delay of each piece, and the frames they came in."""
    protocols = [Subprotocol(SUBPROTOCOL), Subprotocol(f"agent-lab.token.{token}")]
    delays: list[float] = []
    frames = 0
    async with connect(url, subprotocols=protocols, proxy=None) as socket:
        await socket.send(json.dumps({"type": "run", "content": "go"}))
        async for said in socket:
            now = time.monotonic()
            told = json.loads(said)
            for frame in told if isinstance(told, list) else [told]:
                if frame["type"] == "text_delta":
                    frames += 1
                    sent = re.findall(r"[\d.]+", frame["text"])
                    delays += [1000 * (now - float(at)) for at in sent]
                if frame["type"] in ("done", "error"):
                    assert frame["type"] == "done", frame
                    return delays, frames
    raise AssertionError("the socket closed before the answer's end")


# -- the provider --------------------------------------------------------------------------------


@asynccontextmanager
async def provider(deltas: int, pause: float) -> AsyncIterator[str]:
    """The address of a provider in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.stream", "--provider"),
        *("--deltas", str(deltas), "--pause", str(pause)),
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()


async def provide(deltas: int, pause: float) -> None:
    """Answer each request with so many pieces, each with the time it is sent at."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            await reader.readexactly(int(length[1]) if length else 0)
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                b"transfer-encoding: chunked\r\n\r\n"
            )
            began = time.monotonic()
            for number in range(deltas):
                writer.write(chunk({"content": f"{time.monotonic():.6f} "}))
                await writer.drain()
                if (wait := began + (number + 1) * pause - time.monotonic()) > 0:
                    await asyncio.sleep(wait)
            writer.write(chunk({}, "stop") + packed(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # whoever asked has left
            await answer(reader, writer)
        writer.close()

    server = await asyncio.start_server(answer_all, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def chunk(delta: Told, finish: str | None = None) -> bytes:
    """One event in a piece of HTTP."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    said = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }
    return packed(f"data: {json.dumps(said)}\n\n".encode())


def packed(data: bytes) -> bytes:
    """As HTTP/1.1 frames it."""
    return b"%x\r\n%s\r\n" % (len(data), data)


if __name__ == "__main__":
    raise SystemExit(main())
