"""A refused history is made valid, and nothing that was said is lost."""

import copy
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_lab.domain.dialects.check import DIALECTS, check_history
from agent_lab.domain.dialects.repair import repair_history, repair_report
from agent_lab.domain.dialects.violations import HistoryUnreadable
from tests.domain.dialects.histories import CHAT, OF, PROFILES, Wire, interrupted_talk
from tests.domain.dialects.shared_cases import cases, profile_of

CASES = cases()
LOST = "Error: no result (the process stopped while the tool ran)"


def profiles(dialect: str) -> st.SearchStrategy[Wire]:
    return st.sampled_from(PROFILES.get(dialect, [{}]))


def errors(history: list[Wire], dialect: str, profile: Wire) -> list[tuple[str, int | None]]:
    found = check_history(history, dialect, **profile)
    return [(v.rule, v.where) for v in found if v.severity == "error"]


def all_texts(value: Any) -> list[str]:
    """Every string in a JSON value."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for part in value.values() for text in all_texts(part)]
        case list():
            return [text for part in value for text in all_texts(part)]
        case _:
            return []


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in CASES])
def test_every_shared_history_repairs_to_a_valid_one(case: dict[str, Any]) -> None:
    repaired = repair_history(case["messages"], case["provider"], **profile_of(case))

    assert errors(repaired, case["provider"], profile_of(case)) == []


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c["id"]) for c in CASES if c["expect"] == "valid"]
)
def test_a_valid_history_comes_back_equal(case: dict[str, Any]) -> None:
    report = repair_report(
        case["messages"], case["provider"], case.get("tools"), **profile_of(case)
    )

    assert report.messages == case["messages"]
    assert report.changes == ()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_list_repairs_to_a_valid_one_once_and_for_all(dialect: str) -> None:
    @settings(max_examples=50)
    @given(OF.get(dialect, CHAT), profiles(dialect))
    def holds(history: list[Wire], profile: Wire) -> None:
        given_before = copy.deepcopy(history)

        repaired = repair_history(history, dialect, **profile)

        assert errors(repaired, dialect, profile) == []
        assert repair_history(repaired, dialect, **profile) == repaired
        assert history == given_before
        if not errors(history, dialect, profile):
            assert repaired == history

    holds()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_repair_keeps_each_user_message_and_each_finished_reply(dialect: str) -> None:
    @settings(max_examples=50)
    @given(interrupted_talk(dialect), profiles(dialect))
    def holds(talk: tuple[list[Wire], list[str]], profile: Wire) -> None:
        history, said = talk

        repaired = repair_history(history, dialect, **profile)

        kept = all_texts(repaired)
        assert [text for text in said if text not in kept] == []
        assert errors(repaired, dialect, profile) == []

    holds()


def test_the_report_says_what_was_dropped_made_and_moved() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    history: list[Wire] = [
        {"role": "tool", "tool_call_id": "gone", "content": "9"},
        {"role": "user", "content": "A"},
        {"role": "assistant", "content": None, "tool_calls": [{**call, "id": "a"}]},
        {"role": "user", "content": "B"},
        {"role": "tool", "tool_call_id": "a", "content": "4"},
        {"role": "assistant", "content": None, "tool_calls": [{**call, "id": "b"}]},
    ]

    report = repair_report(history, "openai_chat")

    made = {"role": "tool", "tool_call_id": "b", "content": LOST}
    assert report.messages == [history[1], history[2], history[4], history[3], history[5], made]
    assert [(c.deed, c.where, c.before, c.after) for c in report.changes] == [
        ("moved", 4, history[4], history[4]),
        ("dropped", 0, history[0], None),
        ("made", None, None, made),
    ]
    assert all(change.reason for change in report.changes)


@pytest.mark.parametrize(
    ("dialect", "opened"),
    [
        ("openai_chat", {"role": "assistant", "content": None, "tool_calls": "call"}),
        ("anthropic", {"role": "assistant", "content": "use"}),
        ("gemini", {"role": "model", "parts": "call"}),
        ("openai_responses", "item"),
    ],
)
def test_a_made_up_reply_says_that_there_is_no_result(dialect: str, opened: Any) -> None:
    parts: Wire = {
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f"}}],
        "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
        "parts": [{"functionCall": {"name": "f", "args": {}}}],
        "item": {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
    }
    message = parts["item"] if opened == "item" else {**opened}
    for field in ("tool_calls", "content", "parts"):
        if isinstance(message.get(field), str) and field in parts:
            message[field] = parts[field]
    asked = {
        "role": "user",
        **({"parts": [{"text": "A"}]} if dialect == "gemini" else {"content": "A"}),
    }

    repaired = repair_history([asked, message], dialect)

    assert repaired[:2] == [asked, message]
    assert LOST in all_texts(repaired[2])


def test_what_cannot_be_read_is_not_repaired() -> None:
    with pytest.raises(HistoryUnreadable, match=re.escape("messages[0] cannot be read")):
        repair_history(["hello"], "openai_chat")  # pyright: ignore[reportArgumentType] what a caller may do wrong


def test_a_fault_of_the_tools_alone_leaves_the_messages_as_they_are() -> None:
    tools = [{"type": "function", "function": {"name": "no such name!"}}]
    history = [{"role": "user", "content": "A"}]

    report = repair_report(history, "openai_chat", tools)

    assert report.messages == history
    assert [fault.rule for fault in report.left] == ["function_name_pattern"]


def test_what_no_json_could_hold_is_still_repaired() -> None:
    history = [{"role": "user", "content": {"when": object(), "who": {1, 2}}}]

    assert errors(repair_history(history, "openai_chat"), "openai_chat", {}) == []
