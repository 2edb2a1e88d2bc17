"""A history that was cut short is made whole, and a window never splits a round."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_lab.domain.dialects import openai_chat
from agent_lab.domain.messages import ChatMessage, ToolCall
from agent_lab.domain.repair import repair, window_start
from tests.application.data.story import openai_faults

IDS = st.sampled_from(["c1", "c2", "c3"])
MESSAGES = st.one_of(
    st.builds(ChatMessage, st.just("user"), st.sampled_from(["Oslo?", "Rome?"])),
    st.builds(ChatMessage, st.just("assistant"), st.sampled_from(["Well.", "", "  ", None])),
    st.builds(
        lambda ids: ChatMessage("assistant", tool_calls=tuple(ToolCall(i, "wait") for i in ids)),
        st.lists(IDS, min_size=1, unique=True),
    ),
    st.builds(
        lambda call_id, text: ChatMessage("tool", text, tool_call_id=call_id),
        IDS,
        st.sampled_from(["4 degrees", "20 degrees", ""]),
    ),
)
HISTORIES = st.lists(MESSAGES, max_size=12)


@given(HISTORIES)
def test_whatever_was_saved_is_valid_after_repair(history: list[ChatMessage]) -> None:
    assert list(openai_faults(openai_chat.render(repair(history)))) == []


@given(HISTORIES)
def test_repair_is_idempotent_and_leaves_its_input_alone(history: list[ChatMessage]) -> None:
    before = list(history)
    once = repair(history)

    assert (repair(once), history) == (once, before)


@given(HISTORIES)
def test_repair_keeps_every_user_message_and_makes_up_only_lost_replies(
    history: list[ChatMessage],
) -> None:
    whole = repair(history)

    users = [said for said in history if said.role == "user"]
    assert [said for said in whole if said.role == "user"] == users
    made_up = [said for said in whole if said.role == "tool" and said not in history]
    assert {said.kind for said in made_up} <= {"lost"}


def test_an_open_call_is_closed_as_lost_and_a_finished_one_keeps_its_reply() -> None:
    calls = (ToolCall("c1", "wait"), ToolCall("c2", "wait"))
    said = ChatMessage("assistant", tool_calls=calls)
    done = ChatMessage("tool", "4 degrees", tool_call_id="c2", name="wait")

    whole = repair([ChatMessage("user", "Oslo?"), said, done, ChatMessage("user", "Well?")])

    lost = ChatMessage(
        "tool",
        "Error: no result (the process stopped while the tool ran)",
        tool_call_id="c1",
        name="wait",
        kind="lost",
        is_error=True,
    )
    assert whole[1:4] == [said, lost, done]


@given(HISTORIES.map(repair), st.integers(1, 12))
def test_a_window_begins_at_a_user_message_wherever_there_is_one(
    history: list[ChatMessage], keep: int
) -> None:
    start = window_start(history, keep)

    if any(said.role == "user" for said in history) and len(history) > keep:
        assert history[start].role == "user"
    if len(history) <= keep:
        assert start == 0
    assert list(openai_faults(openai_chat.render(history)[start:])) == []


def test_a_window_without_a_user_message_in_it_reaches_back_to_the_question() -> None:
    said = ChatMessage("assistant", tool_calls=(ToolCall("c1", "wait"),))
    done = ChatMessage("tool", "4 degrees", tool_call_id="c1", name="wait")
    history = [ChatMessage("user", "Before"), ChatMessage("user", "Oslo?"), said, done]

    assert window_start(history, 2) == 1
