"""A real llama.cpp server: streaming, tools, and a history of ours. See `make test-local-model`."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_lab import Agent, DebugRuntime, Limits, tool
from agent_lab.testing import HandGate, ScriptedModel, call, open_runtime, reply
from tests.application.helpers_runtime import said, settled

PYTHON = os.environ.get("AGENT_LAB_LOCAL_MODEL", "")
"""The Python of the environment that has the server."""

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PYTHON, reason="an optional group: run `make test-local-model`"),
]
WAIT = 300
"""Seconds that an answer may take."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server that runs while these tests do."""
    command = [PYTHON, Path(__file__).with_name("server.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None and server.stdin is not None
        lines = (line.decode().strip() for line in server.stdout)
        try:
            yield next(line for line in lines if line.startswith("http"))
        finally:
            server.stdin.close()
            server.terminate()


@tool
async def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"4 degrees in {city}"


def agent(address: str, *, tools: bool, **options: Any) -> Agent:
    return Agent(
        "local",
        model="openai:smollm2",
        base_url=f"{address}/v1",
        instructions="Answer in one short sentence.",
        tools=[get_weather] if tools else [],
        model_options={"temperature": 0, "seed": 1, "max_tokens": 12, **options},
        limits=Limits(model_first_byte=WAIT, model_stall=WAIT, model_timeout=WAIT),
    )


async def ask(runtime: DebugRuntime, content: str) -> Any:
    """Say it, and give the turn's end."""
    async with runtime.run(content) as run:
        return [payload async for payload in run][-1]


async def test_text_streams_in_pieces_and_its_tokens_are_counted(address: str) -> None:
    async with DebugRuntime(agent(address, tools=False)) as runtime:
        assert (await ask(runtime, "What is the capital of Norway?")).type == "done"
        (answer,) = said(runtime, "assistant")
        (responded,) = said(runtime, "model_response")
        events = said(runtime, "model_request")[0].request.wire.raw.events
    assert answer.content and "Oslo" in answer.content
    assert len(events) > responded.usage.output_tokens > 3
    assert responded.usage.context_tokens > 10


async def test_tools_are_told_to_the_model_and_the_turn_ends_well(address: str) -> None:
    """Whether so small a model calls one is its own affair; a call that it makes is run."""
    contexts: list[int] = []
    for tools in (False, True):
        async with DebugRuntime(agent(address, tools=tools, max_tokens=16)) as runtime:
            end = await ask(runtime, "What is the weather in Oslo?")
            assert (end.type, getattr(end, "message", "")) == ("done", "")
            contexts.append(said(runtime, "model_response")[0].usage.context_tokens)
            assert len(said(runtime, "tool_call")) == len(said(runtime, "tool_reply"))
    assert contexts[1] > contexts[0] + 50, "the tool stands in the prompt"


async def spoken() -> DebugRuntime:
    """A session in which a model broke its arguments and a user spoke in between; it is closed."""
    calls = [call("get_weather", city="Oslo"), call("get_weather", _raw='{"city": "Ro')]
    model = ScriptedModel([reply("I look.", calls=calls), reply("4 degrees.")])
    gate = HandGate("tool")
    async with open_runtime(model=model, tools=[get_weather], gate=gate) as runtime:
        runtime.start("Weather in Oslo?")
        async with asyncio.timeout(5):
            await gate.arrival("tool")
        for content in ("And in Rome?", "Be quick."):
            runtime.start(content)
        gate.open()
        await settled(runtime)
        assert len(said(runtime, "held")) == 2
        assert "bad_arguments" in [one.kind for one in said(runtime, "tool_reply")]
        return runtime


async def test_a_history_with_held_messages_and_malformed_arguments_is_accepted(
    address: str,
) -> None:
    history = (await spoken()).history
    with_it = agent(address, tools=True, tool_choice="none")
    async with DebugRuntime(with_it, history=history) as runtime:
        end = await ask(runtime, "Well?")
        assert (end.type, getattr(end, "message", "")) == ("done", "")
        assert said(runtime, "retrying") == []
        assert len(runtime.history) == len(history) + 2


async def test_the_server_does_refuse_malformed_arguments(address: str) -> None:
    """Else the test above would show nothing."""
    broken = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"city": "Ro'}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [broken]},
        {"role": "tool", "tool_call_id": "c", "content": "none"},
    ]
    body = {"model": "smollm2", "messages": messages, "max_tokens": 4}
    async with httpx2.AsyncClient(trust_env=False, timeout=WAIT) as client:
        answer = await client.post(f"{address}/v1/chat/completions", json=body)
    assert answer.status_code >= 400, answer.text
