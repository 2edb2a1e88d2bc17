"""Thinking goes back to the provider that made it, through a round of tools, byte for byte."""

from __future__ import annotations

from typing import Any

from agent_lab import Agent, DebugRuntime, tool
from agent_lab.domain.dialects.check import check_history
from agent_lab.infrastructure.models.cassette import Tape
from tests.application.helpers_runtime import said, take_turn
from tests.infrastructure.models.helpers_formats import REDACTED, SIGNED, Call, answer
from tests.infrastructure.models.helpers_provider import (
    MODELS,
    Answer,
    ProviderServer,
    by_dialect,
)
from tests.infrastructure.models.helpers_sdk import event_faults, request_faults

THOUGHT = ["Oslo is ", "in Norway\u2028, ", "so I look. 🌦"]
WHOLE = "".join(THOUGHT)
CALLS: list[Call] = [
    ("call_1", "get_weather", ['{"city": ', '"Oslo"}']),
    ("call_2", "get_weather", ['{"city": "Bergen"}']),
]


@tool
async def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"4 degrees in {city}"


def agent(dialect: str, url: str | None) -> Agent:
    name = MODELS[dialect].replace("gpt-test", "gpt-5-test")  # which is asked for its reasoning
    return Agent("weather", model=name, base_url=url, tools=[get_weather])


def answers(dialect: str) -> list[Answer]:
    looks = answer(dialect, ["I look."], CALLS, thinking=THOUGHT)
    return [Answer(b"".join(looks)), Answer(b"".join(answer(dialect, ["4 degrees."])))]


async def rounds(dialect: str, url: str | None, tape: Tape | None = None) -> DebugRuntime:
    async with DebugRuntime(agent(dialect, url), tape=tape) as runtime:
        for content in ("Weather in Oslo?", "Is that so?"):
            runtime.start(content)
            assert (await take_turn(runtime))[-1].type == "done"
        return runtime


def sent_back(dialect: str, body: Any) -> Any:
    """The first answer as the request has it, its thinking with what it led to."""
    match dialect:
        case "openai_chat":
            message = body["messages"][1]
            return message["reasoning_content"], message["content"], _ids(message["tool_calls"])
        case "anthropic":
            return body["messages"][1]["content"]
        case "gemini":
            return body["contents"][1]["parts"]
        case _:
            return [
                (item["type"], item.get("summary"), item.get("encrypted_content"))
                for item in body["input"][1:5]
            ]


def _ids(calls: Any) -> list[str]:
    return [call["id"] for call in calls]


EXPECTED = {
    "openai_chat": (WHOLE, "I look.", ["call_1", "call_2"]),
    "openai_responses": [
        ("reasoning", [{"type": "summary_text", "text": WHOLE}], SIGNED),
        ("message", None, None),
        ("function_call", None, None),
        ("function_call", None, None),
    ],
    "anthropic": [
        {"type": "thinking", "thinking": WHOLE, "signature": SIGNED},
        {"type": "redacted_thinking", "data": REDACTED},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Oslo"}},
        {"type": "tool_use", "id": "call_2", "name": "get_weather", "input": {"city": "Bergen"}},
    ],
    "gemini": [
        {"text": WHOLE, "thought": True},
        {"text": "I look."},
        {
            "functionCall": {"id": "call_1", "name": "get_weather", "args": {"city": "Oslo"}},
            "thoughtSignature": SIGNED,
        },
        {"functionCall": {"id": "call_2", "name": "get_weather", "args": {"city": "Bergen"}}},
    ],
}


@by_dialect
async def test_thinking_goes_back_with_the_calls_it_led_to(dialect: str) -> None:
    """The second request, and the one of the next turn, as the provider's server got it."""
    async with ProviderServer(*answers(dialect)) as server:
        runtime = await rounds(dialect, server.url(dialect))

    assert len(server.asked) == 3
    for asked in server.asked[1:]:
        assert sent_back(dialect, asked.json) == EXPECTED[dialect]
        body = asked.json
        messages = body.get("messages") or body.get("input") or body["contents"]
        assert [one for one in check_history(messages, dialect) if one.severity == "error"] == []
        assert request_faults(dialect, body) == []
    if dialect == "openai_responses":
        assert server.asked[0].json["include"] == ["reasoning.encrypted_content"]
    assert "".join(delta.text for delta in said(runtime, "text_delta")).startswith("I look.")
    assert said(runtime, "assistant")[0].thinking != ()


@by_dialect
async def test_a_round_with_thinking_plays_from_its_cassette(
    dialect: str, agent_lab_tape: Tape
) -> None:
    """A request without the thinking would be another one, and fail."""
    if agent_lab_tape.mode == "record":
        async with ProviderServer(*answers(dialect)) as server:
            await rounds(dialect, server.url(dialect), agent_lab_tape)
    else:
        await rounds(dialect, None, agent_lab_tape)
        assert agent_lab_tape.unused == []


@by_dialect
def test_these_answers_are_ones_that_the_sdk_could_read(dialect: str) -> None:
    events = answer(dialect, ["I look."], CALLS, thinking=THOUGHT)
    data = [event.decode().partition("data: ")[2].strip() for event in events]
    assert [fault for event in data for fault in event_faults(dialect, event)] == []
