"""What `/api` is asked and answers about schedules, in shapes."""

from typing import Annotated, Literal

import msgspec

from agent_lab.application.schedules import Told
from agent_lab.domain.execution import Kind, Status
from agent_lab.presentation.line_shapes import Body, ModelName, Seconds, Text
from agent_lab.presentation.views import timestamp

CronLine = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Zone = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Every = Annotated[float, msgspec.Meta(ge=1, le=366 * 86_400)]


class ScheduleBody(Body, frozen=True, kw_only=True):
    """`POST …/schedules`: `cron`, in `timezone`, or `every_seconds`."""

    message: Text
    cron: CronLine | None = None
    every_seconds: Every | None = None
    timezone: Zone = "UTC"
    kind: Kind = "task"
    model: ModelName | None = None
    timeout_seconds: Seconds | None = None
    enabled: bool = True


class LastResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the newest fire; `status` is `skipped` when it could not run."""

    execution_id: str
    status: Status
    at: str
    finished_at: str | None
    response: str | None
    error: str | None
    error_code: str | None


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule. `next_fire` is null while it is off, and when its calendar has no more."""

    id: str
    agent_name: str
    message: str
    kind: Kind
    cron: str | None
    every_seconds: float | None
    timezone: str
    model: str | None
    timeout_seconds: float | None
    enabled: bool
    created_at: str
    next_fire: str | None
    last_fire: str | None
    last_result: LastResult | None


class ScheduleList(msgspec.Struct, frozen=True, kw_only=True):
    """The schedules of an agent, oldest first."""

    schedules: list[ScheduleView]


class Triggered(msgspec.Struct, frozen=True, kw_only=True):
    """It fired; `skipped` with the reason in `error` when that could not run."""

    status: Literal["triggered", "skipped"]
    schedule_id: str
    execution_id: str
    agent: str
    error: str | None
    error_code: str | None


class RemovedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """It is gone; what it has asked for goes on."""

    status: Literal["removed"] = "removed"
    schedule_id: str
    agent: str


def schedule_view(told: Told) -> ScheduleView:
    """The schedule as it is told."""
    one, last = told.schedule, told.last
    return ScheduleView(
        id=one.id,
        agent_name=one.agent_name,
        message=one.message,
        kind=one.kind,
        cron=one.cron,
        every_seconds=one.every,
        timezone=one.timezone,
        model=one.model,
        timeout_seconds=one.run_limit,
        enabled=one.enabled,
        created_at=timestamp(one.created_at),
        next_fire=_stamp(one.next_fire),
        last_fire=_stamp(one.last_fire),
        last_result=last
        and LastResult(
            execution_id=last.id,
            status=last.status,
            at=timestamp(last.queued_at),
            finished_at=_stamp(last.finished_at),
            response=last.response,
            error=last.error,
            error_code=last.error_code,
        ),
    )


def _stamp(wall: float | None) -> str | None:
    return None if wall is None else timestamp(wall)
