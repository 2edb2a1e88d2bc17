"""What a provider's format says is read into our messages, and written again it says the same."""

from typing import Any

import pytest
from hypothesis import given, settings

from agent_lab.domain.dialects.check import DIALECTS, check_history
from agent_lab.domain.dialects.formats import FORMATS
from agent_lab.domain.dialects.reading import read_wire
from agent_lab.domain.dialects.rendering import render_history, written
from agent_lab.domain.dialects.rules.rule import Format
from agent_lab.domain.messages import ChatMessage, ToolCall
from agent_lab.domain.thinking import (
    ReasoningItem,
    ReasoningText,
    RedactedThinking,
    ThinkingBlock,
    Thought,
    ThoughtSignature,
)
from tests.domain.dialects.histories import CHAT, OF, Wire
from tests.domain.dialects.shared_cases import cases, profile_of, scenarios
from tests.domain.dialects.test_repair import all_texts

HOLDS_MORE = {
    "anthropic.ok.roles.2",
    "gemini.ok.part_without_data.1",
    "openai_chat.ok.roles.5",
    "openai_chat.ok.invalid_json_arguments.1",
    "openai_responses.ok.roles.1",
}
"""Four images, and arguments that are no JSON: our messages have no place for them."""
VALID = [case for case in cases() if case["expect"] == "valid"]
OSLO = {"city": "Oslo"}


def read(wire: list[Wire], wire_format: Format) -> list[ChatMessage]:
    return [said.message for said in read_wire(wire, wire_format)]


@pytest.mark.parametrize("wire_format", FORMATS)
@pytest.mark.parametrize("scenario", [pytest.param(s, id=s["id"]) for s in scenarios()])
def test_a_scenario_that_is_read_is_written_as_it_was(
    scenario: dict[str, Any], wire_format: Format
) -> None:
    wire = scenario["expected_wire"][wire_format]

    assert written(read(wire, wire_format), wire_format).messages == wire


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in VALID])
def test_a_valid_history_that_is_read_is_written_valid_and_says_the_same(
    case: dict[str, Any],
) -> None:
    dialect, profile = case["provider"], profile_of(case)
    wire_format = DIALECTS[dialect].format

    said = read_wire(case["messages"], wire_format)

    messages = [one.message for one in said]
    again = render_history(messages, dialect, **profile)
    assert check_history(again, dialect, **profile) == []
    spoken = [m.content for m in messages if m.content and m.content.strip()]
    told = "\n".join(all_texts(again))
    assert [text for text in spoken if text not in told] == []
    assert render_history(read(again, wire_format), dialect, **profile) == again
    assert any(one.left_out for one in said) == (case["id"] in HOLDS_MORE)


@pytest.mark.parametrize("wire_format", FORMATS)
def test_anything_at_all_is_read(wire_format: Format) -> None:
    @settings(max_examples=100)
    @given(OF.get(wire_format, CHAT))
    def holds(wire: list[Wire]) -> None:
        said = read_wire(wire, wire_format)

        assert [one.at for one in said] == sorted(one.at for one in said) or "call_id" in str(wire)
        assert all(type(one.message) is ChatMessage for one in said)

    holds()


def test_thinking_is_read_where_it_stood() -> None:
    block = ThinkingBlock("Hm.", "c2ln")
    history = [
        ChatMessage(
            "assistant",
            "Looking.",
            tool_calls=(ToolCall("a", "f", OSLO), ToolCall("b", "f", OSLO)),
            thinking=(block, RedactedThinking("eHh4", 1), ThinkingBlock("And?", "c2lo", 2)),
        )
    ]

    assert read(written(history, "anthropic").messages, "anthropic") == history


@pytest.mark.parametrize(
    ("wire_format", "thinking"),
    [
        ("openai_chat", (ReasoningText("Hm."),)),
        ("openai_chat", (ReasoningText("Hm.", "reasoning"),)),
        ("openai_responses", (ReasoningItem("rs_1", ("Hm.", "So."), "ZW5j"),)),
        ("anthropic", (RedactedThinking("eHh4"), ThinkingBlock("Hm.", "c2ln"))),
        ("gemini", (Thought("Hm."), ThoughtSignature("c2ln"))),
    ],
)
def test_thinking_in_front_of_text_comes_back(wire_format: Format, thinking: Any) -> None:
    history = [ChatMessage("user", "A"), ChatMessage("assistant", "B", thinking=thinking)]

    again = read(written(history, wire_format).messages, wire_format)

    assert again[1].thinking == thinking


def test_outputs_of_responses_come_to_stand_behind_their_calls() -> None:
    def call(name: str) -> Wire:
        return {"type": "function_call", "call_id": name, "name": "f", "arguments": "{}"}

    def output(name: str) -> Wire:
        return {"type": "function_call_output", "call_id": name, "output": f"of {name}"}

    said = {"role": "user", "content": "Still there?"}

    messages = read([call("a"), call("b"), said, output("b"), output("a")], "openai_responses")

    assert [(m.role, m.content) for m in messages] == [
        ("assistant", None),
        ("tool", "of a"),
        ("tool", "of b"),
        ("user", "Still there?"),
    ]


def test_a_gemini_response_without_an_id_answers_by_name_and_then_by_place() -> None:
    calls = [{"functionCall": {"name": name, "args": {}}} for name in ("f", "g", "f")]
    named = [
        {"functionResponse": {"name": name, "response": {"result": said}}}
        for name, said in (("g", "of g"), ("f", "of f"), ("f", "of the other f"))
    ]

    model, *replies = read(
        [{"role": "model", "parts": calls}, {"role": "user", "parts": named}], "gemini"
    )

    first, second, third = (call.id for call in model.tool_calls)
    assert [(r.tool_call_id, r.content) for r in replies] == [
        (second, "of g"),
        (first, "of f"),
        (third, "of the other f"),
    ]


@pytest.mark.parametrize(
    ("wire_format", "message", "left_out"),
    [
        (
            "openai_chat",
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
            ("a part of type image_url",),
        ),
        (
            "openai_chat",
            {
                "role": "assistant",
                "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": '{"ci'}}],
            },
            ('arguments that are not a JSON object: {"ci',),
        ),
        (
            "anthropic",
            {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s"}]},
            ("a part of type server_tool_use",),
        ),
        ("openai_responses", {"type": "web_search_call"}, ("an item of type web_search_call",)),
        ("gemini", {"role": "user", "parts": [{"inlineData": {}}]}, ("a part of type inlineData",)),
    ],
)
def test_what_our_messages_cannot_hold_is_said(
    wire_format: Format, message: Wire, left_out: tuple[str, ...]
) -> None:
    (said,) = read_wire([message], wire_format)

    assert said.left_out == left_out


def test_a_failed_tool_stays_failed() -> None:
    history = [
        ChatMessage("user", "A"),
        ChatMessage("assistant", tool_calls=(ToolCall("a", "f", OSLO),)),
        ChatMessage("tool", "Error: no", tool_call_id="a", kind="error", is_error=True),
    ]

    for wire_format in ("anthropic", "gemini"):
        assert read(written(history, wire_format).messages, wire_format)[2].is_error
