"""What is on tape fits the SDKs' own types: each request that was sent, each event that came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructure.models.helpers_provider import by_dialect
from tests.infrastructure.models.helpers_sdk import event_faults, request_faults

CASSETTES = Path(__file__).parent / "cassettes"


def on_tape(dialect: str) -> list[dict[str, Any]]:
    """The exchanges of every committed cassette of this format."""
    folders = [path for path in CASSETTES.glob("*/*") if path.name.endswith(dialect)]
    assert len(folders) >= 3
    files = [path for folder in folders for path in sorted(folder.glob("*.json"))]
    return [json.loads(path.read_text("utf-8")) for path in files]


@by_dialect
def test_each_request_is_one_that_the_sdk_could_have_made(dialect: str) -> None:
    bodies = [exchange["request"]["body"] for exchange in on_tape(dialect)]
    assert any("call_1" in json.dumps(body) for body in bodies)
    assert [fault for body in bodies for fault in request_faults(dialect, body)] == []


@by_dialect
def test_each_event_is_one_that_the_sdk_could_read(dialect: str) -> None:
    lines = [
        line.strip()
        for exchange in on_tape(dialect)
        if exchange["response"]["status"] == 200
        for text in exchange["response"]["body"]
        for line in text.split("\n")
    ]
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert len(events) > 50
    assert [fault for event in events for fault in event_faults(dialect, event)] == []


@by_dialect
def test_what_does_not_fit_is_seen(dialect: str) -> None:
    body = on_tape(dialect)[-1]["request"]["body"]
    place = next(name for name in ("messages", "input", "contents") if name in body)
    assert request_faults(dialect, {**body, "made_up": 1})
    for wrong in ({"role": "user", "content": 7}, {"role": 7, "parts": [{"text": 7}]}):
        assert request_faults(dialect, {**body, place: [wrong]})


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("openai_chat", '{"choices": [{"delta": {"content": 7}}]}'),
        ("openai_responses", '{"type": "response.output_text.delta", "delta": 7}'),
        ("anthropic", '{"type": "content_block_delta", "index": 0, "delta": {"type": "odd"}}'),
        ("gemini", '{"candidates": [{"contents": {}}]}'),
    ],
)
def test_an_event_that_does_not_fit_is_seen(dialect: str, event: str) -> None:
    assert event_faults(dialect, event)
