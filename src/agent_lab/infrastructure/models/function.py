"""A user's own function as a model."""

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing
from typing import Any, cast

from agent_lab.domain.errors import ModelError
from agent_lab.domain.messages import (
    EVENT_TYPES,
    Finish,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
)
from agent_lab.infrastructure.models.scripted import ScriptedReply, play


class FunctionModel:
    """Asks `function(request)`, sync or async, for the answer; a sync one must not block the loop.

    It may give text, a `Reply`, what `agent_lab.testing.reply` makes, or an async iterator of
    events and pieces of text. An iterator of nothing but text ends cleanly when it is exhausted;
    one with a `CallDelta` must yield `Finish`, as a provider would.
    """

    dialect = "openai_chat"

    def __init__(self, function: Callable[[ModelRequest], Any]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The function's answer as events."""
        answer = self._function(request)
        if inspect.isawaitable(answer):
            answer = await answer
        async with aclosing(_events(answer)) as events:
            async for event in events:
                yield event


async def _events(answer: object) -> AsyncGenerator[ModelEvent, None]:
    match answer:
        case str():
            yield Reply(answer)
        case ScriptedReply():
            async with aclosing(play(answer)) as events:
                async for event in events:
                    yield event
        case AsyncIterable():
            async with aclosing(_pieces(cast("AsyncIterable[Any]", answer))) as events:
                async for event in events:
                    yield event
        case _:
            yield _checked(answer)


async def _pieces(answer: AsyncIterable[Any]) -> AsyncGenerator[ModelEvent, None]:
    only_text = True
    try:
        async for piece in answer:
            event = TextDelta(piece) if isinstance(piece, str) else _checked(piece)
            only_text = only_text and isinstance(event, TextDelta)
            yield event
    finally:
        if close := getattr(answer, "aclose", None):
            await close()
    if only_text:
        yield Finish("stop")


def _checked(answer: object) -> ModelEvent:
    if isinstance(answer, EVENT_TYPES):
        return answer
    raise ModelError(
        f"the model function gave a {type(answer).__name__}",
        code="model_error",
        hint="give text, a Reply, agent_lab.testing.reply(...), or an async iterator of pieces",
    )
