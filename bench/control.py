"""What it costs to wait for many agents at once, and whether anything is left of it.

    python -m bench.control [--agents N] [--json]

Agents are created, prompted and waited for all at once, one wait each, and every tenth wait is
aborted on the way. Printed is the time from a turn's end in the journal to the answer, and what is
left when all is over: waiters in journals, and tasks that are no session's.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable
from typing import Any

from agent_lab import Agent, AgentControl, open_agents
from agent_lab.application.aborts import Abort, WaitAborted
from agent_lab.domain.messages import ModelRequest, Reply

AGENTS, SPREAD, TENTH = 1000, 2.0, 10
OWNERS = ("Crew", "Recorder", "Runtime", "Sessions")


class Slow:
    """A model that answers after as many seconds as it was asked for."""

    name, dialect = "slow", "openai_chat"

    async def stream(self, request: ModelRequest) -> Reply:
        """Its answer."""
        await asyncio.sleep(float(request.history()[-1].content or 0))
        return Reply("Well.")


def main() -> int:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="bench.control", description="waiting for agents")
    options.add_argument("--agents", type=int, default=AGENTS)
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    told = asyncio.run(crowd(chosen.agents))
    if chosen.json:
        print(json.dumps(told))
        return 0
    print(
        f"{told['agents']:,} agents, {told['answered']:,} waits answered, {told['aborted']:,} "
        f"aborted, in {told['seconds']:.1f} s: an answer came {told['median']:.1f} ms after the "
        f"turn's end in the median, {told['p99']:.1f} ms at the 99th percentile, "
        f"{told['slowest']:.1f} ms at most; left: {told['waiters']} waiters, {told['tasks']} tasks"
    )
    return 0


async def crowd(count: int) -> dict[str, Any]:
    """Create, prompt and wait, all at once; what came of it."""
    began = time.perf_counter()
    async with open_agents([Agent("a", model=Slow())]) as agents:
        control, late, aborted = AgentControl(agents), list[float](), list[str]()

        async def one(number: int) -> None:
            made = await control.create_agent(f"agent {number}")
            seconds = 0.2 + SPREAD * number / count
            abort, loop = Abort(), asyncio.get_running_loop()
            if number % TENTH == 0:
                loop.call_later(seconds / 2, abort.set, "enough")
            work = control.send_agent_prompt_and_wait(made.agent_id, str(seconds), abort=abort)
            answer = await kept(work, made.agent_id, aborted)
            if answer is not None:
                assert answer.status == "idle" and answer.last_message == "Well."
                _, found = agents.session(made.agent_id).runtime.session.journal.read()
                ends = [entry.at for entry in found if entry.payload.type == "done"]
                late.append(1000 * (loop.time() - ends[-1]))

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(one(number))
        found = await control.wait_for_agent(
            [served.session_id for served in agents.sessions()], timeout_seconds=30
        )
        assert {row.status for row in found.agents} == {"idle"}, "an aborted wait stops no agent"
        waiters = sum(one.runtime.session.journal.waiters for one in agents.sessions())
        strays = [task for task in asyncio.all_tasks() if is_stray(task)]
        seconds = time.perf_counter() - began
    cuts = statistics.quantiles(late, n=100)
    return {
        "agents": count,
        "answered": len(late),
        "aborted": len(aborted),
        "seconds": seconds,
        "median": cuts[49],
        "p99": cuts[98],
        "slowest": max(late),
        "waiters": waiters,
        "tasks": len(strays),
    }


async def kept(work: Awaitable[Any], agent_id: str, aborted: list[str]) -> Any:
    """The answer; None for a wait that was aborted, which is noted."""
    try:
        return await work
    except WaitAborted:
        aborted.append(agent_id)
        return None


def is_stray(task: asyncio.Task[Any]) -> bool:
    """Whether it is neither this one nor a session's own."""
    owner = str(getattr(task.get_coro(), "__qualname__", "")).partition(".")[0]
    return task is not asyncio.current_task() and owner not in OWNERS


if __name__ == "__main__":
    raise SystemExit(main())
