"""`agent-lab mcp` in a process of its own: the SDK's client over stdio, and the Inspector's CLI."""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.presentation.test_cli import BOUND, PROGRAM, run, started

FILE = """
import asyncio, sys
from agent_lab import Agent, tool
from agent_lab.testing import ScriptedModel, call, reply

print("the file prints, and reads", repr(sys.stdin.read()))

@tool
async def look(city: str) -> str:
    print("a tool prints")
    return f"4 degrees in {city}"

@tool
async def wait() -> None:
    await asyncio.Event().wait()

said = [reply(calls=[call("look", city="Oslo")]), reply("Cold.")]
weather = Agent("weather", model=ScriptedModel(said, repeat_last=True), tools=[look])
slow = Agent("slow", model=ScriptedModel([reply(calls=[call("wait")])]), tools=[wait])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents.py").write_text(FILE)
    return tmp_path


@asynccontextmanager
async def client_of(folder: Path) -> AsyncGenerator[Client]:
    server = StdioServerParameters(
        command=PROGRAM, args=["mcp", "agents.py:weather", "agents.py:slow"], cwd=folder
    )
    async with asyncio.timeout(BOUND), Client(server) as client:
        yield client


async def test_an_assistant_talks_to_the_agents_of_a_file(folder: Path) -> None:
    async with client_of(folder) as client:
        said = {"agent_name": "weather", "message": "Weather?"}
        answer = await client.call_tool("chat_with_agent", said)

    assert answer.structured_content["response"] == "Cold."


def line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def called(number: int, name: str, /, **arguments: Any) -> bytes:
    meta = {"progressToken": number}
    return line(
        {
            "id": number,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments, "_meta": meta},
        }
    )


HELLO = line(
    {
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
) + line({"method": "notifications/initialized"})


WAITING = called(1, "create_agent_and_wait", name="x", initial_prompt="go", **{"from": "slow"})


@asynccontextmanager
async def speaking(folder: Path) -> AsyncGenerator[Process]:
    """The server, after the handshake, with its pipes in our hands."""
    files = ["agents.py:weather", "agents.py:slow"]
    async with started("mcp", *files, cwd=folder, stdin=PIPE) as process:
        tell(process, HELLO)
        assert (await said(process))["id"] == 0
        yield process


async def said(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(await process.stdout.readline())


def tell(process: Process, message: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(message)


def hang_up(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()


async def test_standard_output_has_nothing_but_the_protocol(folder: Path) -> None:
    async with speaking(folder) as process:
        tell(process, called(1, "chat_with_agent", agent_name="weather", message="hi"))
        assert (await said(process))["method"] == "notifications/progress"
        answer = await said(process)
        hang_up(process)
        rest, noise = await process.communicate()

    assert answer["result"]["structuredContent"]["response"] == "Cold."
    assert (rest, process.returncode) == (b"", 0)
    assert b"the file prints, and reads ''" in noise
    assert b"a tool prints" in noise


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_told_to_stop_it_tells_who_waits_and_goes(
    folder: Path, number: signal.Signals
) -> None:
    async with speaking(folder) as process:
        tell(process, WAITING)
        assert (await said(process))["method"] == "notifications/progress"
        process.send_signal(number)
        answer = await said(process)
        rest, _ = await process.communicate()

    assert "the server stops" in answer["result"]["content"][0]["text"]
    assert (rest, process.returncode) == (b"", 0)


async def test_a_client_that_goes_away_ends_it(folder: Path) -> None:
    async with speaking(folder) as process:
        tell(process, WAITING)
        assert (await said(process))["method"] == "notifications/progress"
        hang_up(process)
        await process.wait()

    assert process.returncode == 0


async def test_the_extra_is_named_where_it_is_missing(folder: Path) -> None:
    (folder / "without.py").write_text("import sys; sys.modules['mcp'] = None\n" + FILE)

    code, out, err = await run("mcp", "without.py:weather", cwd=folder)

    assert (code, out) == (2, "")
    assert "install it with: pip install 'agent-lab[mcp]'" in err
