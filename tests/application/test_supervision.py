"""A worker that falls over is started again and its message is kept; too often ends the session."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from agent_lab import DebugRuntime, Limits
from agent_lab.application.gate import GatedSession, Hold, Hop, Pass, Verdict
from agent_lab.domain.errors import QueueClosed, RuntimeFailed
from agent_lab.testing import ScriptedModel, call, open_runtime, reply
from tests.application.helpers_runtime import (
    assert_valid,
    briefly,
    said,
    simulated,
    story,
    take_turn,
    ticks,
    turn,
)


class BrokenGate:
    """A gate with a fault of its own: some hops make it raise, which no worker expects."""

    def __init__(self, pattern: str, *, times: int, error: BaseException | None = None) -> None:
        self.pattern = pattern
        self.left = times
        self.error = error or ZeroDivisionError("planted")

    @property
    def hold(self) -> Hold | None:
        return self._hold

    def bind(self, session: GatedSession) -> None:
        """Wants nothing of it."""

    def open(self) -> None:
        """Nobody stands here."""

    async def _hold(self, hop: Hop) -> Verdict:
        if self.left and hop.matches(self.pattern):
            self.left -= 1
            raise self.error
        return Pass(hop.item)


async def look() -> str:
    """Look."""
    return "seen"


def read() -> str:
    """Read, in a thread."""
    return "read"


def model() -> ScriptedModel:
    calls = reply(calls=[call("look", "c1"), call("read", "c2")])
    return ScriptedModel([calls, "ok"] * 20)


@pytest.mark.fault("R25")
@pytest.mark.parametrize("pattern", ["take input", "model"])
@simulated
async def test_a_message_outlives_a_worker_that_falls_over_before_its_turn(pattern: str) -> None:
    gate = BrokenGate(pattern, times=1)
    async with open_runtime(model=model(), tools=[look, read], gate=gate) as runtime:
        assert (await turn(runtime))[-1] == "done"

        assert gate.left == 0
        assert briefly(runtime.history)[-1] == ("assistant", "ok")
        assert_valid(runtime)


@pytest.mark.fault("R25")
@pytest.mark.parametrize("pattern", ["put events", "take events", "tool", "thread", "put input"])
@simulated
async def test_a_worker_that_falls_over_in_a_turn_ends_it_by_name_and_works_on(
    pattern: str,
) -> None:
    gate = BrokenGate(pattern, times=1)
    async with open_runtime(model=model(), tools=[look, read], gate=gate) as runtime:
        assert (await turn(runtime))[-1] == "error"
        (error,) = said(runtime, "error")
        assert (error.code, error.turn, error.pending) == ("internal", 1, 0)
        assert "ZeroDivisionError: planted" in error.message
        assert "lost" in {p.kind for p in said(runtime, "tool_reply")}
        await ticks()

        assert (await turn(runtime, "again"))[-1] == "done"
        assert story(runtime, "error", "done") == ["error", "done"]
        assert_valid(runtime)


@pytest.mark.fault("R25")
@simulated
async def test_a_message_that_waits_when_a_worker_falls_over_starts_the_next_turn() -> None:
    class Late(BrokenGate):
        async def _hold(self, hop: Hop) -> Verdict:
            if self.left and hop.matches(self.pattern):
                runtime.start("more")
            return await super()._hold(hop)

    gate = Late("put input", times=1)
    async with open_runtime(model=model(), tools=[look, read], gate=gate) as runtime:
        runtime.start("go")
        await take_turn(runtime)

        assert [(p.code, p.pending) for p in said(runtime, "error")] == [("internal", 1)]
        assert len(said(runtime, "delivered")) == 2
        assert story(runtime)[-1] == "done"
        assert_valid(runtime)


@pytest.mark.fault("R25")
@simulated
async def test_five_falls_within_a_minute_close_the_session_for_every_waiter() -> None:
    gate = BrokenGate("put events", times=99)
    async with open_runtime(
        model=ScriptedModel([reply(calls=[call("look")])] * 9), tools=[look], gate=gate
    ) as runtime:
        follower = asyncio.ensure_future(followed(runtime))
        for number in range(5):
            runtime.start(f"go {number}")
            assert (await take_turn(runtime))[-1].type == "error"
            await ticks()

        assert runtime.is_closed
        assert [p.code for p in said(runtime, "error")] == ["internal"] * 5
        with pytest.raises(RuntimeFailed, match="planted") as raised:
            runtime.start("more")
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        with pytest.raises(RuntimeFailed):
            await follower
        for queue in (runtime.session.queues.output, runtime.session.queues.input):
            with pytest.raises(QueueClosed):
                await queue.get()
        await ticks()
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def followed(runtime: DebugRuntime) -> None:
    async for _ in runtime.follow():
        pass


@simulated
async def test_falls_that_are_minutes_apart_close_nothing() -> None:
    gate = BrokenGate("put events", times=12)
    model = ScriptedModel([reply(calls=[call("look")])] * 20)
    async with open_runtime(model=model, tools=[look], gate=gate) as runtime:
        for _ in range(12):
            assert (await turn(runtime))[-1] == "error"
            await asyncio.sleep(16)

        assert not runtime.is_closed


@simulated
async def test_the_number_of_falls_is_a_limit() -> None:
    gate = BrokenGate("put events", times=99)
    model = ScriptedModel([reply(calls=[call("look")])] * 20)
    async with open_runtime(
        model=model, tools=[look], gate=gate, limits=Limits(crashes=1)
    ) as runtime:
        await turn(runtime)
        await ticks()

        assert runtime.is_closed


@simulated
async def test_a_worker_felled_by_no_ordinary_exception_ends_the_session_by_name() -> None:
    gate = BrokenGate("put events", times=1, error=BaseException("odd"))
    model = ScriptedModel([reply(calls=[call("look")])] * 20)
    async with open_runtime(model=model, tools=[look], gate=gate) as runtime:
        output = runtime.start("go").output
        with suppress(QueueClosed):
            while True:
                await output.get()
        await ticks()

        with pytest.raises(RuntimeFailed, match="odd"):
            runtime.start("more")
        assert asyncio.all_tasks() == {asyncio.current_task()}
