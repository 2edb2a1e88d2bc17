"""`FILE.py[:agent]`: which agent it is, and what is said when there is none."""

import sys
from pathlib import Path

import pytest

from agent_lab.presentation.agent_file import (
    AgentFileError,
    FileMissing,
    FileRaised,
    NoAgent,
    SeveralAgents,
    load_agent,
)

ONE = "from agent_lab import Agent\nmine = Agent('mine', model='scripted:x.json')\n"
TWO = ONE + "other = Agent('other', model='scripted:x.json')\n"


@pytest.fixture(autouse=True)
def paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a file adds its folder to sys.path; not beyond this test."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (ONE, "", "mine"),
        (ONE + "again = mine\n", "", "mine"),
        (TWO, ":other", "other"),
        (TWO + "agent = other\n", "", "other"),
    ],
    ids=["the-one", "one-with-two-names", "named", "called-agent"],
)
def test_the_agent_is_found(tmp_path: Path, text: str, name: str, expected: str) -> None:
    file = tmp_path / "agents.py"
    file.write_text(text)

    assert load_agent(f"{file}{name}").name == expected


def test_a_file_may_import_its_neighbours_and_use_dataclasses(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_agents.py").write_text(ONE)
    file = tmp_path / "agents.py"
    file.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from neighbour_of_agents import mine\n@dataclass\nclass Point:\n    x: int\n"
    )

    assert load_agent(str(file)).name == "mine"


def test_a_file_named_like_a_library_hides_nothing(tmp_path: Path) -> None:
    file = tmp_path / "json.py"
    file.write_text(ONE)

    assert load_agent(str(file)).name == "mine"
    assert "dumps" in dir(sys.modules["json"])


@pytest.mark.parametrize(
    ("text", "name", "error", "says"),
    [
        ("", "", NoAgent, r"makes no Agent; add agent = Agent\("),
        (TWO, "", SeveralAgents, r"has mine \('mine'\), other \('other'\); say which: .*:mine$"),
        (TWO, ":agent", NoAgent, r"has no 'agent'; it has mine \('mine'\), other \('other'\)"),
        (TWO + "n = 3\n", ":n", NoAgent, "'n' in .* is a int, not an Agent; it has mine"),
        ("x = 1\ny = x / 0\n", "", FileRaised, r"agents\.py:2: ZeroDivisionError: division by"),
        ("\n\ndef f(:\n", "", FileRaised, r"agents\.py:3: SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(3)\n", "", FileRaised, r"agents\.py:2: SystemExit: 3"),
        ("import not_there\n", "", FileRaised, "ModuleNotFoundError: No module named 'not_there'"),
        ("raise ValueError\n", "", FileRaised, r"agents\.py:1: ValueError; mend"),
        ("x = '\\x00\0'", "", FileRaised, "null bytes"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, text: str, name: str, error: type[AgentFileError], says: str
) -> None:
    file = tmp_path / "agents.py"
    file.write_text(text)

    with pytest.raises(error, match=says) as raised:
        load_agent(f"{file}{name}")

    assert "\n" not in str(raised.value)


def test_a_file_that_raised_can_be_loaded_once_it_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "agents.py"
    file.write_text("import missing_here\n")
    with pytest.raises(FileRaised):
        load_agent(str(file))

    file.write_text(ONE + "# mended, and longer\n")

    assert load_agent(str(file)).name == "mine"


@pytest.mark.parametrize("where", ["nowhere.py", "nowhere.py:agent", ":", ""])
def test_no_file_is_named(where: str) -> None:
    with pytest.raises(FileMissing, match="there is no file"):
        load_agent(where)


def test_a_file_that_is_not_python_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "agent.txt"
    file.write_text(ONE)

    with pytest.raises(NoAgent, match=r"its name must end in \.py"):
        load_agent(str(file))
