"""A schedule: what is said to an agent, and when. Pure; what a calendar says comes in."""

import math
from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec

from agent_lab.domain.errors import ExecutionError
from agent_lab.domain.execution import Kind

MISFIRE = 3600.0
"""Seconds by which a fire may be late and still runs."""
MOST = 100
"""Schedules of one agent."""
Calendar: TypeAlias = Callable[[str, str, float], float | None]
"""The first moment behind a wall time at which a cron line fires in a time zone; None for never.

Raises ScheduleRefused for a line or a zone that is none.
"""


class UnknownSchedule(ExecutionError):
    """No schedule has this id, or none of this agent's; both read alike."""

    def __init__(self, schedule_id: str, agent: str) -> None:
        super().__init__(
            f"agent {agent!r} has no schedule {schedule_id!r}; its schedules are listed at "
            f"/api/agents/{agent}/schedules"
        )


class ScheduleRefused(ExecutionError):
    """A schedule that cannot be; the text says why and what to write instead."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """`cron` has five fields, in `timezone`; or `every` has seconds. Times are wall seconds.

    `next_fire` is None while it is off, and when the calendar has no more. `last_execution` is
    that of the newest fire, or of who triggered it.
    """

    id: str
    agent_name: str
    message: str
    created_at: float
    kind: Kind = "task"
    cron: str | None = None
    every: Annotated[float, msgspec.Meta(ge=1)] | None = None
    timezone: str = "UTC"
    model: str | None = None
    run_limit: float | None = None
    enabled: bool = True
    next_fire: float | None = None
    last_fire: float | None = None
    last_execution: str | None = None

    def first_behind(self, now: float, calendar: Calendar) -> float | None:
        """When it fires next, if it is on; an interval counts from the fire that is due."""
        if not self.enabled:
            return None
        if self.every is None:
            return calendar(self.cron or "", self.timezone, now)
        since = now if self.next_fire is None else self.next_fire
        return since + self.every * max(math.floor((now - since) / self.every) + 1, 1)

    def is_due(self, now: float) -> bool:
        """Whether it is to fire."""
        return self.next_fire is not None and self.next_fire <= now

    def newest_missed(self, now: float, calendar: Calendar) -> float | None:
        """Of the fires that are due the one that runs for all of them: one that is within MISFIRE.

        None when all are older.
        """
        due = self.next_fire
        if due is None or due > now - MISFIRE:
            return due
        if self.every is not None:
            due += self.every * math.floor((now - due) / self.every)
            return due if due > now - MISFIRE else None
        found = calendar(self.cron or "", self.timezone, now - MISFIRE)
        return found if found is not None and found <= now else None


def switched(schedule: Schedule, *, on: bool, now: float, calendar: Calendar) -> Schedule:
    """The schedule on or off; one that is so already stays as it is."""
    if schedule.enabled == on:
        return schedule
    changed = msgspec.structs.replace(schedule, enabled=on, next_fire=None)
    return msgspec.structs.replace(changed, next_fire=changed.first_behind(now, calendar))


def fired(schedule: Schedule, execution_id: str | None, *, at: float) -> Schedule:
    """The schedule with its newest fire on record."""
    return msgspec.structs.replace(schedule, last_fire=at, last_execution=execution_id)
