"""A wait is ended at every place where it waits, and at each of them it leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import coroutine
from typing import Any

import pytest

from agent_lab.application.aborts import Abort, WaitAborted
from agent_lab.domain.records import Change, Record, RecordKind
from agent_lab.infrastructure.store_memory import MemoryStore
from agent_lab.testing import simulate
from tests.application.helpers_control import Lab, lab
from tests.application.helpers_line import Gates

Wait = Callable[[Lab, Abort], Coroutine[Any, Any, Any]]


class SlowStore(MemoryStore):
    """What is written is stored a little later, and a read takes its time; it stays open."""

    def write(self, changes: Sequence[Change]) -> asyncio.Future[None]:
        """Stored in a hundredth of a second."""
        super().write(changes)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        loop.call_later(0.01, lambda: done.done() or done.set_result(None))
        return done

    async def record(self, kind: RecordKind, record_id: str) -> Record | None:
        """Read in a hundredth of a second."""
        await asyncio.sleep(0.01)
        return await super().record(kind, record_id)

    async def close(self) -> None:
        """The next process finds it as it was left."""


class Steps:
    """Runs a coroutine, and does something when it has waited for the n-th time."""

    def __init__(self, at: int, deed: Callable[[], object]) -> None:
        self.count = 0
        self._at = at
        self._deed = deed

    @coroutine
    def run(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """What the work returns or raises."""
        step: Callable[[Any], Any] = work.send
        value: Any = None
        while True:
            try:
                waits_for = step(value)
            except StopIteration as end:
                return end.value
            self.count += 1
            if self.count == self._at:
                self._deed()
            try:
                value, step = (yield waits_for), work.send
            except BaseException as error:  # noqa: BLE001 - handed on
                value, step = error, work.throw


async def for_all(a: Lab, abort: Abort) -> Any:
    return await a.control.wait_for_agent(["s_old", "s_1_1", "s_1_2"], abort=abort)


async def for_any(a: Lab, abort: Abort) -> Any:
    ids = ["s_1_1", "s_1_2"]
    return await a.control.wait_for_agent(ids, until="any", abort=abort, include_activity=True)


async def in_line(a: Lab, abort: Abort) -> Any:
    return await a.control.wait_for_agent(["chat:a", "s_1_1"], abort=abort)


async def to_the_end_of_time(a: Lab, abort: Abort) -> Any:
    return await a.control.wait_for_agent(["s_1_1"], timeout_seconds=0.5, abort=abort)


async def prompt_and_wait(a: Lab, abort: Abort) -> Any:
    return await a.control.send_agent_prompt_and_wait("s_1_1", "three", abort=abort)


async def create_and_wait(a: Lab, abort: Abort) -> Any:
    return await a.control.create_agent_and_wait("new", "three", abort=abort)


WAITS: list[Wait] = [
    for_all,
    for_any,
    in_line,
    to_the_end_of_time,
    prompt_and_wait,
    create_and_wait,
]


def attempt(wait: Wait, at: int, how: str) -> tuple[int, Any]:
    """How often the wait waited, and what came of it when it was ended at its n-th."""
    old = SlowStore()

    async def before() -> None:
        async with lab(store=old) as a:
            a.agents.open(a.agents.get("a"), "s_old").runtime.start("zero")
            a.tell("zero")
            await asyncio.sleep(1)

    async def main() -> tuple[int, Any]:
        abort, model = Abort(), Gates()
        async with lab(store=old, model=model, seed=1) as a:
            await a.made("one")
            await a.made("two")
            loop = asyncio.get_running_loop()
            for seconds, content in ((1.0, "one"), (2.0, "two"), (3.0, "three")):
                loop.call_later(seconds, model.open, content)
            await asyncio.sleep(0.1)
            async with asyncio.TaskGroup() as group:

                def deed() -> None:
                    waiter.cancel() if how == "cancel" else abort.set("enough")

                steps = Steps(at, deed)
                waiter = group.create_task(said(steps.run(wait(a, abort))))
                await asyncio.wait({waiter})
            found = None if waiter.cancelled() else waiter.result()
            assert [one for one in asyncio.all_tasks() if not owned(one)] == []
            assert abort.waits == 0
            await asyncio.sleep(10)  # all turns end; what listens then is each session's recorder
            assert {one.state for one in a.agents.sessions()} == {"idle"}, "the agents go on"
            assert a.left(abort) == len(a.agents.sessions())
            return steps.count, found

    simulate(before)
    return simulate(main)


async def said(work: Any) -> Any:
    try:
        return await work
    except WaitAborted as aborted:
        return aborted


def owned(task: asyncio.Task[Any]) -> bool:
    """Whether it is this test or a session's own: its pump, recorder or workers."""
    owner = str(getattr(task.get_coro(), "__qualname__", "")).partition(".")[0]
    return task is asyncio.current_task() or owner in ("Crew", "Recorder", "Runtime", "Sessions")


@pytest.mark.scenario("S29")
@pytest.mark.scenario("S30")
@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("how", ["abort", "cancel"])
def test_a_wait_that_is_ended_at_any_of_its_awaits_leaves_nothing(wait: Wait, how: str) -> None:
    count, whole = attempt(wait, 0, how)
    assert count > 0
    assert whole is not None and not isinstance(whole, WaitAborted)

    for at in range(1, count + 1):
        _, found = attempt(wait, at, how)
        if how == "cancel":
            assert found is None, f"cancelled at its await {at}, it gave {found}"
        else:
            assert isinstance(found, WaitAborted), f"aborted at its await {at}, it gave {found}"
            assert found.reason == "enough"
