"""The session's clock: the loop's, less the time it stood still; and its one timer."""

from asyncio import AbstractEventLoop, Future, TimerHandle, get_running_loop
from collections.abc import Callable, Hashable

from agent_lab.domain.errors import NoEventLoop

Alarm = Callable[[], object]


class SessionClock:
    """Seconds on the loop's clock, shifted by every pause, and all deadlines of a session.

    Deadlines lie in a dict and one loop timer serves them: it is set for the earliest and
    re-set when it rings, so that a deadline that is met, as nearly all are, costs two dict
    operations and no timer.
    """

    __slots__ = ("_alarms", "_handle", "_loop", "_paused_at", "_rings_at", "_shift", "_time")

    def __init__(self, loop: AbstractEventLoop, time: Callable[[], float]) -> None:
        """`time` is the loop's clock."""
        self._loop = loop
        self._time = time
        self._shift = 0.0
        self._paused_at: float | None = None
        self._alarms: dict[Hashable, tuple[float, Alarm]] = {}
        self._handle: TimerHandle | None = None
        self._rings_at = 0.0

    def now(self) -> float:
        """Seconds; stands still while the session is paused."""
        at = self._time() if self._paused_at is None else self._paused_at
        return at - self._shift

    def set(self, key: Hashable, delay: float, alarm: Alarm) -> None:
        """Call `alarm` in `delay` seconds; it must not raise. A key has one alarm."""
        at = self._time() if self._paused_at is None else self._paused_at
        deadline = at - self._shift + delay
        self._alarms[key] = (deadline, alarm)
        if self._handle is None or deadline < self._rings_at:
            self._arm(deadline)

    def take(self, key: Hashable) -> float:
        """Forget an alarm and give the seconds it had left; 0 if there was none."""
        alarm = self._alarms.pop(key, None)
        return max(alarm[0] - self.now(), 0.0) if alarm is not None else 0.0

    def clear(self, key: Hashable) -> None:
        """Forget an alarm; a key without one is fine."""
        self._alarms.pop(key, None)

    async def sleep(self, key: Hashable, delay: float) -> None:
        """Wait `delay` seconds on this clock."""
        done: Future[None] = self._loop.create_future()
        self.set(key, delay, lambda: done.done() or done.set_result(None))
        try:
            await done
        finally:
            self.clear(key)

    def pause(self) -> None:
        """Stand still. Pausing twice is pausing once."""
        if self._paused_at is None:
            self._paused_at = self._time()
            self._disarm()

    def resume(self) -> None:
        """Go on; the time between is in no limit."""
        if self._paused_at is not None:
            self._shift += self._time() - self._paused_at
            self._paused_at = None
            self._arm_next()

    def stop(self) -> None:
        """Forget all alarms."""
        self._alarms.clear()
        self._disarm()

    def _arm(self, deadline: float) -> None:
        self._disarm()
        if self._paused_at is None:
            self._rings_at = deadline
            self._handle = self._loop.call_at(deadline + self._shift, self._ring)

    def _disarm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm_next(self) -> None:
        if self._alarms:
            self._arm(min(deadline for deadline, _ in self._alarms.values()))

    def _ring(self) -> None:
        self._handle = None
        now = self.now()
        due = [(at, key, alarm) for key, (at, alarm) in self._alarms.items() if at <= now]
        for _, key, alarm in sorted(due, key=lambda item: item[0]):
            if key in self._alarms:
                del self._alarms[key]
                alarm()
        self._arm_next()


def running_loop(session_id: str) -> AbstractEventLoop:
    """The loop we are on; raises NoEventLoop."""
    try:
        return get_running_loop()
    except RuntimeError:
        raise NoEventLoop(
            f"session {session_id!r} needs a running event loop; call this from a coroutine, such "
            "as the one given to asyncio.run()"
        ) from None
