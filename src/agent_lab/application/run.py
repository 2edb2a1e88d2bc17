"""One run: an async iterator over `output` that knows when everything is answered."""

from asyncio import CancelledError, current_task
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

from agent_lab.application.nudge import Nudge
from agent_lab.application.queues import RuntimeQueue, RuntimeQueues
from agent_lab.application.session import Session
from agent_lab.domain.errors import QueueClosed
from agent_lab.domain.payloads import AnyPayload, End


class Owner(Protocol):
    """The session's runtime, as far as a run needs it."""

    @property
    def session(self) -> Session:
        """The session's parts."""
        ...

    @property
    def leaves_with_run(self) -> bool:
        """Whether nobody but the run itself will stop the workers."""
        ...

    def cancel(self, turn: int | None = None, *, drop_waiting: bool = False) -> object:
        """Stop the turn."""
        ...

    async def rest(self) -> None:
        """Stop the workers and return when they are gone."""
        ...

    def forget_run(self) -> None:
        """The run was broken off and forgotten: stop its work."""
        ...


class Run(AsyncIterator[AnyPayload]):
    """Payloads of `output` until a turn ends and leaves nothing pending.

    The message is accepted when the run is entered or first iterated. As `async with`, leaving
    early ends the run's work before the next statement; a plain `async for` that is broken off
    cancels the turn when the run is collected.
    """

    def __init__(self, runtime: Owner, begin: "Callable[[Run], RuntimeQueues]") -> None:
        self._runtime = runtime
        self._begin = begin
        self._queues: RuntimeQueues | None = None
        self._ended = False
        self._first_turn = 0  # an older end may still lie in output, if start() was used before
        self._nudge: Nudge | None = None

    @property
    def is_live(self) -> bool:
        """Whether it has begun and not ended."""
        return self._queues is not None and not self._ended

    @property
    def queues(self) -> RuntimeQueues:
        """The session's queues, for steering the run while it goes."""
        if self._queues is None:
            conversation = self._runtime.session.conversation
            self._first_turn = conversation.turn + (not conversation.in_turn)
            self._queues = self._begin(self)
        return self._queues

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AnyPayload:
        if self._ended:
            raise StopAsyncIteration
        output = self.queues.output
        if self._is_spent:
            await self._end()  # a message that was answered before, or withdrawn
            raise StopAsyncIteration
        try:
            payload = await self._take(output)
        except QueueClosed:
            payload = None
        if payload is None:
            await self._end()
            raise StopAsyncIteration
        if (
            isinstance(payload, End)
            and not payload.pending
            and (payload.turn or 0) >= self._first_turn
        ):
            await self._end()
        return payload

    async def _take(self, output: RuntimeQueue[AnyPayload]) -> AnyPayload | None:
        """The next payload; None if what the run waited for was withdrawn."""
        task = current_task()
        assert task is not None
        self._nudge = Nudge(task, bool)
        try:
            return await output.get()
        except CancelledError:
            if self._nudge.absorb():
                return None
            raise
        finally:
            self._nudge = None

    @property
    def _is_spent(self) -> bool:
        """Whether nothing lies in `output` and nothing will come."""
        session = self._runtime.session
        return session.is_idle and not session.outbox and not self.queues.output.qsize()

    def nothing_left(self) -> None:
        """The last waiting message was withdrawn: do not wait for its answer."""
        if self._nudge is not None and self._is_spent:
            self._nudge()

    async def __aenter__(self) -> Self:
        self._queues = self.queues
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._ended:
            return
        self._ended = True
        self._runtime.cancel(drop_waiting=True)
        try:
            await self._runtime.rest()
        finally:
            self._drain()

    def __del__(self) -> None:
        if self.is_live:
            with suppress(RuntimeError):  # the loop is closed
                self._runtime.session.loop.call_soon_threadsafe(self._runtime.forget_run)

    async def _end(self) -> None:
        self._ended = True
        if self._runtime.leaves_with_run:
            await self._runtime.rest()

    def _drain(self) -> None:
        """What the run decided and nobody took must not be the next run's first payload."""
        output = self.queues.output
        self._runtime.session.outbox.clear()
        while output.qsize():
            output.get_nowait()
