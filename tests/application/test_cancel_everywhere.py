"""A turn cancelled, and a session closed, after each single step of the loop, one run a step."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from agent_lab import Agent, ChatMessage, DebugRuntime, Limits
from agent_lab.application.simulation import SimulatedLoop
from agent_lab.domain.messages import CallDelta, Finish, ModelEvent, ModelRequest, TextDelta
from agent_lab.testing import SeededOutside
from tests.application.helpers_runtime import ENDS, assert_valid, briefly, said, settled, ticks

CALLS = ("slow", "tidy", "block")


class Steps(deque[asyncio.Handle]):
    """The loop's ready callbacks, counted as they run; after the one of number `at` comes `act`."""

    def __init__(self, at: int, seed: int | None) -> None:
        super().__init__()
        self.ran = 0
        self.at = at
        self.act: Callable[[], object] | None = None
        self._chance = random.Random(seed) if seed is not None else None

    def begin(self, act: Callable[[], object]) -> None:
        """Count from here on."""
        self.act = act

    def popleft(self) -> asyncio.Handle:
        if self._chance is not None and len(self) > 1:
            self.rotate(-self._chance.randrange(len(self)))
        handle = super().popleft()
        if self.act is not None:
            self.ran += 1
            if self.ran == self.at:
                loop = asyncio.get_running_loop()
                self.appendleft(asyncio.Handle(self.act, (), loop))
        return handle


class Scene:
    """A turn with two tools and a thread side by side, a steer and a follow-up; `inside` counts."""

    def __init__(self) -> None:
        self.inside = Counter[str]()
        self.said = False
        self.closing: asyncio.Task[None] | None = None
        agent = Agent(
            "a", model=self.model, tools=[self.slow, self.tidy, self.block], limits=Limits(grace=2)
        )
        self.runtime = DebugRuntime(agent, outside=SeededOutside())

    async def model(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.inside["model"] += 1
        try:
            yield TextDelta("Well")
            await asyncio.sleep(0.01)
            if request.history()[-1].content == "go":
                for index, name in enumerate(CALLS):
                    yield CallDelta(index, f"c{index}", name)
            yield Finish("stop")
        finally:
            try:
                await asyncio.sleep(0)
            finally:
                self.inside["model"] -= 1

    async def slow(self) -> str:
        """Says more, and is slow."""
        self.inside["slow"] += 1
        try:
            if not self.said:
                self.said = True
                self.runtime.start(ChatMessage("user", "steer"))
                self.runtime.start(ChatMessage("user", "later", mode="follow_up"))
            await asyncio.sleep(0.1)
            return "slow"
        finally:
            self.inside["slow"] -= 1

    async def tidy(self) -> str:
        """Needs a second to clean up."""
        self.inside["tidy"] += 1
        try:
            await asyncio.sleep(0.2)
            return "tidy"
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            raise
        finally:
            self.inside["tidy"] -= 1

    def block(self) -> str:
        """Runs in a thread."""
        return "block"

    @property
    def busy(self) -> set[str]:
        return {name for name, count in self.inside.items() if count}


Act = Callable[[Scene], object]
Check = Callable[[Scene], Awaitable[None]]


def play(at: int, seed: int | None, act: Act, check: Check) -> bool:
    """One run, with `act` after step `at` of it and `check` then; False if it was over before."""
    loop = SimulatedLoop()
    steps = loop._ready = Steps(at, seed)

    async def main() -> bool:
        scene = Scene()
        acted = asyncio.Event()

        def now() -> None:
            if steps.act is not None:  # not too late
                acted.set()
                act(scene)

        scene.runtime.start("go")
        steps.begin(now)
        ends = [loop.create_task(settled(scene.runtime)), loop.create_task(acted.wait())]
        await asyncio.wait(ends, return_when="FIRST_COMPLETED")
        steps.act = None
        for task in ends:
            task.cancel()
        await asyncio.wait(ends)
        if acted.is_set():
            await check(scene)
        await scene.runtime.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert scene.busy == set()
        assert_accounted_for(scene.runtime)
        return acted.is_set()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main())


def play_all(seed: int | None, act: Act, check: Check) -> None:
    """One run for each step; a fault names the step."""
    threads = set(threading.enumerate())
    at = 1
    while True:
        try:
            if not play(at, seed, act, check):
                break
        except BaseException as fault:
            fault.add_note(f"acted after step {at}, seed {seed}")
            raise
        at += 1
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)
    assert set(threading.enumerate()) <= threads
    assert at > 30


def assert_accounted_for(runtime: DebugRuntime) -> None:
    """Each message, call and turn has one end, and no provider would refuse a thing."""
    assert_valid(runtime)
    accepted = sorted(p.message_id for p in said(runtime, "accepted"))
    assert sorted(p.message_id for p in said(runtime, "delivered", "withdrawn")) == accepted
    calls = Counter((p.turn, p.call_id) for p in said(runtime, "tool_call"))
    assert Counter((p.turn, p.call_id) for p in said(runtime, "tool_reply")) == calls
    ends = Counter(p.turn for p in said(runtime, *ENDS))
    assert set(ends.values()) <= {1}
    assert {p.turn for p in said(runtime, "model_request")} <= set(ends)


# -- a cancelled turn ----------------------------------------------------------------------------


def cancel(scene: Scene) -> None:
    """On record when it returns."""
    if scene.runtime.cancel() == "cancelled":
        assert said(scene.runtime)[-1].type == "cancelled"


def cancel_all(scene: Scene) -> None:
    """The waiting messages too."""
    if scene.runtime.cancel(drop_waiting=True) == "cancelled":
        assert said(scene.runtime)[-1].type == "cancelled"
        assert scene.runtime.session.is_idle


async def nothing_is_left(scene: Scene) -> None:
    runtime = scene.runtime
    await ticks(10)
    assert scene.busy <= {"tidy"} and not runtime.session.conversation.calls.open
    await asyncio.sleep(2)
    assert scene.busy == set()
    assert runtime.session.abandoned.tasks == 0
    assert len(asyncio.all_tasks()) <= 7  # this, root, ChatAgent, a runner a call, a spare
    await the_next_turn_works(scene)


async def the_next_turn_works(scene: Scene) -> None:
    runtime = scene.runtime
    await settled(runtime)
    runtime.start("next")
    await settled(runtime)
    assert said(runtime)[-1].type == "done"
    assert briefly(runtime.history)[-2:] == [("user", "next"), ("assistant", "Well")]
    assert_accounted_for(runtime)


@pytest.mark.parametrize("seed", [None, *range(6)])
def test_cancelled_after_any_step_a_turn_leaves_nothing_and_the_next_one_works(
    seed: int | None,
) -> None:
    play_all(seed, cancel_all, nothing_is_left)


@pytest.mark.parametrize("seed", [None, *range(6)])
def test_cancelled_after_any_step_a_turn_loses_no_other_message(seed: int | None) -> None:
    play_all(seed, cancel, the_next_turn_works)


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("call_id", ["c0", "c1", "c2"])
def test_one_call_cancelled_after_any_step_leaves_the_turn_to_go_on(
    call_id: str, seed: int | None
) -> None:
    async def check(scene: Scene) -> None:
        await the_next_turn_works(scene)
        assert said(scene.runtime, "cancelled", "error") == []

    play_all(seed, lambda scene: scene.runtime.cancel_tool(call_id), check)


# -- a closed session ----------------------------------------------------------------------------


def root_of(scene: Scene) -> asyncio.Task[None]:
    name = scene.runtime.session_id
    return next(task for task in asyncio.all_tasks() if task.get_name().endswith(name))


def close(scene: Scene) -> None:
    scene.closing = asyncio.get_running_loop().create_task(scene.runtime.close())


def cancel_root(scene: Scene) -> None:
    """As whoever cancels all tasks of a loop does."""
    root_of(scene).cancel()


async def all_is_gone(scene: Scene) -> None:
    await ticks(10)
    assert scene.busy <= {"tidy"}
    await asyncio.sleep(2)
    assert scene.runtime.is_closed and not scene.runtime.session.conversation.calls.open
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert scene.busy == set()
    assert scene.runtime.session.is_idle


@pytest.mark.parametrize("seed", [None, *range(6)])
@pytest.mark.parametrize("act", [close, cancel_root])
def test_closed_after_any_step_a_session_leaves_nothing(act: Act, seed: int | None) -> None:
    play_all(seed, act, all_is_gone)


@pytest.mark.parametrize("seed", [None, 0])
def test_a_cancel_and_a_close_after_any_step_leave_one_end(seed: int | None) -> None:
    def both(scene: Scene) -> None:
        cancel(scene)
        close(scene)

    play_all(seed, both, all_is_gone)
