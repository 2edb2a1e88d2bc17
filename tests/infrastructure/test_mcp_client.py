"""MCP servers as tools of an agent: real programs over real pipes, and real HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent_lab import Agent, DebugRuntime, Limits, McpServer, tool
from agent_lab.application.journal import Entry
from agent_lab.application.tools import Tool
from agent_lab.bootstrap import open_agents
from agent_lab.domain.payloads import ModelRequested, ToolReplied
from agent_lab.presentation.encoder import Encoder
from agent_lab.testing import ScriptedModel, call, reply

STUB = Path(__file__).with_name("mcp_stub.py")
BOUND = 20.0


def stub(
    mode: str = "", *, name: str = "stub", heard: Path | None = None, **more: Any
) -> McpServer:
    files = [str(heard)] if heard else []
    return McpServer(name, command=[sys.executable, str(STUB), mode, *files], **more)


def agent(*replies: Any, servers: list[McpServer], tools: list[Tool] | None = None) -> Agent:
    return Agent(
        "test",
        model=ScriptedModel([*replies, reply("so it is")]),
        mcp_servers=servers,
        tools=tools or [],
        limits=Limits(tool_timeout=10),
    )


async def replies_of(runtime: DebugRuntime, prompt: str = "go") -> list[tuple[str, str, str]]:
    """Name, kind and text of each tool reply of one run."""
    async with asyncio.timeout(BOUND), runtime.run(prompt) as run:
        return [
            (payload.name, payload.kind, payload.content)
            async for payload in run
            if isinstance(payload, ToolReplied)
        ]


async def one(*calls: Any, server: McpServer | None = None) -> list[tuple[str, str, str]]:
    """What these calls, made at once, are answered."""
    async with DebugRuntime(agent(reply(calls=[*calls]), servers=[server or stub()])) as runtime:
        return await replies_of(runtime)


def children() -> set[int]:
    """Processes that this one has started and that still are."""
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and fields[0] != "Z":
                found.add(int(path.parent.name))
    return found


async def test_a_servers_tools_are_tools_of_the_agent() -> None:
    replies = await one(call("stub__weather", city="Oslo"))

    assert replies == [("stub__weather", "result", "4 degrees in Oslo")]


async def test_the_model_is_told_of_a_servers_tools() -> None:
    async with DebugRuntime(agent(servers=[stub()])) as runtime:
        await replies_of(runtime)
        said = [entry.payload for entry in entries(runtime)]

    (request,) = (one.request for one in said if isinstance(one, ModelRequested))
    weather = request.tools[0]
    assert (weather.name, weather.description) == ("stub__weather", "The tool weather.")
    assert weather.parameters["required"] == ["city"]


async def test_agents_share_one_process_of_a_server_and_it_ends_with_them(tmp_path: Path) -> None:
    heard, before = tmp_path / "heard", children()
    shared = stub(heard=heard)
    both = [Agent(name, model=ScriptedModel([]), mcp_servers=[shared]) for name in ("a", "b")]
    async with open_agents(both) as agents:
        async with asyncio.timeout(BOUND):
            await agents.get("a").toolbox.started()
            await agents.get("b").toolbox.started()
        offered = {agents.get(name).schemas[0].name for name in ("a", "b")}

    assert offered == {"stub__weather"}
    assert _methods(heard).count("initialize") == 1
    assert children() == before


async def test_no_process_is_left_behind() -> None:
    before = children()

    await one(call("stub__weather", city="Oslo"))

    assert children() == before


async def test_a_server_that_ignores_the_end_of_its_input_is_killed() -> None:
    before = children()

    await one(call("stub__weather", city="Oslo"), server=stub("stubborn"))

    assert children() == before


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("picture", "result", "See:\n[image image/png, 3 bytes: not text, left out]"),
        ("both", "result", '{"degrees":4}'),
        ("fail", "error", "Error: there is no such file"),
        ("flood", "result", "dry again"),
    ],
)
@pytest.mark.fault("R42")
async def test_what_a_tool_gives_becomes_text(name: str, kind: str, text: str) -> None:
    assert await one(call(f"stub__{name}")) == [(f"stub__{name}", kind, text)]


@pytest.mark.fault("R42")
async def test_a_server_that_dies_in_a_call_is_said_to_have_gone_and_comes_again() -> None:
    model = [
        reply(calls=[call("stub__die"), call("other__weather", city="Rome")]),
        reply(calls=[call("stub__weather", city="Oslo")]),
    ]
    async with DebugRuntime(agent(*model, servers=[stub(), stub(name="other")])) as runtime:
        replies = await replies_of(runtime)

    gone = "Error: mcp_gone: MCP server 'stub' ended with exit status 3; it said last: the disk"
    assert sorted((name, kind) for name, kind, _ in replies) == [
        ("other__weather", "result"),
        ("stub__die", "error"),
        ("stub__weather", "result"),
    ]
    assert any(text.startswith(gone) for _, _, text in replies)


@pytest.mark.fault("R42")
async def test_a_call_that_is_never_answered_ends_with_a_name() -> None:
    ((_, kind, text),) = await one(call("stub__hang"), server=stub(timeout=0.3))

    assert (kind, text) == (
        "error",
        "Error: mcp_timeout: MCP server 'stub' gave no answer to hang within 0.3 s",
    )


@pytest.mark.fault("R42")
async def test_a_server_that_prints_in_a_call_is_said_to_speak_no_mcp() -> None:
    ((_, kind, text),) = await one(call("stub__babble"), server=stub(timeout=0.3))

    assert kind == "error"
    assert text.startswith("Error: mcp_bad_message: MCP server 'stub' gave no answer to babble")


@pytest.mark.fault("R42")
async def test_a_banner_before_the_first_message_is_borne() -> None:
    replies = await one(call("stub__weather", city="Oslo"), server=stub("banner"))

    assert replies == [("stub__weather", "result", "4 degrees in Oslo")]


@pytest.mark.fault("R42")
@pytest.mark.parametrize("mode", ["dead", "mute"])
async def test_a_server_that_does_not_come_up_leaves_the_others_be(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    servers = [stub(mode, name="bad", start_timeout=1.0 if mode == "mute" else 30.0), stub()]
    model = [reply(calls=[call("stub__weather", city="Oslo")])]
    async with DebugRuntime(agent(*model, servers=servers)) as runtime:
        replies = await replies_of(runtime)

    assert replies == [("stub__weather", "result", "4 degrees in Oslo")]
    said = "no licence" if mode == "dead" else "was not there within 1 s"
    assert said in caplog.text


async def test_a_command_that_is_none_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with DebugRuntime(agent(servers=[McpServer("x", command="no-such-program")])) as runtime:
        assert await replies_of(runtime) == []

    assert "MCP server 'x' cannot be started" in caplog.text


async def test_a_tool_that_needs_approval_asks_before_it_runs() -> None:
    asks = stub(needs_approval=["weather"])
    said = reply(calls=[call("stub__weather", city="Oslo"), call("stub__both")])
    async with DebugRuntime(agent(said, servers=[asks])) as runtime:
        queues = runtime.start("go")
        async with asyncio.timeout(BOUND):
            while not runtime.session.permissions.pending:
                await queues.output.get()
            (asked,) = runtime.session.permissions.pending

    assert asked.name == "stub__weather"


@pytest.mark.fault("R43")
async def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    hang = agent(reply(calls=[call("stub__hang")]), servers=[stub(heard=heard)])
    async with DebugRuntime(hang) as runtime:
        queues = runtime.start("go")
        async with asyncio.timeout(BOUND):
            while (await queues.output.get()).type != "tool_call":
                pass
            await _until(lambda: _methods(heard)[-1:] == ["tools/call"])
            runtime.cancel()
            await _until(lambda: "notifications/cancelled" in _methods(heard))

    lines = [json.loads(line) for line in heard.read_text().splitlines()]
    asked = next(line for line in lines if line.get("method") == "tools/call")
    told = next(line for line in lines if line.get("method") == "notifications/cancelled")
    assert told["params"]["requestId"] == asked["id"]


@pytest.mark.fault("R45")
async def test_other_tools_are_offered_from_the_next_model_call_on() -> None:
    model = [
        reply(calls=[call("stub__change")]),
        reply(calls=[call("stub__weather", city="Oslo")]),
        reply(calls=[call("stub__later")]),
    ]
    async with DebugRuntime(agent(*model, servers=[stub()])) as runtime:
        replies = await replies_of(runtime)

    assert replies[-1] == ("stub__later", "result", "it is later")


@pytest.mark.fault("R45")
async def test_names_that_collide_and_schemas_that_are_none_are_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def odd__read_file() -> str:
        return "mine"

    odd = agent(servers=[stub("odd", name="odd")], tools=[odd__read_file])
    async with DebugRuntime(odd) as runtime:
        await replies_of(runtime)
        names = [schema.name for schema in runtime.agent.schemas]

    dotted, long = names[2:]
    assert names[:2] == ["odd__read_file", "odd__weather"]
    assert dotted.startswith("odd__read_file_")
    assert (len(long), long[:5]) == (64, "odd__")
    for said in (
        "there is another tool named odd__weather",
        "its schema is none",
        "65536 are the most",
    ):
        assert said in caplog.text


@pytest.mark.fault("SEC-30")
async def test_a_secret_of_a_servers_environment_stays_inside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    canary = "sk-canary-mcp-0123456789"
    server = stub(env={"STUB_TOKEN": canary})
    async with DebugRuntime(
        agent(reply(calls=[call("stub__secret")]), servers=[server])
    ) as runtime:
        await replies_of(runtime)
        encoder = Encoder(runtime.session_id, 0.0)
        shown = "".join([str(encoder.encode(entry)) for entry in entries(runtime)])

    assert "stub__secret" in shown
    assert canary not in shown
    assert canary not in caplog.text + repr(server)


def entries(runtime: DebugRuntime) -> Sequence[Entry]:
    return runtime.session.journal.read(0)[1]


def _methods(heard: Path) -> list[str]:
    lines = heard.read_text().splitlines() if heard.exists() else []
    return [json.loads(line).get("method", "") for line in lines]


async def _until(done: Callable[[], bool]) -> None:
    """Wait for another process: it has no event of ours."""
    while not done():
        await asyncio.to_thread(time.sleep, 0.01)
