"""Answers of each provider over real HTTP, whatever pieces they come in."""

from __future__ import annotations

from typing import Any

import pytest

from agent_lab.domain.messages import CallDelta, Finish, ModelEvent, TextDelta, Usage
from tests.infrastructure.models.helpers_formats import Call, answer
from tests.infrastructure.models.helpers_provider import Answer, ProviderServer, by_dialect, request

TEXT = ["Let me", " look\u2028 up Oslo’s", " weather 🌦."]
CALLS: list[Call] = [
    ("call_a", "get_weather", ['{"ci', 'ty": "Os', 'lo"}']),
    ("call_b", "get_weather", ['{"city": "Rome"}']),
]
USAGE = {
    "openai_chat": Usage(100, 7, 60, None, 2, 100),
    "openai_responses": Usage(100, 7, 60, None, 2, 100),
    "anthropic": Usage(30, 7, 60, 10, None, 100),
    "gemini": Usage(100, 7, 60, None, 2, 100),
}


def joined(events: list[ModelEvent]) -> tuple[str, dict[int, tuple[Any, Any, str]], Finish | None]:
    """Text, calls by index, and the end."""
    text, finish = "", None
    calls: dict[int, tuple[Any, Any, str]] = {}
    for event in events:
        match event:
            case TextDelta():
                text += event.text
            case CallDelta():
                call_id, name, arguments = calls.get(event.index, (None, None, ""))
                calls[event.index] = (
                    event.id or call_id,
                    event.name or name,
                    arguments + event.arguments,
                )
            case Finish():
                finish = event
            case _:
                raise AssertionError(event)
    return text, calls, finish


@by_dialect
@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
@pytest.mark.parametrize("size", [None, 1])
async def test_text_and_calls_come_out_as_they_were_said(
    dialect: str, framing: Any, size: int | None
) -> None:
    events = answer(dialect, TEXT, CALLS)
    async with ProviderServer(Answer(b"".join(events), framing=framing, size=size)) as server:
        asked = request(model := server.model(dialect))
        text, calls, finish = joined([event async for event in model.stream(asked)])
    assert text == "".join(TEXT)
    assert [(call_id, name) for call_id, name, _ in calls.values()] == [
        ("call_a", "get_weather"),
        ("call_b", "get_weather"),
    ]
    said = [arguments.replace(" ", "") for _, _, arguments in calls.values()]
    assert said == ['{"city":"Oslo"}', '{"city":"Rome"}']
    assert finish is not None and asked.wire is not None
    assert (finish.reason, finish.usage) == ("tool_calls", USAGE[dialect])
    assert [f"data: {raw}\n\n".encode() for raw in asked.wire.raw.events] == [
        event[event.index(b"data: ") :] for event in events
    ]
