"""Reading a provider's answer: its events in time, what they mean, and what is kept of them."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

import httpx2
import msgspec

from agent_lab.domain.errors import ModelError
from agent_lab.domain.limits import Limits
from agent_lab.domain.messages import Finish, ModelEvent, Wire
from agent_lab.domain.raw_events import RawEvents
from agent_lab.infrastructure.models.sse import EventSplitter, ServerEvent
from agent_lab.infrastructure.models.transport import unpacked

RAW_SIZE = 1 << 20
"""Characters of raw events kept of one answer."""
TAIL = 2.0
"""Seconds for what may come behind the end, such as the usage."""
DRAIN = 0.1
"""Seconds for the end of the body behind the last event, so that its connection is kept."""


class Decoder(ABC):
    """What the events of one answer mean."""

    is_over: bool = False
    """Whether nothing more will come."""

    @property
    @abstractmethod
    def finish(self) -> Finish | None:
        """The answer's end, once the provider has said it."""

    @abstractmethod
    def feed(self, event: ServerEvent) -> Iterable[ModelEvent]:
        """The model's events in one of the provider's.

        Raises ModelError for an error event, msgspec.MsgspecError for one that cannot be read.
        """


async def read(
    response: httpx2.Response, decoder: Decoder, wire: Wire, limits: Limits, first_by: float
) -> AsyncGenerator[ModelEvent, None]:
    """The model's events of an open answer, the first by `first_by` on the loop's clock."""
    raw = _Keeping()
    try:
        async with aclosing(_in_time(response, decoder, limits, first_by)) as events:
            async for event in events:
                raw.add(event.data)
                for said in _decoded(decoder, event) if not decoder.is_over else ():
                    yield said
    except ModelError:
        # What comes behind the provider's own last word can neither add to it nor void it.
        if decoder.finish is None:
            raise
    finally:
        wire.keep(RawEvents(raw.kept, raw.omitted))
    if decoder.finish is not None:
        yield decoder.finish
    # Else it was cut: whoever hears a stream end without Finish says so.


async def _in_time(
    response: httpx2.Response, decoder: Decoder, limits: Limits, first_by: float
) -> AsyncGenerator[ServerEvent, None]:
    """The events, each in time: a comment or half an event moves no deadline (T25)."""
    loop = asyncio.get_running_loop()
    splitter, deadline, heard = EventSplitter(), first_by, False
    async with aclosing(unpacked(response)) as pieces:
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                break
            except TimeoutError:
                if heard:
                    raise too_slow(
                        "provider_stalled", "no further event", limits.model_stall
                    ) from None
                raise too_slow(
                    "provider_timeout", "no first event", limits.model_first_byte
                ) from None
            told = False
            for event in splitter.feed(piece):
                heard = told = True
                yield event
            if told:  # counted from when we listen again, not from when we were told
                deadline = loop.time() + _patience(decoder, limits)
    if (event := splitter.flush()) is not None:
        yield event


def _patience(decoder: Decoder, limits: Limits) -> float:
    if decoder.is_over:
        return DRAIN
    return limits.model_stall if decoder.finish is None else TAIL


def _decoded(decoder: Decoder, event: ServerEvent) -> Iterable[ModelEvent]:
    try:
        yield from decoder.feed(event)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        if not event.is_whole:
            return  # cut in the middle of it
        raise ModelError(
            f"the provider's stream has an event that cannot be read: {error}: {event.data:.200}",
            code="provider_bad_stream",
            hint="the raw events show what came; is this server of the kind you named?",
        ) from error


class _Keeping:
    """The provider's events as they came, the first RAW_SIZE characters of them."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.omitted = 0
        self._room = RAW_SIZE

    def add(self, data: str) -> None:
        """Keep one, if there is room."""
        self._room -= len(data)
        if self._room >= 0:
            self.kept.append(data)
        else:
            self.omitted += 1


def too_slow(code: str, what: str, limit: float) -> ModelError:
    """A deadline ran out."""
    return ModelError(
        f"the provider gave {what} within {limit:g} s",
        code=code,
        hint="raise Limits.model_first_byte or Limits.model_stall, or look at the provider",
        may_pass=True,
    )
