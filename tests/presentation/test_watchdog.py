"""A loop that is blocked is reported from beside it, and signals are heard all the same."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from agent_lab.presentation.watchdog import WatchdogLimits, watched

QUICK = WatchdogLimits(look=0.02, blocked=0.05, hint=0.1, patience=0.15)


class Heard:
    """What the watchdog says and does."""

    def __init__(self, *, limits: WatchdogLimits = QUICK) -> None:
        self.said: list[str] = []
        self.left: list[int] = []
        self.many = threading.Semaphore(0)
        self.first = asyncio.Event()
        self.changed = threading.Event()
        self.watch = watched(self.first.set, leave=self._leave, say=self._say, limits=limits)

    def _say(self, text: str) -> None:
        self.said.append(text)
        self.many.release()

    def _leave(self, code: int) -> None:
        self.left.append(code)
        self.changed.set()


def block_until(heard: threading.Event) -> None:
    """What a bad tool does: nothing else runs meanwhile."""
    assert heard.wait(5)


@pytest.mark.fault("R10")
async def test_a_blocked_loop_is_reported_with_its_place_and_then_a_way_out() -> None:
    heard = Heard()
    with heard.watch:
        for _ in range(2):  # the loop stands still meanwhile
            assert heard.many.acquire(timeout=5)
        assert await asyncio.to_thread(heard.many.acquire, timeout=5)

    blocked, hint, again = heard.said
    assert blocked.startswith("loop_blocked: ") and "test_watchdog.py" in blocked
    assert "test_a_blocked_loop" in blocked
    assert "run_process" in hint
    assert again.startswith("the loop runs again")
    assert heard.left == []


async def test_a_loop_that_runs_is_not_reported() -> None:
    heard = Heard()
    with heard.watch:
        await asyncio.sleep(QUICK.blocked * 1.5)

    assert heard.said == []


@pytest.mark.fault("O02")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_is_handed_to_the_loop(number: signal.Signals) -> None:
    heard = Heard()
    before = signal.getsignal(number)
    with heard.watch:
        os.kill(os.getpid(), number)
        await asyncio.wait_for(heard.first.wait(), 5)

    assert heard.left == []
    assert signal.getsignal(number) is before


@pytest.mark.fault("O03")
@pytest.mark.fault("R10")
async def test_the_second_signal_leaves_although_the_loop_is_blocked() -> None:
    heard = Heard(limits=WatchdogLimits(patience=60))
    with heard.watch:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        block_until(heard.changed)

    assert heard.left == [130]
    assert not heard.first.is_set()


@pytest.mark.fault("R10")
async def test_one_signal_that_the_loop_does_not_hear_leaves_after_a_while() -> None:
    heard = Heard()
    with heard.watch:
        os.kill(os.getpid(), signal.SIGTERM)
        block_until(heard.changed)

    assert heard.left[0] == 1
    assert "does not hear" in heard.said[-1]
