"""A model that is asked only once what it is told is stored."""

from collections.abc import AsyncIterator, Coroutine
from inspect import iscoroutine
from typing import Any, Protocol, cast

from agent_lab.application.ports import Model
from agent_lab.domain.errors import ModelError, StorageError
from agent_lab.domain.messages import ModelEvent, ModelRequest, Reply


class Keeps(Protocol):
    """Whoever stores the session."""

    async def ready(self, request: ModelRequest, *, has_news: bool) -> None:
        """Return when the model may be asked this; raises StorageError."""
        ...


class Heard:
    """The session's model; it heard `heard` messages of the history before."""

    def __init__(self, model: Model, recorder: Keeps, heard: int) -> None:
        self._model = model
        self._recorder = recorder
        self._heard = heard

    @property
    def name(self) -> str:
        """The model's own."""
        return self._model.name

    @property
    def dialect(self) -> str:
        """The model's own."""
        return self._model.dialect

    def stream(
        self, request: ModelRequest
    ) -> AsyncIterator[ModelEvent] | Coroutine[Any, Any, Reply]:
        """Ask it, once that may be."""
        stream = self._model.stream(request)
        if iscoroutine(stream):
            return self._reply(request, stream)
        return self._events(request, cast("AsyncIterator[ModelEvent]", stream))

    async def _reply(self, request: ModelRequest, reply: Coroutine[Any, Any, Reply]) -> Reply:
        try:
            await self._ready(request)
        except BaseException:
            reply.close()
            raise
        return await reply

    async def _events(
        self, request: ModelRequest, events: AsyncIterator[ModelEvent]
    ) -> AsyncIterator[ModelEvent]:
        try:
            await self._ready(request)
            async for event in events:
                yield event
        finally:
            if close := getattr(events, "aclose", None):
                await close()

    async def _ready(self, request: ModelRequest) -> None:
        news = request.messages[self._heard : request.stop]
        try:
            has_news = any(one.role == "user" for one in news)
            await self._recorder.ready(request, has_news=has_news)
        except StorageError as fault:
            raise ModelError(str(fault), code=fault.code, hint=fault.hint) from fault
        self._heard = request.stop
