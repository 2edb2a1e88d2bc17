"""The demo's full run with a provider's model, in every format: on the wire and on tape."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_lab import Agent, DebugRuntime
from agent_lab.domain.dialects.check import check_history
from agent_lab.infrastructure.models.cassette import Tape
from agent_lab.presentation.demo import demo_agent
from agent_lab.testing import HandGate
from tests.application.helpers_runtime import said, take_turn
from tests.infrastructure.models.helpers_demo import demo, demo_at
from tests.infrastructure.models.helpers_provider import (
    DIALECTS,
    Answer,
    Asked,
    ProviderServer,
    by_dialect,
)

STEER = "And in Rome?"


async def full_run(agent: Agent, tape: Tape | None = None) -> DebugRuntime:
    """Two turns: in the first somebody says something while two tools run. It is closed."""
    gate = HandGate("tool")
    async with DebugRuntime(agent, gate=gate, session_id="s_demo", tape=tape) as runtime:
        runtime.start("A trip to Oslo")
        async with asyncio.timeout(5):
            await gate.arrival("tool")
        runtime.start(STEER)
        gate.open()
        ends = [(await take_turn(runtime))[-1]]
        runtime.start("And to Lisbon?")
        ends.append((await take_turn(runtime))[-1])
        assert [end.type for end in ends] == ["done", "done"]
        return runtime


def outcome(runtime: DebugRuntime) -> Any:
    """What came of it: the history, what was held for what, which tools ran, how it ended."""
    history = [
        (
            message.role,
            message.content,
            message.kind,
            [(call.name, call.arguments) for call in message.tool_calls],
        )
        for message in runtime.history
    ]
    counts = {
        kind: len(said(runtime, kind))
        for kind in ("tool_call", "tool_started", "tool_reply", "delivered", "held", "done")
    }
    (held,) = said(runtime, "held")
    return history, counts, len(held.blocked_by)


@pytest.fixture(scope="module")
def at_home() -> Any:
    """What comes of the run with the demo's own model."""

    async def run() -> Any:
        return outcome(await full_run(demo_agent(pace=0)))

    return asyncio.run(run())


@by_dialect
@pytest.mark.parametrize("size", [None, 7], ids=["whole", "seven bytes a chunk"])
async def test_it_is_the_same_over_http(dialect: str, size: int | None, at_home: Any) -> None:
    def reply_to(asked: Asked) -> Answer:
        said_ = demo(dialect)(asked)
        said_.size = size
        return said_

    async with ProviderServer(reply_to) as server:
        there = await full_run(demo_at(dialect, server.url(dialect)))
    assert outcome(there) == at_home
    assert len(server.asked) == 6
    for asked in server.asked:
        body = asked.json
        messages = body.get("messages") or body.get("input") or body["contents"]
        found = check_history(messages, dialect)
        assert [fault for fault in found if fault.severity == "error"] == []


@by_dialect
async def test_it_is_the_same_from_its_cassette(
    dialect: str, at_home: Any, agent_lab_tape: Tape
) -> None:
    """Record it anew with `pytest --agent-lab-record` and this test's name."""
    if agent_lab_tape.mode == "record":
        async with ProviderServer(demo(dialect)) as server:
            there = await full_run(demo_at(dialect, server.url(dialect)), agent_lab_tape)
    else:
        there = await full_run(demo_at(dialect, None), agent_lab_tape)
        assert agent_lab_tape.unused == []
    assert outcome(there) == at_home


def test_each_format_has_its_cassette_and_it_is_small() -> None:
    folder = Path(__file__).parent / "cassettes" / Path(__file__).stem
    files = list(folder.rglob("*.json"))
    assert sorted(path.parent.name.rpartition("cassette_")[2] for path in files) == sorted(
        DIALECTS * 6
    )
    assert max(path.stat().st_size for path in files) < 30_000
