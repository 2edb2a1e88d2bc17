"""`/mcp` of a real server, by the SDK's own client over streamable HTTP, in both its eras."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from agent_lab import Agent
from agent_lab.testing import ScriptedModel, reply
from tests.application.helpers_line import Gates
from tests.presentation.helpers_server import TOKEN, Serving

BOUND = 20.0
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def talker() -> Agent:
    return Agent("weather", model=ScriptedModel([reply("Cold.")], repeat_last=True))


def browser(token: str | None = TOKEN, **headers: str) -> httpx2.AsyncClient:
    said = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx2.AsyncClient(headers=said | headers, trust_env=False, timeout=BOUND)


@asynccontextmanager
async def client_of(served: Serving, era: str, **headers: str) -> AsyncGenerator[Client]:
    url = f"http://127.0.0.1:{served.port}/mcp"
    async with (
        browser(**headers) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        yield client


async def ask(client: Client, name: str, /, **arguments: Any) -> Any:
    async with asyncio.timeout(BOUND):
        return (await client.call_tool(name, arguments)).structured_content


def waiting_for(client: Client, agent_id: str) -> tuple[asyncio.Future[Any], asyncio.Event]:
    """A wait for an agent, and what is set when the server says that it waits."""
    told = asyncio.Event()

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.set()

    arguments = {"agent_ids": [agent_id]}
    wait = client.call_tool("wait_for_agent", arguments, progress_callback=progress)
    return asyncio.ensure_future(wait), told


@ERAS
async def test_a_chat_over_http_is_recorded_with_its_key(era: str) -> None:
    key = {"X-MCP-Key-ID": "key_7", "X-MCP-Key-Name": "laptop"}
    async with Serving(talker()) as served, client_of(served, era, **key) as client:
        answer = await ask(client, "chat_with_agent", agent_name="weather", message="hi")
        record = await served.get(f"/api/agents/weather/executions/{answer['execution_id']}")

    said = record.json()
    assert answer["response"] == "Cold."
    assert (said["source"], said["mcp_key_id"], said["mcp_key_name"]) == ("mcp", "key_7", "laptop")


@ERAS
async def test_a_cancel_ends_the_wait_and_not_the_agent(era: str) -> None:
    gates = Gates()
    agent = Agent("weather", model=gates)
    async with Serving(agent) as served, client_of(served, era) as client:
        made = await ask(client, "create_agent", name="mine", initial_prompt="go")
        wait, told = waiting_for(client, made["agent_id"])
        async with asyncio.timeout(BOUND):
            await told.wait()
        wait.cancel()
        await asyncio.wait({wait})
        status = await ask(client, "get_agent_status", agent_id=made["agent_id"])
        gates.open("go")
        waited = await ask(client, "wait_for_agent", agent_ids=[made["agent_id"]])

    assert status["status"] == "running"
    assert waited["agents"][0]["last_message"] == "go: Well."


@ERAS
async def test_a_server_that_stops_says_so_to_who_waits(era: str) -> None:
    gates = Gates()
    agent = Agent("weather", model=gates)
    async with Serving(agent) as served:
        said: list[str] = []
        async with client_of(served, era) as client:
            made = await ask(client, "create_agent", name="mine", initial_prompt="go")
            wait, told = waiting_for(client, made["agent_id"])
            async with asyncio.timeout(BOUND):
                await told.wait()
                served.server.stop()
                result = await wait
            said.append(result.content[0].text)  # type: ignore[union-attr]  # text

    assert json.loads(said[0])["error"] == "wait_aborted"
    assert "the server stops" in said[0]


@pytest.mark.fault("SEC-04")
@pytest.mark.parametrize(
    ("token", "headers", "status", "code"),
    [
        (None, {}, 401, "token_required"),
        ("wrong", {}, 401, "token_wrong"),
        (TOKEN, {"Host": "evil.example"}, 421, "host_not_allowed"),
        (TOKEN, {"Origin": "http://evil.example"}, 403, "origin_not_allowed"),
    ],
)
async def test_the_guard_stands_before_it(
    token: str | None, headers: dict[str, str], status: int, code: str
) -> None:
    async with Serving(talker()) as served, browser(token, **ACCEPT, **headers) as http:
        answer = await http.post(f"http://127.0.0.1:{served.port}/mcp", json=PING)

    assert (answer.status_code, answer.json()["error"]) == (status, code)


async def test_the_sdk_looks_at_host_and_origin_as_well() -> None:
    """Behind the guard, in case it is ever left out."""
    async with Serving(talker()) as served:
        await served.get("/healthz")  # it is there
        transport = httpx2.ASGITransport(app=served.app.router)
        for headers, status in (
            ({"Host": "evil.example"}, 421),
            ({"Origin": "http://evil.example"}, 403),
        ):
            async with httpx2.AsyncClient(
                transport=transport, base_url=f"http://127.0.0.1:{served.port}", trust_env=False
            ) as http:
                answer = await http.post("/mcp", json=PING, headers={**ACCEPT, **headers})
            assert answer.status_code == status


async def test_what_is_no_mcp_is_answered_by_a_status() -> None:
    async with Serving(talker()) as served, browser(**ACCEPT) as http:
        url = f"http://127.0.0.1:{served.port}/mcp"
        broken = await http.post(url, content=b"{")
        empty = await http.post(url, json=[])
        unknown = await http.get(url, headers={"Mcp-Session-Id": "none"})

    assert [broken.status_code, empty.status_code, unknown.status_code] == [400, 400, 404]


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "agent_lab.presentation.mcp", None)
    async with Serving(talker()) as served, browser(**ACCEPT) as http:
        answer = await http.post(f"http://127.0.0.1:{served.port}/mcp", json=PING)

    assert (answer.status_code, answer.json()["code"]) == (501, "mcp_missing")
    assert "agent-lab[mcp]" in answer.json()["hint"]
