"""Schedules over real HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.presentation.test_api_line import CODE, Line, lined


async def made(a: Line, **fields: Any) -> dict[str, Any]:
    """A schedule."""
    said = {"message": "tick", "every_seconds": 86_400, **fields}
    answer = await a.post("schedules", said)
    assert answer.status_code == 201
    return answer.json()


async def test_a_schedule_is_made_listed_switched_triggered_and_taken_away() -> None:
    async with lined() as a:
        one = await made(a, every_seconds=None, cron="0 9 * * 1-5", timezone="Europe/Oslo")
        listed = (await a.get("schedules")).json()
        off = (await a.post(f"schedules/{one['id']}/disable")).json()
        skipped = await a.post(f"schedules/{one['id']}/trigger")
        on = (await a.post(f"schedules/{one['id']}/enable")).json()
        a.model.open("tick", "Tock.")
        triggered = await a.post(f"schedules/{one['id']}/trigger", None, X_MCP_Key_Name="laptop")
        execution = f"executions/{triggered.json()['execution_id']}"
        await a.until(lambda: not a.serving.agents.line.book.live)
        record = (await a.get(execution)).json()
        told = (await a.get("schedules")).json()["schedules"][0]
        gone = await a.serving.get(f"/api/agents/a/schedules/{one['id']}", method="DELETE")

        assert listed == {"schedules": [one]}
        assert one["next_fire"].endswith(":00:00.000Z") and one["last_result"] is None
        assert (one["cron"], one["every_seconds"], one["enabled"]) == ("0 9 * * 1-5", None, True)
        assert (off["enabled"], off["next_fire"]) == (False, None)
        assert (skipped.status_code, skipped.json()["status"]) == (200, "skipped")
        assert skipped.json()["error_code"] == "schedule_off"
        assert on["next_fire"] == one["next_fire"]
        assert (triggered.status_code, triggered.json()["status"]) == (202, "triggered")
        assert (record["source"], record["mcp_key_name"]) == ("schedule", "laptop")
        assert record["triggered_by"] == f"schedule:{one['id']}"
        assert told["last_result"]["status"] == "completed"
        assert told["last_result"]["response"] == "tick: Tock."
        assert gone.json() == {"status": "removed", "schedule_id": one["id"], "agent": "a"}
        assert (await a.get("schedules")).json() == {"schedules": []}


async def test_a_fire_that_finds_the_line_full_is_listed_as_skipped() -> None:
    async with lined(waiting=0) as a:
        one = await made(a, kind="chat")
        await a.running()
        triggered = await a.post(f"schedules/{one['id']}/trigger")
        records = (await a.get("executions", status="skipped")).json()["executions"]

        assert triggered.status_code == 200
        assert triggered.json()["error"] == "agent 'a' runs 1 and 0 wait"
        assert [record["error_code"] for record in records] == ["capacity"]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"message": "x"}, "bad_schedule"),
        ({"message": "x", "cron": "* * * * *", "every_seconds": 5}, "bad_schedule"),
        ({"message": "x", "cron": "soon"}, "bad_schedule"),
        ({"message": "x", "cron": "* * * * *", "timezone": "../x"}, "bad_schedule"),
        ({"message": "x", "every_seconds": 0.5}, "bad_message"),
        ({"message": "", "every_seconds": 5}, "bad_message"),
        ({"message": "x", "every_seconds": 5, "command": "rm"}, "bad_message"),
        ({"message": "x", "every_seconds": 5, "model": "scripted:/x"}, "model_not_allowed"),
    ],
)
async def test_what_cannot_be_scheduled_is_refused_by_name(said: Any, code: str) -> None:
    async with lined() as a:
        answer = await a.post("schedules", said)

        assert (answer.status_code, answer.headers[CODE]) == (422, code)
        assert (await a.get("schedules")).json() == {"schedules": []}


@pytest.mark.parametrize("deed", ["enable", "disable", "trigger"])
async def test_what_is_unknown_and_what_is_anothers_read_alike(deed: str) -> None:
    async with lined() as a:
        one = await made(a)
        unknown = await a.post(f"schedules/x/{deed}")
        foreign = await a.post(f"/api/agents/b/schedules/{one['id']}/{deed}")

        assert (unknown.status_code, foreign.status_code) == (404, 404)
        assert unknown.json()["error"] == foreign.json()["error"] == "not_found"
