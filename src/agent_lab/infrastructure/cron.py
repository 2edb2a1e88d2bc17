"""The calendar of schedules: APScheduler's CronTrigger says when a cron line fires."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol, cast
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger  # type: ignore[reportMissingTypeStubs]  # none

from agent_lab.domain.schedule import ScheduleRefused


class _Trigger(Protocol):
    """What is used of CronTrigger, which has no types."""

    def get_next_fire_time(self, previous: None, now: datetime, /) -> datetime | None: ...


_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_TERM = re.compile(r"(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>[0-9]+))?")
_FIELDS = ("minute", "hour", "day", "month", "day_of_week")


def next_fire(line: str, zone: str, after: float) -> float | None:
    """See domain.schedule.Calendar. `after` and the answer are wall seconds.

    As cron has it, Sunday is 0 and 7, and of a day of the month and one of the week that are both
    named either will do.
    """
    moment = datetime.fromtimestamp(after, UTC) + timedelta(microseconds=1)
    fires = [trigger.get_next_fire_time(None, moment) for trigger in _triggers(line, zone)]
    times = [fire.timestamp() for fire in fires if fire is not None]
    return min(times) if times else None


@lru_cache(256)
def _triggers(line: str, zone: str) -> tuple[_Trigger, ...]:
    try:
        timezone = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise ScheduleRefused(
            f"there is no time zone {zone!r}; name one such as UTC or Europe/Oslo"
        ) from None
    said = line.split()
    if len(said) != len(_FIELDS):
        raise ScheduleRefused(
            f"{line!r} has {len(said)} fields; a cron line has five: minute, hour, day of the "
            "month, month, day of the week, such as `0 9 * * 1-5`"
        )
    try:
        fields = dict(zip(_FIELDS, said, strict=True))
        fields["day_of_week"] = _days(fields["day_of_week"])
        each = [fields]
        if not fields["day"].startswith("*") and fields["day_of_week"] != "*":
            each = [fields | {"day": "*"}, fields | {"day_of_week": "*"}]
        return tuple(cast("_Trigger", CronTrigger(timezone=timezone, **one)) for one in each)
    except (ValueError, OverflowError) as error:
        raise ScheduleRefused(f"{line!r} is no cron line: {error}") from error


def _days(field: str) -> str:
    """Days of the week by name: APScheduler counts them from Monday, cron from Sunday."""
    if field == "*":
        return field
    named: list[str] = []
    for term in field.lower().split(","):
        found = _TERM.fullmatch(term)
        if found is None:
            raise ValueError(f"{term!r} is no day of the week")
        first, last, step = found["first"], found["last"], int(found["step"] or 1)
        begin = _day(first) if first else 0
        end = _day(last) if last else begin if first and not found["step"] else 6
        if step < 1 or end < begin:
            raise ValueError(f"{term!r} names no day of the week")
        named += [_DAYS[day % 7] for day in range(begin, end + 1, step)]
    return ",".join(dict.fromkeys(named))


def _day(said: str) -> int:
    if said in _DAYS:
        return _DAYS.index(said)
    if said in ("0", "1", "2", "3", "4", "5", "6", "7"):
        return int(said)
    raise ValueError(f"{said!r} is no day of the week")
