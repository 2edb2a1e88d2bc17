"""The session's clock: many deadlines, one timer, and time that can stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_lab.application.clock import SessionClock
from agent_lab.testing import simulate

Play = Callable[[SessionClock, list[tuple[str, float]]], Awaitable[None]]


def rung(play: Play) -> list[tuple[str, float]]:
    """Which alarms rang, and when on the session's clock."""

    async def main() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        clock, heard = SessionClock(loop, loop.time), list[tuple[str, float]]()
        await play(clock, heard)
        return heard

    return simulate(main)


def alarm(
    clock: SessionClock, heard: list[tuple[str, float]], name: str, delay: float
) -> Callable[[], None]:
    return lambda: clock.set(name, delay, lambda: heard.append((name, clock.now())))


def test_alarms_ring_in_order_of_their_deadlines() -> None:
    async def play(clock: SessionClock, heard: list[tuple[str, float]]) -> None:
        for name, delay in (("c", 3), ("a", 1), ("b", 2), ("too", 2)):
            alarm(clock, heard, name, delay)()
        await asyncio.sleep(9)

    assert rung(play) == [("a", 1), ("b", 2), ("too", 2), ("c", 3)]


def test_a_cleared_alarm_is_silent_and_a_key_has_one_alarm() -> None:
    async def play(clock: SessionClock, heard: list[tuple[str, float]]) -> None:
        alarm(clock, heard, "gone", 1)()
        alarm(clock, heard, "moved", 1)()
        clock.clear("gone")
        clock.clear("never set")
        alarm(clock, heard, "moved", 5)()
        await asyncio.sleep(9)

    assert rung(play) == [("moved", 5)]


def test_paused_time_is_in_no_deadline() -> None:
    async def play(clock: SessionClock, heard: list[tuple[str, float]]) -> None:
        alarm(clock, heard, "limit", 10)()
        await asyncio.sleep(4)
        clock.pause()
        clock.pause()
        await asyncio.sleep(3600)
        assert (clock.now(), heard) == (4, [])
        clock.resume()
        clock.resume()
        await asyncio.sleep(5.5)
        assert heard == []
        await asyncio.sleep(0.5)

    assert rung(play) == [("limit", 10)]


def test_an_alarm_set_while_time_stands_still_rings_after_it_goes_on() -> None:
    async def play(clock: SessionClock, heard: list[tuple[str, float]]) -> None:
        clock.pause()
        alarm(clock, heard, "limit", 2)()
        await asyncio.sleep(60)
        clock.resume()
        await asyncio.sleep(2)

    assert rung(play) == [("limit", 2)]


def test_an_alarm_may_set_and_clear_others() -> None:
    async def play(clock: SessionClock, heard: list[tuple[str, float]]) -> None:
        alarm(clock, heard, "victim", 1)()
        clock.set("first", 0.5, lambda: (clock.clear("victim"), alarm(clock, heard, "next", 2)()))
        await asyncio.sleep(9)

    assert rung(play) == [("next", 2.5)]


def test_one_loop_timer_serves_all_deadlines() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        clock = SessionClock(loop, loop.time)
        for key in range(100):
            clock.set(key, 10 + key, int)
        return len(loop._scheduled)  # type: ignore[attr-defined]  # the loop's timers

    assert simulate(main) == 1


def test_a_stopped_clock_rings_no_more() -> None:
    async def play(clock: SessionClock, heard: list[tuple[str, float]]) -> None:
        alarm(clock, heard, "limit", 1)()
        clock.stop()
        await asyncio.sleep(9)

    assert rung(play) == []


def test_a_cancelled_sleep_leaves_no_alarm() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        clock = SessionClock(loop, loop.time)
        sleeper = loop.create_task(clock.sleep("nap", 5))
        await asyncio.sleep(1)
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper
        await clock.sleep("nap", 3)
        return [clock.now(), loop.time()]

    assert simulate(main) == [4, 4]


@given(
    st.lists(st.floats(0, 10), min_size=1, max_size=8),
    st.lists(st.floats(0, 10), max_size=6),
)
def test_each_alarm_rings_once_and_on_time_whatever_is_paused(
    delays: list[float], pauses: list[float]
) -> None:
    async def play(clock: SessionClock, heard: list[tuple[str, float]]) -> None:
        for number, delay in enumerate(delays):
            alarm(clock, heard, str(number), delay)()
        for number, seconds in enumerate(pauses):
            (clock.resume if number % 2 else clock.pause)()
            await asyncio.sleep(seconds)
        clock.resume()
        await asyncio.sleep(20)

    heard = rung(play)
    assert sorted(name for name, _ in heard) == sorted(map(str, range(len(delays))))
    for name, at in heard:
        assert at == pytest.approx(delays[int(name)], abs=1e-6)
