"""How long somebody waits: his time, and the hands that may end it sooner."""

import asyncio
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from agent_lab.domain.errors import SessionError


class WaitAborted(SessionError):
    """Whoever waited has had it ended, and gets no answer; the agent goes on.

    `reason` is what the abort was set with.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the wait was ended: {reason}; the agent goes on")
        self.reason = reason


class Abort:
    """Ends waits from elsewhere. Give it to any number of them and set it once, on their loop.

    One that is set already ends a wait before it looks, also one whose result is there.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._ears: dict[object, Callable[[], None]] = {}

    @property
    def waits(self) -> int:
        """How many waits it would end."""
        return len(self._ears)

    def set(self, reason: str) -> None:
        """End them; a second time nothing happens."""
        if self.reason is None:
            self.reason = reason
            for tell in tuple(self._ears.values()):
                tell()

    def listen(self, who: object, tell: Callable[[], None]) -> None:
        """Tell this one when it is set."""
        self._ears[who] = tell

    def forget(self, who: object) -> None:
        """Nobody is there any more to be told."""
        self._ears.pop(who, None)

    def check(self) -> None:
        """Raises WaitAborted if it is set."""
        if self.reason is not None:
            raise WaitAborted(self.reason)


class Patience:
    """How long somebody waits: until his time is over, or an abort is set.

    `async with` it; `begin()` the time inside. When that is over the block is left and `is_over`;
    for an abort WaitAborted is raised. Cancelling the task from outside wins over both.
    """

    def __init__(self, aborts: Collection[Abort]) -> None:
        self.is_over = False
        self._aborts = aborts
        self._limit = asyncio.timeout(None)

    def begin(self, seconds: float) -> None:
        """The time runs from now on; raises WaitAborted."""
        self._check()
        self._limit.reschedule(asyncio.get_running_loop().time() + max(seconds, 0.0))

    async def __aenter__(self) -> Self:
        self._check()
        await self._limit.__aenter__()
        for abort in self._aborts:
            abort.listen(self, self._cut)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        for abort in self._aborts:
            abort.forget(self)
        try:
            await self._limit.__aexit__(kind, error, traceback)
        except TimeoutError:
            self.is_over = True
        if self.is_over or kind is None:
            self._check()
        return self.is_over

    def _check(self) -> None:
        for abort in self._aborts:
            abort.check()

    def _cut(self) -> None:
        if not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())
