"""Schedules: they ask at their times, through the line, and what could not run is on record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_lab.application.schedules import Schedules
from agent_lab.application.served import UnknownAgent
from agent_lab.domain.activity import ActivityQuery
from agent_lab.domain.errors import NotAdmitted, StorageError
from agent_lab.domain.execution import Asker, Execution, ExecutionQuery
from agent_lab.domain.limits import LineLimits
from agent_lab.domain.schedule import ScheduleRefused, UnknownSchedule
from agent_lab.infrastructure.store_memory import MemoryStore
from agent_lab.testing import SeededOutside, simulate
from tests.application.helpers_line import Gates, Held, held
from tests.application.helpers_runtime import simulated, ticks

BEGIN = SeededOutside.WALL_TIME
"""10 o'clock, a Monday."""
ME = Asker(triggered_by="api", mcp_key_name="laptop")


class Prompt(Gates):
    """A model that answers at once."""

    def door(self, content: str) -> asyncio.Future[str | BaseException]:
        """An open one."""
        door = super().door(content)
        if not door.done():
            door.set_result("Well.")
        return door


class Later(SeededOutside):
    """The outside of a process that is started so many seconds later."""

    def __init__(self, seconds: float, seed: int = 1) -> None:
        super().__init__(seed)
        self.seconds = seconds

    def wall_time(self) -> float:
        """Then."""
        return BEGIN + self.seconds


class Wall(SeededOutside):
    """A wall clock in the test's hand."""

    at = BEGIN

    def wall_time(self) -> float:
        """What the hand says."""
        return self.at


def of(a: Held) -> Schedules:
    return a.line.schedules


async def records(a: Held) -> list[Execution]:
    """All executions, oldest first."""
    return (await a.line.book.page(ExecutionQuery(limit=500)))[::-1]


@asynccontextmanager
async def prompt(**options: Any) -> AsyncGenerator[Held, None]:
    async with held(model=Prompt(), **options) as a:
        yield a


# -- when ----------------------------------------------------------------------------------------


@simulated
async def test_an_interval_fires_each_time_and_its_records_say_so() -> None:
    async with prompt() as a:
        made = await of(a).add("a", "tick", every=60)
        assert (made.next_fire, made.last_fire) == (BEGIN + 60, None)
        await asyncio.sleep(181)

        found = await records(a)
        assert [one.queued_at - BEGIN for one in found] == [60, 120, 180]
        assert {(one.status, one.source, one.priority, one.kind) for one in found} == {
            ("completed", "schedule", "schedule", "task")
        }
        assert {one.triggered_by for one in found} == {f"schedule:{made.id}"}
        (told,) = await of(a).list("a")
        assert told.schedule.next_fire == BEGIN + 240
        assert told.schedule.last_fire == BEGIN + 180
        assert told.last == found[-1]
        lines = await a.line.timeline.read(ActivityQuery(agent_name="a"))
        assert [(one.kind, one.status) for one in lines] == [("schedule", "completed")] * 3


@simulated
async def test_a_cron_line_fires_at_its_times() -> None:
    async with prompt() as a:
        made = await of(a).add("a", "tea", cron="30 10-11 * * 1", kind="chat")
        assert made.next_fire == BEGIN + 1800
        await asyncio.sleep(7200)

        found = await records(a)
        assert [one.queued_at - BEGIN for one in found] == [1800, 5400]
        assert {one.session_id for one in found} == {"chat:a"}
        assert of(a).find("a", made.id).next_fire == BEGIN + 7 * 86_400 + 1800


@simulated
async def test_one_that_comes_sooner_is_not_held_up_by_one_that_comes_later() -> None:
    async with prompt() as a:
        await of(a).add("a", "late", every=10_000)
        await of(a).add("a", "soon", every=5)
        await asyncio.sleep(6)

        assert [one.message for one in await records(a)] == ["soon"]


@simulated
async def test_a_machine_that_slept_fires_soon_after_it_wakes() -> None:
    outside = Wall()
    async with prompt(outside=outside) as a:
        await of(a).add("a", "noon", cron="0 12 * * *")
        outside.at = BEGIN + 7200  # two hours asleep: the loop's clock stood still
        await asyncio.sleep(61)

        assert [one.message for one in await records(a)] == ["noon"]


@pytest.mark.fault("O11")
@simulated
async def test_a_wall_clock_that_is_set_back_fires_nothing_twice() -> None:
    outside = Wall()
    async with prompt(outside=outside) as a:
        await of(a).add("a", "tick", every=600)
        await asyncio.sleep(601)
        outside.at = BEGIN - 3600
        await asyncio.sleep(600)

        assert [one.queued_at - BEGIN for one in await records(a)] == [600, 1200]


# -- what cannot run -----------------------------------------------------------------------------


@simulated
async def test_a_fire_that_finds_the_line_full_is_a_skipped_record_with_the_reason() -> None:
    async with held(limits=LineLimits(waiting=0)) as a:
        one = await a.ask("one")
        made = await of(a).add("a", "tick", every=60, kind="chat")
        await asyncio.sleep(61)
        (skipped,) = [each for each in await records(a) if each.id != one.id]

        assert (skipped.status, skipped.error_code) == ("skipped", "capacity")
        assert skipped.error == "agent 'a' runs 1 and 0 wait"
        assert (skipped.source, skipped.triggered_by) == ("schedule", f"schedule:{made.id}")
        assert (skipped.started_at, skipped.finished_at) == (None, BEGIN + 60)
        (told,) = await of(a).list("a")
        assert (told.last, told.schedule.next_fire) == (skipped, BEGIN + 120)
        assert await a.line.check() == []
        a.model.open("one")
        await a.end(one)
        await asyncio.sleep(60)
        assert a.model.asked == ["one", "tick"], "the next fire finds room"


@simulated
async def test_one_that_is_off_has_no_next_fire_and_skips_what_is_triggered() -> None:
    async with prompt() as a:
        made = await of(a).add("a", "tick", every=60)
        off = await of(a).switch("a", made.id, on=False)
        await asyncio.sleep(600)
        triggered = await of(a).trigger("a", made.id, ME)

        assert (off.enabled, off.next_fire) == (False, None)
        assert (triggered.status, triggered.error_code) == ("skipped", "schedule_off")
        assert made.id in (triggered.error or "")
        assert await records(a) == [triggered]
        on = await of(a).switch("a", made.id, on=True)
        assert on.next_fire == BEGIN + 660
        await asyncio.sleep(61)
        assert [one.status for one in await records(a)] == ["skipped", "completed"]


@simulated
async def test_switching_to_what_it_is_moves_nothing() -> None:
    async with prompt() as a:
        made = await of(a).add("a", "tick", every=60)
        await asyncio.sleep(30)

        assert await of(a).switch("a", made.id, on=True) == made


@simulated
async def test_one_made_off_waits_to_be_turned_on() -> None:
    async with prompt() as a:
        made = await of(a).add("a", "tick", every=60, enabled=False)
        await asyncio.sleep(100)

        assert (made.enabled, made.next_fire, await records(a)) == (False, None, [])


@simulated
async def test_a_trigger_runs_now_says_who_asked_and_moves_no_time() -> None:
    async with prompt() as a:
        made = await of(a).add("a", "tick", every=60, model=None)
        await asyncio.sleep(10)
        triggered = await of(a).trigger("a", made.id, ME)
        done = await a.end(triggered)

        assert done.status == "completed"
        assert (done.source, done.triggered_by) == ("schedule", f"schedule:{made.id}")
        assert done.mcp_key_name == "laptop"
        (told,) = await of(a).list("a")
        assert (told.last, told.schedule.last_fire) == (done, BEGIN + 10)
        assert told.schedule.next_fire == BEGIN + 60


@simulated
async def test_one_that_is_taken_away_fires_no_more() -> None:
    async with prompt() as a:
        made = await of(a).add("a", "tick", every=60)
        await asyncio.sleep(61)
        await of(a).remove("a", made.id)
        await asyncio.sleep(600)

        assert len(await records(a)) == 1
        assert await of(a).list("a") == []


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({}, ScheduleRefused, "say when"),
        ({"cron": "* * * * *", "every": 5}, ScheduleRefused, "not both"),
        ({"cron": "often"}, ScheduleRefused, "five"),
        ({"cron": "* * * * *", "timezone": "Nowhere"}, ScheduleRefused, "zone"),
        ({"every": 5, "model": "scripted:/etc/passwd"}, NotAdmitted, "may not name"),
        ({"every": 5, "agent_name": "nobody"}, UnknownAgent, "nobody"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(
    fields: dict[str, Any], error: type[Exception], said: str
) -> None:
    async def main() -> None:
        async with prompt() as a:
            with pytest.raises(error, match=said):
                await of(a).add(**{"agent_name": "a", "message": "x", **fields})
            assert await of(a).list("a") == []

    simulate(main)


@simulated
async def test_an_agent_has_at_most_a_hundred() -> None:
    async with prompt() as a:
        for _ in range(100):
            await of(a).add("a", "tick", every=1e6)

        with pytest.raises(ScheduleRefused, match="100 schedules"):
            await of(a).add("a", "tick", every=1e6)


@simulated
async def test_what_is_unknown_and_what_is_anothers_read_alike() -> None:
    async with prompt() as a:
        made = await of(a).add("a", "tick", every=60)

        for name, key in (("a", "x"), ("b", made.id)):
            with pytest.raises(UnknownSchedule, match=f"has no schedule '{key}'"):
                await of(a).trigger(name, key, ME)


# -- what is stored ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "cron", "away", "expected"),
    [
        (60.0, None, 30.0, []),
        (60.0, None, 61.0, [("completed", None)]),
        (60.0, None, 100 * 3600.0 + 1, [("completed", None)]),  # the newest is not an hour old
        (86_400.0, None, 86_400.0 + 3599, [("completed", None)]),
        (86_400.0, None, 86_400.0 + 3700, [("skipped", "misfired")]),
        (None, "0 12 * * *", 3 * 3600.0 - 1, [("completed", None)]),
        (None, "0 12 * * *", 3 * 3600.0 + 1, [("skipped", "misfired")]),
        (None, "*/30 * * * *", 20 * 3600.0 + 1, [("completed", None)]),
    ],
)
def test_what_was_missed_within_an_hour_runs_once_and_else_is_skipped(
    every: float | None, cron: str | None, away: float, expected: list[Any]
) -> None:
    async def main() -> None:
        store = _Kept()
        async with prompt(store=store) as a:
            made = await of(a).add("a", "tick", every=every, cron=cron)
        async with prompt(store=store, outside=Later(away)) as a:
            await ticks(50)
            found = await records(a)

            assert [(one.status, one.error_code) for one in found] == expected
            (told,) = await of(a).list("a")
            assert told.schedule.id == made.id
            assert (told.schedule.next_fire or 0) > BEGIN + away

    simulate(main)


@simulated
async def test_a_crash_between_a_fire_and_its_next_time_runs_it_once() -> None:
    store = _Kept()
    async with prompt(store=store) as a:
        await of(a).add("a", "tick", every=60)
        (before,) = await store.records("schedule")
        await asyncio.sleep(61)
        assert len(await records(a)) == 1
    store.write([before])  # as if the next time had not been stored
    async with prompt(store=store, outside=Later(62)) as a:
        await ticks(50)

        assert len(await records(a)) == 1
        assert (await of(a).list("a"))[0].schedule.next_fire == BEGIN + 120


@simulated
async def test_one_that_cannot_be_read_holds_up_no_other() -> None:
    store = _Kept()
    async with prompt(store=store) as a:
        made = await of(a).add("a", "tick", every=60)
        (record,) = await store.records("schedule")
    store.write([type(record)("schedule", "bad", "a", "on", 1.0, b'{"id": 1}')])
    async with prompt(store=store, outside=Later(1)) as a:
        assert [told.schedule.id for told in await of(a).list("a")] == [made.id]


@simulated
async def test_one_that_cannot_be_stored_is_not_there() -> None:
    class Full(_Kept):
        async def sure(self, written: asyncio.Future[None]) -> None:
            raise StorageError("storage_full", "no space is left", "make room")

    store = Full()
    async with prompt(store=store) as a:
        with pytest.raises(StorageError):
            await of(a).add("a", "tick", every=60)

        assert await of(a).list("a") == []
        assert await store.records("schedule") == []


class _Kept(MemoryStore):
    """A store that is there again when its process is started anew."""

    async def close(self) -> None:
        """Stay open."""
