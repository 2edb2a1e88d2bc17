"""Whatever a model makes of its calls, the history stays one that the provider takes back."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_lab.domain.conversation import Conversation
from agent_lab.domain.dialects import openai_chat
from agent_lab.domain.dialects.formats import FORMATS
from agent_lab.domain.dialects.rendering import written
from agent_lab.domain.limits import Limits
from agent_lab.domain.messages import ChatMessage, FinishReason, Reply, ToolCall
from agent_lab.testing import assert_provider_valid

SERVERS = ("openai_chat", "deepseek", "dashscope", "groq", "vllm", "sglang", "minimax")
WORDS = st.sampled_from(
    ["", "wait", "functions.wait", "wait now", "c1", "c1-2", "ü", "x" * 70, "y" * 40]
)
RAW = st.one_of(
    st.none(),
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
        max_leaves=4,
    ).map(json.dumps),
)
CALLS = st.builds(ToolCall, WORDS, WORDS, st.just({}), RAW)
ANSWERS = st.builds(
    Reply,
    st.sampled_from([None, "", " ", "Let me see."]),
    st.lists(CALLS, max_size=4).map(tuple),
    st.sampled_from([None, "stop", "tool_calls", "length", "content_filter"]),
)


def asked(conversation: Conversation, number: int) -> None:
    """A user message, delivered; the model is asked."""
    message = ChatMessage("user", "Oslo?", message_id=f"m{number}")
    conversation.accept(message)
    conversation.receive(message)
    conversation.begin_call()


def answered(conversation: Conversation, reply: Reply) -> None:
    conversation.hear(conversation.call, reply)
    conversation.answered(conversation.call)


@given(st.lists(ANSWERS, min_size=1, max_size=4))
def test_history_is_valid_whatever_names_ids_and_arguments_the_model_makes_up(
    replies: list[Reply],
) -> None:
    conversation = Conversation({"wait"}, Limits())
    for number, reply in enumerate(replies):
        asked(conversation, number)
        answered(conversation, reply)
        conversation.cancel()

    assert_provider_valid(openai_chat.render(conversation.history), *SERVERS)
    assert_provider_valid(conversation.history, *FORMATS)


@given(st.lists(ANSWERS, min_size=1, max_size=4))
def test_names_that_a_model_made_up_are_names_in_every_format(replies: list[Reply]) -> None:
    conversation = Conversation({"wait"}, Limits())
    for number, reply in enumerate(replies):
        asked(conversation, number)
        answered(conversation, reply)
        conversation.cancel()

    for wire_format in FORMATS:
        names = re.findall(r"'name': '([^']*)'", str(written(conversation.history, wire_format)))
        assert [name for name in names if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)] == []


@given(RAW)
def test_replayed_arguments_are_always_a_json_object(raw: str | None) -> None:
    conversation = Conversation({"wait"}, Limits())
    asked(conversation, 1)
    answered(conversation, Reply(None, (ToolCall("c1", "wait", {}, raw),)))

    (call,) = openai_chat.render(conversation.history)[1]["tool_calls"]
    assert isinstance(json.loads(call["function"]["arguments"]), dict)


@pytest.mark.parametrize(
    ("reason", "kind"), [("length", "truncated"), ("content_filter", "truncated")]
)
def test_no_call_of_an_answer_that_was_cut_short_runs(reason: FinishReason, kind: str) -> None:
    conversation = Conversation({"wait"}, Limits())
    asked(conversation, 1)
    answered(conversation, Reply(None, (ToolCall("c1", "wait"), ToolCall("c2", "wait")), reason))

    assert [message.kind for message in conversation.history[2:]] == [kind, kind]


def test_a_reply_of_an_earlier_round_does_not_answer_a_reused_id() -> None:
    conversation = Conversation({"wait"}, Limits())
    asked(conversation, 1)
    answered(conversation, Reply(None, (ToolCall("call_0", "wait"),)))
    conversation.cancel()
    asked(conversation, 2)
    answered(conversation, Reply(None, (ToolCall("call_0", "wait"),)))

    late = ChatMessage("tool", "of round 1", tool_call_id="call_0", round=1)
    (said,) = conversation.receive(late)

    assert (said.type, conversation.calls.open) == ("late_reply", ("call_0",))
