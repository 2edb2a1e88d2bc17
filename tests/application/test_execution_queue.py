"""Two processes on one keeper: slots are renewed, taken from who is gone, and never held twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from agent_lab.application.clock import SessionClock
from agent_lab.application.execution_queue import ExecutionQueue, Place
from agent_lab.application.ports import LineListener, SlotKeeper
from agent_lab.domain.admission import Lease, Refused, Room, Waits
from tests.application.helpers_line import KEEPERS, LEASE, ticket
from tests.application.helpers_runtime import simulated

ONE = Room(1, 3)


class Both:
    """Tells two listeners, as a keeper does that two processes share."""

    def __init__(self) -> None:
        self.listeners: list[LineListener] = []

    def granted(self, lease: Lease) -> None:
        """To whoever has the ticket: the other one would give the slot back."""
        for one in self.listeners:
            if isinstance(one, ExecutionQueue) and one.has(lease.ticket):
                one.granted(lease)

    def moved(self, line: str, waiting: list[str]) -> None:
        """To both."""
        for one in self.listeners:
            one.moved(line, waiting)


class Told:
    """One place, and what it was told."""

    def __init__(self, name: str) -> None:
        self.said: list[object] = []
        self.place = Place(
            ticket(name),
            granted=self.said.append,
            moved=self.said.append,
            late=lambda: self.said.append("late"),
            lost=lambda: self.said.append("lost"),
        )


@asynccontextmanager
async def queues(count: int) -> AsyncGenerator[tuple[SlotKeeper, list[ExecutionQueue]], None]:
    loop = asyncio.get_running_loop()
    clocks = [SessionClock(loop, loop.time) for _ in range(count)]
    keeper = KEEPERS["memory"](loop.time)
    both = Both()
    async with asyncio.TaskGroup() as group:
        made = [ExecutionQueue(keeper, clock, group, lease=LEASE) for clock in clocks]
        both.listeners += made
        keeper.listen(both)  # type: ignore[arg-type]  # a list is a sequence
        try:
            yield keeper, made
        finally:
            for clock in clocks:
                clock.stop()


async def enter(queue: ExecutionQueue, told: Told, limit: float = 1000.0) -> object:
    return await queue.enter(told.place, ONE, may_wait=True, limit=limit)


@simulated
async def test_a_slot_is_kept_for_as_long_as_its_holder_lives() -> None:
    async with queues(2) as (_, (here, there)):
        a, b = Told("A"), Told("B")
        assert isinstance(await enter(here, a), Lease)
        assert await enter(there, b) == Waits(1)
        await asyncio.sleep(20 * LEASE)

        assert (a.said, b.said) == ([], [1])


@pytest.mark.scenario("S5")
@pytest.mark.scenario("S7")
@pytest.mark.fault("X10")
@simulated
async def test_the_slot_of_a_process_that_is_gone_is_the_next_ones_and_it_is_told_so() -> None:
    async with queues(2) as (keeper, (here, there)):
        a, b = Told("A"), Told("B")
        lease = await enter(here, a)
        await enter(there, b)
        assert isinstance(lease, Lease)
        here._clock.pause()  # as SIGSTOP does
        await asyncio.sleep(2 * LEASE)
        granted = b.said[-1]
        here._clock.resume()
        await asyncio.sleep(LEASE)

        assert isinstance(granted, Lease)
        assert granted.token > lease.token
        assert a.said == ["lost"]
        assert await here.release(lease) is False
        assert [one.ticket for one in (await keeper.look("a"))[0]] == ["B"]


@pytest.mark.scenario("S16")
@simulated
async def test_a_wait_that_is_over_is_told_once_and_leaves_the_line() -> None:
    async with queues(1) as (keeper, (here,)):
        a, b, c = Told("A"), Told("B"), Told("C")
        await enter(here, a)
        await enter(here, b, limit=50.0)
        await enter(here, c)
        await asyncio.sleep(51)

        assert b.said == [1, "late"]
        assert c.said == [2, 1]
        assert (await keeper.look("a"))[1] == ["C"]


@simulated
async def test_a_grant_that_nobody_here_knows_is_given_back() -> None:
    async with queues(1) as (keeper, (here,)):
        a = Told("A")
        lease = await enter(here, a)
        assert isinstance(lease, Lease)
        await keeper.ask(ticket("stranger"), ONE)
        keeper.listen(here)
        await here.release(lease)
        for _ in range(5):
            await asyncio.sleep(0)

        assert (await keeper.look("a"))[0] == []


@simulated
async def test_who_is_cancelled_while_he_asks_leaves_no_trace() -> None:
    async with queues(1) as (keeper, (here,)):
        await enter(here, Told("A"))
        ask = keeper.ask

        async def slow(*args: object, **options: object) -> object:
            answer = await ask(*args, **options)  # type: ignore[arg-type]  # handed on
            await asyncio.sleep(10)
            return answer

        keeper.ask = slow  # type: ignore[method-assign]  # a keeper far away
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await enter(here, Told("B"))

        assert (await keeper.look("a"))[1] == []
        assert here.waiting == 0


@simulated
async def test_who_is_refused_is_not_remembered() -> None:
    async with queues(1) as (_, (here,)):
        for name in "ABCD":
            await enter(here, Told(name))

        assert await enter(here, Told("E")) == Refused("in_memory_full", 1, 3)
        assert (here.waiting, len(here.leases)) == (3, 1)
