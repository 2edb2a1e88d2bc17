"""Recorded streams cut at every offset: a call that did not come whole runs nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal, cast

import httpx2
import pytest

from agent_lab import Agent, DebugRuntime, Limits, tool
from agent_lab.domain.errors import ModelError
from agent_lab.domain.messages import Finish, ModelEvent, Wire
from agent_lab.infrastructure.models.cassette import Tape
from agent_lab.infrastructure.models.reading import read
from tests.application.helpers_runtime import said, take_turn
from tests.infrastructure.models.helpers_provider import MODELS, ProviderServer, by_dialect

CASSETTES = Path(__file__).parent / "cassettes/test_cassettes"
Breaks = Literal["chunked", "close"]
by_framing = pytest.mark.parametrize("framing", ["chunked", "close"])
ran: list[str] = []


@tool
async def get_weather(city: str) -> str:
    """The weather in a city."""
    ran.append(city)
    return f"4 degrees in {city}"


def recorded(dialect: str) -> list[bytes]:
    """The events of a recorded answer with a tool call, as they came."""
    path = CASSETTES / f"test_a_committed_cassette_plays_{dialect}" / "0002.json"
    body = "".join(json.loads(path.read_text("utf-8"))["response"]["body"])
    return [f"{event}\n\n".encode() for event in body.removesuffix("\n\n").split("\n\n")]


def whole_from(dialect: str, events: list[bytes], framing: Breaks) -> int:
    """The offset from which on the answer is whole: the end of the provider's last word.

    OpenAI Chat gives its reason before the usage and `[DONE]`. A clean end of the stream closes an
    event as the blank line does, a broken connection does not.
    """
    behind = 2 if dialect == "openai_chat" else 0
    end = len(b"".join(events[: len(events) - behind]))
    return end - (2 if framing == "close" else 0)


class Cut(httpx2.AsyncByteStream):
    """A body that ends early, without a socket: a thousand in a second."""

    def __init__(self, body: bytes, framing: Breaks) -> None:
        self._body = body
        self._framing = framing

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
        if self._framing == "chunked":
            raise httpx2.RemoteProtocolError("peer closed connection")


class CutTape(httpx2.AsyncBaseTransport):
    """Stands where a tape does, and gives each request the stream as far as `body` goes."""

    mode = "replay"
    body = b""

    def __init__(self, framing: Breaks) -> None:
        self._framing: Breaks = framing

    def transport(self, _: object) -> httpx2.AsyncBaseTransport:
        return self

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, stream=Cut(self.body, self._framing))


@pytest.mark.fault("P09")
@pytest.mark.fault("P10")
@pytest.mark.fault("T27")
@by_dialect
@by_framing
async def test_cut_at_any_offset_it_does_not_end_well(dialect: str, framing: Breaks) -> None:
    """No `Finish` before the provider's last word, and the whole answer after it."""
    events = recorded(dialect)
    body = b"".join(events)
    ends = whole_from(dialect, events, framing)
    model = ProviderServer.model_at(dialect, "http://127.0.0.1:1")
    deadline = asyncio.get_running_loop().time() + 60
    for offset in range(len(body)):
        response = httpx2.Response(200, stream=Cut(body[:offset], framing))
        came: list[ModelEvent] = []
        code = None
        try:
            async for event in read(response, model.decoder(), Wire("", {}), Limits(), deadline):
                came.append(event)  # noqa: PERF401  # what came before an error counts
        except ModelError as error:
            code = error.code
        assert any(isinstance(event, Finish) for event in came) == (offset >= ends), offset
        assert code == ("provider_cut" if offset < ends and framing == "chunked" else None), offset


@pytest.mark.fault("P09")
@pytest.mark.fault("P10")
@by_dialect
@by_framing
async def test_cut_within_its_calls_no_tool_runs(dialect: str, framing: Breaks) -> None:
    """A whole session each, at every fifth offset from the calls to the provider's last word."""
    events = recorded(dialect)
    body = b"".join(events)
    first = next(place for place, event in enumerate(events) if b"get_weather" in event)
    begin, end = len(b"".join(events[:first])), whole_from(dialect, events, framing)
    tape = CutTape(framing)
    agent = Agent("a", model=MODELS[dialect], tools=[get_weather], limits=Limits(model_retries=0))
    ran.clear()
    for offset in range(begin, end, 5):
        tape.body = body[:offset]
        async with DebugRuntime(agent, tape=cast("Tape", tape)) as runtime:
            runtime.start("Weather in Oslo?")
            end_: Any = (await take_turn(runtime))[-1]
            assert (end_.type, end_.code) == ("error", "provider_cut"), offset
            assert said(runtime, "tool_call", "tool_started") == []
    assert ran == []
