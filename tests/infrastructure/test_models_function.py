"""A user's own function as a model: coroutine, generator or plain, and what it may give."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from agent_lab import DebugRuntime
from agent_lab.bootstrap import resolve_model
from agent_lab.domain.errors import ModelError
from agent_lab.domain.messages import (
    CallDelta,
    Finish,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCall,
)
from agent_lab.infrastructure.models.function import FunctionModel
from agent_lab.testing import call, open_runtime, reply, simulate

REQUEST = ModelRequest("s", "m", "openai_chat", None, (), [], 0, 0, 1, 0)


def plain(request: ModelRequest) -> str:
    return "text"


async def text(request: ModelRequest) -> str:
    return "text"


async def whole(request: ModelRequest) -> Reply:
    return Reply("text")


async def pieces(request: ModelRequest) -> AsyncIterator[str]:
    yield "te"
    yield "xt"


async def events(request: ModelRequest) -> AsyncIterator[ModelEvent]:
    yield TextDelta("te")
    yield CallDelta(0, "c1", "look", "{}")
    yield Finish("tool_calls")


async def cut(request: ModelRequest) -> AsyncIterator[ModelEvent]:
    yield CallDelta(0, "c1", "look", "{}")


class Coroutine:
    async def __call__(self, request: ModelRequest) -> str:
        return "text"


class Generator:
    async def __call__(self, request: ModelRequest) -> AsyncIterator[str]:
        yield "te"
        yield "xt"


def returns_generator(request: ModelRequest) -> AsyncIterator[str]:
    return pieces(request)


TEXT: list[ModelEvent] = [TextDelta("te"), TextDelta("xt"), Finish("stop")]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (plain, [Reply("text")]),
        (text, [Reply("text")]),
        (whole, [Reply("text")]),
        (Coroutine(), [Reply("text")]),
        (partial(text), [Reply("text")]),
        (pieces, TEXT),
        (Generator(), TEXT),
        (returns_generator, TEXT),
        (partial(pieces), TEXT),
        (events, [TextDelta("te"), CallDelta(0, "c1", "look", "{}"), Finish("tool_calls")]),
        (cut, [CallDelta(0, "c1", "look", "{}")]),
    ],
)
async def test_whatever_a_function_gives_becomes_events(
    function: Callable[[ModelRequest], Any], expected: list[ModelEvent]
) -> None:
    assert [event async for event in FunctionModel(function).stream(REQUEST)] == expected


@pytest.mark.parametrize("value", [None, 3, {"content": "text"}])
async def test_what_is_no_answer_is_named(value: object) -> None:
    async def odd(request: ModelRequest) -> object:
        return value

    with pytest.raises(ModelError, match=type(value).__name__) as raised:
        _ = [event async for event in FunctionModel(odd).stream(REQUEST)]
    assert raised.value.code == "model_error" and "Reply" in raised.value.hint


async def test_what_testing_reply_makes_is_an_answer() -> None:
    """The hint of a wrong answer names it, and it is what a user has at hand."""

    async def scripted(request: ModelRequest) -> object:
        return reply("Wait.", calls=[call("look", "c1")])

    (answer,) = [event async for event in FunctionModel(scripted).stream(REQUEST)]
    assert answer == Reply("Wait.", (ToolCall("c1", "look", {}, "{}"),))


def test_a_function_is_named_as_it_is() -> None:
    assert FunctionModel(plain).name == "plain"
    assert FunctionModel(Coroutine()).name == "Coroutine"
    assert FunctionModel(partial(plain)).name
    assert isinstance(resolve_model(plain), FunctionModel)


def test_an_unknown_model_string_is_named() -> None:
    for name in ("nothing", "scripted:", "openapi:x"):
        with pytest.raises(ModelError, match=repr(name)) as raised:
            resolve_model(name)
        assert raised.value.code == "model_unknown"


def test_a_generator_that_is_left_is_closed_before_the_next_call() -> None:
    async def main() -> None:
        runtimes: list[DebugRuntime] = []
        order: list[str] = []

        async def stops(request: ModelRequest) -> AsyncIterator[str]:
            order.append(f"call {request.call}")
            try:
                yield "so far"
                if request.call == 1:
                    runtimes[0].cancel()
                    yield "never"
            finally:
                await asyncio.sleep(0)
                order.append("closed")

        async with open_runtime(model=stops) as runtime:
            runtimes.append(runtime)
            for content in ("go", "next"):
                async for _ in runtime.run(content):
                    pass
        assert order == ["call 1", "closed", "call 2", "closed"]

    simulate(main)
