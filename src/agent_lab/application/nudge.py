"""Cancelling a task of one's own so that it can tell it from being cancelled by somebody else."""

from asyncio import CancelledError, Task, current_task, sleep
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Nudge:
    """Throws the task out of whatever it awaits; the task then asks anew what to do.

    An outside cancellation that comes at the same time wins: it is never swallowed.
    """

    __slots__ = ("_stopping", "foreign", "pending", "task")

    def __init__(self, task: "Task[Any]", stopping: Callable[[], bool]) -> None:
        """`stopping` says whether the session itself is being stopped."""
        self.task = task
        self.foreign = 0
        """Cancellations that foreign code left in the task's count."""
        self.pending = 0
        """Nudges given that the task has not absorbed."""
        self._stopping = stopping

    def __call__(self) -> None:
        """Throw the task out of its await."""
        self.pending += 1
        self.task.cancel()

    @property
    def is_current(self) -> bool:
        """Whether this task is running; it is not while its coroutine is being closed."""
        try:
            return current_task() is self.task
        except RuntimeError:
            return False

    @property
    def is_cancelled(self) -> bool:
        """Whether a CancelledError here is a nudge or the session's end.

        If it is neither, foreign code in this task raised it, or cancelled the task it runs in.
        """
        return self.pending > 0 or self._stopping()

    def seen(self) -> None:
        """Foreign code took a step: what is counted now and not ours is its own affair.

        A cancellation from outside comes between two steps, so it is not among these.
        """
        self.foreign = max(self.task.cancelling() - self.pending, 0)

    def absorb(self) -> bool:
        """Called where CancelledError was caught: True if it was only ours, and is dealt with."""
        own, self.pending = self.pending, 0
        for _ in range(own + self.foreign if own else 0):
            self.task.uncancel()
        self.foreign = 0
        return own > 0 and not self.task.cancelling()

    async def absorb_all(self) -> bool:
        """As absorb, also of a nudge that was not delivered because foreign code raised by itself.

        uncancel() does not take back a cancellation that is still to come, before 3.13.
        """
        if self.pending:
            with suppress(CancelledError):
                await sleep(0)
        return self.absorb()

    async def settle(self) -> None:
        """Between two deeds: a nudge that foreign code swallowed is over and done with."""
        if self.pending:
            await sleep(0)  # throws, if it was not delivered yet
            if not self.absorb():
                raise CancelledError

    def disown(self) -> None:
        """Forget cancellations that foreign code brought about."""
        while self.task.cancelling():
            self.task.uncancel()
