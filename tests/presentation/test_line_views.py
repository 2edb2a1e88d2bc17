"""What the queue's view tells of who waits."""

from __future__ import annotations

import asyncio

import pytest

from agent_lab.domain.execution import Asker
from agent_lab.presentation.line_views import queue_view
from tests.application.helpers_line import held
from tests.application.helpers_runtime import simulated


@pytest.mark.scenario("S24")
@simulated
async def test_who_waits_behind_a_turn_that_does_not_end_is_seen_with_his_age() -> None:
    async with held() as a:
        await a.ask("one")
        await asyncio.sleep(30)
        two = await a.ask("two", by=Asker(source="agent", source_agent="b"))
        await asyncio.sleep(60)
        chat = await a.line.control.state("a", "chat")
        task = await a.line.control.state("a", "task")
        view = queue_view("a", chat, task, a.line.book, 1)
        done = await a.end(two)

        (waiting,) = view.queued_executions
        assert (waiting.position, waiting.waited_seconds, waiting.running_seconds) == (1, 60, None)
        assert (waiting.source, waiting.source_agent) == ("agent", "b")
        assert view.current_execution is not None
        assert view.current_execution.running_seconds == 90
        assert (done.status, done.error) == (
            "timeout",
            "nobody was free for 120 s; ask again later",
        )
