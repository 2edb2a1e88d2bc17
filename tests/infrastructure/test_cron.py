"""Cron lines: when they fire, in which zone, and what is none."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from agent_lab.domain.schedule import ScheduleRefused
from agent_lab.infrastructure.cron import next_fire

UTC = "UTC"


def at(said: str, zone: str = UTC) -> float:
    return datetime.fromisoformat(said).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("line", "after", "fires"),
    [
        ("* * * * *", "2026-11-30 10:00:00", "2026-11-30 10:01:00"),
        ("* * * * *", "2026-11-30 10:00:30", "2026-11-30 10:01:00"),
        ("*/15 9-17 * * *", "2026-11-30 17:45:00", "2026-12-01 09:00:00"),
        ("0 9 * * 1", "2026-11-30 10:00:00", "2026-12-07 09:00:00"),  # Mondays
        ("0 9 * * 0", "2026-11-30 10:00:00", "2026-12-06 09:00:00"),  # Sundays
        ("0 9 * * 7", "2026-11-30 10:00:00", "2026-12-06 09:00:00"),
        ("0 9 * * 1-5", "2026-12-04 10:00:00", "2026-12-07 09:00:00"),  # not on a Saturday
        ("0 9 * * sat,SUN", "2026-12-04 10:00:00", "2026-12-05 09:00:00"),
        ("0 9 * * 5-7", "2026-12-05 10:00:00", "2026-12-06 09:00:00"),
        ("0 9 * * */3", "2026-11-30 10:00:00", "2026-12-02 09:00:00"),  # sun, wed, sat
        ("0 0 13 * 5", "2026-11-30 10:00:00", "2026-12-04 00:00:00"),  # a Friday, or the 13th
        ("0 0 13 * 5", "2026-12-12 00:00:00", "2026-12-13 00:00:00"),
        ("0 0 29 2 *", "2026-11-30 10:00:00", "2028-02-29 00:00:00"),
    ],
)
def test_a_line_fires_as_cron_has_it(line: str, after: str, fires: str) -> None:
    assert next_fire(line, UTC, at(after)) == at(fires)


def test_a_zone_is_that_of_its_wall_clocks() -> None:
    oslo = "Europe/Oslo"

    assert next_fire("0 9 * * *", oslo, at("2026-06-01 10:00", oslo)) == at("2026-06-02 07:00")
    assert next_fire("0 9 * * *", oslo, at("2026-11-30 10:00", oslo)) == at("2026-12-01 08:00")


def test_an_hour_that_comes_twice_fires_each_time_and_one_that_does_not_come_moves_on() -> None:
    oslo = "Europe/Oslo"
    twice, times = at("2026-10-25 00:00"), list[float]()
    for _ in range(2):
        times.append(twice := next_fire("30 2 * * *", oslo, twice) or 0)

    assert times == [at("2026-10-25 00:30"), at("2026-10-25 01:30")]
    missing = next_fire("30 2 * * *", oslo, at("2026-03-28 12:00", oslo))
    assert missing == at("2026-03-29 01:30")


def test_a_date_that_never_comes_fires_never() -> None:
    assert next_fire("0 0 30 2 *", UTC, at("2026-11-30 10:00")) is None


@pytest.mark.parametrize(
    "line",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *",
     "* * * * 8", "* * * * mon-sun-tue", "* * * * 3-1", "* * * * x", "*/0 * * * *",
     "* * * * */0", "a b c d e", "* * * * 1,,2", "@daily", "99999999999999999999 * * * *"],
)  # fmt: skip
def test_what_is_no_cron_line_is_refused_with_a_reason(line: str) -> None:
    with pytest.raises(ScheduleRefused) as caught:
        next_fire(line, UTC, 0)
    assert str(caught.value)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "/etc/passwd", "x\0y"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(ScheduleRefused, match="no time zone"):
        next_fire("* * * * *", zone, 0)
