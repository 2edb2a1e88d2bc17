"""Whatever is asked, cancelled, released, crashed or timed out: the books are right (S81)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_lab.application.executions import Ended, Started
from agent_lab.domain.errors import ModelError, NotAdmitted
from agent_lab.domain.execution import Asker, Execution, ExecutionQuery
from agent_lab.domain.limits import LineLimits
from agent_lab.testing import simulate
from bench.line import Span, most_at_once, turns
from tests.application.helpers_line import Held, held

ME = Asker(triggered_by="test")
STEPS = st.lists(
    st.tuples(st.sampled_from("cctttlxxerzoFSwwk"), st.integers(0, 999), st.integers(0, 3)),
    min_size=5,
    max_size=40,
)


class Chance:
    """Does one step after another, and keeps who was accepted."""

    def __init__(self, a: Held) -> None:
        self.a = a
        self.accepted: list[Execution] = []
        self.waits: list[asyncio.Task[Execution]] = []
        self.count = 0

    async def step(self, what: str, number: int) -> None:
        """One thing that somebody does."""
        a, control = self.a, self.a.line.control
        doings: dict[str, Callable[[], Awaitable[Any]]] = {
            "c": lambda: self.ask("chat", number),
            "t": lambda: self.ask("task", number),
            "l": lambda: a.line.leave(self.any(number)),
            "x": lambda: control.terminate("a", self.any(number).id, ME),
            "e": lambda: control.clear("a", ME),
            "r": lambda: control.release("a", ME),
            "z": lambda: control.reset("a", ME),
            "o": lambda: control.resize("a", "task", number % 6, ME),
            "F": lambda: self.answer(number, ModelError("no", code="x")),
            "S": lambda: self.answer(number, "Well."),
            "w": lambda: asyncio.sleep(number % 70),
            "k": lambda: a.line.keeper.seize("task:a") if number % 5 == 0 else asyncio.sleep(0),
        }
        if self.accepted or what in "ctw":
            await doings[what]()

    async def ask(self, kind: Any, number: int) -> None:
        source = ("user", "agent", "schedule")[number % 3]
        self.count += 1
        limit = (0.5, 50.0, 600.0)[number % 3]
        try:
            execution = await self.a.ask(
                f"m{self.count}",
                kind,
                by=Asker(source=source),  # type: ignore[arg-type]  # one of them
                may_wait=number % 7 > 0,
                detached=True,
                run_limit=limit,
            )
        except NotAdmitted:
            return
        self.accepted.append(execution)

    async def answer(self, number: int, said: Any) -> None:
        """Let the model answer one of those it was asked."""
        asked = [name for name in self.a.model.asked if not self.a.model.door(name).done()]
        if asked:
            self.a.model.open(asked[number % len(asked)], said)

    def any(self, number: int) -> Execution:
        """One of those that were accepted."""
        return self.accepted[number % len(self.accepted)]


async def settle(a: Held) -> None:
    """Until nothing is left to do but wait."""
    for _ in range(60):
        await asyncio.sleep(0)


async def at_random(steps: list[tuple[str, int, int]]) -> None:
    limits = LineLimits(tasks=2, backlog=4, backlog_wait=300.0)
    async with held(limits=limits) as a:
        chance = Chance(a)
        for what, number, pause in steps:
            await chance.step(what, number)
            for _ in range(pause * 7):
                await asyncio.sleep(0)
        await settle(a)
        assert await a.line.check() == []
        await asyncio.sleep(2000)  # every limit there is has run out
        await settle(a)
        assert await a.line.check() == []
        assert a.line.book.live == [], "everything accepted has its end"
        assert a.line.book.waiters == len(a.line.runs) == a.line.queue.waiting == 0
        records = await a.line.book.page(ExecutionQuery(limit=500))
        assert {one.id for one in records} == {one.id for one in chance.accepted}
        ends = Counter(
            one.execution.id for one in a.changes if isinstance(one, Ended) and not one.supersedes
        )
        assert ends == dict.fromkeys((one.id for one in records), 1)
        begun = Counter(one.execution.id for one in a.changes if isinstance(one, Started))
        assert set(begun.values()) <= {1}
        assert len(a.model.asked) == len(set(a.model.asked)), "nothing ran twice"


@pytest.mark.scenario("S81")
@settings(max_examples=60)
@given(steps=STEPS, seed=st.none() | st.integers(0, 2**16))
def test_after_any_of_it_the_books_are_right(
    steps: list[tuple[str, int, int]], seed: int | None
) -> None:
    simulate(lambda: at_random(steps), seed=seed)


def spans(a: Held) -> list[Span]:
    """All turns of all sessions, by their journals."""
    journals = [one.runtime.session.journal.read() for one in a.agents.sessions()]
    assert all(gap is None for gap, _ in journals)
    return [span for _, entries in journals for span in turns(entries, {})]


@pytest.mark.fault("R36")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("kind", "capacity"), [("chat", 1), ("task", 3)])
def test_eight_callers_at_once_never_run_more_than_the_capacity(
    seed: int, kind: Any, capacity: int
) -> None:
    """Told by the changes and by the journals: of one agent so many turns at a time, no more."""

    async def main() -> None:
        chance = random.Random(seed)
        async with held(limits=LineLimits(waiting=3, backlog=3)) as a:
            answered, refused = [0], [0]

            async def client(number: int) -> None:
                for turn in range(6):
                    try:
                        one = await a.ask(f"{number}.{turn}", kind)
                    except NotAdmitted:
                        refused[0] += 1
                        await asyncio.sleep(chance.random() * 5)
                        continue
                    door = a.model.door(one.message)
                    delay = chance.random()
                    asyncio.get_running_loop().call_later(
                        delay, lambda door=door: door.done() or door.set_result("Well.")
                    )
                    assert (await a.end(one)).status == "completed"
                    answered[0] += 1

            async with asyncio.TaskGroup() as group:
                for number in range(8):
                    group.create_task(client(number))
            assert answered[0] + refused[0] == 48
            assert answered[0] > 8
            running = most = 0
            for change in a.changes:
                running += isinstance(change, Started) - isinstance(change, Ended)
                most = max(most, running)
            assert most == capacity
            assert len(spans(a)) == answered[0]
            assert most_at_once(spans(a)) == capacity
            assert await a.line.check() == []

    simulate(main, seed=seed)


def test_turns_that_lie_over_one_another_are_counted() -> None:
    assert most_at_once([(0, 2), (2, 3), (3, 4)]) == 1
    assert most_at_once([(0, 2), (1, 3), (1.5, 4), (5, 6)]) == 3
