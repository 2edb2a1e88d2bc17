"""Faults on purpose: any model, with what goes wrong on the way to a provider."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from inspect import iscoroutine
from typing import Literal, cast

import msgspec

from agent_lab.application.ports import Model
from agent_lab.domain.errors import ModelError
from agent_lab.domain.messages import CallDelta, Finish, ModelEvent, ModelRequest, Reply, TextDelta

BROKEN = '{"broken'
"""What stands where a call's arguments stood."""


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong in the first `times` calls of each session; None is every call.

    `cut_after` ends the stream without a last event after so many events, `stall_after` says
    nothing more behind them. `error` is raised before the first: 429 is `rate_limited` and asks
    for `retry_after` seconds, 529 `provider_overloaded`. `same_ids` gives all calls one id,
    `wrong_json` breaks their arguments.
    """

    cut_after: int | None = None
    stall_after: int | None = None
    error: Literal[429, 500, 529] | None = None
    retry_after: float | None = None
    same_ids: bool = False
    wrong_json: bool = False
    times: int | None = None


class FaultyModel:
    """Asks another model, and spoils its answer. A retry is a call too."""

    def __init__(self, model: Model, faults: Faults) -> None:
        self._model = model
        self._faults = faults
        self.name = model.name
        self.dialect = model.dialect

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The other model's events, spoilt."""
        faults = self._faults
        spoils = faults.times is None or request.call <= faults.times
        if spoils and faults.error is not None:
            raise _error(faults.error, faults.retry_after)
        count = 0
        async with aclosing(_events(self._model, request)) as events:
            async for event in events:
                if spoils and count == faults.stall_after:
                    await asyncio.Event().wait()
                if spoils and count == faults.cut_after:
                    return
                count += 1
                yield _spoilt(event, faults) if spoils else event


async def _events(model: Model, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    """A model's answer piece by piece, also where it gives it whole."""
    answer = model.stream(request)
    if iscoroutine(answer):
        for event in _pieces(await answer):
            yield event
        return
    stream = cast("AsyncIterator[ModelEvent]", answer)
    try:
        async for event in stream:
            for piece in _pieces(event) if isinstance(event, Reply) else (event,):
                yield piece
    finally:
        if close := getattr(stream, "aclose", None):
            await close()


def _pieces(reply: Reply) -> list[ModelEvent]:
    text: list[ModelEvent] = [TextDelta(reply.content)] if reply.content else []
    calls = [
        CallDelta(index, call.id, call.name, _arguments(call.raw, call.arguments))
        for index, call in enumerate(reply.tool_calls)
    ]
    reason = reply.finish_reason or ("tool_calls" if calls else "stop")
    return [*reply.thinking, *text, *calls, Finish(reason, reply.usage)]


def _arguments(raw: str | None, arguments: object) -> str:
    return raw if raw is not None else msgspec.json.encode(arguments).decode()


def _spoilt(event: ModelEvent, faults: Faults) -> ModelEvent:
    if not isinstance(event, CallDelta):
        return event
    return CallDelta(
        event.index,
        "call_same" if faults.same_ids and event.id else event.id,
        event.name,
        BROKEN if faults.wrong_json and event.arguments else event.arguments,
    )


def _error(status: int, retry_after: float | None) -> ModelError:
    code = {429: "rate_limited", 529: "provider_overloaded"}.get(status, "provider_error")
    return ModelError(
        f"the provider answered {status}, as the test wants it",
        code=code,
        hint="take away faulty()",
        may_pass=True,
        retry_after=retry_after,
    )
