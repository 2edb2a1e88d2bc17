"""The simulated loop: time passes only when nothing else can, and chance comes in from outside.

asyncio with itself as selector. A `select` that would wait means that everything is quiet: then
the virtual clock jumps to the next timer, so an hour of time-outs costs a millisecond, and a run is
the same each time. `choose` picks which of the ready callbacks goes next, so one seed is one
interleaving. Threads are real: where they run, the order is theirs.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

from agent_lab.domain.errors import AgentLabError

Choose = Callable[[int], int]
"""Given how many callbacks are ready, two at least, the index of the one that goes next."""

_POLL = 0.005
"""Real seconds between two looks whether a thread is still alive."""


class Deadlock(AgentLabError):
    """Nothing can happen any more and somebody waits; the text says who waits where."""


class _Ready(deque[asyncio.Handle]):
    """The loop's ready callbacks; the next one is chosen, not the oldest."""

    def __init__(self, choose: Choose) -> None:
        super().__init__()
        self._choose = choose

    def popleft(self) -> asyncio.Handle:
        """The chosen callback. A thread may append meanwhile, which moves no index."""
        index = self._choose(len(self)) if len(self) > 1 else 0
        handle = self[index]
        del self[index]
        return handle


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop whose clock is virtual, begins at 0 and jumps from timer to timer.

    Without `choose` callbacks go first in, first out. A thread that was started on its watch holds
    the clock until it wakes the loop, for at most `patience` real seconds; then it counts as stuck.
    Sockets and child processes there are none. Raises Deadlock where another loop would wait for
    ever.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float
    _stopping: bool

    def __init__(self, choose: Choose | None = None, *, patience: float = 5.0) -> None:
        super().__init__()
        self._selector = self
        self._now = 0.0
        self._patience = patience
        self._bell = threading.Condition()
        self._strangers = set(threading.enumerate())
        self._stuck: set[threading.Thread] = set()
        if choose is not None:
            self._ready = _Ready(choose)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Called by the loop before each round of callbacks, to learn what came from outside."""
        if self._ready or self._stopping or self._thread_rings():
            return []
        if not self._scheduled:
            raise Deadlock(_who_waits(asyncio.all_tasks(self), self._threads()))
        due = self._scheduled[0].when()
        # A timer that is due already fired too early for its owner, by rounding: time must move.
        self._now = due if due > self._now else self._now + self._clock_resolution
        return []

    def run_in_executor(
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """As usual, but in a thread that ends with its work, so that it is not waited for idle."""
        own = executor or ThreadPoolExecutor(1)
        future = super().run_in_executor(own, func, *args)
        if executor is None:
            own.shutdown(wait=False)
        return future

    def _thread_rings(self) -> bool:
        """Wait for a thread to wake the loop; False if none is there, or none has the grace to."""
        patience = self._patience
        with self._bell:
            while not self._ready:
                threads = self._threads() - self._stuck
                if not threads or patience <= 0:
                    self._stuck |= threads
                    return False
                self._bell.wait(_POLL)
                patience -= _POLL
        return True

    def _threads(self) -> set[threading.Thread]:
        return set(threading.enumerate()) - self._strangers

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing comes from outside but what threads append to the ready callbacks."""

    def _write_to_self(self) -> None:
        with self._bell:
            self._bell.notify()


def _who_waits(tasks: set[asyncio.Task[Any]], threads: set[threading.Thread]) -> str:
    waiting = sorted(f"{task.get_name()!r} at {_where(task)}" for task in tasks)
    waiting += sorted(f"thread {thread.name!r} lives" for thread in threads)
    return (
        "nothing is ready and no timer is set, so nothing can ever happen; waiting: "
        f"{'; '.join(waiting) or 'nobody'}. Look who should have woken them"
    )


def _where(task: asyncio.Task[Any]) -> str:
    """The chain of awaits of a task, outermost first."""
    places: list[str] = []
    step: Any = task.get_coro()
    while step is not None:
        frame = _first(step, "cr_frame", "ag_frame", "gi_frame")
        if frame is not None:
            places.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        step = _first(step, "cr_await", "ag_await", "gi_yieldfrom")
    return " > ".join(places) or "its start"


def _first(step: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(step, name, None)) is not None), None)
