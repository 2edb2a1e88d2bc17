"""Cancelling a task of one's own so that it can tell it from being cancelled by somebody else."""

from asyncio import CancelledError, Task, current_task, sleep
from collections.abc import Callable
from typing import Any


class Nudge:
    """Throws the task out of whatever it awaits; the task then asks anew what to do.

    An outside cancellation that comes at the same time wins: it is never swallowed.
    """

    __slots__ = ("_stopping", "_task", "pending")

    def __init__(self, task: "Task[Any]", stopping: Callable[[], bool]) -> None:
        """`stopping` says whether the session itself is being stopped."""
        self._task = task
        self.pending = 0
        """Nudges given that the task has not absorbed."""
        self._stopping = stopping

    def __call__(self) -> None:
        """Throw the task out of its await."""
        self.pending += 1
        self._task.cancel()

    @property
    def is_current(self) -> bool:
        """Whether this task is running; it is not while its coroutine is being closed."""
        try:
            return current_task() is self._task
        except RuntimeError:
            return False

    @property
    def is_cancelled(self) -> bool:
        """Whether a CancelledError here is a nudge or the session's end.

        If it is neither, foreign code in this task raised it, or cancelled the task it runs in.
        """
        return self.pending > 0 or self._stopping()

    def absorb(self) -> bool:
        """Called where CancelledError was caught: True if it was only ours, and is dealt with."""
        own, self.pending = self.pending, 0
        for _ in range(own):
            self._task.uncancel()
        return own > 0 and not self._task.cancelling()

    async def settle(self) -> None:
        """Between two deeds: a nudge that foreign code swallowed is over and done with."""
        if self.pending:
            await sleep(0)  # throws, if it was not delivered yet
            if not self.absorb():
                raise CancelledError

    def disown(self) -> None:
        """Forget cancellations that foreign code brought about."""
        while self._task.cancelling():
            self._task.uncancel()
