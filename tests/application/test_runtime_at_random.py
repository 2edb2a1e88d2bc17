"""A session in which everything happens at random: what was accepted has one end, whatever else."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from agent_lab import ChatMessage, DebugRuntime, Limits
from agent_lab.domain.errors import GateError, MessageRejected, ModelError, QueueClosed
from agent_lab.domain.messages import MODES, CallDelta, Finish, ModelEvent, ModelRequest, TextDelta
from agent_lab.testing import HandGate, open_runtime, simulate
from tests.application.helpers_runtime import ENDS, assert_valid, briefly, said, settled, ticks

HOPS = ("put input", "take input", "put events", "take events", "model", "tool", "thread")
LIMITS = Limits(
    tool_timeout=0.4,
    model_timeout=1,
    grace=0.3,
    parallel_tools=2,
    steps=4,
    retry_delay=0.1,
    output=8,
)


class Chaos:
    """A model, tools and hands that do what chance says."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.gate = HandGate()
        self.inside = Counter[str]()

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    async def model(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.inside["model"] += 1
        try:
            await asyncio.sleep(self.chance.choice([0, 0, 0.1, 2 * self.maybe(0.2)]))
            yield TextDelta("so ")
            if self.maybe(0.1):
                raise ModelError("planted", may_pass=self.maybe(0.7))
            if self.maybe(0.1):
                return
            for index in range(self.chance.choice([0, 0, 1, 2, 5])):
                name = self.chance.choice(["wait", "wait", "fail", "read", "nobody"])
                yield CallDelta(index, self.chance.choice(["", "c1", "c2"]), name)
            await asyncio.sleep(0)
            yield Finish(self.chance.choice(["stop", "stop", "stop", "length"]))
        finally:
            self.inside["model"] -= 1

    async def wait(self) -> str:
        """Waits."""
        self.inside["wait"] += 1
        try:
            await asyncio.sleep(self.chance.choice([0, 0.1, 0.3, 1]))
        except asyncio.CancelledError:
            if self.maybe(0.3):
                await asyncio.sleep(self.chance.choice([0.1, 1]))
            if self.maybe(0.7):
                raise
        finally:
            self.inside["wait"] -= 1
        return "waited"

    async def fail(self) -> None:
        """Fails."""
        await asyncio.sleep(0)
        raise self.chance.choice([ValueError, SystemExit, asyncio.CancelledError])

    def read(self) -> str:
        """Runs in a thread."""
        return "read"

    # -- hands -----------------------------------------------------------------------------------

    async def act(self, runtime: DebugRuntime, group: asyncio.TaskGroup) -> None:
        """One thing that a user, a script or a debugger may do."""
        waiting = [p.message_id for p in said(runtime, "accepted")]
        match self.chance.randrange(10):
            case 0 | 1 | 2:
                message = ChatMessage("user", "more", mode=self.chance.choice(MODES))
                group.create_task(put(runtime, message))
            case 3:
                runtime.cancel(drop_waiting=self.maybe(0.3))
            case 4:
                runtime.cancel_tool(self.chance.choice(["c1", "c2", "call_1_0"]))
            case 5 if waiting:
                runtime.withdraw(self.chance.choice(waiting))
            case 6 if waiting:
                runtime.edit(self.chance.choice(waiting), "other")
            case 7:
                self.gate.hold_at(*self.chance.sample(HOPS, self.chance.randrange(3)))
            case 8:
                stray = ChatMessage("tool", "from outside", tool_call_id="c1")
                with suppress(asyncio.QueueFull):
                    runtime.session.queues.input.put_nowait(stray)
            case _:
                self.touch_the_gate()

    def touch_the_gate(self) -> None:
        for parked in self.gate.parked:
            with suppress(GateError):
                match self.chance.randrange(4):
                    case 0:
                        self.gate.drop(parked.number)
                    case 1:
                        self.gate.edit(parked.number, "edited")
                    case 2:
                        other = self.chance.choice(self.gate.parked)
                        if other is not parked:
                            self.gate.swap(parked.number, other.number)
                    case _:
                        self.gate.release(parked.number)


async def put(runtime: DebugRuntime, message: ChatMessage) -> None:
    with suppress(MessageRejected, QueueClosed):
        await runtime.session.queues.input.put(message)


async def drain(runtime: DebugRuntime) -> None:
    with suppress(QueueClosed):
        while True:
            await runtime.session.queues.output.get()


async def play(chaos: Chaos) -> None:
    tools = [chaos.wait, chaos.fail, chaos.read]
    async with (
        open_runtime(model=chaos.model, tools=tools, gate=chaos.gate, limits=LIMITS) as runtime,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(drain(runtime))
        runtime.start("begin")
        early = chaos.maybe(0.3)
        for _ in range(chaos.chance.randrange(60) if early else 60):
            await chaos.act(runtime, group)
            if chaos.maybe(0.5):
                await ticks(chaos.chance.randrange(8))
            else:
                await asyncio.sleep(chaos.chance.choice([0.02, 0.2, 1]))
        if not early:
            chaos.gate.open()
            await settled(runtime, seconds=600)
            runtime.start(ChatMessage("user", "last", message_id="last"))
            await settled(runtime, seconds=60)
            assert ("user", "last") in briefly(runtime.history)
        await runtime.close()
    await asyncio.sleep(5)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not +chaos.inside
    assert_accounted_for(runtime)


def assert_accounted_for(runtime: DebugRuntime) -> None:
    assert_valid(runtime)
    accepted = Counter(p.message_id for p in said(runtime, "accepted"))
    assert Counter(p.message_id for p in said(runtime, "delivered", "withdrawn")) == accepted
    assert set(accepted.values()) == {1}
    delivered = [p.message_id for p in said(runtime, "delivered")]
    assert [m.message_id for m in runtime.history if m.role == "user"] == delivered
    calls = Counter((p.turn, p.step, p.call_id) for p in said(runtime, "tool_call"))
    assert Counter((p.turn, p.step, p.call_id) for p in said(runtime, "tool_reply")) == calls
    ends = Counter(p.turn for p in said(runtime, *ENDS))
    assert ends == Counter(range(1, len(ends) + 1))
    after_end: set[int] = set()
    for payload in said(runtime):
        if payload.type in ENDS:
            after_end.add(payload.turn)
        elif payload.type not in ("late_reply", "queue", "paused", "resumed", "dropped", "edited"):
            assert payload.turn not in after_end, payload


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_everything_accepted_has_one_end(seed: int) -> None:
    threads = set(threading.enumerate())
    simulate(lambda: play(Chaos(seed)), seed=seed)
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)
