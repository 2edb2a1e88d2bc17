"""One conversation as three other wire formats have it, and each accepts what is written."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_lab.domain.dialects import anthropic, gemini, openai_chat, openai_responses
from agent_lab.domain.dialects.check import DIALECTS, check_history
from agent_lab.domain.dialects.rendering import rendered
from agent_lab.domain.messages import ChatMessage, ToolCall
from agent_lab.domain.thinking import (
    ReasoningItem,
    ReasoningText,
    RedactedThinking,
    ThinkingBlock,
    Thought,
    ThoughtSignature,
)
from tests.domain.dialects.histories import PROFILES
from tests.domain.dialects.shared_cases import scenarios

RENDER: dict[str, Callable[[list[ChatMessage]], list[dict[str, Any]]]] = {
    "openai_chat": openai_chat.render,
    "openai_responses": openai_responses.render,
    "anthropic": anthropic.render,
    "gemini": gemini.render,
}
SIGNED = (
    ThinkingBlock("The user wants the weather.", "c2lnbmF0dXJlLTE="),
    ReasoningItem("rs_a1", (), "ZW5j"),
    ThoughtSignature("c2ln", before=1),
)
"""What `"thinking": "signed"` of a script stands for, as each provider gave it."""


def conversation(scenario: dict[str, Any]) -> list[ChatMessage]:
    """Our messages of a scenario: ids and texts from its Chat history, calls from its script."""
    replies = scenario["script"]["model"]
    scripted = [call for reply in replies for call in reply.get("calls", [])]
    signed = {call["id"] for r in replies if r.get("thinking") for call in r["calls"]}
    wire = scenario["expected_wire"]["openai_chat"]
    messages: list[ChatMessage] = []
    names: dict[str, str] = {}  # ids on the wire to ours
    for said, sent in zip(scenario["expected_history"]["openai_chat"], wire, strict=True):
        match said["role"]:
            case "assistant":
                calls = tuple(a_call(scripted.pop(0)) for _ in said.get("calls", ()))
                messages.append(
                    ChatMessage(
                        role="assistant",
                        content=sent["content"],
                        message_id=said["id"],
                        tool_calls=calls,
                        thinking=SIGNED if signed.intersection(said.get("calls", ())) else (),
                    )
                )
                names = dict(zip(said.get("calls", ()), (call.id for call in calls), strict=True))
            case "tool":
                kind = said["kind"] if said["kind"] != "empty" else "result"
                call = names[said["for"]]
                messages.append(
                    ChatMessage(role="tool", content=sent["content"], tool_call_id=call, kind=kind)
                )
            case role:
                messages.append(ChatMessage(role=role, content=sent["content"]))
    return messages


def a_call(scripted: dict[str, Any]) -> ToolCall:
    return ToolCall(scripted["id"], scripted["name"], scripted.get("args", {}))


@pytest.mark.parametrize("dialect", RENDER)
@pytest.mark.parametrize("scenario", [pytest.param(s, id=s["id"]) for s in scenarios()])
def test_a_scenario_is_written_as_expected(scenario: dict[str, Any], dialect: str) -> None:
    assert RENDER[dialect](conversation(scenario)) == scenario["expected_wire"][dialect]


IDS = st.sampled_from(["call_0", "call_1", "functions.f:0", "x" * 80, ""])
TEXT = st.sampled_from([None, "", " ", "Oslo", "ends blank "])
BEFORE = st.integers(0, 3)
THOUGHTS = st.lists(
    st.builds(ThinkingBlock, st.just("Hm."), st.just("c2ln"), BEFORE)
    | st.builds(RedactedThinking, st.just("eHh4"), BEFORE)
    | st.builds(ReasoningItem, st.sampled_from(["rs_1", "rs_2"]), st.just(("Hm.",)), before=BEFORE)
    | st.builds(Thought, st.sampled_from(["", "Hm."]), before=BEFORE)
    | st.builds(ThoughtSignature, st.just("c2ln"), BEFORE)
    | st.builds(ReasoningText, st.just("Hm.")),
    max_size=4,
).map(tuple)


@st.composite
def talks(draw: st.DrawFn) -> list[ChatMessage]:
    """Any conversation that holds together: rounds answered, then what the user says."""
    messages = [ChatMessage(role="user", content=draw(TEXT))]
    for _ in range(draw(st.integers(0, 4))):
        ids = draw(st.lists(IDS, max_size=3, unique=True))
        calls = tuple(ToolCall(i, "get_weather", {"city": "Oslo"}) for i in ids)
        messages.append(
            ChatMessage(
                role="assistant", content=draw(TEXT), tool_calls=calls, thinking=draw(THOUGHTS)
            )
        )
        messages += [
            ChatMessage(
                role="tool",
                content=draw(TEXT),
                tool_call_id=call,
                kind=draw(st.sampled_from(["result", "error", "lost"])),
            )
            for call in draw(st.permutations(ids))
        ]
        if draw(st.booleans()):
            messages.append(ChatMessage(role="user", content=draw(TEXT)))
    return [*messages, ChatMessage(role="user", content="and now?")]


@given(talks(), st.sampled_from(["openai_responses", "deepseek_responses", "anthropic", "gemini"]))
def test_what_is_written_of_any_conversation_is_valid(
    messages: list[ChatMessage], dialect: str
) -> None:
    writer = "openai_responses" if dialect == "deepseek_responses" else dialect

    assert check_history(RENDER[writer](messages), dialect) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_conversation_is_rendered_valid_for_every_server_and_profile(dialect: str) -> None:
    @settings(max_examples=40)
    @given(talks(), st.sampled_from(PROFILES.get(dialect, [{}])))
    def holds(messages: list[ChatMessage], profile: dict[str, Any]) -> None:
        result = rendered(messages, dialect, **profile)

        faults = check_history(result.messages, dialect, **profile)
        assert [fault for fault in faults if fault.severity == "error"] == []
        assert len(result.places) == len(result.messages)
        assert {place for place in result.places if place is not None} <= {*range(len(messages))}
        assert "and now?" in str(result.messages[-1])

    holds()


@given(talks())
def test_for_gemini_3_calls_are_signed(messages: list[ChatMessage]) -> None:
    model = "gemini-3-pro-preview"

    assert check_history(gemini.render(messages, model=model), "gemini", model=model) == []


def test_replies_are_written_in_call_order() -> None:
    calls = (ToolCall("a", "f"), ToolCall("b", "g"))
    messages = [
        ChatMessage(role="user", content="A"),
        ChatMessage(role="assistant", tool_calls=calls),
        ChatMessage(role="tool", content="of b", tool_call_id="b"),
        ChatMessage(role="tool", content="of a", tool_call_id="a"),
    ]

    results = anthropic.render(messages)[2]["content"]

    assert [result["content"] for result in results] == ["of a", "of b"]


def test_a_system_message_inside_the_history_is_marked_for_those_who_have_no_such_role() -> None:
    messages = [ChatMessage(role="system", content="Be brief.")]

    assert anthropic.render(messages) == [{"role": "user", "content": "[system] Be brief."}]
    assert gemini.render(messages) == [{"role": "user", "parts": [{"text": "[system] Be brief."}]}]
