"""A user's own function as a model."""

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

from agent_lab.domain.errors import ModelError
from agent_lab.domain.messages import (
    EVENT_TYPES,
    Finish,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
)


class FunctionModel:
    """Asks `function(request)`: a coroutine that gives a `Reply` or text, or an async generator
    that yields events or pieces of text.

    A generator that yields only text ends cleanly when it returns; one that yields `CallDelta`
    must yield `Finish`, as a provider would.
    """

    dialect = "openai_chat"

    def __init__(self, function: Callable[[ModelRequest], Any]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The function's answer as events."""
        if not inspect.isasyncgenfunction(self._function):
            answer = self._function(request)
            if inspect.isawaitable(answer):
                answer = await answer
            yield _as_reply(answer)
            return
        only_text = True
        async for event in self._function(request):
            piece = TextDelta(event) if isinstance(event, str) else event
            only_text = only_text and isinstance(piece, TextDelta)
            yield piece
        if only_text:
            yield Finish("stop")


def _as_reply(answer: object) -> ModelEvent:
    if isinstance(answer, str):
        return Reply(answer)
    if isinstance(answer, EVENT_TYPES):
        return answer
    raise ModelError(
        f"the model function returned a {type(answer).__name__}",
        code="model_error",
        hint="return a Reply (agent_lab.testing.reply makes one) or a string",
    )
