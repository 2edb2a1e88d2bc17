"""The commands on agents over real HTTP: what is answered, with which status and code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from agent_lab import Agent, Limits, tool
from agent_lab.infrastructure.store_memory import MemoryStore
from agent_lab.presentation.openapi import OPERATIONS, document
from agent_lab.testing import ScriptedModel, call, reply
from tests.application.helpers_line import Gates
from tests.presentation.helpers_server import BOUND, TOKEN, Serving, talker

CODE = "X-Agent-Lab-Error-Code"
Json = dict[str, Any]


class Api:
    """A server with agent `a`, whose model answers when it is told to."""

    def __init__(self, serving: Serving, model: Gates) -> None:
        self.serving = serving
        self.model = model

    async def post(self, path: str, said: Json | None = None) -> httpx2.Response:
        """POST JSON."""
        options = {} if said is None else {"json": said}
        return await self.serving.get(f"/api/{path}", method="POST", **options)

    async def get(self, path: str, **query: Any) -> httpx2.Response:
        """GET."""
        return await self.serving.get(f"/api/{path}", params=query or None)

    async def made(self, prompt: str | None = None, **fields: Any) -> str:
        """Id of a new agent."""
        said = {"name": "helper", "from": "a", "initial_prompt": prompt, **fields}
        answer = await self.post("agents", said)
        assert answer.status_code == 201, answer.text
        return answer.json()["agent_id"]


@asynccontextmanager
async def api(*others: Agent) -> AsyncGenerator[Api, None]:
    model = Gates()
    patient = Limits(model_timeout=60, model_retries=0)
    async with Serving(Agent("a", model=model, limits=patient), *others) as serving:
        yield Api(serving, model)


async def test_an_agent_is_created_prompted_waited_for_and_closed() -> None:
    async with api() as a:
        made = await a.post("agents", {"name": "helper", "from": "a", "instructions": "Be long."})
        agent_id = made.json()["agent_id"]
        prompted = await a.post(f"sessions/{agent_id}/prompt", {"prompt": "one"})
        a.model.open("one", "Yes.")
        said = {"agent_ids": [agent_id], "after": prompted.json()["cursor"]}
        waited = await a.post("sessions/wait", {**said, "include_activity": True})
        status = await a.get(made.headers["Location"].removeprefix("/api/"))
        listed = await a.get("sessions/status", statuses=["idle", "error"])
        activity = await a.get(f"sessions/{agent_id}/activity", limit=1)
        closed = await a.post(f"sessions/{agent_id}/close")
        late = await a.post(f"sessions/{agent_id}/prompt", {"prompt": "two"})

    row = waited.json()["agents"][0]
    assert (made.status_code, prompted.status_code, waited.status_code) == (201, 202, 200)
    assert (row["status"], row["last_message"], row["timed_out"]) == ("idle", "one: Yes.", False)
    assert row["activity"]["content"].endswith("[Assistant] one: Yes.")
    assert prompted.json()["receipt"]["state"] == "accepted"
    assert (status.json()["status"], status.json()["name"]) == ("idle", "helper")
    assert [one["agent_id"] for one in listed.json()["agents"]] == [agent_id]
    assert activity.json()["update_count"] == 1
    assert closed.json() == {
        "agent_id": agent_id,
        "status": "closed",
        "was": "idle",
        "still_waiting": [],
    }
    assert (late.status_code, late.headers[CODE]) == (409, "session_closed")


async def test_what_is_waited_for_comes_with_the_answer() -> None:
    async with api() as a:
        a.model.open("one", "Yes.")
        a.model.open("two", "No.")
        foreground = {"background": False}
        made = await a.post(
            "agents", {"name": "helper", "from": "a", "initial_prompt": "one", **foreground}
        )
        agent_id = made.json()["agent_id"]
        said = await a.post(f"sessions/{agent_id}/prompt", {"prompt": "two", **foreground})
        late = await a.post(
            f"sessions/{agent_id}/prompt", {"prompt": "three", "timeout_seconds": 0, **foreground}
        )

    assert (made.status_code, made.json()["last_message"]) == (201, "one: Yes.")
    assert (said.status_code, said.json()["last_message"]) == (200, "two: No.")
    assert (late.status_code, late.json()["timed_out"]) == (200, True)


async def test_whoever_hangs_up_ends_his_wait_and_not_the_agent() -> None:
    async with api() as a:
        agent_id = await a.made("one")
        journal = a.serving.agents.session(agent_id).runtime.session.journal
        before = journal.waiters
        base = f"http://127.0.0.1:{a.serving.port}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers, base_url=base, trust_env=False) as client:
            said = {"agent_ids": [agent_id], "timeout_seconds": 60}
            with pytest.raises(httpx2.ReadTimeout):
                await client.post("/api/sessions/wait", json=said, timeout=0.2)
        for _ in range(int(BOUND / 0.01)):
            if journal.waiters == before:
                break
            await asyncio.sleep(0.01)
        status = await a.get(f"sessions/{agent_id}/status")

        assert journal.waiters == before
        assert status.json()["status"] == "running"


async def test_a_server_that_stops_answers_who_waits() -> None:
    async with api() as a:
        agent_id = await a.made("one")
        said = {"agent_ids": [agent_id], "timeout_seconds": 60}
        async with asyncio.TaskGroup() as group:
            waiter = group.create_task(a.post("sessions/wait", said))
            for _ in range(int(BOUND / 0.01)):
                if a.serving.agents.session(agent_id).runtime.session.journal.waiters:
                    break
                await asyncio.sleep(0.01)
            a.serving.server.stop()
        answer = waiter.result()

    assert (answer.status_code, answer.headers[CODE]) == (503, "closing")


async def test_a_turn_is_cancelled_and_says_who_waits() -> None:
    async with api() as a:
        agent_id = await a.made("one")
        later = {"prompt": "two", "mode": "follow_up", "message_id": "m2"}
        held = await a.post(f"sessions/{agent_id}/prompt", later)
        again = await a.post(f"sessions/{agent_id}/prompt", later)
        busy = await a.post(f"sessions/{agent_id}/prompt", {"prompt": "x", "mode": "reject"})
        cancelled = await a.post(f"sessions/{agent_id}/cancel", {"turn": 1})
        past = await a.post(f"sessions/{agent_id}/cancel", {"turn": 1})
        all_of_it = await a.post(f"sessions/{agent_id}/cancel")

    assert held.json()["receipt"]["blocked_by"] == ["turn"]
    assert again.json() == {**held.json(), "is_repeat": True}
    assert (busy.status_code, busy.headers[CODE]) == (409, "busy")
    assert (cancelled.json()["status"], cancelled.json()["still_waiting"]) == ("cancelled", ["m2"])
    assert past.json()["status"] == "not_running"
    assert all_of_it.json()["status"] == "cancelled"


async def test_a_permission_is_listed_and_answered_once() -> None:
    @tool(needs_approval=True)
    def burn(what: str) -> str:
        return f"burnt {what}"

    said = [reply(calls=[call("burn", "c1", what="all")]), "Done."]
    async with api(Agent("b", model=ScriptedModel(said), tools=[burn])) as a:
        agent_id = await a.made("go", **{"from": "b"})
        row = (await a.post("sessions/wait", {"agent_ids": [agent_id]})).json()["agents"][0]
        listed = (await a.get("permissions", agent_id=agent_id)).json()["permissions"]
        every = (await a.get("permissions")).json()["permissions"]
        path = f"sessions/{agent_id}/permissions/{row['permission']['request_id']}"
        other = await a.post(f"sessions/{agent_id}/permissions/x", {"decision": "allow"})
        wrong = await a.post(path, {"decision": "allow", "arguments": {"who": 1}})
        done = await a.post(path, {"decision": "allow", "arguments": {"what": "little"}})
        twice = await a.post(path, {"decision": "deny"})
        end = (await a.post("sessions/wait", {"agent_ids": [agent_id]})).json()["agents"][0]

    assert (row["status"], row["reason"]) == ("running", "permission")
    assert listed == every == [{"agent_id": agent_id, **row["permission"]}]
    assert (other.status_code, other.headers[CODE]) == (404, "prompt_unknown")
    assert (wrong.status_code, wrong.headers[CODE]) == (422, "bad_arguments")
    assert (done.status_code, done.json()["arguments"]) == (200, {"what": "little"})
    assert (twice.status_code, twice.headers[CODE]) == (409, "prompt_closed")
    assert end["last_message"] == "Done."


class Kept(MemoryStore):
    """A store that the next process finds as it was left."""

    async def close(self) -> None:
        """Stay open."""


async def test_a_closed_agent_is_listed_as_closed_by_the_next_process() -> None:
    store = Kept()
    async with Serving(talker("a"), store=store) as serving:
        a = Api(serving, Gates())
        agent_id = await a.made("one")
        await a.post("sessions/wait", {"agent_ids": [agent_id]})
        await a.post(f"sessions/{agent_id}/close")
    async with Serving(talker("a"), store=store) as serving:
        a = Api(serving, Gates())
        listed = (await a.get("sessions")).json()["sessions"]
        late = await a.post(f"sessions/{agent_id}/prompt", {"prompt": "two"})

    assert [(one["session_id"], one["state"]) for one in listed] == [(agent_id, "closed")]
    assert (late.status_code, late.headers[CODE]) == (409, "session_closed")


REFUSED: list[tuple[str, Json, int, str]] = [
    ("agents", {"name": "x", "from": "nobody"}, 404, "not_found"),
    ("agents", {"name": "x", "from": "a", "base_url": "http://x"}, 422, "bad_message"),
    ("agents", {"name": "x", "from": "a", "model": "openai:x"}, 422, "bad_message"),
    ("agents", {"name": "x", "from": "a", "path": "x.py"}, 422, "bad_message"),
    ("agents", {"name": "x", "from": "a", "command": ["sh"]}, 422, "bad_message"),
    ("agents", {"name": "a\nb", "from": "a"}, 422, "bad_message"),
    ("agents", {"from": "a"}, 422, "bad_message"),
    ("agents", {"name": "x", "from": "a", "background": False}, 422, "bad_message"),
    ("agents", {"name": "x", "from": "a", "initial_prompt": " "}, 422, "empty"),
    ("agents", {"name": "x", "from": "broken"}, 422, "bad_model"),
    ("sessions/nowhere/prompt", {"prompt": "x"}, 404, "not_found"),
    ("sessions/nowhere/close", {}, 404, "not_found"),
    ("sessions/wait", {"agent_ids": ["nowhere"]}, 404, "not_found"),
    ("sessions/wait", {"agent_ids": []}, 422, "bad_message"),
    ("sessions/wait", {"agent_ids": ["chat:a"], "after": "x"}, 422, "bad_cursor"),
    ("sessions/wait", {"agent_ids": ["chat:a"], "timeout_seconds": -1}, 422, "bad_message"),
    ("sessions/chat:a/prompt", {"prompt": "x"}, 409, "takes_the_line"),
    ("sessions/chat:a/close", {}, 409, "takes_the_line"),
    ("sessions/chat:a/cancel", {"turn": 0}, 422, "bad_message"),
]


async def test_what_cannot_be_is_refused_with_its_name_and_makes_nothing() -> None:
    async with api(Agent("broken", model="nobody:nothing")) as a:
        for path, said, status, code in REFUSED:
            answer = await a.post(path, said)

            assert (answer.status_code, answer.headers.get(CODE)) == (status, code), (path, said)
            assert answer.json()["message"]
        for path in ("sessions/status?limit=0", "sessions/status?statuses=x"):
            assert (await a.get(path)).headers[CODE] == "bad_query"
        assert [one.session_id for one in a.serving.agents.sessions()] == ["chat:a"]


def test_the_document_tells_the_bodies_and_the_answers() -> None:
    said = document(["a"])
    body = said["paths"]["/api/agents"]["post"]["requestBody"]["content"]["application/json"]
    shape = said["components"]["schemas"][body["schema"]["$ref"].rpartition("/")[2]]

    assert {"name", "from", "instructions", "initial_prompt"} <= shape["properties"].keys()
    assert sum("/sessions/" in one.path for one in OPERATIONS) >= 8
