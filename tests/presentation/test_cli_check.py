"""`agent-lab check`: the file it reads, the verdict it prints, its exit status."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_lab.domain.dialects.violations import Violation
from agent_lab.presentation.history_file import (
    FileUnusable,
    HistoryFile,
    explain,
    locate,
    read_history_file,
    read_profile_options,
)

PROGRAM = Path(sys.executable).with_name("agent-lab")
USER: dict[str, Any] = {"role": "user", "content": "Weather?"}
CALL: dict[str, Any] = {
    "role": "assistant",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "wait", "arguments": "{}"}}
    ],
}
REPLY: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": "4 degrees"}


def written(folder: Path, data: object) -> Path:
    file = folder / "history.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    return file


def check(file: Path, *options: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [PROGRAM, "check", file, *options], capture_output=True, text=True, timeout=50, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_valid_history_is_0(tmp_path: Path) -> None:
    file = written(tmp_path, [USER, CALL, REPLY])

    assert check(file, "--dialect", "openai_chat") == (
        0,
        "valid for openai_chat: 3 messages, 0 errors, 0 warnings\n",
        "",
    )


def test_an_invalid_history_is_1_with_what_where_and_how_to_mend_it(tmp_path: Path) -> None:
    file = written(tmp_path, {"model": "gpt-4o", "messages": [USER, CALL, USER, REPLY]})

    code, out, err = check(file, "--dialect", "openai_chat")

    assert (code, err) == (1, "")
    assert "error in message 2 (c1): " in out
    assert "  provider: " in out and "  fix: " in out
    assert out.splitlines()[-1].startswith("not valid for openai_chat: 4 messages, ")


def test_json_is_the_verdict_and_the_violations(tmp_path: Path) -> None:
    file = written(tmp_path, [USER, CALL])

    code, out, _ = check(file, "--dialect", "openai_chat", "--json")

    verdict = json.loads(out)
    assert code == 1
    assert verdict["valid"] is False
    assert set(verdict["violations"][0]) == set(Violation.__struct_fields__)


def test_what_cannot_be_used_is_2_and_one_line(tmp_path: Path) -> None:
    file = written(tmp_path, [USER])

    for options, says in {
        ("--dialect", "nobody's"): 'no rules for dialect "nobody\'s"; it must be one of',
        ("--dialect", "anthropic", "--profile", "x=1"): "profile key 'x'; the keys are",
        ("--dialect", "anthropic", "--profile", "thinking"): "write it as key=value",
    }.items():
        code, out, err = check(file, *options)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert says in err


def test_a_history_is_mended_and_what_was_done_is_said(tmp_path: Path) -> None:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": "call_1", "type": "function", "function": function}]
    file = tmp_path / "history.json"
    file.write_text(json.dumps([USER, {"role": "assistant", "content": None, "tool_calls": calls}]))

    code, out, _ = check(file, "--dialect", "openai_chat", "--repair")
    as_json = check(file, "--dialect", "openai_chat", "--repair", "--json")

    assert code == 0
    assert out.startswith("made a message: ") and "1 change for openai_chat" in out
    assert json.loads(as_json[1])["messages"][2]["tool_call_id"] == "call_1"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([USER], HistoryFile([USER], None, {})),
        (
            {"messages": [USER], "tools": [{"a": 1}], "model": "m", "store": "not a bool"},
            HistoryFile([USER], [{"a": 1}], {"model": "m"}),
        ),
        (
            {"input": "Hello", "store": False},
            HistoryFile([{"role": "user", "content": "Hello"}], None, {"store": False}),
        ),
        ({"contents": []}, HistoryFile([], None, {})),
    ],
    ids=["list", "chat-body", "responses-string", "gemini-body"],
)
def test_lists_and_request_bodies_are_read(
    tmp_path: Path, data: object, expected: HistoryFile
) -> None:
    assert read_history_file(written(tmp_path, data)) == expected


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "nested more than 200 deep"),
        ("{}", "no list of messages is in it"),
        ("3", "no list of messages is in it"),
        ('{"messages": 3}', "no list of messages is in it"),
        ("\udcff", "is not UTF-8"),
    ],
    ids=["cut", "deep", "object", "number", "no-list", "not-utf-8"],
)
def test_a_file_without_a_history_is_refused(tmp_path: Path, data: str, says: str) -> None:
    file = tmp_path / "history.json"
    file.write_bytes(data.encode("utf-8", "surrogateescape"))

    with pytest.raises(FileUnusable, match=says):
        read_history_file(file)


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileUnusable, match="No such file"):
        read_history_file(tmp_path / "nothing.json")


def test_profile_options_are_keys_and_values() -> None:
    assert read_profile_options(["model=a=b", "thinking="]) == {"model": "a=b", "thinking": ""}


def test_escapes_in_a_history_are_shown(tmp_path: Path) -> None:
    call = {"id": "\x1b[2J", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    file = written(tmp_path, [USER, {"role": "assistant", "tool_calls": [call]}])

    for options in ((), ("--json",)):
        code, out, _ = check(file, "--dialect", "openai_chat", *options)
        assert code == 1
        assert "\x1b" not in out and "[2J" in out


UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: c1"
)


def test_an_error_is_explained_without_a_history(tmp_path: Path) -> None:
    answer = explain(UNANSWERED, as_json=False)

    assert answer.is_good
    assert answer.text.startswith("openai_chat: ") and "fix: " in answer.text
    assert json.loads(explain(UNANSWERED, as_json=True).text)[0]["dialect"] == "openai_chat"
    assert explain("It rained all day.", as_json=False) == ("no rule is known for this", False)


def test_an_error_is_found_in_its_history(tmp_path: Path) -> None:
    file = written(tmp_path, [USER, CALL, USER])

    found = locate(UNANSWERED, file, "openai_chat", [], as_json=False)
    other = locate("It rained all day.", file, "openai_chat", [], as_json=False)

    assert found.is_good and found.text.startswith("error in message 1 (c1): ")
    assert other == ("nothing in this history fits that error", False)


def test_an_error_is_explained_in_a_history_of_a_file(tmp_path: Path) -> None:
    file = written(tmp_path, [USER, CALL, USER])

    code, out, err = check(file, "--dialect", "openai_chat", "--explain", UNANSWERED)

    assert (code, err) == (0, "")
    assert out.startswith("error in message 1 (c1): tool_calls_unanswered")


@pytest.mark.parametrize(
    ("text", "why"),
    [(" " * (50 << 20), "over 32 MiB"), ("[" * 5000 + "]" * 5000, "more than 200 deep")],
)
def test_a_file_that_is_too_much_is_one_line_and_2(tmp_path: Path, text: str, why: str) -> None:
    code, out, err = check(written(tmp_path, text), "--dialect", "openai_chat")

    assert (code, out) == (2, "")
    assert why in err and err.count("\n") == 1


def test_explain_is_an_option_of_check(tmp_path: Path) -> None:
    command = [PROGRAM, "check", "--explain", UNANSWERED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)

    assert done.returncode == 0
    assert done.stdout.startswith("openai_chat: ")


def test_check_of_nothing_says_what_to_give(tmp_path: Path) -> None:
    file = written(tmp_path, [USER])

    code, out, err = check(file)

    assert (code, out) == (2, "")
    assert err.startswith("agent-lab: say agent-lab check FILE.json --dialect")
