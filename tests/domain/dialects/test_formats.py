"""A list in another provider's format is said to be that, in the provider's words, and mended."""

from typing import Any, get_args

import pytest

from agent_lab.domain.dialects.check import DIALECTS, check_history
from agent_lab.domain.dialects.explain import explain_error
from agent_lab.domain.dialects.formats import FORMATS, format_of
from agent_lab.domain.dialects.repair import repair_report
from agent_lab.domain.dialects.rules.rule import Format
from agent_lab.domain.dialects.writing import write_wire
from agent_lab.domain.messages import ChatMessage, ToolCall
from tests.domain.dialects.shared_cases import cases

TALK = [
    ChatMessage("user", "Weather in Oslo?"),
    ChatMessage("assistant", tool_calls=(ToolCall("call_a1", "get_weather", {"city": "Oslo"}),)),
    ChatMessage("tool", "4 degrees", tool_call_id="call_a1", name="get_weather"),
    ChatMessage("assistant", "It has 4 degrees."),
    ChatMessage("user", "And in Rome?"),
]
PAIRS = [(given, own) for given in FORMATS for own in FORMATS if given != own]


def wire(given: Format) -> list[dict[str, Any]]:
    return [message for _, message in write_wire(TALK, given)]


@pytest.mark.parametrize("given", FORMATS)
def test_a_format_is_told_by_what_only_it_has(given: Format) -> None:
    assert format_of(wire(given)) == given


@pytest.mark.parametrize(("given", "own"), PAIRS)
def test_another_format_is_the_one_fault_that_is_told(given: Format, own: Format) -> None:
    found = check_history(wire(given), own)

    assert [(v.rule, v.severity) for v in found] == [("wrong_format", "error")]
    assert f"check it as {given}" in found[0].fix.lower()
    assert found[0].where is not None and f"message {found[0].where}" in found[0].explanation


@pytest.mark.parametrize(
    ("given", "own", "words"),
    [
        ("openai_chat", "openai_responses", "Unknown parameter: 'input[1].tool_calls'."),
        ("openai_responses", "openai_chat", "Invalid value: 'input_text'. Supported values are: "),
        ("anthropic", "openai_chat", "Invalid value: 'tool_use'. Supported values are: 'text', "),
        ("gemini", "openai_chat", "Missing required parameter: 'messages[0].content'."),
        ("openai_chat", "anthropic", "messages.1.tool_calls: Extra inputs are not permitted"),
        ("gemini", "anthropic", "messages.0.parts: Extra inputs are not permitted"),
        (
            "openai_chat",
            "gemini",
            "Invalid JSON payload received. Unknown name \"tool_calls\" at 'contents[1]': Cannot",
        ),
    ],
)
def test_the_provider_says_it_in_its_own_words(given: Format, own: Format, words: str) -> None:
    said = check_history(wire(given), own)[0].provider_error

    assert said.startswith(words)
    assert ("wrong_format", own) in [(one.rule, one.dialect) for one in explain_error(said)]


def test_a_server_with_the_chat_format_knows_other_formats_too() -> None:
    for dialect, provider in DIALECTS.items():
        for given in FORMATS:
            rules = {violation.rule for violation in check_history(wire(given), dialect)}
            assert ("wrong_format" in rules) == (given != provider.format), (dialect, given)


def test_plain_talk_is_no_foreign_format_but_for_gemini() -> None:
    talk = [{"role": "user", "content": "Hello."}]

    assert [own for own in get_args(Format) if check_history(talk, own)] == ["gemini"]
    assert check_history(talk, "gemini")[0].rule == "wrong_format"


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in cases()])
def test_a_shared_case_is_never_taken_for_another_format(case: dict[str, Any]) -> None:
    found = check_history(case["messages"], case["provider"])

    assert "wrong_format" not in {violation.rule for violation in found}


@pytest.mark.parametrize(("given", "own"), PAIRS)
def test_repair_writes_the_conversation_anew_and_says_so(given: Format, own: Format) -> None:
    report = repair_report(wire(given), own)

    assert check_history(report.messages, own) == []
    assert {change.by for change in report.changes} == {"to_format"}
    for text in ("Weather in Oslo?", "4 degrees", "It has 4 degrees.", "And in Rome?"):
        assert text in str(report.messages)
