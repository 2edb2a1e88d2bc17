"""A thread that sees a blocked loop, and signals while the loop is blocked (R10, O03).

A tool that blocks the loop (`time.sleep` in an `async def`) blocks all handlers on it. Signals are
written to a socket by the interpreter the moment they come (`signal.set_wakeup_fd`), and this
thread reads them there: the first is handed to the loop, the second ends the process.
"""

import asyncio
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import msgspec

Say = Callable[[str], object]


class WatchdogLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    look: float = 0.1
    """Between two looks at the loop."""
    blocked: float = 0.5
    """A loop that does not answer for so long is reported."""
    hint: float = 10.0
    """And again after so long, with what to do."""
    patience: float = 4.0
    """A signal that a blocked loop does not obey for so long ends the process."""


class Watchdog:
    """Watches one loop, from a thread of its own."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        first: Callable[[], object],
        leave: Callable[[int], object],
        say: Say,
        limits: WatchdogLimits,
    ) -> None:
        self._loop = loop
        self._first = first
        self._leave = leave
        self._say = say
        self._limits = limits
        self._whose = threading.get_ident()
        self._asked_at = time.monotonic()
        self._is_answered = True
        self._said = 0
        self._blocked_for = 0.0
        self._signalled_at: float | None = None
        self._is_obeyed = self._is_over = False
        self._inbox, self._signals = socket.socketpair()
        self._inbox.setblocking(False)
        self._signals.setblocking(False)
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> int:
        """Start the thread; the file descriptor that signals are to be written to."""
        self._thread.start()
        return self._signals.fileno()

    def stop(self) -> None:
        """End the thread."""
        self._is_over = True
        self._signals.send(b"\0")
        self._thread.join()
        self._inbox.close()
        self._signals.close()

    def _watch(self) -> None:
        looked = time.monotonic()
        while not self._is_over:
            select.select([self._inbox], [], [], self._limits.look)
            now = time.monotonic()
            if now - looked > 1 + self._limits.look:  # we were stopped too, or the lid was closed
                self._asked_at = now
            looked = now
            with suppress(BlockingIOError):
                for number in self._inbox.recv(64):
                    self._take(number)
            with suppress(RuntimeError):  # the loop is closed
                self._look(now)

    def _take(self, number: int) -> None:
        if number not in (signal.SIGINT, signal.SIGTERM):
            return
        if self._signalled_at is not None:
            self._leave(130)
        else:
            self._signalled_at = time.monotonic()
            if self._said:
                self._say("the loop is blocked and may not hear that; once more leaves at once")
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._obey)

    def _obey(self) -> None:
        self._is_obeyed = True
        self._first()

    def _look(self, now: float) -> None:
        blocked = now - self._asked_at
        if self._is_answered:
            if self._said:
                self._say(f"the loop runs again, after {self._blocked_for:.1f} s")
            self._said, self._is_answered, self._asked_at = 0, False, now
            self._loop.call_soon_threadsafe(self._answer)
            return
        self._blocked_for = blocked
        if self._said == 0 and blocked > self._limits.blocked:
            self._said = 1
            self._say(f"loop_blocked: nothing else runs for {blocked:.1f} s now, {self._where()}")
        elif self._said == 1 and blocked > self._limits.hint:
            self._said = 2
            self._say(
                f"loop_blocked: for {blocked:.0f} s, {self._where()}; make the tool a plain def, "
                "which gets a thread, or give the work to a process with run_process"
            )
        since = self._signalled_at
        if since is not None and not self._is_obeyed and now - since > self._limits.patience:
            self._say("the loop does not hear the signal; leaving without it")
            self._leave(1)

    def _answer(self) -> None:
        self._is_answered = True

    def _where(self) -> str:
        frame = sys._current_frames().get(self._whose)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented
        return f"at {' < '.join(_stack(frame))}"


def _stack(frame: FrameType | None, most: int = 12) -> Sequence[str]:
    """The innermost frames, innermost first."""
    found: list[str] = []
    while frame is not None and len(found) < most:
        code = frame.f_code
        found.append(f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}")  # noqa: PTH119 - of any spelling
        frame = frame.f_back
    return found


@contextmanager
def watched(
    first: Callable[[], object],
    *,
    leave: Callable[[int], object],
    say: Say,
    limits: WatchdogLimits | None = None,
) -> Generator[None]:
    """Watch the running loop: the first SIGINT or SIGTERM calls `first` on it, the second leaves.

    `say` is told of a blocked loop, in the watchdog's thread; `leave` ends the process with this
    status: 130 for a second signal, 1 when the loop did not hear the first. Outside the main
    thread nothing is watched.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    watchdog = Watchdog(loop, first=first, leave=leave, say=say, limits=limits or WatchdogLimits())
    fd = watchdog.start()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, _noted) for number in numbers}
    old = signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(old)
        for number, handler in before.items():
            signal.signal(number, handler)
        watchdog.stop()


def _noted(number: int, frame: FrameType | None) -> None:
    """The interpreter has written it down already."""
