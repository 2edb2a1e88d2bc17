"""Faults on purpose, on any model."""

from __future__ import annotations

from typing import Any

import pytest

from agent_lab import Limits, tool
from agent_lab.testing import ScriptedModel, call, faulty, open_runtime, reply
from tests.application.helpers_runtime import said, simulated, turn


@tool
async def look(city: str) -> str:
    """Look."""
    return f"seen {city}"


def model() -> ScriptedModel:
    calls = [call("look", city="Oslo"), call("look", city="Rome")]
    return ScriptedModel([reply("I look.", calls=calls)] + ["Seen."] * 5, repeat_last=True)


async def codes(spoilt: Any, **limits: Any) -> tuple[str, list[str], list[str]]:
    """How the turn ended, what was tried again, and the kinds of the replies."""
    async with open_runtime(model=spoilt, tools=[look], limits=Limits(**limits)) as runtime:
        end = (await turn(runtime))[-1]
        retried = [payload.code for payload in said(runtime, "retrying")]
        return end, retried, [payload.kind for payload in said(runtime, "tool_reply")]


@simulated
async def test_a_cut_runs_no_tool() -> None:
    assert await codes(faulty(model(), cut_after=2, times=1)) == ("done", ["provider_cut"], [])
    assert await codes(faulty(model(), cut_after=1)) == ("error", ["provider_cut"] * 2, [])


@simulated
async def test_a_stall_ends_with_the_time_limit() -> None:
    assert await codes(faulty(model(), stall_after=1), model_timeout=1) == ("error", [], [])


@pytest.mark.parametrize(
    ("status", "code"),
    [(429, "rate_limited"), (500, "provider_error"), (529, "provider_overloaded")],
)
@simulated
async def test_a_status_comes_instead(status: Any, code: str) -> None:
    assert await codes(faulty(model(), error=status, retry_after=1, times=2)) == (
        "done",
        [code] * 2,
        [],
    )


@simulated
async def test_calls_are_spoilt() -> None:
    assert await codes(faulty(model(), same_ids=True)) == ("done", [], ["result"] * 2)
    assert await codes(faulty(model(), wrong_json=True)) == ("done", [], ["bad_arguments"] * 2)


@simulated
async def test_without_faults_nothing_changes() -> None:
    assert await codes(faulty(model())) == await codes(model())
