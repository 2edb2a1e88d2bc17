"""Health, figures, and the document of the API, over real HTTP."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

import pytest

from agent_lab import Agent, tool
from agent_lab.domain.errors import StorageError
from agent_lab.infrastructure.line_memory import MemoryExecutions
from agent_lab.testing import ScriptedModel, call, reply
from tests.application.helpers_line import Gates
from tests.presentation.helpers_server import BOUND, Serving
from tests.presentation.test_api_line import Line, lined


async def test_metrics_tell_depth_waits_runs_and_refusals_by_agent_and_source() -> None:
    async with lined(waiting=1) as a:
        a.model.open("zero")
        await a.post("chat", {"message": "zero"})
        await a.running()
        await a.post("chat", {"message": "two", "async_mode": True}, X_Source_Agent="b")
        await a.post("chat", {"message": "three"})
        answer = await a.get("/metrics")
        told = dict(re.findall(r"^(agent_lab\w+\{.*?\}) (.*)$", answer.text, re.MULTILINE))

        assert answer.headers["Content-Type"].startswith("text/plain")
        by = 'agent="a",kind="chat",source="user"'
        assert told[f"agent_lab_running{{{by}}}"] == "1.0"
        assert told['agent_lab_queue_depth{agent="a",kind="chat",source="agent"}'] == "1.0"
        assert told[f"agent_lab_wait_seconds_count{{{by}}}"] == "2.0"
        assert told[f"agent_lab_run_seconds_count{{{by}}}"] == "1.0"
        assert told[f'agent_lab_executions_total{{{by},status="completed"}}'] == "1.0"
        refused = 'agent="a",code="capacity",kind="chat",source="user"'
        assert told[f"agent_lab_refusals_total{{{refused}}}"] == "1.0"
        assert told['agent_lab_abandoned{agent="a",kind="task"}'] == "0.0"


async def test_health_names_its_problems_and_says_more_only_to_who_has_the_token() -> None:
    async with lined() as a:
        line = a.serving.agents.line
        well = await a.get("/healthz")
        line.book.listen(_fall)
        a.model.open("one")
        await a.post("chat", {"message": "one"})
        open_ = await a.serving.get("/healthz", extra={"Authorization": ""})
        known = await a.get("/healthz")

        assert (well.status_code, well.json()) == (200, {"status": "ok"})
        assert open_.status_code == 503
        assert open_.json() == {"status": "failing", "problems": [{"code": "line_faults"}]}
        assert "see the log" in known.json()["problems"][0]["message"]


@pytest.mark.fault("R07")
async def test_work_that_ignores_its_end_is_counted_and_named_until_it_ends() -> None:
    let_go = threading.Event()

    @tool
    def hangs() -> str:
        """Hang."""
        assert let_go.wait(BOUND)
        return "late"

    model = ScriptedModel([reply(calls=[call("hangs")]), "Well."], repeat_last=True)
    async with Serving(Agent("a", model=model, tools=[hangs])) as serving:
        a = Line(serving, Gates())
        begun = await a.post("task", {"message": "go", "async_mode": True})
        path = f"executions/{begun.json()['execution_id']}"
        await a.until(
            lambda: any(
                len(one.runtime.session.journal.read()[1]) > 10 for one in serving.agents.sessions()
            )
        )
        ended = await a.post(f"{path}/terminate")
        await a.until(lambda: serving.agents.kept.haunted)
        health, figures = (await a.get("/healthz")).json(), (await a.get("/metrics")).text
        let_go.set()
        await a.until(lambda: not serving.agents.kept.haunted)

        assert ended.json()["status"] == "terminated"
        assert [one["code"] for one in health["problems"]] == ["abandoned_work"]
        assert "hangs: its thread" in health["problems"][0]["message"]
        assert 'agent_lab_abandoned{agent="a",kind="thread"} 1.0' in figures
        assert (await a.get("/healthz")).status_code == 200


async def test_a_store_that_fails_is_named_and_what_it_cannot_keep_is_refused() -> None:
    class Full(MemoryExecutions):
        async def committed(self) -> None:
            raise StorageError("storage_full", "no space is left", "make room")

    async with lined() as a:
        line = a.serving.agents.line
        line.store = line.book.store = Full()
        answer = await a.post("chat", {"message": "one"})
        health = (await a.serving.get("/healthz", extra={"Authorization": ""})).json()

        assert (answer.status_code, answer.headers["X-Agent-Lab-Error-Code"]) == (
            503,
            "storage_full",
        )
        assert health["problems"] == [{"code": "storage_full"}]
        assert a.model.asked == [], "what was not stored does not run"


async def test_check_says_that_all_is_right_or_what_is_not() -> None:
    async with lined() as a:
        await a.running()
        right = (await a.get("/api/check")).json()
        a.serving.agents.line.book._waiters["over"] = [asyncio.get_running_loop().create_future()]
        wrong = (await a.get("/api/check")).json()

        assert right == {"ok": True, "problems": []}
        assert wrong["ok"] is False
        assert [one["code"] for one in wrong["problems"]] == ["stray_waiter"]
        assert (await a.get("/healthz")).status_code == 503


async def test_the_document_names_every_answer_and_refers_to_nothing_that_is_not_there() -> None:
    async with lined() as a:
        answer = await a.get("/api/openapi.json")
        document: dict[str, Any] = answer.json()
        schemas = document["components"]["schemas"]
        named = set(re.findall(r"#/components/schemas/(\w+)", answer.text))
        chat = document["paths"]["/api/agents/{name}/chat"]["post"]

        assert named <= set(schemas)
        assert set(chat["responses"]) >= {"200", "202", "409", "422", "429", "502", "503", "504"}
        assert schemas["ChatBody"]["additionalProperties"] is False
        assert chat["parameters"][0]["schema"]["enum"] == ["a"]


def _fall(_: object) -> None:
    raise RuntimeError
