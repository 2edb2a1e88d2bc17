"""What must not be is seen and named; what may be is not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_lab.application.invariants import check_session
from agent_lab.domain.admission import Room, Ticket
from agent_lab.domain.execution import Execution
from agent_lab.domain.payloads import Accepted, Delivered, Done, ToolReplied
from agent_lab.domain.redaction import SECRETS
from agent_lab.testing import ScriptedModel, open_runtime
from tests.application.helpers_line import Held, held
from tests.application.helpers_runtime import simulated, turn

AT: dict[str, Any] = {"turn": 1, "step": 1}
REPLY = ToolReplied(**AT, call_id="c", name="look", content="x", kind="result", is_error=False)


async def codes(a: Held) -> list[str]:
    return [problem.code for problem in await a.line.check()]


@simulated
async def test_a_line_in_use_has_no_problem() -> None:
    async with held() as a:
        await a.ask("one")
        await a.ask("two")
        await a.ask("three", "task")
        await a.asked("one", "three")

        assert await codes(a) == []


@simulated
async def test_a_slot_that_nobody_runs_in_is_seen() -> None:
    async with held() as a:
        await a.line.keeper.ask(Ticket("stray", "chat:a", "user", 0.0), Room(1, 3))

        assert await codes(a) == ["slot_without_run"]


@simulated
async def test_a_line_beyond_its_bounds_and_a_slot_that_is_free_are_seen() -> None:
    async with held() as a:
        for name in ("one", "two", "three"):
            await a.ask(name)
        line = a.line.keeper._lines["chat:a"]  # type: ignore[attr-defined]  # to do it harm
        line.room = Room(2, 1)

        assert await codes(a) == ["line_too_long", "idle_slot"]


@simulated
async def test_a_secret_on_a_record_is_seen_and_does_not_get_there_by_itself() -> None:
    async with held() as a:
        SECRETS.add("canary-canary")
        try:
            a.model.open("one", "canary-canary")
            done = await a.end(await a.ask("one"))
            assert "canary" not in repr(done)
            assert await codes(a) == []
            a.line.book._live["e"] = Execution(
                id="e", ticket="t", agent_name="a", kind="task", message="", queued_at=0.0,
                status="completed", response="canary-canary",
            )  # fmt: skip
            assert await codes(a) == ["secret"]
        finally:
            SECRETS.forget("canary-canary")


@simulated
async def test_somebody_who_waits_for_what_is_over_is_seen() -> None:
    async with held() as a:
        a.line.book._waiters["over"] = [asyncio.get_running_loop().create_future()]

        assert await codes(a) == ["stray_waiter"]


@simulated
async def test_a_session_at_work_and_at_rest_has_no_problem() -> None:
    async with open_runtime(model=ScriptedModel(["Well."], repeat_last=True)) as runtime:
        await turn(runtime)
        await turn(runtime)

        assert runtime.check() == []


@pytest.mark.parametrize(
    ("payloads", "code"),
    [
        ([Done(**AT, reason="stop", pending=0)], "two_ends"),
        ([Delivered(**AT, message_id="m", position=0)] * 2, "two_deliveries"),
        ([REPLY], "two_replies"),
        ([Accepted(message_id="m", content="x", mode="steer")], "no_end"),
    ],
)
def test_what_a_session_must_not_say_is_seen(payloads: list[Any], code: str) -> None:
    @simulated
    async def test() -> None:
        async with open_runtime(model=ScriptedModel(["Well."])) as runtime:
            await turn(runtime)
            runtime.session.journal.extend(payloads)

            found = [problem.code for problem in check_session(runtime.session)]
            assert found == [code]

    test()
