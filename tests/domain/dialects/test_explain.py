"""A provider's error text finds its rule and, in a history, the message."""

import json
from typing import Any

import pytest

from agent_lab.domain.dialects.check import check_history
from agent_lab.domain.dialects.explain import explain_error, locate_error
from tests.domain.dialects.shared_cases import DATA, cases, profile_of

INVALID = [pytest.param(case, id=case["id"]) for case in cases() if case["expect"] == "invalid"]


def found(text: str) -> list[tuple[str, str]]:
    return [(explanation.dialect, explanation.rule) for explanation in explain_error(text)]


@pytest.mark.parametrize("case", INVALID)
def test_what_check_foretells_is_explained(case: dict[str, Any]) -> None:
    violations = check_history(
        case["messages"], case["provider"], case.get("tools"), **profile_of(case)
    )
    foretold = next(v for v in violations if v.rule == case["rule"])

    assert (case["provider"], case["rule"]) in found(foretold.provider_error)


@pytest.mark.parametrize("case", INVALID)
def test_a_pasted_text_finds_the_message_in_its_history(case: dict[str, Any]) -> None:
    given = (case["messages"], case["provider"], case.get("tools"))
    foretold = next(v for v in check_history(*given, **profile_of(case)) if v.rule == case["rule"])

    located = locate_error(foretold.provider_error, *given, **profile_of(case))

    assert located[0] == foretold


SEEN = [
    pytest.param(seen["text"], (seen["dialect"], seen["rule"]), id=f"{n} {seen['rule']}")
    for n, seen in enumerate(json.loads((DATA / "seen_errors.json").read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("text", "rule"), SEEN)
def test_the_likeliest_rule_of_a_seen_error_comes_first(text: str, rule: tuple[str, str]) -> None:
    assert found(text)[0] == rule


def test_the_explanation_names_the_ids_of_the_text() -> None:
    text = "No tool output found for function call call_abc."

    assert "call_abc" in explain_error(text)[0].explanation


@pytest.mark.parametrize(
    "text", ["", "429 Too Many Requests", "400 BadRequestError: model not found", "x" * 100_000]
)
def test_an_error_about_something_else_finds_no_rule(text: str) -> None:
    assert explain_error(text) == []


def test_of_two_faults_the_one_that_the_text_names_comes_first() -> None:
    def calls(call: str) -> dict[str, Any]:
        function = {"name": "f", "arguments": "{}"}
        made = {"id": call, "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [made]}

    asked = {"role": "user", "content": "A"}
    history = [asked, calls("call_1"), asked, calls("call_2"), asked]
    text = json.dumps(check_history(history, "openai_chat")[1].provider_error)

    assert [v.where for v in locate_error(text, history, "openai_chat")] == [3, 1]
