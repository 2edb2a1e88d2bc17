"""run(): a session's payloads as an iterator that knows when everything is answered."""

from __future__ import annotations

import asyncio
import gc

import pytest

from agent_lab import Agent, ChatMessage, DebugRunRequest, DebugRuntime
from agent_lab.domain.errors import AlreadyRunning, RuntimeClosed
from agent_lab.domain.messages import ModelRequest
from agent_lab.testing import HandGate, ScriptedModel, call, open_runtime, reply
from tests.application.helpers_runtime import (
    assert_valid,
    briefly,
    said,
    settled,
    simulated,
    story,
    ticks,
    turn,
    until,
)

ANSWER = ["model_request", "model_response", "assistant", "done"]


class Cleaner:
    """A tool that needs a while to clean up when it is cancelled."""

    def __init__(self) -> None:
        self.cleaned = False

    async def work(self) -> None:
        """Work for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            self.cleaned = True

    @property
    def agent(self) -> Agent:
        model = ScriptedModel([reply(calls=[call("work")]), "ok"])
        return Agent("a", model=model, tools=[self.work])


def alone() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


@simulated
async def test_a_run_gives_every_payload_to_the_turns_end() -> None:
    async with open_runtime(model=ScriptedModel(["4 degrees."])) as runtime:
        payloads = [payload async for payload in runtime.run(DebugRunRequest(content="Oslo?"))]

        assert [payload.type for payload in payloads] == ANSWER
        assert payloads == [p for p in said(runtime) if p.on_output]


@simulated
async def test_a_run_without_with_ends_its_own_work() -> None:
    agent = Agent("a", model=ScriptedModel(["ok"]))

    assert [p.type async for p in DebugRuntime(agent).run("hello")] == ANSWER
    assert alone()


@simulated
async def test_runs_in_sequence_continue_the_conversation() -> None:
    async with open_runtime(model=ScriptedModel(["one", "two"])) as runtime:
        for content in ("a", "b"):
            assert [p.type async for p in runtime.run(content)] == ANSWER

        assert briefly(runtime.history) == [
            ("user", "a"),
            ("assistant", "one"),
            ("user", "b"),
            ("assistant", "two"),
        ]


@simulated
async def test_a_run_answers_what_was_accepted_while_it_went() -> None:
    model = ScriptedModel([reply("one", delay=1), reply("two", delay=1), "three"])
    async with open_runtime(model=model) as runtime:
        types: list[str] = []
        async for payload in runtime.run("a"):
            if payload.type == "model_request" and not types:
                runtime.start("b")
                runtime.start(ChatMessage("user", "c", mode="follow_up"))
            types.append(payload.type)

        assert [t for t in types if t in ("assistant", "done")] == [
            "assistant",
            "assistant",
            "done",
            "assistant",
            "done",
        ]
        assert [p.pending for p in said(runtime, "done")] == [1, 0]


@pytest.mark.fault("R31")
@simulated
async def test_a_second_live_run_is_refused_and_disturbs_nothing() -> None:
    async with open_runtime(model=ScriptedModel([reply("one", delay=1), "two"])) as runtime:
        run = runtime.run("a")
        types = [(await anext(run)).type]
        with pytest.raises(AlreadyRunning, match=runtime.session_id):
            runtime.run("b")
        types += [payload.type async for payload in run]

        assert types == ANSWER
        assert [p.type async for p in runtime.run("b")] == ANSWER


@simulated
async def test_a_run_that_was_never_begun_is_in_nobodys_way() -> None:
    async with open_runtime(model=ScriptedModel(["one"])) as runtime:
        runtime.run("never")

        assert [p.type async for p in runtime.run("a")] == ANSWER
        assert briefly(runtime.history) == [("user", "a"), ("assistant", "one")]


@pytest.mark.fault("R31")
@simulated
async def test_a_run_of_a_closed_session_is_refused() -> None:
    async with open_runtime(model=ScriptedModel(["one"])) as runtime:
        pass

    with pytest.raises(RuntimeClosed):
        await anext(runtime.run("a"))


@simulated
async def test_an_ended_run_stays_ended() -> None:
    async with open_runtime(model=ScriptedModel(["one"])) as runtime:
        run = runtime.run("a")
        assert [p.type async for p in run] == ANSWER

        assert [p async for p in run] == []


@simulated
async def test_a_run_of_a_message_that_is_answered_already_ends_at_once() -> None:
    async with open_runtime(model=ScriptedModel(["one"])) as runtime:
        request = DebugRunRequest(content="a", message_id="u1")
        assert [p.type async for p in runtime.run(request)] == ANSWER

        assert [p async for p in runtime.run(request)] == []


@simulated
async def test_a_run_goes_past_ends_that_nobody_took() -> None:
    """Payloads of a turn before, left in `output`, do not end the run of another message."""
    async with open_runtime(model=ScriptedModel(["one", "two"])) as runtime:
        runtime.start("a")
        await settled(runtime)

        payloads = [p async for p in runtime.run("b")]
        assert (payloads[-1].type, payloads[-1].turn) == ("done", 2)


@simulated
async def test_a_run_whose_message_is_withdrawn_ends() -> None:
    async with open_runtime(model=ScriptedModel(["one"])) as runtime:
        async with runtime.run(ChatMessage("user", "a", message_id="u1")) as run:
            assert runtime.withdraw("u1")
            assert [p async for p in run] == []

        assert [p.type async for p in runtime.run("b")] == ANSWER


@simulated
async def test_a_waiting_run_whose_last_message_is_withdrawn_ends() -> None:
    gate = HandGate("model")
    async with open_runtime(model=ScriptedModel(["one"]), gate=gate) as runtime:

        async def script() -> list[str]:
            return [payload.type async for payload in runtime.run("a")]

        async with asyncio.TaskGroup() as group:
            running = group.create_task(script())
            await gate.arrival()
            later = ChatMessage("user", "b", mode="follow_up", message_id="u2")
            await runtime.session.queues.input.put(later)
            gate.release(gate.parked[0].number)
            await until(runtime, "paused", count=2)  # it looked what had come meanwhile
            gate.release(gate.parked[0].number)
            await until(runtime, "paused", count=3)
            assert said(runtime, "done")[0].pending == 1
            assert runtime.withdraw("u2")

        assert running.result() == ANSWER


# -- leaving early -------------------------------------------------------------------------------


@pytest.mark.fault("R29")
@pytest.mark.fault("T31")
@simulated
async def test_leaving_early_ends_all_work_before_the_next_statement() -> None:
    cleaner = Cleaner()
    runtime = DebugRuntime(cleaner.agent)
    async with runtime.run("go") as run:
        async for payload in run:
            if payload.type == "tool_call":
                await until(runtime, "tool_started")
                break
    assert cleaner.cleaned
    assert alone()

    assert story(runtime, "done", "cancelled") == ["cancelled"]
    assert_valid(runtime)


@pytest.mark.fault("R29")
@simulated
async def test_an_error_in_the_body_ends_all_work_and_comes_through() -> None:
    cleaner = Cleaner()
    runtime = DebugRuntime(cleaner.agent)

    async def body() -> None:
        async with runtime.run("go"):
            await until(runtime, "tool_started")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await body()
    assert cleaner.cleaned
    assert alone()


@pytest.mark.fault("R29")
@simulated
async def test_a_run_whose_caller_is_cancelled_ends_all_work_first() -> None:
    cleaner = Cleaner()
    runtime = DebugRuntime(cleaner.agent)

    async def caller() -> None:
        async with runtime.run("go") as run:
            async for _ in run:
                pass

    async with asyncio.TaskGroup() as group:
        task = group.create_task(caller())
        await until(runtime, "tool_started")
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled() and cleaner.cleaned
    assert alone()


@simulated
async def test_a_session_lives_on_after_a_run_was_left_early() -> None:
    cleaner = Cleaner()
    async with DebugRuntime(cleaner.agent) as runtime:
        async with runtime.run("go"):
            await until(runtime, "tool_started")
            runtime.start("more")
        assert story(runtime, "withdrawn", "cancelled") == ["withdrawn", "cancelled"]

        assert [p.type async for p in runtime.run("next")] == ANSWER
        assert (await turn(runtime, "fails"))[-1] == "error"
        assert_valid(runtime)


@pytest.mark.fault("R29")
@pytest.mark.fault("T31")
@simulated
async def test_a_plain_loop_that_is_broken_off_leaves_nothing_once_it_is_collected() -> None:
    cleaner = Cleaner()
    runtime = DebugRuntime(cleaner.agent)
    async for payload in runtime.run("go"):
        if payload.type == "tool_call":
            await until(runtime, "tool_started")
            break
    gc.collect()
    await asyncio.sleep(10)

    assert story(runtime, "done", "cancelled") == ["cancelled"]
    assert cleaner.cleaned
    assert alone()


@simulated
async def test_a_run_broken_off_and_forgotten_with_its_runtime_leaves_nothing() -> None:
    cleaner = Cleaner()

    async def script() -> None:
        async for payload in DebugRuntime(cleaner.agent).run("go"):
            if payload.type == "tool_call":
                await ticks()
                break

    await script()
    gc.collect()
    await asyncio.sleep(10)

    assert cleaner.cleaned
    assert alone()


@simulated
async def test_a_caller_cancelled_while_it_waits_for_a_payload_loses_none() -> None:
    async def slow(request: ModelRequest) -> str:
        await asyncio.sleep(1)
        return "ok"

    async with open_runtime(model=slow) as runtime:
        run = runtime.run("go")
        types = [(await anext(run)).type]

        async def one() -> str:
            return (await anext(run)).type

        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(one())
            await ticks()
            waiting.cancel()
        types += [payload.type async for payload in run]

        assert types == ANSWER
