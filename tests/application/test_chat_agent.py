"""The worker that asks the model: streams, faults, retries, time, and models that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from agent_lab import ChatMessage, DebugRuntime, Limits
from agent_lab.domain.errors import ModelError
from agent_lab.domain.messages import Finish, ModelEvent, ModelRequest, Reply, TextDelta
from agent_lab.domain.payloads import Text
from agent_lab.testing import ScriptedModel, call, fail, open_runtime, reply
from tests.application.helpers_runtime import (
    assert_valid,
    briefly,
    said,
    settled,
    simulated,
    story,
    take_turn,
    ticks,
    turn,
    until,
)

Stream = Callable[[ModelRequest], AsyncIterator[ModelEvent]]


class Model:
    """A model object of a user: its first stream is odd, the others answer `ok`."""

    name, dialect = "mine", "openai_chat"

    def __init__(self, odd: Stream) -> None:
        self.odd = odd

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        return self.odd(request) if request.call == 1 else answer(request)


async def answer(request: ModelRequest) -> AsyncIterator[ModelEvent]:
    yield Reply("ok")


def now() -> float:
    return asyncio.get_running_loop().time()


# -- streams -------------------------------------------------------------------------------------


@simulated
async def test_streamed_text_is_shown_in_pieces_20_ms_apart_at_least_and_said_whole() -> None:
    words = [f"w{n} " for n in range(100)]
    model = ScriptedModel([reply(deltas=[*words], delta_delay=0.004)])
    async with open_runtime(model=model) as runtime:
        await turn(runtime)
        shown = [
            (entry.at, entry.payload.text)
            for entry in runtime.session.journal.read()[1]
            if isinstance(entry.payload, Text)
        ]

        assert "".join(text for _, text in shown) == "".join(words)
        gaps = [later - earlier for (earlier, _), (later, _) in pairwise(shown)]
        assert 15 <= len(shown) <= 25
        assert all(gap >= 0.0199 for gap in gaps[:-1])
        assert said(runtime, "assistant")[0].content == "".join(words)


@simulated
async def test_text_that_waits_is_shown_before_the_stream_goes_on() -> None:
    async def slow(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("a")
        yield TextDelta("b")
        await asyncio.sleep(60)
        yield Finish("stop")

    async with open_runtime(model=Model(slow)) as runtime:
        runtime.start("go")
        await until(runtime, "text_delta", count=2)

        assert [p.text for p in said(runtime, "text_delta")] == ["a", "b"]
        assert now() < 1


@simulated
async def test_a_stream_of_pieces_and_a_whole_reply_come_to_the_same() -> None:
    whole = reply("Hm.", calls=[call("look", "c1", city="Oslo"), call("look", "c2", city="Rome")])
    pieces = reply(
        calls=[call("look", city="Oslo"), call("look", city="Rome")],
        deltas=[
            "H",
            (1, "c2"),
            (0, "c1"),
            (0, '{"city"'),
            "m.",
            (1, '{"city": "Rome"}'),
            (0, ': "Oslo"}'),
        ],
    )

    async def look(city: str) -> str:
        """Look."""
        return f"saw {city}"

    histories: list[Any] = []
    for first in (whole, pieces):
        async with open_runtime(model=ScriptedModel([first, "ok"]), tools=[look]) as runtime:
            await turn(runtime)
            assert_valid(runtime)
            histories.append([m.as_dict() | {"message_id": None} for m in runtime.history])

    assert histories[0] == histories[1]


@simulated
async def test_a_blank_answer_ends_the_turn_and_leaves_no_message() -> None:
    async with open_runtime(model=ScriptedModel([reply("  "), "ok"])) as runtime:
        await turn(runtime)

        assert said(runtime, "done")[0].reason == "empty"
        assert briefly(runtime.history) == [("user", "go")]
        await turn(runtime)
        assert_valid(runtime)


@simulated
async def test_a_steer_that_comes_while_the_model_answers_is_delivered_in_the_same_turn() -> None:
    model = ScriptedModel([reply("one", delay=1), "two"])
    async with open_runtime(model=model) as runtime:
        runtime.start("go")
        await until(runtime, "model_request")
        runtime.start(ChatMessage("user", "and?", message_id="u2"))
        assert [p.blocked_by for p in said(runtime, "held")] == [("model",)]
        await take_turn(runtime)

        assert story(runtime, "delivered", "assistant", "done") == [
            "delivered",
            "assistant",
            "delivered",
            "assistant",
            "done",
        ]
        assert [p.step for p in said(runtime, "model_request")] == [1, 2]


# -- faults --------------------------------------------------------------------------------------


@simulated
async def test_a_fault_of_the_provider_ends_the_turn_under_its_name() -> None:
    model = ScriptedModel([fail("provider_auth", "401", hint="look at the key"), "ok"])
    async with open_runtime(model=model) as runtime:
        assert (await turn(runtime)) == ["model_request", "error"]
        (error,) = said(runtime, "error")
        assert (error.code, error.message, error.hint, error.pending) == (
            "provider_auth",
            "401",
            "look at the key",
            0,
        )

        assert (await turn(runtime, "again"))[-1] == "done"
        assert briefly(runtime.history) == [("user", "go"), ("user", "again"), ("assistant", "ok")]
        assert_valid(runtime)


@simulated
async def test_a_fault_that_may_pass_is_tried_again_later_each_time() -> None:
    busy = fail("provider_overloaded", "busy", may_pass=True, text="Hal")
    async with open_runtime(model=ScriptedModel([busy, busy, "Hello"])) as runtime:
        await turn(runtime)

        retries = said(runtime, "retrying")
        assert [(p.attempt, p.code, p.message, p.step) for p in retries] == [
            (1, "provider_overloaded", "busy", 1),
            (2, "provider_overloaded", "busy", 1),
        ]
        first, second = (p.delay for p in retries)
        assert 0.25 < first < 0.5 < second < 1.0, "jitter leaves off up to half"
        assert now() == pytest.approx(first + second)
        assert [p.step for p in said(runtime, "model_request")] == [1, 1, 1]
        assert briefly(runtime.history) == [("user", "go"), ("assistant", "Hello")]


@simulated
async def test_a_fault_that_does_not_pass_ends_the_turn_after_the_retries() -> None:
    busy = fail("provider_overloaded", "busy", may_pass=True)
    async with open_runtime(model=ScriptedModel([busy, busy, busy, busy, "ok"])) as runtime:
        assert (await turn(runtime))[-1] == "error"
        assert len(said(runtime, "retrying")) == 2

        await turn(runtime)
        assert len(said(runtime, "retrying")) == 3
        assert [p.code for p in said(runtime, "error")] == ["provider_overloaded"]


@simulated
async def test_a_message_that_comes_while_a_retry_waits_goes_with_it() -> None:
    busy = fail("busy", may_pass=True)
    async with open_runtime(model=ScriptedModel([busy, "ok"])) as runtime:
        runtime.start("go")
        await until(runtime, "retrying")
        runtime.start("more")
        await take_turn(runtime)

        assert briefly(runtime.history) == [("user", "go"), ("user", "more"), ("assistant", "ok")]
        assert len(said(runtime, "model_request")) == 2


@pytest.mark.fault("P01")
@simulated
async def test_a_cancel_while_a_retry_waits_works_at_once() -> None:
    busy = fail("busy", may_pass=True)
    model = ScriptedModel([busy, "ok"])
    limits = Limits(retry_delay=60)
    async with open_runtime(model=model, limits=limits) as runtime:
        runtime.start("go")
        await until(runtime, "retrying")
        assert runtime.cancel() == "cancelled"
        await take_turn(runtime)
        assert (await turn(runtime, "next"))[-1] == "done"

        assert now() == 0
        assert len(said(runtime, "model_request")) == 2


@pytest.mark.fault("P09")
@simulated
async def test_of_an_answer_that_was_cut_off_nothing_is_kept_and_no_call_runs() -> None:
    ran: list[int] = []

    async def look() -> None:
        """Look."""
        ran.append(1)

    cut = reply("Let me", calls=[call("look", "c1")], cut_after=2)
    async with open_runtime(model=ScriptedModel([cut] * 3), tools=[look]) as runtime:
        await turn(runtime)

        assert [p.code for p in said(runtime, "retrying")] == ["provider_cut"] * 2
        assert [p.code for p in said(runtime, "error")] == ["provider_cut"]
        assert briefly(runtime.history) == [("user", "go")] and ran == []


@simulated
async def test_past_the_scripts_end_the_turn_fails_by_name() -> None:
    async with open_runtime(model=ScriptedModel(["one"])) as runtime:
        await turn(runtime)
        await turn(runtime)

        assert [p.code for p in said(runtime, "error")] == ["script_exhausted"]


# -- models that misbehave -----------------------------------------------------------------------


@pytest.mark.fault("T12")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("odd"), "ValueError: odd"),
        (KeyError(), "KeyError"),
        (SystemExit(1), "SystemExit: 1"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (asyncio.CancelledError(), "CancelledError"),
        (GeneratorExit(), "GeneratorExit"),
        (StopIteration(), "RuntimeError: async generator raised StopIteration"),
        (BaseExceptionGroup("two", [KeyboardInterrupt()]), "two (1 sub-exception)"),
    ],
)
@simulated
async def test_what_a_model_raises_ends_the_turn_and_not_the_session(
    error: BaseException, text: str
) -> None:
    async def odd(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("so far")
        raise error

    async with open_runtime(model=Model(odd)) as runtime:
        assert (await turn(runtime))[-1] == "error"
        (failed,) = said(runtime, "error")
        assert failed.code == "model_error" and text in failed.message

        assert (await turn(runtime, "again"))[-1] == "done"
        assert briefly(runtime.history) == [("user", "go"), ("user", "again"), ("assistant", "ok")]


def raises_at_once(request: ModelRequest) -> AsyncIterator[ModelEvent]:
    raise ValueError("no stream")


def no_stream(request: ModelRequest) -> AsyncIterator[ModelEvent]:
    return None  # type: ignore[return-value]  # on purpose


async def odd_event(request: ModelRequest) -> AsyncIterator[Any]:
    yield "text"


async def named(request: ModelRequest) -> AsyncIterator[ModelEvent]:
    raise ModelError("named", code="mine", hint="ask me")
    yield


@pytest.mark.parametrize("odd", [raises_at_once, no_stream, odd_event])
@simulated
async def test_a_model_that_does_not_keep_the_protocol_is_at_fault_itself(odd: Stream) -> None:
    async with open_runtime(model=Model(odd)) as runtime:
        assert (await turn(runtime))[-1] == "error"
        assert [p.code for p in said(runtime, "error")] == ["model_error"]
        assert (await turn(runtime, "again"))[-1] == "done"


@simulated
async def test_a_named_fault_keeps_its_name() -> None:
    async with open_runtime(model=Model(named)) as runtime:
        await turn(runtime)

        (error,) = said(runtime, "error")
        assert (error.code, error.message, error.hint) == ("mine", "named", "ask me")


@simulated
async def test_a_model_that_never_answers_times_out() -> None:
    async def never(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta("so far")
        await asyncio.Event().wait()

    async with open_runtime(model=Model(never), limits=Limits(model_timeout=5)) as runtime:
        runtime.start("go")
        error = await until_error(runtime)
        assert (error.code, now()) == ("model_timeout", pytest.approx(5))
        await take_turn(runtime)

        assert (await turn(runtime, "again"))[-1] == "done"
        assert runtime.session.abandoned.tasks == 0
        assert briefly(runtime.history) == [("user", "go"), ("user", "again"), ("assistant", "ok")]


async def until_error(runtime: DebugRuntime) -> Any:
    async for _ in runtime.follow():
        if errors := said(runtime, "error"):
            return errors[0]
    raise AssertionError("the session closed")


@simulated
async def test_a_drip_of_text_does_not_put_off_the_models_limit() -> None:
    async def drips(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        while True:
            await asyncio.sleep(1)
            yield TextDelta(".")

    async with open_runtime(model=Model(drips), limits=Limits(model_timeout=5)) as runtime:
        runtime.start("go")
        assert (await until_error(runtime)).code == "model_timeout"
        assert now() == pytest.approx(5)


@simulated
async def test_a_stream_that_is_left_cleans_up_before_the_next_call() -> None:
    order: list[str] = []

    async def tidy(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            yield TextDelta("so far")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            order.append("cleaned")

    async with open_runtime(model=Model(tidy)) as runtime:
        runtime.start("go")
        await until(runtime, "text_delta")
        runtime.cancel()
        runtime.start("next")
        assert order == []
        await settled(runtime)

        assert order == ["cleaned"] and runtime.session.abandoned.tasks == 0
        assert briefly(runtime.history) == [
            ("user", "go"),
            ("assistant", "so far"),
            ("user", "next"),
            ("assistant", "ok"),
        ]
        assert_valid(runtime)


@pytest.mark.fault("R07")
@simulated
async def test_a_model_that_ignores_its_cancellation_is_abandoned_and_the_next_turn_works() -> None:
    let_go = asyncio.Event()

    async def deaf(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        yield Reply("at last")

    async with open_runtime(model=Model(deaf), limits=Limits(grace=2)) as runtime:
        runtime.start("go")
        await until(runtime, "model_request")
        runtime.cancel()
        await take_turn(runtime)
        assert (await turn(runtime, "next"))[-1] == "done"
        assert now() == pytest.approx(2)
        assert runtime.session.abandoned.tasks == 1

        let_go.set()
        await ticks()
        assert (await turn(runtime, "more"))[-1] == "done"
        assert runtime.session.abandoned.tasks == 0
        assert briefly(runtime.history) == [
            ("user", "go"),
            ("user", "next"),
            ("assistant", "ok"),
            ("user", "more"),
            ("assistant", "ok"),
        ]
        assert_valid(runtime)


@simulated
async def test_a_model_that_swallows_its_cancellation_and_goes_on_is_not_heard() -> None:
    async def clings(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield TextDelta("never mind")
        yield Reply("after all")

    async with open_runtime(model=Model(clings)) as runtime:
        runtime.start("go")
        await until(runtime, "model_request")
        runtime.cancel()
        await take_turn(runtime)
        await turn(runtime, "next")
        await asyncio.sleep(10)

        assert briefly(runtime.history) == [("user", "go"), ("user", "next"), ("assistant", "ok")]
        assert runtime.session.abandoned.tasks == 0


@simulated
async def test_a_cancellation_that_a_model_swallowed_is_not_laid_to_the_next_call() -> None:
    async def model(request: ModelRequest) -> str:
        if request.call == 1:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return "after all"
        raise asyncio.CancelledError

    async with open_runtime(model=model) as runtime:
        runtime.start("go")
        await until(runtime, "model_request")
        runtime.cancel()
        await take_turn(runtime)

        assert (await turn(runtime, "next"))[-1] == "error"
        assert len(said(runtime, "model_request")) == 2


@simulated
async def test_a_model_may_cancel_its_own_turn() -> None:
    runtimes: list[DebugRuntime] = []
    closed: list[bool] = []

    async def stops(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            yield TextDelta("so far")
            assert runtimes[0].cancel() == "cancelled"
            yield TextDelta(" and on")
            yield Reply("never")
        finally:
            closed.append(True)

    async with open_runtime(model=Model(stops)) as runtime:
        runtimes.append(runtime)
        assert (await turn(runtime))[-1] == "cancelled"
        assert (await turn(runtime, "next"))[-1] == "done"

        assert closed == [True]
        assert briefly(runtime.history) == [
            ("user", "go"),
            ("assistant", "so far"),
            ("user", "next"),
            ("assistant", "ok"),
        ]
        assert len(said(runtime, "model_request")) == 2


@simulated
async def test_a_stream_whose_closing_fails_breaks_nothing() -> None:
    async def sour(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            yield TextDelta("so far")
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("closing failed")

    async with open_runtime(model=Model(sour)) as runtime:
        runtime.start("go")
        await until(runtime, "text_delta")
        runtime.cancel()
        await take_turn(runtime)

        assert story(runtime, "error", "cancelled") == ["cancelled"]
        assert (await turn(runtime, "next"))[-1] == "done"
        assert story(runtime, "error", "cancelled", "done") == ["cancelled", "done"]
