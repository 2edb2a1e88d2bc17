"""The MCP server's tools, as an assistant calls them through the SDK's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult

from agent_lab import Agent, tool
from agent_lab.application.agents import Agents
from agent_lab.bootstrap import open_agents
from agent_lab.domain.limits import LineLimits
from agent_lab.presentation.mcp import McpFace
from agent_lab.presentation.views import Encoders
from agent_lab.testing import ScriptedModel, call, fail, reply
from tests.application.helpers_line import Gates

BOUND = 20.0
CONTRACT = {
    "create_agent": ["name", "from", "instructions", "initial_prompt", "background"],
    "create_agent_and_wait": [
        "name", "from", "instructions", "initial_prompt", "timeout_seconds",
    ],
    "send_agent_prompt": ["agent_id", "prompt", "mode", "message_id"],
    "send_agent_prompt_and_wait": [
        "agent_id", "prompt", "mode", "message_id", "timeout_seconds",
    ],
    "wait_for_agent": ["agent_ids", "until", "after", "timeout_seconds", "include_activity"],
    "list_agents": ["statuses", "limit"],
    "get_agent_status": ["agent_id"],
    "get_agent_activity": ["agent_id", "limit"],
    "cancel_agent": ["agent_id", "turn"],
    "close_agent": ["agent_id"],
    "list_pending_permissions": ["agent_id"],
    "respond_to_permission": ["agent_id", "request_id", "decision", "arguments", "message"],
    "chat_with_agent": ["agent_name", "message", "parallel", "timeout_seconds"],
    "list_recent_executions": ["agent_name", "limit", "status"],
    "get_execution_result": ["execution_id", "include_log"],
    "list_agent_schedules": ["agent_name"],
    "trigger_agent_schedule": ["schedule_id"],
}  # fmt: skip
"""The tools of the contract, and what they take."""


class Assistant:
    """An SDK client of a server in this process; `call` gives what a tool gave."""

    def __init__(self, client: Client, agents: Agents, face: McpFace) -> None:
        self.client = client
        self.agents = agents
        self.face = face
        self.heard: list[str] = []

    async def raw(self, name: str, /, **arguments: Any) -> CallToolResult:
        async def progress(progress: float, total: float | None, message: str | None) -> None:
            self.heard.append(message or "")

        async with asyncio.timeout(BOUND):
            return await self.client.call_tool(name, arguments, progress_callback=progress)

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        result = await self.raw(name, **arguments)
        assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]  # text
        return result.structured_content

    async def refused(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        result = await self.raw(name, **arguments)
        assert result.is_error and result.structured_content is None
        return json.loads(result.content[0].text)  # type: ignore[union-attr]  # text


@asynccontextmanager
async def assisted(
    *agents: Agent, line: LineLimits | None = None, queued: float = 25.0, sign: float = 5.0
) -> AsyncGenerator[Assistant]:
    async with open_agents(agents, line=line) as opened:
        face = McpFace(opened, Encoders(), queued=queued, sign=sign)
        async with Client(face.server) as client:
            yield Assistant(client, opened, face)


def talker(*replies: Any, name: str = "weather") -> Agent:
    return Agent(name, model=ScriptedModel([*replies] or [reply("Cold.")], repeat_last=True))


def waiter(gates: Gates) -> Agent:
    """An agent that answers when its gate is opened."""
    return Agent("weather", model=gates)


async def until(done: Callable[[], object]) -> None:
    """Let the others go on until it is so."""
    async with asyncio.timeout(BOUND):
        while True:
            if done():
                return
            await asyncio.sleep(0)


async def test_the_tools_are_those_of_the_contract() -> None:
    async with assisted(talker()) as assistant:
        listed = (await assistant.client.list_tools()).tools

    takes = {one.name: set(one.input_schema["properties"]) for one in listed}
    assert {name for name in CONTRACT if not takes[name] >= set(CONTRACT[name])} == set()
    assert all(one.input_schema["additionalProperties"] is False for one in listed)
    assert all((one.output_schema or {})["type"] == "object" for one in listed)


async def test_an_agent_is_created_prompted_waited_for_and_closed() -> None:
    async with assisted(talker(reply("One."), reply("Two."))) as assistant:
        made = await assistant.call(
            "create_agent", name="mine", **{"from": "weather"}, initial_prompt="first"
        )
        agent_id = made["agent_id"]
        waited = await assistant.call("wait_for_agent", agent_ids=[agent_id], include_activity=True)
        second = await assistant.call(
            "send_agent_prompt_and_wait", agent_id=agent_id, prompt="second"
        )
        status = await assistant.call("get_agent_status", agent_id=agent_id)
        activity = await assistant.call("get_agent_activity", agent_id=agent_id)
        idle = await assistant.call("list_agents", statuses=["idle"])
        cancelled = await assistant.call("cancel_agent", agent_id=agent_id)
        closed = await assistant.call("close_agent", agent_id=agent_id)

    (one,) = waited["agents"]
    assert (one["status"], one["last_message"], one["timed_out"]) == ("idle", "One.", False)
    assert one["activity"]["format"] == "curated"
    assert second["last_message"] == "Two."
    assert (status["name"], status["agent"], status["turn"]) == ("mine", "weather", 2)
    assert activity["update_count"] >= 4
    assert [agent["agent_id"] for agent in idle["agents"]] == [agent_id]
    assert (cancelled["status"], closed["status"]) == ("not_running", "closed")


async def test_create_agent_in_the_foreground_gives_what_it_came_to() -> None:
    async with assisted(talker()) as assistant:
        made = await assistant.call(
            "create_agent", name="mine", initial_prompt="go", background=False
        )
        same = await assistant.call("create_agent_and_wait", name="mine", initial_prompt="go")

    assert made["status"] == "idle"
    assert made["wait"]["last_message"] == same["last_message"] == "Cold."


async def test_a_time_out_is_an_answer_and_its_cursor_resumes() -> None:
    gates = Gates()
    async with assisted(waiter(gates)) as assistant:
        made = await assistant.call("create_agent", name="mine", initial_prompt="go")
        first = await assistant.call(
            "wait_for_agent", agent_ids=[made["agent_id"]], timeout_seconds=0.05
        )
        gates.open("go")
        then = await assistant.call(
            "wait_for_agent", agent_ids=[made["agent_id"]], after=first["cursor"]
        )

    assert (first["timed_out"], first["agents"][0]["status"]) == (True, "running")
    assert (then["timed_out"], then["agents"][0]["status"]) == (False, "idle")


async def test_the_same_message_id_runs_once() -> None:
    async with assisted(talker(reply("One."), reply("Two."))) as assistant:
        made = await assistant.call("create_agent", name="mine")
        said = {"agent_id": made["agent_id"], "prompt": "go", "message_id": "m1"}
        first = await assistant.call("send_agent_prompt", **said)
        again = await assistant.call("send_agent_prompt", **said)

    assert (first["accepted"], first["is_repeat"]) == (True, False)
    assert (again["accepted"], again["is_repeat"]) == (True, True)


async def test_chat_answers_and_leaves_a_record() -> None:
    async with assisted(talker()) as assistant:
        answer = await assistant.call("chat_with_agent", agent_name="weather", message="hi")
        aside = await assistant.call(
            "chat_with_agent", agent_name="weather", message="hi", parallel=True
        )
        listed = await assistant.call("list_recent_executions", agent_name="weather")
        result = await assistant.call(
            "get_execution_result", execution_id=answer["execution_id"], include_log=True
        )

    assert (answer["status"], answer["response"]) == ("completed", "Cold.")
    assert answer["session_id"] == "chat:weather" != aside["session_id"]
    assert [one["kind"] for one in listed["executions"]] == ["task", "chat"]
    assert {one["source"] for one in listed["executions"]} == {"mcp"}
    assert result["execution"]["response"] == "Cold."
    assert "assistant" in [entry["type"] for entry in result["log"]["entries"]]


async def test_a_permission_is_seen_and_answered_and_only_once() -> None:
    @tool(needs_approval=True)
    async def wipe(disk: str) -> str:
        return f"wiped {disk}"

    said = [reply(calls=[call("wipe", disk="a")]), reply("Done.")]
    careful = Agent("careful", model=ScriptedModel(said), tools=[wipe])
    async with assisted(careful) as assistant:
        made = await assistant.call("create_agent_and_wait", name="x", initial_prompt="go")
        (asked,) = (await assistant.call("list_pending_permissions"))["permissions"]
        answer = {
            "agent_id": asked["agent_id"],
            "request_id": asked["request_id"],
            "decision": "allow",
            "arguments": {"disk": "b"},
        }
        decided = await assistant.call("respond_to_permission", **answer)
        again = await assistant.refused("respond_to_permission", **answer)
        waited = await assistant.call("wait_for_agent", agent_ids=[made["agent_id"]])
        activity = await assistant.call("get_agent_activity", agent_id=made["agent_id"])

    assert made["permission"]["name"] == asked["name"] == "wipe"
    assert (decided["decision"], decided["arguments"]) == ("allow", {"disk": "b"})
    assert again["error"] == "prompt_closed"
    assert waited["agents"][0]["last_message"] == "Done."
    assert "wiped b" in activity["content"]


async def test_a_full_line_is_agent_busy_with_the_time_to_come_back() -> None:
    gates = Gates()
    async with assisted(waiter(gates), line=LineLimits(waiting=0)) as assistant:
        first = asyncio.ensure_future(
            assistant.call("chat_with_agent", agent_name="weather", message="go")
        )
        await until(lambda: gates.asked)
        busy = await assistant.raw("chat_with_agent", agent_name="weather", message="too")
        gates.open("go")
        assert (await first)["status"] == "completed"

    said = busy.structured_content
    assert not busy.is_error
    assert (said["status"], said["retryable"]) == ("agent_busy", True)
    assert said["retry_after_seconds"] >= 1


async def test_who_waits_too_long_in_line_is_told_and_it_runs_all_the_same() -> None:
    gates = Gates()
    async with assisted(waiter(gates), queued=0.05) as assistant:
        first = asyncio.ensure_future(
            assistant.call("chat_with_agent", agent_name="weather", message="first")
        )
        await until(lambda: gates.asked)
        late = await assistant.call("chat_with_agent", agent_name="weather", message="second")
        gates.open("first")
        gates.open("second")
        await first
        async with asyncio.timeout(BOUND):
            book, key = assistant.agents.line.book, late["execution_id"]
            execution = book.get(key) or book.recent(key)
            assert execution is not None
            await assistant.agents.line.until_end(execution)
        result = await assistant.call("get_execution_result", execution_id=late["execution_id"])

    assert (late["status"], late["position"]) == ("queued_timeout", 1)
    assert result["execution"]["status"] == "completed"


async def test_a_call_that_has_begun_is_waited_for_however_long_the_line_may_take() -> None:
    gates = Gates()
    async with assisted(waiter(gates), queued=0.01, sign=0.02) as assistant:
        asked = asyncio.ensure_future(
            assistant.call("chat_with_agent", agent_name="weather", message="go")
        )
        await until(lambda: gates.asked)
        await until(lambda: len(assistant.heard) >= 3)  # so the time is over
        gates.open("go")
        assert (await asked)["status"] == "completed"


@pytest.mark.parametrize(
    ("code", "status"), [("rate_limited", "rate_limited"), ("no_credit", "failed")]
)
async def test_a_turn_that_fails_is_an_error_with_its_execution(code: str, status: str) -> None:
    async with assisted(talker(fail(code, "not now"))) as assistant:
        result = await assistant.raw("chat_with_agent", agent_name="weather", message="hi")

    said = result.structured_content
    assert result.is_error
    assert (said["status"], said["retryable"], said["code"]) == (status, False, code)
    assert said["execution_id"]


async def test_a_client_that_cancels_ends_its_wait_and_not_the_agent() -> None:
    gates = Gates()
    async with assisted(waiter(gates)) as assistant:
        made = await assistant.call("create_agent", name="mine", initial_prompt="go")
        wait = asyncio.ensure_future(assistant.call("wait_for_agent", agent_ids=[made["agent_id"]]))
        await until(lambda: gates.asked)
        await until(lambda: assistant.heard)
        wait.cancel()
        await asyncio.wait({wait})
        status = await assistant.call("get_agent_status", agent_id=made["agent_id"])
        gates.open("go")
        waited = await assistant.call("wait_for_agent", agent_ids=[made["agent_id"]])

    assert wait.cancelled()
    assert status["status"] == "running"
    assert waited["agents"][0]["reason"] == "done"


async def test_a_chat_that_is_cancelled_while_it_waits_in_line_never_runs() -> None:
    gates = Gates()
    async with assisted(waiter(gates)) as assistant:
        first = asyncio.ensure_future(
            assistant.call("chat_with_agent", agent_name="weather", message="first")
        )
        await until(lambda: gates.asked)
        second = asyncio.ensure_future(
            assistant.call("chat_with_agent", agent_name="weather", message="second")
        )
        await until(lambda: assistant.agents.line.book.depth("weather") == (1, 1))
        second.cancel()
        await asyncio.wait({second})
        await until(lambda: assistant.agents.line.book.depth("weather") == (1, 0))
        gates.open("first")
        await first
        listed = await assistant.call("list_recent_executions")

    assert [one["status"] for one in listed["executions"]] == ["cancelled", "completed"]


async def test_a_server_that_stops_ends_waits_with_the_reason() -> None:
    gates = Gates()
    async with assisted(waiter(gates)) as assistant:
        made = await assistant.call("create_agent", name="mine", initial_prompt="go")
        wait = asyncio.ensure_future(
            assistant.refused("wait_for_agent", agent_ids=[made["agent_id"]])
        )
        await until(lambda: assistant.heard)
        assistant.face.stop("the server stops")
        said = await wait

    assert said["error"] == "wait_aborted"
    assert "the server stops" in said["message"]


async def test_a_schedule_is_listed_and_triggered() -> None:
    async with assisted(talker()) as assistant:
        line = assistant.agents.line
        made = await line.schedules.add("weather", "report", every=3600.0)
        listed = await assistant.call("list_agent_schedules", agent_name="weather")
        fired = await assistant.call("trigger_agent_schedule", schedule_id=made.id)
        execution = await line.book.find("weather", fired["execution_id"])
        async with asyncio.timeout(BOUND):
            ended = await line.until_end(execution)
        none = await assistant.refused("trigger_agent_schedule", schedule_id="sched_none")

    (schedule,) = listed["schedules"]
    assert (schedule["id"], schedule["every_seconds"]) == (made.id, 3600.0)
    assert schedule["next_fire"].endswith("Z")
    assert (fired["status"], fired["agent"]) == ("triggered", "weather")
    assert (ended.status, ended.response) == ("completed", "Cold.")
    assert none["error"] == "not_found"


REFUSALS: Sequence[tuple[str, dict[str, Any], str]] = [
    ("get_agent_status", {"agent_id": "s_none"}, "unknown_session"),
    ("chat_with_agent", {"agent_name": "nobody", "message": "hi"}, "unknown_agent"),
    ("get_execution_result", {"execution_id": "exec_none"}, "not_found"),
    ("create_agent", {"name": "x", "command": "rm -rf /"}, "bad_arguments"),
    ("create_agent", {"name": "x", "from": "weather", "base_url": "http://evil/"}, "bad_arguments"),
    ("wait_for_agent", {"agent_ids": []}, "bad_arguments"),
    ("send_agent_prompt", {"agent_id": "chat:weather", "prompt": 1}, "bad_arguments"),
]


@pytest.mark.fault("SEC-33")
@pytest.mark.parametrize(("name", "arguments", "code"), REFUSALS)
async def test_what_cannot_be_is_refused_with_a_code(
    name: str, arguments: dict[str, Any], code: str
) -> None:
    async with assisted(talker()) as assistant:
        said = await assistant.refused(name, **arguments)

    assert said["error"] == code
    assert said["message"]


async def test_a_tool_that_is_none_is_a_protocol_error() -> None:
    async with assisted(talker()) as assistant:
        with pytest.raises(MCPError, match="there is no tool 'fly'"):
            await assistant.raw("fly")


@pytest.mark.fault("SEC-30")
async def test_a_known_secret_is_in_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_lab.domain.redaction import SECRETS

    canary = "sk-canary-in-mcp-answers"
    monkeypatch.setattr(SECRETS, "_known", {})
    SECRETS.add(canary)
    try:
        async with assisted(talker(reply(f"It is {canary}."))) as assistant:
            answer = await assistant.raw("chat_with_agent", agent_name="weather", message="hi")
    finally:
        SECRETS.forget(canary)

    assert canary not in answer.model_dump_json()
