"""What the execution line costs, and what it keeps under load.

    python -m bench.line [--seconds N]

Admissions are whole: asked, let in, given back, through queue and keeper, without a turn. Positions
are pushed to all who wait before 1,000 agents when each line moves up. The clients hammer one agent
over HTTP, each over its own connection, from a process of their own.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import httpx2

from agent_lab import Agent
from agent_lab.application.clock import SessionClock
from agent_lab.application.execution_queue import ExecutionQueue, Place
from agent_lab.application.journal import Entry, Gap
from agent_lab.application.runtime import Runtime
from agent_lab.bootstrap import open_agents
from agent_lab.domain.admission import Lease, Room, Ticket
from agent_lab.domain.messages import ModelRequest, Reply
from agent_lab.domain.payloads import Delivered, End
from agent_lab.infrastructure.line_memory import MemoryKeeper
from agent_lab.presentation.guard import allowed_hosts, new_token
from agent_lab.presentation.server import Server, listen
from agent_lab.presentation.web import make_app

CLIENTS, AGENTS, ADMISSIONS, LOOK = 8, 1000, 20_000, 0.02
ROOM = Room(1, 3)
Span = tuple[float, float]
"""Begin and end of a turn, on the loop's clock."""


def main() -> int:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="bench.line", description="the execution line")
    options.add_argument("--seconds", type=float, default=30.0, help="how long clients hammer")
    options.add_argument("--client", nargs=3, metavar=("URL", "TOKEN", "SECONDS"))
    chosen = options.parse_args()
    if chosen.client:
        url, token, seconds = chosen.client
        print(json.dumps(asyncio.run(hammer(url, token, float(seconds)))))
        return 0
    print(f"{asyncio.run(admissions()):,.0f} admissions a second")
    pushes, seconds = asyncio.run(positions())
    print(f"{pushes:,} positions pushed before {AGENTS:,} agents in {1000 * seconds:.1f} ms")
    told = asyncio.run(load(chosen.seconds))
    print(
        f"{CLIENTS} clients, {chosen.seconds:g} s: {told['answered']:,} answered, "
        f"{told['refused']:,} refused; at most {told['most']} ran at once; refusals took "
        f"{told['median']:.1f} ms in the median, {told['p99']:.1f} ms at the 99th percentile, "
        f"{told['slowest']:.1f} ms at most; the server spent {told['cpu']:.1f} ms a request"
    )
    return 0


def place(ticket: Ticket, moved: Any = None) -> Place:
    """A place that hears of its positions."""
    nothing = lambda *_: None  # noqa: E731 - four of them
    return Place(ticket, granted=nothing, moved=moved or nothing, late=nothing, lost=nothing)


async def admissions() -> float:
    """Tickets let in and given back, a second."""
    async with asyncio.TaskGroup() as group:
        queue, _ = made(group)
        began = time.perf_counter()
        for number in range(ADMISSIONS):
            ticket = Ticket(str(number), "a", "user", 0.0)
            lease = await queue.enter(place(ticket), ROOM, may_wait=True, limit=60.0)
            assert isinstance(lease, Lease)
            await queue.release(lease)
        return ADMISSIONS / (time.perf_counter() - began)


async def positions() -> tuple[int, float]:
    """How many positions are pushed when each of many lines moves up, and in how many seconds."""
    async with asyncio.TaskGroup() as group:
        queue, clock = made(group)
        pushed = [0]

        def moved(_: int) -> None:
            pushed[0] += 1

        held: list[Any] = []
        for agent in range(AGENTS):
            for number in range(4):
                ticket = Ticket(f"{agent}.{number}", str(agent), "user", float(number))
                answer = await queue.enter(place(ticket, moved), ROOM, may_wait=True, limit=600.0)
                held += [answer] if isinstance(answer, Lease) else []
        pushed[0] = 0
        began = time.perf_counter()
        for lease in held:
            await queue.release(lease)
        spent = time.perf_counter() - began
        clock.stop()
        return pushed[0], spent


def made(group: asyncio.TaskGroup) -> tuple[ExecutionQueue, SessionClock]:
    """A queue on a keeper in memory."""
    loop = asyncio.get_running_loop()
    clock = SessionClock(loop, loop.time)
    return ExecutionQueue(MemoryKeeper(loop.time), clock, group, lease=30.0), clock


class Quick:
    """A model that looks out of the window for a moment."""

    name, dialect = "quick", "openai_chat"

    async def stream(self, request: ModelRequest) -> Reply:
        """Its answer."""
        await asyncio.sleep(LOOK)
        return Reply("Well.")


async def load(seconds: float) -> dict[str, Any]:
    """A real server, clients from another process, and how many ran at once by the journal."""
    listener, token = listen(), new_token()
    port: int = listener.getsockname()[1]
    agents = open_agents([Agent("a", model=Quick())])
    server = Server(make_app(agents, token=token, hosts=allowed_hosts(port)), listener)
    spans: list[Span] = []
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve())
        async with agents:
            chat = agents.line.chats.open(agents.get("a"), None)
            group.create_task(note(chat.runtime, spans))
            client = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bench.line", "--client"),
                *(f"http://127.0.0.1:{port}", token, str(seconds)),
                stdout=subprocess.PIPE,
            )
            began = time.process_time()
            out, _ = await client.communicate()
            spent = 1000 * (time.process_time() - began)
            server.stop()
            await serving
    told = json.loads(out)
    return {
        **told,
        "most": most_at_once(spans),
        "cpu": spent / (told["answered"] + told["refused"]),
    }


async def note(runtime: Runtime, spans: list[Span]) -> None:
    """Follow the journal to its end, and note each turn from its first entry to its last."""
    begun: dict[int, float] = {}
    async for batch in runtime.follow():
        assert not isinstance(batch, Gap), "the reader was overtaken"
        spans += turns(batch, begun)


def turns(entries: Sequence[Entry], begun: dict[int, float]) -> Iterator[Span]:
    """The turns that end in these entries; `begun` has those that began before."""
    for entry in entries:
        payload = entry.payload
        if isinstance(payload, Delivered) and payload.turn is not None:
            begun.setdefault(payload.turn, entry.at)
        elif isinstance(payload, End) and payload.turn in begun:
            yield begun.pop(payload.turn), entry.at


def most_at_once(spans: Sequence[Span]) -> int:
    """How many of these lay over one another at most; one that begins as another ends does not."""
    edges = sorted([(end, -1) for _, end in spans] + [(begin, 1) for begin, _ in spans])
    return max(accumulate((step for _, step in edges), initial=0))


async def hammer(url: str, token: str, seconds: float) -> dict[str, Any]:
    """Ask without end, each client as soon as it was answered or refused."""
    refusals: list[float] = []
    answered = [0]
    until = time.monotonic() + seconds

    async def client() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False) as http:
            while time.monotonic() < until:
                began = time.perf_counter()
                answer = await http.post("/api/agents/a/chat", json={"message": "go"}, timeout=60)
                if answer.status_code == 429:
                    refusals.append(1000 * (time.perf_counter() - began))
                    await asyncio.sleep(LOOK)
                else:
                    assert answer.status_code == 200, answer.text
                    answered[0] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(client())
    cuts = statistics.quantiles(refusals or [0.0, 0.0], n=100)
    return {
        "answered": answered[0],
        "refused": len(refusals),
        "median": cuts[49],
        "p99": cuts[98],
        "slowest": max(refusals, default=0.0),
    }


if __name__ == "__main__":
    raise SystemExit(main())
