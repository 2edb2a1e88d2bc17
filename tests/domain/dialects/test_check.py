"""What a provider refuses is found before it is sent, and nothing else."""

import re
from typing import Any

import pytest

from agent_lab.domain.dialects.check import DIALECTS, check_history
from agent_lab.domain.dialects.violations import (
    HistoryUnreadable,
    UnknownDialect,
    UnknownProfileKey,
    Violation,
)
from tests.domain.dialects.shared_cases import cases, profile_of, rules

CASES = cases()


def checked(case: dict[str, Any]) -> list[Violation]:
    return check_history(case["messages"], case["provider"], case.get("tools"), **profile_of(case))


def of(expect: str, *confidences: str) -> Any:
    chosen = [c for c in CASES if c["expect"] == expect and c["confidence"] in confidences]
    return pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in chosen])


@of("valid", "high", "medium", "low")
def test_a_valid_history_has_no_fault(case: dict[str, Any]) -> None:
    assert checked(case) == []


@of("invalid", "high", "medium")
def test_a_fault_is_found_once_at_its_place(case: dict[str, Any]) -> None:
    found = checked(case)

    assert [(v.rule, v.where, v.severity) for v in found] == [
        (case["rule"], case["where"], "error")
    ]
    assert case.get("where_ids") in (None, list(found[0].ids))


@of("invalid", "low")
def test_a_doubtful_fault_is_a_warning(case: dict[str, Any]) -> None:
    found = checked(case)

    assert (case["rule"], case["where"]) in [(v.rule, v.where) for v in found]
    assert {v.severity for v in found} == {"warning"}


@of("invalid", "high", "medium", "low")
def test_a_fault_is_told_with_every_gap_filled(case: dict[str, Any]) -> None:
    for violation in checked(case):
        assert violation.explanation and violation.fix and violation.provider_error
        for text in (violation.explanation, violation.fix, violation.provider_error):
            assert not re.search(
                r"<(i|j|id|ids|n|name|role|call_id|\w+_id)>|\[[ij]\]|\{\w+\}", text
            )


@pytest.mark.parametrize(
    "rule", [pytest.param(r, id=f"{r['provider']}.{r['rule']}") for r in rules()]
)
def test_every_shared_rule_is_known_with_its_confidence(rule: dict[str, Any]) -> None:
    ours = {known.name: known for known in DIALECTS[rule["provider"]].rules}

    assert ours[rule["rule"]].confidence == rule["confidence"]


# The shared text of these is a note on texts that vary.
TEXT_VARIES = ("tool_call_id_repeated_in_message", "invalid_json_arguments", "arguments_not_json")


@of("invalid", "high", "medium", "low")
def test_the_provider_is_quoted_in_its_own_words(case: dict[str, Any]) -> None:
    said = next(v.provider_error for v in checked(case) if v.rule == case["rule"])

    texts = case["error"].split(" | ")
    assert case["rule"].startswith(TEXT_VARIES) or any(re.match(as_pattern(t), said) for t in texts)


def as_pattern(error: str) -> str:
    """A shared error text up to its first note, with its gaps open."""
    head = re.split(r"\s*(?:; )?(?:\.\.\.|\()", error)[0]
    with_gaps = re.sub(
        r"'(?:messages|tools)\[i\][^']*'|<[^>]+>|\[[ij]\]|none|input_text", "\0", head
    )
    return ".+".join(map(re.escape, with_gaps.split("\0")))


def test_one_pass_finds_all_faults_in_the_order_of_the_messages() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        {"role": "tool", "tool_call_id": "x", "content": "9"},
        {"role": "user", "content": "A"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "user", "content": "B"},
        {"role": "tool", "tool_call_id": "a", "content": "4"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "C", "tool_calls": []},
    ]

    assert [(v.rule, v.where) for v in check_history(history, "openai_chat")] == [
        ("tool_reply_orphan", 0),
        ("tool_replies_interrupted", 3),
        ("content_null", 5),
        ("tool_calls_empty", 6),
    ]


def test_the_provider_is_quoted_word_for_word() -> None:
    use = {"type": "tool_use", "name": "f", "input": {}}
    history = [
        {"role": "user", "content": "A"},
        {"role": "assistant", "content": [{**use, "id": "toolu_1"}, {**use, "id": "toolu_2"}]},
        {"role": "user", "content": "B"},
    ]

    assert check_history(history, "anthropic")[0].provider_error == (
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: "
        "toolu_1, toolu_2. Each `tool_use` block must have a corresponding `tool_result` block in "
        "the next message."
    )


@pytest.mark.parametrize(
    ("tokenizer", "rule"), [("v3", "call_reply_count"), ("v11", "tool_reply_unknown_id")]
)
def test_mistral_refuses_replies_to_calls_in_the_very_first_message(
    tokenizer: str, rule: str
) -> None:
    """As mistral-common 1.13.1 does: it does not count the calls of the first message."""
    call = {"id": "a1b2c3d4e", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a1b2c3d4e", "content": "4"},
    ]

    found = check_history(history, "mistral", tokenizer=tokenizer)

    assert [(v.rule, v.where) for v in found] == [(rule, 1)]


def nested(depth: int) -> list[Any]:
    deep: list[Any] = []
    for _ in range(depth):
        deep = [deep]
    return deep


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "history",
    [None, "[]", {"messages": []}, 7, ["hello"], [None], [[]], [{"content": nested(5_000)}]],
    ids=["none", "text", "body", "number", "a text", "a null", "a list", "5,000 deep"],
)
def test_what_is_no_history_gets_one_named_error(dialect: str, history: Any) -> None:
    with pytest.raises(HistoryUnreadable, match=r"messages.* cannot be read: .*; give a list"):
        check_history(history, dialect)


def test_tools_that_are_no_objects_get_the_same_error() -> None:
    with pytest.raises(HistoryUnreadable, match=r"tools\[0\] cannot be read: item 0 is str"):
        check_history([], "openai_chat", ["get_weather"])  # pyright: ignore[reportArgumentType] what a caller may do wrong


def test_an_unknown_dialect_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownDialect, match=r"no rules for dialect 'openai'.*openai_chat"):
        check_history([], "openai")


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        ({"modle": "x"}, "profile key 'modle'; the keys are model"),
        ({"thinking": "perhaps"}, "profile key 'thinking' cannot be 'perhaps'"),
        ({"produced": "["}, "profile key 'produced' cannot be"),
        ({"original_content": 5}, "profile key 'original_content' cannot be 5"),
    ],
)
def test_a_profile_that_no_rule_reads_is_named(profile: dict[str, Any], told: str) -> None:
    with pytest.raises(UnknownProfileKey, match=re.escape(told)):
        check_history([], "openai_chat", **profile)


def test_profile_values_may_come_as_text_of_a_command_line() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    said = {"type": "message", "role": "assistant", "content": "x"}

    found = check_history([item, said], "openai_responses", store="false")

    assert [v.rule for v in found] == ["reasoning_not_persisted"]
