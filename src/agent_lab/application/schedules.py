"""Schedules: they ask an agent at their times, through its line like anybody else.

The calendar says when; one alarm on the line's clock waits for the next that is due. What could not
run leaves a record all the same: `skipped`, with the reason.
"""

import asyncio
from typing import Protocol

import msgspec

from agent_lab.application.clock import SessionClock
from agent_lab.application.logs import log
from agent_lab.application.ports import Outside, Store
from agent_lab.domain.errors import AgentLabError, NotAdmitted, StorageError
from agent_lab.domain.execution import Asker, Execution, Kind, Outcome
from agent_lab.domain.records import Record, Removed, encode
from agent_lab.domain.schedule import (
    MOST,
    Calendar,
    Schedule,
    ScheduleRefused,
    UnknownSchedule,
    fired,
    switched,
)

LOOK = 60.0
"""Seconds after which the wall clock is looked at again, in case the machine slept."""


class Fire(msgspec.Struct, frozen=True):
    """What a schedule asks for at one of its times, or because somebody triggered it.

    With a `key` it runs once, however often it is asked for.
    """

    schedule: Schedule
    by: Asker
    key: str | None = None


class Told(msgspec.Struct, frozen=True):
    """A schedule, and the record of its newest fire: None if there was none, or it is gone."""

    schedule: Schedule
    last: Execution | None


class FireLine(Protocol):
    """What schedules need of the line."""

    clock: SessionClock

    def wall(self) -> float:
        """Wall seconds."""
        ...

    def check(self, agent_name: str, model: str | None) -> str:
        """The agent's name; raises UnknownAgent, and NotAdmitted for a model it cannot have."""
        ...

    async def submit(self, fire: Fire) -> Execution:
        """The accepted execution; raises NotAdmitted, StorageError."""
        ...

    def skip(self, fire: Fire, outcome: Outcome) -> Execution:
        """A record of what did not run."""
        ...

    def changed(self, agent_name: str) -> None:
        """Tell who looks on that there is news of this agent."""
        ...

    async def execution(self, agent_name: str, execution_id: str) -> Execution | None:
        """The record, if it is kept."""
        ...


class Schedules:
    """All schedules of this process, by id. With a store they outlive it."""

    def __init__(self, calendar: Calendar, outside: Outside, store: Store | None) -> None:
        self._calendar = calendar
        self._outside = outside
        self._store = store
        self._all: dict[str, Schedule] = {}
        self._firing: set[str] = set()

    async def open(self, line: FireLine, group: asyncio.TaskGroup) -> None:
        """Begin with those that are stored; a fire that was missed for less than an hour runs."""
        self._line = line
        self._group = group
        if self._store is not None:
            for record in await self._store.records("schedule", limit=10_000):
                try:
                    found = msgspec.json.decode(record.body, type=Schedule)
                except msgspec.MsgspecError:
                    log.exception("schedule %s cannot be read", record.id)
                else:
                    self._all[found.id] = found
        self._look()

    # -- what there is ---------------------------------------------------------------------------

    async def list(self, agent_name: str) -> "list[Told]":
        """Those of this agent, oldest first; raises UnknownAgent, StorageError."""
        name = self._line.check(agent_name, None)
        mine = [one for one in self._all.values() if one.agent_name == name]
        mine.sort(key=lambda schedule: (schedule.created_at, schedule.id))
        return [await self.told(one) for one in mine]

    async def told(self, schedule: Schedule) -> Told:
        """With what came of its newest fire."""
        key = schedule.last_execution
        last = await self._line.execution(schedule.agent_name, key) if key is not None else None
        return Told(schedule, last)

    def find(self, agent_name: str, schedule_id: str) -> Schedule:
        """The schedule; raises UnknownSchedule."""
        found = self._all.get(schedule_id)
        if found is None or found.agent_name != agent_name:
            raise UnknownSchedule(schedule_id, agent_name)
        return found

    # -- what a hand does ------------------------------------------------------------------------

    async def add(
        self,
        agent_name: str,
        message: str,
        *,
        cron: str | None = None,
        every: float | None = None,
        timezone: str = "UTC",
        kind: Kind = "task",
        model: str | None = None,
        run_limit: float | None = None,
        enabled: bool = True,
    ) -> Schedule:
        """A new one, stored when this returns. `cron` or `every` (seconds, 1 at least) says when.

        Raises UnknownAgent, ScheduleRefused, NotAdmitted for a model that cannot be had, and
        StorageError.
        """
        name = self._line.check(agent_name, model)
        if (cron is None) == (every is None):
            raise ScheduleRefused("say when: `cron` or an interval, and not both")
        if sum(one.agent_name == name for one in self._all.values()) >= MOST:
            raise ScheduleRefused(f"agent {name!r} has {MOST} schedules; take one away first")
        now = self._now()
        schedule = Schedule(
            id=self._outside.new_id("sched"),
            agent_name=name,
            message=message,
            created_at=now,
            kind=kind,
            cron=cron,
            every=every,
            timezone=timezone,
            model=model,
            run_limit=run_limit,
            enabled=True,
        )
        schedule = msgspec.structs.replace(
            schedule, next_fire=schedule.first_behind(now, self._calendar)
        )
        if not enabled:
            schedule = switched(schedule, on=False, now=now, calendar=self._calendar)
        await self._keep(schedule)
        return schedule

    async def switch(self, agent_name: str, schedule_id: str, *, on: bool) -> Schedule:
        """Turn it on or off; raises UnknownSchedule, StorageError."""
        found = self.find(agent_name, schedule_id)
        changed = switched(found, on=on, now=self._now(), calendar=self._calendar)
        await self._keep(changed)
        return changed

    async def remove(self, agent_name: str, schedule_id: str) -> None:
        """Take it away; what it has asked for goes on. Raises UnknownSchedule, StorageError."""
        found = self.find(agent_name, schedule_id)
        if self._store is not None:
            await self._store.sure(self._store.write([Removed("schedule", found.id)]))
        self._all.pop(found.id, None)
        self._line.changed(found.agent_name)

    async def trigger(self, agent_name: str, schedule_id: str, by: Asker) -> Execution:
        """Have it fire now, whatever its times; the execution, `skipped` if it could not be.

        Raises UnknownSchedule, StorageError.
        """
        found = self.find(agent_name, schedule_id)
        by = msgspec.structs.replace(by, source="schedule", triggered_by=f"schedule:{found.id}")
        execution = await self._ask(Fire(found, by))
        now = self._all.get(found.id)
        if now is not None:
            await self._keep(fired(now, execution.id, at=self._now()))
        return execution

    # -- time ------------------------------------------------------------------------------------

    def _now(self) -> float:
        """Wall seconds, also when the machine slept and the loop's clock stood still."""
        return max(self._line.wall(), self._outside.wall_time())

    def _look(self) -> None:
        """Fire what is due, and wait for the next."""
        now = self._now()
        for schedule in self._all.values():
            if schedule.is_due(now) and schedule.id not in self._firing:
                self._firing.add(schedule.id)
                self._group.create_task(self._fire(schedule, now), name=f"fire {schedule.id}")
        self._wait(now)

    def _wait(self, now: float) -> None:
        times = [one.next_fire for one in self._all.values() if one.id not in self._firing]
        due = [time for time in times if time is not None]
        if due:
            delay = min(max(min(due) - now, 0.0), LOOK)
            self._line.clock.set("schedules", delay, self._look)
        else:
            self._line.clock.clear("schedules")

    async def _fire(self, schedule: Schedule, now: float) -> None:
        """Ask for what is due. The next time is stored behind that: a crash between the two fires
        it again, and the key has it run once."""
        done = schedule
        try:
            due = schedule.newest_missed(now, self._calendar)
            key = f"schedule {schedule.id} {schedule.next_fire if due is None else due:.3f}"
            by = Asker(source="schedule", triggered_by=f"schedule:{schedule.id}")
            execution = await self._ask(Fire(schedule, by, key), is_late=due is None)
            done = fired(self._all.get(schedule.id, schedule), execution.id, at=now)
        except AgentLabError:  # the store fails: its next time comes
            log.exception("schedule %s did not fire", schedule.id)
        finally:
            self._firing.discard(schedule.id)
            if schedule.id in self._all:
                following = done.first_behind(self._now(), self._calendar)
                self._put(msgspec.structs.replace(done, next_fire=following))
        self._look()

    async def _ask(self, fire: Fire, *, is_late: bool = False) -> Execution:
        schedule = self._all.get(fire.schedule.id, fire.schedule)
        if not schedule.enabled:
            said = f"schedule {schedule.id!r} is off"
            return self._skip(fire, said, "schedule_off")
        if is_late:
            said = "its time passed more than an hour ago, while nobody was here to run it"
            return self._skip(fire, said, "misfired")
        try:
            return await self._line.submit(fire)
        except NotAdmitted as refusal:
            return self._skip(fire, str(refusal), refusal.code)

    def _skip(self, fire: Fire, why: str, code: str) -> Execution:
        return self._line.skip(fire, Outcome(status="skipped", error=why, error_code=code))

    # -- keeping ---------------------------------------------------------------------------------

    async def _keep(self, schedule: Schedule) -> None:
        """Put it, and return once it is stored; raises StorageError, and then nothing changed."""
        before = self._all.get(schedule.id)
        stored = self._put(schedule)
        if self._store is not None and stored is not None:
            try:
                await self._store.sure(stored)
            except StorageError:
                if before is not None:
                    self._put(before)
                else:
                    del self._all[schedule.id]
                    self._store.write([Removed("schedule", schedule.id)])
                raise
        self._wait(self._now())

    def _put(self, schedule: Schedule) -> "asyncio.Future[None] | None":
        self._all[schedule.id] = schedule
        self._line.changed(schedule.agent_name)
        if self._store is None:
            return None
        state, at = "on" if schedule.enabled else "off", schedule.created_at
        name, body = schedule.agent_name, encode(schedule)
        return self._store.write([Record("schedule", schedule.id, name, state, at, body)])
