"""`agent-lab run` and tools that ask for permission: on a terminal, and where nobody is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.presentation.test_cli import started
from tests.presentation.test_cli_typing import Terminal, typing

ASKING = """
from pathlib import Path
from agent_lab import Agent, tool
from agent_lab.testing import ScriptedModel, call, reply

@tool(needs_approval=True)
async def pay(amount: int) -> str:
    Path("paid").write_text(str(amount))
    return f"paid {amount}"

said = [reply(calls=[call("pay", "c1", amount=5)]), "So it is."]
agent = Agent("payer", model=ScriptedModel(said, repeat_last=True), tools=[pay])
"""


async def asked(terminal: Terminal) -> None:
    """Wait until it asks, and until it may be answered: what comes sooner is told so."""
    await terminal.until(r"asks\s+pay\(amount=5\) wants your permission")
    await terminal.until("pay asks: y allows, n denies")


async def answer(terminal: Terminal, line: str, said: str) -> None:
    """Type it until it is no longer too soon."""
    while True:
        terminal.type(line)
        await terminal.until(f"only just asked|{said}")
        if "only just asked" not in terminal.found:
            return


@pytest.mark.parametrize(
    ("line", "said", "paid"),
    [
        ("y\r", r"allowed\s+pay\(amount=5\)", "5"),
        ("a\r", r"allowed\s+pay\(amount=5\)", "5"),
        ("n too dear\r", r"denied\s+pay\(amount=5\)", None),
    ],
)
async def test_it_asks_on_a_terminal_and_does_as_it_is_told(
    tmp_path: Path, line: str, said: str, paid: str | None
) -> None:
    async with typing(tmp_path, ASKING) as terminal:
        await asked(terminal)
        await answer(terminal, line, said)
        if paid is None:
            await terminal.until("denied by the user, who says: too dear")
        await terminal.until("done")

    assert (tmp_path / "paid").exists() == (paid is not None)
    assert paid is None or (tmp_path / "paid").read_text() == paid


async def test_its_arguments_are_put_into_the_line_to_be_changed(tmp_path: Path) -> None:
    async with typing(tmp_path, ASKING) as terminal:
        await asked(terminal)
        terminal.found = "only just asked"
        while "only just asked" in terminal.found:
            terminal.type("e\r")
            await terminal.until(r'> e \{"amount":5\}▌')
            terminal.type("\x7f\x7f3}\r")
            await terminal.until(r"only just asked|allowed\s+pay\(amount=3\)")
        await terminal.until("done")

    assert (tmp_path / "paid").read_text() == "3"


async def test_what_is_typed_besides_steers_and_allows_nothing(tmp_path: Path) -> None:
    async with typing(tmp_path, ASKING) as terminal:
        await asked(terminal)
        terminal.type("yes please\r")
        await terminal.until(r"held\s+“yes please” waits for pay \(c1\)")
        assert not (tmp_path / "paid").exists()
        await answer(terminal, "x\r", r"denied\s+pay")
        await terminal.until("cancelled")

    assert not (tmp_path / "paid").exists()


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_where_nobody_can_be_asked_it_is_denied_and_said_so(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "agent.py").write_text(ASKING)
    async with started("run", "agent.py", "Pay", *options, cwd=tmp_path) as process:
        out, err = await process.communicate()

    assert process.returncode == 0
    assert "pay asks for permission, and nobody can be asked here: denied" in err.decode()
    assert "--yes" in err.decode()
    assert "nobody who could be asked" in out.decode()
    assert not (tmp_path / "paid").exists()


async def test_with_yes_everything_that_asks_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(ASKING)
    command = ("run", "agent.py", "Pay", "--yes", "--json")
    async with started(*command, cwd=tmp_path) as process:
        out, err = await process.communicate()

    entries = [json.loads(line) for line in out.decode().splitlines()]
    asked = [entry for entry in entries if entry["type"].startswith("permission")]
    assert [entry["type"] for entry in asked] == ["permission_requested", "permission_resolved"]
    assert asked[1]["decision"] == "allow"
    assert (tmp_path / "paid").read_text() == "5"
    assert err == b""
