"""agent_lab in the peers' harness: the shape of bench_floor.py, so that one run compares both.

A session goes through the public `start()`, with the journal on, tool time-outs on and default
limits (but for the steps of a turn, which no peer counts). VIEWER says who looks:

    none    nobody
    follow  one cursor that reads every entry, as a test or a script does
    wire    one cursor that also encodes every entry as JSON, whole requests too, as a socket does

Each session asserts its entries: 10 a tool turn and 8 around them.
"""

import time

_began = time.perf_counter()
from agent_lab import Agent, ChatMessage, DebugRuntime, Limits, tool  # noqa: E402  # is timed

IMPORTED = time.perf_counter() - _began
import asyncio  # noqa: E402  # after what is timed
import os  # noqa: E402  # as above
from collections.abc import Callable  # noqa: E402  # as above
from typing import Any  # noqa: E402  # as above

import common  # type: ignore[import-not-found]  # noqa: E402  # the peers' harness, on sys.path

from agent_lab.application.journal import Gap  # noqa: E402  # as above
from agent_lab.domain.messages import ModelRequest, Reply, ToolCall  # noqa: E402  # as above

VIEWER = os.environ.get("VIEWER", "none")


class Fake:
    """Asks for the tool N times, N being what the user said, then says done."""

    name = "fake"
    dialect = "openai_chat"

    async def stream(self, request: ModelRequest) -> Reply:
        """Its step is the number of answers there were: no look at the history."""
        common.stamp()
        step, turns = request.answers, int(request.messages[0].content or "")
        if step < turns:
            return Reply(None, (ToolCall(f"c{step}", "noop", {}, f'{{"i":{step + 1}}}'),))
        return Reply("done")


@tool
async def noop(i: int) -> str:
    """The peers' tool: 100 bytes at once."""
    return await common.tool_body(i)


def setup() -> Callable[[int, bool], Any]:
    """What the harness calls; the session is kept alive by what is returned."""
    agent = Agent("bench", model=Fake(), tools=[noop], limits=Limits(steps=1_000_000))

    async def session(turns: int, stream: bool) -> tuple[object, int]:
        runtime = DebugRuntime(agent)
        output = runtime.start(ChatMessage("user", str(turns))).output
        viewer = None if VIEWER == "none" else asyncio.create_task(_view(runtime))
        count = 0
        while (await output.get()).type != "done":
            common.first_event()
            count += 1
        assert runtime.session.journal.last_seq == 10 * turns + 8
        if viewer is not None:
            assert await viewer == 10 * turns + 8
        return (runtime, output), count

    return session


async def _view(runtime: DebugRuntime) -> int:
    """Read to the end of the turn; gives the number of entries read."""
    from agent_lab.presentation.encoder import Encoder

    encode = Encoder(runtime.session_id, 0.0).encode if VIEWER == "wire" else _look
    read = 0
    async for batch in runtime.follow():
        assert not isinstance(batch, Gap)
        for entry in batch:
            encode(entry)
        read += len(batch)
        if batch[-1].payload.type == "done":
            break
    return read


def _look(entry: object) -> object:
    return entry


if __name__ == "__main__":
    common.main("agent_lab", "agent-lab", setup, IMPORTED)
