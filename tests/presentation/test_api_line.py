"""The line over real HTTP: what is answered, with which status, code and headers."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from agent_lab import Agent, Limits
from agent_lab.domain.errors import ModelError
from agent_lab.domain.limits import LineLimits
from tests.application.helpers_line import Gates
from tests.presentation.helpers_server import BOUND, TOKEN, Serving, talker

CODE = "X-Agent-Lab-Error-Code"
ID = "X-Agent-Lab-Execution-Id"
Answer = httpx2.Response


class Line:
    """A server with agent `a`, whose model answers when it is told to."""

    def __init__(self, serving: Serving, model: Gates) -> None:
        self.serving = serving
        self.model = model

    async def post(self, path: str, said: Any = None, **headers: str) -> Answer:
        """POST to agent `a`; header names with underscores."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        options = {} if said is None else {"json": said}
        path = path if path.startswith("/") else f"/api/agents/a/{path}"
        return await self.serving.get(path, method="POST", extra=given, **options)

    async def get(self, path: str, **query: Any) -> Answer:
        """GET from agent `a`."""
        path = path if path.startswith("/") else f"/api/agents/a/{path}"
        return await self.serving.get(path, params=query or None)

    async def running(self, message: str = "one") -> str:
        """Have this run, whatever becomes of it, and give its id."""
        answer = await self.post("chat", {"message": message, "async_mode": True})
        await self.until(lambda: message in self.model.asked)
        return answer.json()["execution_id"]

    async def until(self, ready: Any) -> None:
        """Wait until something is so."""
        for _ in range(int(BOUND / 0.005)):
            if ready():
                return
            await asyncio.sleep(0.005)
        raise TimeoutError

    async def waiting(self, count: int) -> None:
        """Wait until so many stand in line."""
        book = self.serving.agents.line.book
        await self.until(lambda: sum(one.status == "queued" for one in book.live) == count)


@asynccontextmanager
async def lined(*others: Agent, **limits: Any) -> AsyncGenerator[Line, None]:
    model = Gates()
    patient = Limits(model_timeout=60, model_retries=0)
    agent = Agent("a", model=model, limits=patient)
    async with Serving(agent, *others, line=LineLimits(**limits)) as serving:
        yield Line(serving, model)


# -- chat and task -------------------------------------------------------------------------------


async def test_an_agent_of_any_name_has_its_line_and_session() -> None:
    """A `/` in a name is `%2F` in an address, and undone before the route is looked for."""
    model = Gates()
    model.open("hi", "Hello.")
    name, path = "sales/EU & co", "/api/agents/sales%2FEU%20%26%20co"
    async with lined(Agent(name, model=model)) as a:
        answer = await a.post(f"{path}/chat", {"message": "hi"}, Prefer="wait=0")
        assert answer.status_code in (200, 202), answer.text
        found = answer.headers.get("Location") or f"{path}/executions/{answer.headers[ID]}"
        assert found.startswith(path)
        record = await a.get(found)
        assert (record.status_code, record.json()["agent_name"]) == (200, name)
        assert (await a.get(f"{path}/queue")).json()["agent_name"] == name
        assert (await a.get(f"{path}/schedules")).status_code == 200
        session = "/api/sessions/chat%3Asales%2FEU%20%26%20co"
        assert (await a.get(f"{session}/entries")).json()["session_id"] == f"chat:{name}"
        assert (await a.get(f"{session}/status")).status_code == 200


async def test_a_chat_is_answered_with_both_ids() -> None:
    async with lined() as a:
        a.model.open("hi", "Hello.")
        answer = await a.post("chat", {"message": "hi"})
        record = (await a.get(f"executions/{answer.headers[ID]}")).json()

        assert answer.status_code == 200
        assert answer.json() == {
            "response": "hi: Hello.",
            "execution": {
                "id": record["ticket"],
                "task_execution_id": record["id"],
                "queue_status": "running",
                "was_queued": False,
            },
            "session_id": "chat:a",
            "turn": 1,
        }
        assert record["status"] == "completed"
        assert record["tool_calls"] == [], "it ran, and called nothing"
        assert record["cost_usd"] is None
        assert record["queued_at"].endswith("Z")


async def test_who_waits_in_line_is_answered_when_it_is_his_turn() -> None:
    async with lined() as a:
        await a.running()
        asks = asyncio.gather(a.post("chat", {"message": "two"}), a.get("executions/running"))
        await a.waiting(1)
        queue = (await a.get("queue")).json()
        a.model.open("one")
        a.model.open("two")
        answer, running = await asks

        assert queue["is_busy"] is True
        assert queue["current_execution"]["message"] == "one"
        assert (queue["queue_length"], queue["capacity"]) == (1, 1)
        assert [one["position"] for one in queue["queued_executions"]] == [1]
        assert answer.json()["execution"]["was_queued"] is True
        assert [one["message"] for one in running.json()["executions"]] == ["one"]


async def test_a_full_line_is_429_in_the_words_of_the_contract() -> None:
    async with lined(waiting=1) as a:
        await a.running()
        await a.post("chat", {"message": "two", "async_mode": True})
        answer = await a.post("chat", {"message": "three"})
        said = answer.json()

        assert answer.status_code == 429
        assert answer.headers[CODE] == "capacity"
        assert answer.headers["Retry-After"] == str(said["retry_after"]) == "30"
        assert said["error"] == "Agent queue is full"
        assert (said["agent"], said["queue_length"]) == ("a", 1)
        assert said["message"] == "agent 'a' runs 1 and 1 wait"


async def test_who_will_not_wait_is_refused_at_once_when_busy() -> None:
    async with lined() as a:
        a.model.open("free")
        assert (await a.post("chat", {"message": "free", "wait": False})).status_code == 200
        await a.running()
        answer = await a.post("chat", {"message": "two", "wait": False})

        assert (answer.status_code, answer.headers[CODE]) == (429, "capacity")


async def test_a_task_at_capacity_is_429_and_an_async_one_waits_in_the_backlog() -> None:
    async with lined(tasks=1) as a:
        first = await a.post("task", {"message": "one", "async_mode": True})
        sync = await a.post("task", {"message": "two"})
        later = await a.post("task", {"message": "three", "async_mode": True})
        queue = (await a.get("queue")).json()

        assert (first.status_code, sync.status_code, later.status_code) == (202, 429, 202)
        said = later.json()
        assert said["status"] == "accepted"
        assert (said["position"], said["execution"]["queue_status"]) == (1, "queued")
        assert later.headers["Location"] == f"/api/agents/a/executions/{said['execution_id']}"
        assert [one["message"] for one in queue["tasks"]["queued_executions"]] == ["three"]


async def test_prefer_wait_gives_the_answer_in_time_or_the_id() -> None:
    async with lined() as a:
        a.model.open("fast")
        fast = await a.post("chat", {"message": "fast"}, Prefer="wait=4")
        slow = await a.post("chat", {"message": "slow"}, Prefer="wait=0.05")
        at_once = await a.post("chat", {"message": "late"}, Prefer="respond-async")

        assert (fast.status_code, fast.json()["response"]) == (200, "fast: Well.")
        assert (slow.status_code, slow.json()["status"]) == (202, "accepted")
        assert (at_once.status_code, at_once.json()["position"]) == (202, 1)


async def test_a_failed_turn_is_502() -> None:
    async with lined() as a:
        a.model.open("one", ModelError("no key", code="provider_auth"))
        answer = await a.post("chat", {"message": "one"})
        said = answer.json()

        assert (answer.status_code, answer.headers[CODE]) == (502, "provider_auth")
        assert (said["error"], said["code"]) == ("Agent turn failed", "provider_auth")
        assert "no key" in said["message"]
        assert said["metadata"]["status"] == "failed"
        assert answer.headers[ID] == said["execution_id"]


async def test_a_run_that_takes_too_long_is_504() -> None:
    async with lined() as a:
        answer = await a.post("chat", {"message": "one", "timeout_seconds": 0.05})

        assert (answer.status_code, answer.headers[CODE]) == (504, "run_timeout")
        assert answer.json()["message"] == "it ran longer than 0.05 s and was stopped"


@pytest.mark.scenario("S16")
async def test_a_wait_that_takes_too_long_is_503_with_a_hint_when_to_retry() -> None:
    async with lined(wait=0.05) as a:
        await a.running()
        answer = await a.post("chat", {"message": "two"})

        assert (answer.status_code, answer.headers[CODE]) == (503, "queued_timeout")
        assert answer.headers["Retry-After"] == "30"
        assert (await a.get(f"executions/{answer.headers[ID]}")).json()["status"] == "timeout"


@pytest.mark.scenario("S22")
async def test_who_is_cleared_from_the_line_is_told_409() -> None:
    async with lined() as a:
        await a.running()
        ask = asyncio.gather(a.post("chat", {"message": "two"}))
        await a.waiting(1)
        cleared = await a.post("queue/clear", X_Source_Agent="boss")
        (answer,) = await ask
        audit = (await a.get("/api/audit")).json()["activity"]

        assert cleared.json() == {"status": "cleared", "agent": "a", "cleared_count": 1}
        assert (answer.status_code, answer.headers[CODE]) == (409, "cancelled")
        assert answer.json()["message"] == "the queue was cleared (boss)"
        assert [(one["kind"], one["source_agent"]) for one in audit] == [("clear", "boss")]


@pytest.mark.scenario("S14")
async def test_who_hangs_up_while_he_waits_is_out_of_the_line() -> None:
    async with lined() as a:
        await a.running()
        _, writer = await asyncio.open_connection("127.0.0.1", a.serving.port)
        body = b'{"message":"two"}'
        writer.write(
            f"POST /api/agents/a/chat HTTP/1.1\r\nHost: 127.0.0.1:{a.serving.port}\r\n"
            f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await a.waiting(1)
        writer.close()
        await a.waiting(0)
        found = (await a.get("executions", status="cancelled")).json()["executions"]

        assert [(one["message"], one["error_code"]) for one in found] == [("two", "left")]
        assert a.model.asked == ["one"]


# -- a hand on the line --------------------------------------------------------------------------


@pytest.mark.scenario("S12")
async def test_release_warns_that_work_may_still_run() -> None:
    async with lined() as a:
        none = (await a.post("queue/release")).json()
        ask = asyncio.gather(a.post("chat", {"message": "one"}))
        await a.until(lambda: a.model.asked == ["one"])
        released = (await a.post("queue/release")).json()
        (answer,) = await ask

        assert none == {"status": "released", "agent": "a", "was_running": False, "warning": None}
        assert released["was_running"] is True
        assert "may still run" in released["warning"]
        assert (answer.status_code, answer.json()["metadata"]["reason"]) == (409, "released")
        a.model.open("two")
        assert (await a.post("chat", {"message": "two"})).status_code == 200


async def test_terminate_says_what_became_of_it() -> None:
    async with lined() as a:
        one = await a.running()
        queued = (await a.post("chat", {"message": "two", "async_mode": True})).json()
        by_ticket = queued["execution"]["id"]

        async def terminate(execution_id: str) -> str:
            return (await a.post(f"executions/{execution_id}/terminate")).json()["status"]

        assert await terminate(by_ticket) == "cancelled_while_queued"
        assert await terminate(one) == "terminated"
        assert await terminate(one) == "already_terminal"
        a.model.open("three")
        done = await a.post("chat", {"message": "three"})
        assert await terminate(done.headers[ID]) == "already_finished"
        audit = (await a.get("/api/audit", limit=2)).json()
        assert [line["text"] for line in audit["activity"]] == [
            *("already finished", "already terminal"),
        ]
        behind = (await a.get("/api/audit", before=audit["next"])).json()
        assert [line["text"] for line in behind["activity"]] == [
            *("terminated", "cancelled while queued"),
        ]


async def test_reset_begins_anew_and_says_which_conversation_this_is() -> None:
    async with lined() as a:
        one = await a.running()
        reset = (await a.post("reset")).json()
        a.model.open("two")
        done = (await a.post("chat", {"message": "two"})).json()

        assert reset == {
            "status": "reset",
            "agent": "a",
            "session_id": "chat:a",
            "generation": 2,
            "cancelled_executions": [one],
        }
        assert done["turn"] == 1
        assert (await a.get("queue")).json()["generation"] == 2
        log = (await a.get(f"executions/{one}/log")).json()
        assert (log["available"], log["entries"]) == (False, []), "its session is gone"


@pytest.mark.scenario("S9")
async def test_the_capacity_is_changed_while_it_runs() -> None:
    async with lined() as a:
        path = "/api/agents/a/queue/capacity"
        said = {"kind": "task", "capacity": 999}
        wide = await a.serving.get(path, method="PUT", json=said)
        none = await a.serving.get(path, method="PUT", json={"kind": "task", "capacity": 0})

        assert wide.json()["tasks"]["capacity"] == 64
        assert none.json()["tasks"]["capacity"] == 1


@pytest.mark.fault("O01")
async def test_who_waits_when_the_server_stops_is_answered_before_it_does() -> None:
    async with lined() as a:
        asks = asyncio.gather(
            a.post("chat", {"message": "one"}),
            a.post("chat", {"message": "two"}),
            a.post("chat", {"message": "three"}, Prefer="wait=9"),
        )
        await a.waiting(2)
        await a.serving.stop()
        one, two, three = await asks

        told = [(answer.status_code, answer.headers.get(CODE)) for answer in (one, two)]
        assert told == [(503, "interrupted")] * 2
        assert one.headers[ID] == one.json()["execution_id"]
        assert three.status_code == 202, "it was accepted for good"


# -- records -------------------------------------------------------------------------------------


async def test_executions_are_listed_page_by_page_and_filtered() -> None:
    async with lined(talker("b")) as a:
        for name in ("one", "two", "three"):
            a.model.open(name)
            await a.post("chat", {"message": name}, X_Source_Agent="b")
        task = await a.post("task", {"message": "four", "async_mode": True}, X_Via_MCP="1")
        first = (await a.get("executions", limit=2)).json()
        behind = (await a.get("executions", limit=2, before=first["next"])).json()
        mine = (await a.get("executions", kind="task")).json()["executions"]

        assert [one["message"] for one in first["executions"]] == ["four", "three"]
        assert [one["message"] for one in behind["executions"]] == ["two", "one"]
        assert [one["id"] for one in mine] == [task.json()["execution_id"]]
        assert (mine[0]["source"], mine[0]["triggered_by"]) == ("mcp", "mcp")
        assert first["executions"][1]["source_agent"] == "b"
        assert (await a.get("/api/agents/b/executions")).json()["executions"] == []


async def test_the_log_of_an_execution_is_its_turn_as_on_the_wire() -> None:
    async with lined() as a:
        for name in ("one", "two"):
            a.model.open(name)
        await a.post("chat", {"message": "one"})
        done = await a.post("chat", {"message": "two"})
        log = (await a.get(f"executions/{done.headers[ID]}/log")).json()
        whole = (await a.get("/api/sessions/chat:a/entries")).json()["entries"]

        types = [entry["type"] for entry in log["entries"]]
        assert {entry["turn"] for entry in log["entries"]} == {None, 2}
        assert types[0] == "accepted"
        assert types[-1] == "done"
        assert [entry for entry in whole if entry in log["entries"]] == log["entries"]


async def test_the_log_of_what_runs_is_what_it_did_so_far() -> None:
    async with lined() as a:
        one = await a.running()
        log = (await a.get(f"executions/{one}/log")).json()

        assert log["turn"] == 1
        assert [entry["type"] for entry in log["entries"]][-1] == "model_request"


async def test_the_timeline_tells_who_asked() -> None:
    async with lined() as a:
        a.model.open("one")
        await a.post("chat", {"message": "one"}, X_MCP_Key_ID="k1", X_MCP_Key_Name="laptop")
        (line,) = (await a.get("activity")).json()["activity"]

        assert (line["kind"], line["text"], line["status"]) == ("chat", "one", "completed")
        assert (line["source"], line["mcp_key_name"]) == ("mcp", "laptop")


async def test_a_record_names_the_user_that_asked() -> None:
    async with lined() as a:
        for text in ("one", "two", "three"):
            a.model.open(text)
        own = await a.post("chat", {"message": "one"})
        named = await a.post("chat", {"message": "two"}, X_Source_User="ann@example.com")
        agent = await a.post("chat", {"message": "three"}, X_Source_Agent="b")
        answers = [await a.get(f"executions/{one.headers[ID]}") for one in (own, named, agent)]

        assert [one.json()["source_user"] for one in answers] == [
            getpass.getuser(), "ann@example.com", None
        ]  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [
        "GET /api/agents/nobody/queue",
        "GET /api/agents/nobody/executions",
        "GET /api/agents/nobody/activity",
        "GET /api/agents/a/executions/nowhere",
        "GET /api/agents/b/executions/{one}",
        "GET /api/agents/b/executions/{one}/log",
        "GET /api/agents/a/fan-out/nowhere",
        "POST /api/agents/b/executions/{one}/terminate",
        "POST /api/agents/nobody/queue/clear",
        "POST /api/agents/nobody/reset",
    ],
)
async def test_what_is_unknown_and_what_is_anothers_read_alike(path: str) -> None:
    async with lined(talker("b")) as a:
        one = await a.running()
        method, _, where = path.format(one=one).partition(" ")
        answer = await a.serving.get(where, method=method)

        assert (answer.status_code, answer.headers[CODE]) == (404, "not_found")
        assert one not in answer.text


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ({}, 422, "bad_message"),
        ({"message": ""}, 422, "bad_message"),
        ({"message": 5}, 422, "bad_message"),
        ({"message": "x", "url": "http://x"}, 422, "bad_message"),
        ({"message": "x", "model": "scripted:/etc/passwd"}, 422, "model_not_allowed"),
        ({"message": "x", "model": "openai:"}, 422, "model_not_allowed"),
        ({"message": "x", "timeout_seconds": 0}, 422, "bad_message"),
        ({"message": "x", "priority": "king"}, 422, "bad_message"),
        ([], 422, "bad_message"),
        (None, 400, "bad_json"),
    ],
)
async def test_what_cannot_be_asked_is_refused_by_name(said: Any, status: int, code: str) -> None:
    async with lined() as a:
        path = "/api/agents/a/chat"
        options = {"json": said} if said is not None else {"content": "{"}
        kind = {"Content-Type": "application/json"}
        answer = await a.serving.get(path, method="POST", extra=kind, **options)

        assert (answer.status_code, answer.headers[CODE]) == (status, code)
        assert answer.json()["error"] == code


@pytest.mark.fault("SEC-29")
@pytest.mark.parametrize("header", ["X-Source-Agent", "X-MCP-Key-ID", "Idempotency-Key"])
@pytest.mark.parametrize("value", ["x" * 201, "\x7f"])
async def test_a_header_that_cannot_be_logged_is_refused(header: str, value: str) -> None:
    async with lined() as a:
        answer = await a.serving.get(
            "/api/agents/a/chat", method="POST", json={"message": "x"}, extra={header: value}
        )

        assert answer.status_code in (400, 422)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "limit=1&limit=2", "status=king", "kind=x"]
)
async def test_a_filter_that_cannot_be_is_refused(query: str) -> None:
    async with lined() as a:
        answer = await a.get(f"executions?{query}")

        assert (answer.status_code, answer.headers[CODE]) == (422, "bad_query")


# -- keys ----------------------------------------------------------------------------------------


async def test_a_key_makes_a_retry_harmless() -> None:
    async with lined() as a:
        a.model.open("one")
        first = await a.post("chat", {"message": "one"}, Idempotency_Key="k")
        again = await a.post("chat", {"message": "one"}, Idempotency_Key="k")

        assert again.json() == first.json()
        assert "X-Idempotent-Replay" not in first.headers
        assert again.headers["X-Idempotent-Replay"] == "true"
        assert a.model.asked == ["one"]


@pytest.mark.scenario("S77")
@pytest.mark.scenario("S78")
async def test_a_key_in_flight_is_409_and_with_another_body_422() -> None:
    async with lined() as a:
        said = {"message": "one", "async_mode": True}
        first = await a.post("chat", said, Idempotency_Key="k")
        again = await a.post("chat", said, Idempotency_Key="k")
        other = await a.post("chat", {**said, "message": "two"}, Idempotency_Key="k")

        assert (again.status_code, again.headers[CODE]) == (409, "request_in_progress")
        assert again.headers[ID] == first.headers[ID]
        assert (other.status_code, other.headers[CODE]) == (422, "key_reused")


# -- lists of tasks ------------------------------------------------------------------------------


async def test_a_list_of_tasks_gives_partial_results() -> None:
    async with lined(tasks=2) as a:
        a.model.open("one")
        a.model.open("two", ModelError("no", code="provider_auth"))
        tasks = [{"message": name} for name in ("one", "two", "three")]
        made = await a.post("fan-out", {"tasks": tasks, "async_mode": True})
        path = f"fan-out/{made.json()['fan_out_id']}"
        assert made.status_code == 202
        assert (made.json()["status"], made.json()["total"]) == ("running", 3)
        await a.until(lambda: "three" in a.model.asked)
        half = (await a.get(path)).json()
        a.model.open("three")
        line = a.serving.agents.line
        await asyncio.wait_for(line.fan_outs.find("a", path[8:]).over.wait(), BOUND)
        whole = (await a.get(path)).json()

        assert (half["status"], half["finished"]) == ("running", 2)
        assert [one["status"] for one in half["results"]] == ["completed", "failed", "running"]
        assert (whole["status"], whole["finished"]) == ("partial", 3)
        assert [one["response"] for one in whole["results"]] == ["one: Well.", None, "three: Well."]
        record = (await a.get(f"executions/{whole['results'][0]['execution_id']}")).json()
        assert record["triggered_by"] == f"fan-out:{path[8:]}"


async def test_a_list_runs_at_most_as_many_at_once_as_it_says() -> None:
    async with lined(tasks=20) as a:
        tasks = [{"message": str(number)} for number in range(6)]
        ask = asyncio.gather(a.post("fan-out", {"tasks": tasks, "max_concurrent": 2}))
        for number in range(6):
            await a.until(lambda number=number: len(a.model.asked) > number)
            running = (await a.get("queue")).json()["tasks"]["running"]
            assert len(running) <= 2
            a.model.open(str(number))
        (answer,) = await ask

        assert answer.status_code == 200
        assert answer.json()["status"] == "completed"


@pytest.mark.parametrize("count", [0, 51])
async def test_a_list_has_1_to_50_tasks(count: int) -> None:
    async with lined() as a:
        answer = await a.post("fan-out", {"tasks": [{"message": "x"}] * count})

        assert (answer.status_code, answer.headers[CODE]) == (422, "bad_message")
