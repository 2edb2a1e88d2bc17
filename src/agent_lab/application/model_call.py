"""One model call: hears what the model says, coalesces its text, and keeps its deadline.

What belongs to a call lives with it, so that a model that outlives its turn touches nothing of
the next call.
"""

from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from types import CoroutineType
from typing import Any, NoReturn, cast
from zlib import crc32

from agent_lab.application.foreign import Foreign, place, said
from agent_lab.application.logs import log
from agent_lab.application.nudge import Nudge
from agent_lab.application.session import Session
from agent_lab.domain.errors import ModelError, QueueClosed
from agent_lab.domain.limits import Again
from agent_lab.domain.messages import ModelEvent, ModelRequest, Reply, TextDelta, clean, malformed
from agent_lab.domain.payloads import Text
from agent_lab.domain.redaction import SECRETS

_CUT = ModelError(
    "the answer was cut off: the stream ended without a last event",
    code="provider_cut",
    hint="nothing of it was kept; send the message again",
    may_pass=True,
)


class ModelCall:
    """Asks the model once. `nudge` is the worker's whose task this runs in."""

    __slots__ = (
        "_conversation",
        "_flush",
        "_foreign",
        "_nudge",
        "_request",
        "_session",
        "_text",
        "_text_at",
        "_veil",
    )

    def __init__(
        self,
        session: Session,
        request: ModelRequest,
        nudge: Nudge,
        foreign: Foreign,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        """`flush` moves what waits to `output`, and waits while nobody takes."""
        self._session = session
        self._conversation = session.conversation
        self._request = request
        self._nudge = nudge
        self._foreign = foreign
        self._flush = flush
        self._text: list[str] | None = None  # till the first piece comes

    async def run(self) -> None:
        """Ask, hear, and tell the conversation; a fault is told too, and never raised."""
        session, clock = self._session, self._session.clock
        clock.set(self, session.limits.model_timeout, self._timed_out)
        context = session.context.copy()
        try:
            try:
                stream = context.run(session.model.stream, self._request)
                if type(stream) is CoroutineType:
                    whole = cast("Coroutine[Any, Any, Reply]", stream)
                    self._hear(await self._foreign.run(whole, context))
                else:
                    pieces = cast("AsyncIterator[ModelEvent]", stream)
                    await self._foreign.run(self._hear_all(pieces), context)
            except BaseException as error:
                self._raise(error)
            if self._text is not None:
                self._tell_text(is_last=True)
            decided = self._conversation.answered(self._request.call)
            if decided is None:
                raise _CUT
        except ModelError as error:
            again = Again(error.retry_after, self._spread) if error.may_pass else None
            decided = self._conversation.call_failed(
                self._request.call,
                error.code,
                SECRETS.redact(str(error)),
                SECRETS.redact(error.hint),
                again=again,
            )
        finally:
            clock.clear(self)
        session.decide(decided)

    @property
    def _spread(self) -> float:
        """By chance among sessions, and the same in each replay of one."""
        return crc32(f"{self._session.session_id} {self._request.call}".encode()) / (1 << 32)

    async def _hear_all(self, stream: AsyncIterator[ModelEvent]) -> None:
        """Take the stream's events until it ends, or the call is over."""
        try:
            async for event in stream:
                if not self._hear(event):
                    await self._nudge.settle()  # not in the middle of its cleaning up
                    self._session.clock.clear(self._nudge)
                    self._session.clock.clear(self._tell_text)
                    return await _close(stream)
                if type(event) is TextDelta:
                    self._say(event.text)
                    if self._session.outbox:
                        await self._wait_for_taker()
        except BaseException:
            self._session.clock.clear(self._tell_text)
            await _close(stream)
            raise

    def _hear(self, event: ModelEvent) -> bool:
        if fault := malformed(event):
            raise _unexpected(TypeError(fault))
        return self._conversation.hear(self._request.call, event)

    async def _wait_for_taker(self) -> None:
        """Backpressure is no fault of the model: its deadline stands still meanwhile."""
        clock = self._session.clock
        left = clock.take(self)
        await self._flush()
        clock.set(self, left, self._timed_out)

    def _raise(self, error: BaseException) -> NoReturn:
        """What came out of the model, raised as what it is."""
        fault = self._fault(error)
        if fault is error:
            raise error
        raise fault from error

    def _fault(self, error: BaseException) -> BaseException:
        """What the model raised as a ModelError; a cancellation that is ours stays what it is."""
        if isinstance(error, ModelError):
            return error
        if isinstance(error, QueueClosed) and self._session.queues.output.is_closed:
            return error
        if isinstance(error, GeneratorExit) and not self._nudge.is_current:
            return error  # our own coroutine is being closed
        if isinstance(error, CancelledError):
            if self._nudge.is_cancelled:
                return error
            self._nudge.disown()
        return _unexpected(error)

    def _timed_out(self) -> None:
        limit = self._session.limits.model_timeout
        decided = self._conversation.call_failed(
            self._request.call,
            "model_timeout",
            f"the model gave no whole answer within {limit:g} s",
            "raise Limits.model_timeout, or look at the provider",
        )
        self._session.control(decided)

    # -- text, coalesced -------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        if self._text is None:
            self._text, self._text_at, self._veil = [], float("-inf"), SECRETS.stream()
        self._text.append(text)
        clock, interval = self._session.clock, self._session.limits.text_interval
        wait = self._text_at + interval - clock.now()
        if wait <= 0:
            self._tell_text()
        elif len(self._text) == 1:
            clock.set(self._tell_text, wait, self._tell_text)

    def _tell_text(self, *, is_last: bool = False) -> None:
        conversation = self._conversation
        assert self._text is not None
        text = clean("".join(self._text))
        if self._veil is not None:
            text = self._veil.push(text) + (self._veil.end() if is_last else "")
        self._text.clear()
        self._session.clock.clear(self._tell_text)
        if text and conversation.calling and conversation.call == self._request.call:
            self._text_at = self._session.clock.now()
            self._session.tell(Text(turn=conversation.turn, step=conversation.step, text=text))


def _unexpected(error: BaseException) -> ModelError:
    """A fault of the model object that it did not name."""
    named, what, where = type(error).__name__, said(error), place(error)
    log.info("the model raised %s at %s", named, where, exc_info=error)
    return ModelError(
        what if what.startswith(named) else f"{named}: {what}",
        code="model_error",
        hint=f"the model raised it, at {where}" if where else "the model gave it",
    )


async def _close(stream: AsyncIterator[ModelEvent]) -> None:
    """Let a stream that is left in the middle clean up now, not when it is collected."""
    if close := getattr(stream, "aclose", None):
        await close()
