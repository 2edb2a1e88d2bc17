"""A conversation as OpenAI Chat Completions takes it."""

from __future__ import annotations

from agent_lab.domain.dialects import openai_chat, render_body
from agent_lab.domain.messages import ChatMessage, ModelRequest, ToolCall, ToolSchema

SCHEMA = ToolSchema("wait", "Waits.", {"type": "object", "properties": {}})


def round_of(*calls: ToolCall) -> list[ChatMessage]:
    """The calls and an answer to each."""
    replies = [ChatMessage("tool", f"to {call.id}", tool_call_id=call.id) for call in calls]
    return [ChatMessage("assistant", tool_calls=calls), *replies]


def ids(wire: list[openai_chat.WireMessage]) -> list[tuple[list[str], str | None]]:
    """Call ids and reply ids, message by message."""
    return [
        ([call["id"] for call in said.get("tool_calls", ())], said.get("tool_call_id"))
        for said in wire
    ]


def test_arguments_go_back_byte_for_byte_as_the_model_sent_them() -> None:
    raw = '{"city":"Oslo",  "b" : 1}'
    said, _ = openai_chat.render(round_of(ToolCall("c1", "wait", {"city": "Oslo", "b": 1}, raw)))

    assert said == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "wait", "arguments": raw}}
        ],
    }


def test_an_id_that_comes_again_gets_a_fresh_one_on_the_wire_with_its_reply() -> None:
    again = ToolCall("call_0", "wait")
    wire = openai_chat.render([*round_of(again), *round_of(again), *round_of(again)])

    assert ids(wire) == [
        (["call_0"], None),
        ([], "call_0"),
        (["call_0-2"], None),
        ([], "call_0-2"),
        (["call_0-3"], None),
        ([], "call_0-3"),
    ]


def test_a_fresh_id_is_none_that_the_model_used_itself() -> None:
    taken, again = ToolCall("c-2", "wait"), ToolCall("c", "wait")
    wire = openai_chat.render([*round_of(again, taken), *round_of(again)])

    assert ids(wire)[3:] == [(["c-3"], None), ([], "c-3")]


def test_a_long_id_that_comes_again_stays_within_the_limit() -> None:
    long = ToolCall("y" * 40, "wait")
    wire = openai_chat.render([*round_of(long), *round_of(long)])

    (first, second) = (wire[index]["tool_calls"][0]["id"] for index in (0, 2))
    assert first != second
    assert max(len(first), len(second)) <= 40


def test_a_history_is_written_as_it_grows_as_it_would_be_at_once() -> None:
    history = [*round_of(ToolCall("c", "wait")), *round_of(ToolCall("c", "wait"))]
    writer = openai_chat.Writer()

    assert [writer.write(said) for said in history] == openai_chat.render(history)


def test_a_body_has_instructions_first_then_what_the_window_keeps_then_tools() -> None:
    history = [ChatMessage("user", "Old"), ChatMessage("user", "Oslo?"), ChatMessage("user", "?")]
    asked = ModelRequest(
        "s",
        "gpt",
        "openai_chat",
        "Be brief.",
        (SCHEMA,),
        history,
        start=1,
        stop=2,
        call=1,
        answers=0,
    )

    assert render_body(asked) == {
        "model": "gpt",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Oslo?"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "wait",
                    "description": "Waits.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
    }
