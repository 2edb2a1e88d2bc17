"""`--mcp` on the command line, in processes of its own."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from tests.presentation.test_cli import run

STUB = Path(__file__).parents[1] / "infrastructure" / "mcp_stub.py"
AGENT = """
from agent_lab import Agent
from agent_lab.testing import ScriptedModel, call, reply

said = [reply(calls=[call("there__weather", city="Oslo")]), reply("Cold.")]
agent = Agent("weather", model=ScriptedModel(said))
"""
WITHOUT = """
import sys
sys.modules["mcp"] = None
"""


async def test_run_with_the_tools_of_a_server(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    server = f"there={shlex.join([sys.executable, str(STUB)])}"

    code, out, _ = await run("run", "--mcp", server, "--json", "agent.py", "hi", cwd=tmp_path)

    replies = [line for line in map(json.loads, out.splitlines()) if line["type"] == "tool_reply"]
    assert code == 0
    assert [line["content"] for line in replies] == ["4 degrees in Oslo"]


async def test_a_server_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)

    code, _, err = await run("run", "--mcp", "there", "agent.py", "hi", cwd=tmp_path)

    assert (code, err) == (
        2,
        "agent-lab: 'there' names no MCP server; say NAME=COMMAND or NAME=URL\n",
    )


async def test_the_extra_is_named_where_it_is_missing(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(WITHOUT + AGENT)

    code, _, err = await run("run", "--mcp", "there=x", "agent.py", "hi", cwd=tmp_path)

    assert code == 2
    assert "install it with: pip install 'agent-lab[mcp]'" in err
