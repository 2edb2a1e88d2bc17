"""`/api` and the page over real HTTP."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from agent_lab import Agent, Limits
from agent_lab.presentation.api import ApiCode
from agent_lab.presentation.web import STATIC
from agent_lab.testing import ScriptedModel, reply
from tests.presentation.helpers_server import Doors, Serving, looker, seqs, talker


async def test_agents_are_listed_with_all_a_page_needs() -> None:
    doors = Doors()
    broken = Agent("broken", model="nobody:nothing")
    async with Serving(looker(doors), talker(), broken) as serving:
        client = await serving.run(agent="looker")
        await doors.inside()
        answer = await serving.get("/api/agents")
        agents = answer.json()["agents"]

        assert [agent["name"] for agent in agents] == ["looker", "talker", "broken"]
        assert [agent["is_busy"] for agent in agents] == [True, False, False]
        assert [agent["dialect"] for agent in agents] == ["openai_chat", "openai_chat", None]
        assert agents[2]["model"] == "nobody:nothing"
        first = await client.until("session")
        assert {**first["agent"], "is_busy": True} == agents[0]


async def test_sessions_are_listed_newest_first() -> None:
    async with Serving(talker()) as serving:
        assert (await serving.get("/api/sessions")).json() == {"sessions": []}
        one = await serving.run("First")
        await one.end()
        two = await serving.run("Second")
        await two.end()
        sessions = (await serving.get("/api/sessions")).json()["sessions"]

        assert [session["session_id"] for session in sessions] == [two.session_id, one.session_id]
        assert sessions[1] == {
            "session_id": one.session_id,
            "agent": "talker",
            "title": "First",
            "state": "idle",
            "turn": 1,
            "last_seq": len(one.entries),
            "epoch": one.frames[0]["epoch"],
            "started_at": one.frames[0]["started_at"],
        }


async def test_entries_are_those_of_the_wire() -> None:
    async with Serving(talker()) as serving:
        client = await serving.run()
        await client.end()
        path = f"/api/sessions/{client.session_id}/entries"
        whole = (await serving.get(path)).json()
        part = (await serving.get(path, params={"after": 2, "limit": 3})).json()
        behind = (await serving.get(path, params={"after": 99})).json()

        assert whole["entries"] == client.entries
        assert whole["gap"] is None
        assert whole["last_seq"] == len(client.entries)
        assert whole["epoch"] == client.frames[0]["epoch"]
        assert part["entries"] == client.entries[2:5]
        assert behind["entries"] == []


async def test_entries_that_memory_let_go_of_are_told_as_a_gap() -> None:
    deltas: list[str | tuple[int, str]] = ["x"] * 300
    limits = Limits(text_interval=0, journal_entries=100)
    agent = Agent("a", model=ScriptedModel([reply(deltas=deltas)]), limits=limits)
    async with Serving(agent) as serving:
        client = await serving.run()
        await client.end()
        path = f"/api/sessions/{client.session_id}/entries"
        answer = (await serving.get(path)).json()

        assert answer["gap"] == {"from": 1, "to": answer["entries"][0]["seq"] - 1}
        assert seqs(answer["entries"])[-1] == answer["last_seq"]


async def test_a_long_request_is_cut_on_the_wire_and_whole_as_a_body() -> None:
    agent = Agent("a", model=ScriptedModel(["x" * 300_000] * 2), instructions="Be long.")
    async with Serving(agent) as serving:
        client = await serving.run("one")
        await client.end()
        for number in range(70):
            agent_ = serving.agents.session(client.session_id)
            agent_.runtime.session.conversation.history.append(
                agent_.runtime.history[number % 2],
            )
        await client.send({"type": "user_message", "content": "two"})
        await client.end()
        asked = client.said("model_request")[-1]
        path = f"/api/sessions/{client.session_id}/entries/{asked['seq']}/body"
        body = (await serving.get(path)).json()

        assert asked["omitted"] == 73 - 64
        assert len(body["messages"]) == 1 + 73
        assert body["messages"][0]["content"] == "Be long."
        assert {**body, "messages": []} == {**asked["body"], "messages": []}


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/sessions/nowhere/entries", 404, "not_found"),
        ("/api/sessions/nowhere/entries/1/body", 404, "not_found"),
        ("/api/sessions/{id}/entries/1/body", 404, "not_found"),
        ("/api/sessions/{id}/entries/999/body", 404, "not_found"),
        ("/api/sessions/{id}/entries/0/body", 404, "not_found"),
        ("/api/sessions/{id}/entries/-1/body", 404, "not_found"),
        ("/api/sessions/{id}/entries/" + "9" * 5000 + "/body", 404, "not_found"),
        ("/api/sessions/{id}/entries?after=-1", 422, "bad_query"),
        ("/api/sessions/{id}/entries?after=x", 422, "bad_query"),
        ("/api/sessions/{id}/entries?after=1&after=2", 422, "bad_query"),
        ("/api/sessions/{id}/entries?limit=0", 422, "bad_query"),
        ("/api/sessions/{id}/entries?limit=1001", 422, "bad_query"),
        ("/api/nothing", 404, "not_found"),
        ("/nothing", 404, "not_found"),
        ("/static/nothing.js", 404, "not_found"),
        ("/static/..%2fpyproject.toml", 404, "not_found"),
        ("DELETE /api/agents", 405, "method_not_allowed"),
        ("POST /healthz", 405, "method_not_allowed"),
    ],
)
async def test_what_is_not_there_is_said_as_json_with_a_code(
    path: str, status: int, code: str
) -> None:
    async with Serving(talker()) as serving:
        client = await serving.run()
        await client.end()
        method, _, rest = path.rpartition(" ")
        path = rest.replace("{id}", client.session_id)
        answer = await serving.get(path, method=method or "GET")
        said: dict[str, Any] = answer.json()

        assert (answer.status_code, said["error"]) == (status, code)
        assert answer.headers["X-Agent-Lab-Error-Code"] == code
        assert code in get_args(ApiCode)
        assert said["message"]


async def test_a_fault_of_ours_is_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Serving(talker()) as serving:
        monkeypatch.setattr(serving.agents, "sessions", None)
        answer = await serving.get("/api/sessions")

        assert (answer.status_code, answer.json()["error"]) == (500, "internal")


async def test_health_says_ok_and_nothing_else() -> None:
    async with Serving(talker()) as serving:
        answer = await serving.get("/healthz", headers={"Authorization": ""})

        assert answer.json() == {"status": "ok"}


async def test_the_page_and_its_parts_need_no_token() -> None:
    async with Serving(talker()) as serving:
        page = await serving.get("/", headers={"Authorization": ""})
        script = await serving.get("/static/app.js", headers={"Authorization": ""})

        assert page.content == (STATIC / "index.html").read_bytes()
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert script.content == (STATIC / "app.js").read_bytes()
        assert "default-src 'none'" in page.headers["content-security-policy"]


async def test_a_page_of_entries_ends_after_about_a_mebibyte_and_the_next_goes_on() -> None:
    pieces: list[str | tuple[int, str]] = ["x" * 400_000] * 5
    says = [reply(deltas=pieces)]
    agent = Agent("a", model=ScriptedModel(says), limits=Limits(text_interval=0))
    async with Serving(agent) as serving:
        client = await serving.run()
        await client.end()
        read: list[int] = []
        while not read or read[-1] < client.entries[-1]["seq"]:
            path = f"/api/sessions/{client.session_id}/entries?after={len(read)}"
            page = (await serving.get(path)).json()["entries"]
            assert 1 <= len(page) <= 8
            read += [entry["seq"] for entry in page]

    assert read == list(range(1, client.entries[-1]["seq"] + 1))
