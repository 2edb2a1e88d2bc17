"""Tools of a server that speaks streamable HTTP, made with the SDK and served for real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.types import Receive, Scope, Send

from agent_lab import Agent, DebugRuntime, McpServer
from agent_lab.domain.payloads import ToolReplied
from agent_lab.presentation.server import listen
from agent_lab.testing import ScriptedModel, call, reply

BOUND = 20.0


def things(headers: list[str]) -> MCPServer:
    """A server of the SDK's; the Authorization headers it hears go into the list."""
    server = MCPServer("things")

    @server.tool()
    def add(a: int, b: int) -> int:  # pyright: ignore[reportUnusedFunction] the SDK calls it
        """Add two numbers."""
        return a + b

    return server


@asynccontextmanager
async def served(port: int, headers: list[str]) -> AsyncGenerator[int]:
    """The server on this port (0: any), and its port."""
    app = things(headers).streamable_http_app()

    async def heard(scope: Scope, receive: Receive, send: Send) -> None:
        said = dict(scope.get("headers", ()))
        headers.append(said.get(b"authorization", b"").decode())
        await app(scope, receive, send)

    listener = listen(port=port)
    config = uvicorn.Config(heard, log_config=None, lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve(sockets=[listener]))
        yield listener.getsockname()[1]
        server.should_exit = True
        await serving


def asks(port: int, *calls: int) -> Agent:
    model = [reply(calls=[call("far__add", a=a, b=2)]) for a in calls]
    far = McpServer(
        "far", url=f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "Bearer t0p-s3cret"}
    )
    return Agent("test", model=ScriptedModel([*model, *[reply("ok")] * 5]), mcp_servers=[far])


async def ask(runtime: DebugRuntime) -> list[str]:
    async with asyncio.timeout(BOUND), runtime.run("go") as run:
        return [payload.content async for payload in run if isinstance(payload, ToolReplied)]


async def test_tools_come_over_http_with_the_headers_that_were_given() -> None:
    headers: list[str] = []
    async with served(0, headers) as port, DebugRuntime(asks(port, 1)) as runtime:
        replies = await ask(runtime)

    assert replies == ["3"]
    assert set(headers) == {"", "Bearer t0p-s3cret"}  # "" is the lifespan's


@pytest.mark.fault("R42")
async def test_a_server_that_was_away_is_there_again() -> None:
    async with served(0, []) as port:
        pass
    # the port is free now, and nobody listens there
    async with DebugRuntime(asks(port, 1)) as runtime:
        (away,) = await ask(runtime)
        async with served(port, []):
            server = runtime.agent.toolbox.servers[0]
            came = asyncio.Event()
            server.listeners.append(lambda: came.set() if server.state == "ready" else None)
            async with asyncio.timeout(BOUND):
                await came.wait()
            assert await server.call("add", {"a": 1, "b": 2}) == "3"

    assert away == "Error: unknown tool far__add"
