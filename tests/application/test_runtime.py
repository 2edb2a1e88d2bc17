"""One runtime is one session: start, steer, many turns, control, and what it refuses."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from agent_lab import Agent, ChatMessage, DebugRunRequest, DebugRuntime, Limits
from agent_lab.domain.errors import NoEventLoop, RuntimeClosed, SessionMismatch
from agent_lab.domain.messages import ModelRequest, Reply, ToolCall
from agent_lab.testing import ScriptedModel, call, open_runtime, reply
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


def echo(request: ModelRequest) -> str:
    """A model that says what it was told last."""
    return f"you said {request.history()[-1].content}"


# -- start ---------------------------------------------------------------------------------------


@simulated
async def test_start_returns_at_once_with_the_same_queues_each_time() -> None:
    async with open_runtime(model=echo) as runtime:
        queues = runtime.start(DebugRunRequest(content="one"))
        assert queues is runtime.start("two") is runtime.start(ChatMessage("user", "three"))
        assert story(runtime, "model_request") == []

        await take_turn(runtime)
        assert briefly(runtime.history)[:3] == [("user", "one"), ("user", "two"), ("user", "three")]


def test_start_outside_a_loop_names_what_is_missing() -> None:
    runtime = DebugRuntime(Agent("a", model=echo))

    with pytest.raises(NoEventLoop, match="running event loop"):
        runtime.start("hello")
    with pytest.raises(NoEventLoop, match="running event loop"):
        _ = runtime.run("hello").queues
    with pytest.raises(NoEventLoop, match="running event loop"):
        runtime.cancel()


@pytest.mark.fault("R31")
async def test_a_session_is_started_on_its_own_loop_only() -> None:
    async with open_runtime(model=echo) as runtime:
        await turn(runtime)

        def elsewhere() -> None:
            async def main() -> None:
                runtime.start("hello")

            asyncio.run(main())

        with pytest.raises(NoEventLoop, match="another event loop"):
            await asyncio.to_thread(elsewhere)
        assert (await turn(runtime))[-1] == "done"
        assert len(said(runtime, "accepted")) == 2


@simulated
async def test_a_request_for_another_session_is_refused() -> None:
    async with open_runtime(model=echo, session_id="mine") as runtime:
        with pytest.raises(SessionMismatch, match="'theirs'"):
            runtime.start(DebugRunRequest(content="x", session_id="theirs"))
        assert said(runtime) == []

        runtime.start(DebugRunRequest(content="x", session_id="mine"))
        await take_turn(runtime)
        assert runtime.session_id == "mine"


@simulated
async def test_nothing_runs_before_the_first_start_and_closing_it_then_is_fine() -> None:
    async with open_runtime(model=echo) as runtime:
        await ticks()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with pytest.raises(RuntimeClosed):
        runtime.start("late")


@simulated
async def test_a_resend_of_the_first_message_runs_nothing_twice() -> None:
    async with open_runtime(model=echo) as runtime:
        for _ in range(2):
            runtime.start(DebugRunRequest(content="x", message_id="u1"))
        await take_turn(runtime)
        runtime.start(DebugRunRequest(content="x", message_id="u1"))
        await ticks()

        assert story(runtime, "accepted", "model_request") == ["accepted", "model_request"]


@pytest.mark.fault("R36")
@simulated
async def test_many_starters_at_once_are_served_one_at_a_time_in_order() -> None:
    running: list[int] = []

    async def model(request: ModelRequest) -> str:
        running.append(1)
        assert len(running) == 1
        await asyncio.sleep(0.01)
        running.pop()
        return "yes"

    async with open_runtime(model=model) as runtime:
        runtime.start("begin")

        async def starter(number: int) -> None:
            for n in range(5):
                message = ChatMessage("user", f"{number}.{n}", mode="follow_up")
                await runtime.session.queues.input.put(message)
                await asyncio.sleep(0.013)

        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(starter(number))
        await settled(runtime)

        accepted = [p.message_id for p in said(runtime, "accepted")]
        assert [p.message_id for p in said(runtime, "delivered")] == accepted
        assert [p.turn for p in said(runtime, "done")] == list(range(1, 52))
        assert_valid(runtime)


# -- turns ---------------------------------------------------------------------------------------


@simulated
async def test_a_turn_tells_its_story_in_order() -> None:
    async def look(city: str) -> str:
        """Look."""
        return f"saw {city}"

    model = ScriptedModel([reply("Wait.", calls=[call("look", "c1", city="Oslo")]), "Done."])
    async with open_runtime(model=model, tools=[look], instructions="Be brief.") as runtime:
        runtime.start("go")
        taken = await take_turn(runtime)

        assert story(runtime) == [
            "accepted",
            "queue",
            "queue",
            "delivered",
            "model_request",
            "model_response",
            "assistant",
            "tool_call",
            "queue",
            "queue",
            "tool_started",
            "queue",
            "queue",
            "tool_reply",
            "model_request",
            "model_response",
            "assistant",
            "done",
        ]
        assert taken == [p for p in said(runtime) if p.on_output]
        assert [(p.turn, p.step) for p in taken] == [(1, 1)] * 5 + [(1, 2)] * 4
        assert taken[5].as_dict()["body"] == {
            "model": "scripted",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "go"},
                {
                    "role": "assistant",
                    "content": "Wait.",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "look", "arguments": '{"city": "Oslo"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "saw Oslo"},
            ],
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "look",
                        "description": "Look.",
                        "parameters": {
                            "type": "object",
                            "properties": {"city": {"type": "string"}},
                            "required": ["city"],
                            "additionalProperties": False,
                        },
                    },
                }
            ],
        }


@simulated
async def test_many_turns_leave_no_task_and_no_timer_behind() -> None:
    async def look() -> str:
        """Look."""
        return "seen"

    loop = asyncio.get_running_loop()
    asks = reply(calls=[call("look")])
    model = ScriptedModel([asks, "ok"] * 400)
    async with open_runtime(model=model, tools=[look]) as runtime:
        await turn(runtime)
        tasks = len(asyncio.all_tasks())
        for _ in range(399):
            assert (await turn(runtime))[-1] == "done"

        assert len(asyncio.all_tasks()) == tasks
        assert len(live_timers(loop)) <= 1
        assert len(runtime.history) == 1600
        await asyncio.sleep(500)
        assert live_timers(loop) == []


def live_timers(loop: asyncio.AbstractEventLoop) -> list[asyncio.TimerHandle]:
    scheduled: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]  # of BaseEventLoop
    return [timer for timer in scheduled if not timer.cancelled()]


@simulated
async def test_idle_sessions_have_no_timers_and_take_no_turns_of_the_loop() -> None:
    loop = asyncio.get_running_loop()
    runtimes = [DebugRuntime(Agent("a", model=echo)) for _ in range(50)]
    for runtime in runtimes:
        await turn(runtime)
    await asyncio.sleep(1000)

    assert live_timers(loop) == []
    for runtime in runtimes:
        await runtime.close()


@pytest.mark.fault("R41")
@simulated
async def test_a_model_that_never_stops_calling_is_stopped_at_the_step_limit() -> None:
    async def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel([reply(calls=[call("look")])], repeat_last=True)
    async with open_runtime(model=model, tools=[look], limits=Limits(steps=3)) as runtime:
        assert (await turn(runtime))[-1] == "error"
        (error,) = said(runtime, "error")
        assert (error.code, error.turn, error.step, error.pending) == ("step_limit", 1, 3, 0)
        assert len(said(runtime, "model_request")) == 3

        await turn(runtime, "again")
        assert [p.turn for p in said(runtime, "error")] == [1, 2]
        assert_valid(runtime)


@simulated
async def test_a_saved_history_goes_on_with_its_open_calls_lost() -> None:
    async with open_runtime(
        model=ScriptedModel([reply(calls=[call("look", "c1")])]), tools=[look_for_ever]
    ) as runtime:
        runtime.start("go")
        await until(runtime, "tool_started")
        saved = runtime.history
    async with open_runtime(model=ScriptedModel(["ok"]), history=saved) as runtime:
        await turn(runtime, "still there?")

        assert [(m.role, m.kind) for m in runtime.history if m.role == "tool"] == [("tool", "lost")]
        assert briefly(runtime.history)[-2:] == [("user", "still there?"), ("assistant", "ok")]
        assert_valid(runtime)


async def look_for_ever() -> None:
    """Never ends."""
    await asyncio.Event().wait()


look = look_for_ever
look.__name__ = "look"


@simulated
async def test_sessions_of_one_agent_do_not_meet() -> None:
    agent = Agent("a", model=ScriptedModel(["one", "two"]))
    async with open_runtime(agent) as first, open_runtime(agent) as second:
        await turn(first, "a")
        await turn(second, "b")
        await turn(first, "c")

        assert briefly(first.history)[1::2] == [("assistant", "one"), ("assistant", "two")]
        assert briefly(second.history)[1::2] == [("assistant", "one")]
        assert first.session_id != second.session_id


# -- control -------------------------------------------------------------------------------------


@simulated
async def test_a_cancel_is_on_record_when_it_returns_even_if_nobody_takes_output() -> None:
    limits = Limits(output=1)
    async with open_runtime(model=ScriptedModel(["x", "y"]), limits=limits) as runtime:
        runtime.start("go")
        await ticks()
        runtime.start("more")
        assert runtime.cancel() == "cancelled"

        assert story(runtime)[-1] == "cancelled"
        assert runtime.cancel() in ("cancelled", "not_running")


@simulated
async def test_a_cancel_before_anything_was_taken_ends_the_run_message() -> None:
    async with open_runtime(model=echo) as runtime:
        runtime.start(ChatMessage("user", "go", message_id="u1"))
        runtime.start(ChatMessage("user", "more", message_id="u2"))
        assert runtime.cancel() == "cancelled"
        (ended,) = said(runtime, "cancelled")
        assert (ended.turn, ended.pending, ended.reason) == (1, 1, "user")
        await take_turn(runtime)

        assert [p.message_id for p in said(runtime, "withdrawn")] == ["u1"]
        assert briefly(runtime.history) == [("user", "more"), ("assistant", "you said more")]
        assert [p.turn for p in said(runtime, "done")] == [2]


@simulated
async def test_a_past_turn_is_not_running() -> None:
    async with open_runtime(model=echo) as runtime:
        assert runtime.cancel() == "not_running"
        await turn(runtime)

        assert runtime.cancel() == runtime.cancel(1) == runtime.cancel(2) == "not_running"
        assert runtime.cancel_tool("c1") == "not_running"
        assert said(runtime, "cancelled") == []


@simulated
async def test_cancel_can_drop_what_waits() -> None:
    async with open_runtime(model=ScriptedModel([reply("x", delay=60)])) as runtime:
        runtime.start("go")
        await until(runtime, "model_request")
        runtime.start(ChatMessage("user", "more", message_id="u2"))
        runtime.cancel(drop_waiting=True)

        assert [(p.message_id, p.reason) for p in said(runtime, "withdrawn")] == [
            ("u2", "cancelled")
        ]
        assert said(runtime, "cancelled")[0].pending == 0
        assert runtime.session.is_idle


@simulated
async def test_an_interrupt_ends_the_turn_and_starts_the_next_with_itself() -> None:
    model = ScriptedModel([reply("x", delay=60), "y"])
    async with open_runtime(model=model) as runtime:
        runtime.start("go")
        await until(runtime, "model_request")
        runtime.start(ChatMessage("user", "stop that", mode="interrupt", message_id="u2"))
        (ended,) = said(runtime, "cancelled")
        assert (ended.reason, ended.by, ended.pending) == ("interrupted", "u2", 1)
        await take_turn(runtime)

        assert asyncio.get_running_loop().time() < 1
        assert briefly(runtime.history) == [
            ("user", "go"),
            ("user", "stop that"),
            ("assistant", "y"),
        ]
        assert_valid(runtime)


@simulated
async def test_withdraw_and_edit_reach_only_what_waits() -> None:
    async with open_runtime(model=ScriptedModel([reply("x", delay=1), "y"])) as runtime:
        runtime.start("go")
        await until(runtime, "model_request")
        for key in ("u2", "u3"):
            runtime.start(ChatMessage("user", key, message_id=key))
        assert runtime.edit("u2", "better") and runtime.withdraw("u3")
        await take_turn(runtime)

        assert not (runtime.edit("u2", "late") or runtime.withdraw("u2") or runtime.withdraw("u3"))
        assert briefly(runtime.history)[1:] == [
            ("assistant", "x"),
            ("user", "better"),
            ("assistant", "y"),
        ]


# -- memory --------------------------------------------------------------------------------------


@pytest.mark.fault("R26")
async def test_a_storm_of_garbage_collections_ends_no_task() -> None:
    async def look() -> str:
        """Look."""
        gc.collect()
        await asyncio.sleep(0)
        return "seen"

    async def model(request: ModelRequest) -> Reply:
        gc.collect()
        await asyncio.sleep(0)
        return Reply(None, (ToolCall("c1", "look"),)) if request.call % 2 else Reply("ok")

    gc.freeze()  # only what is made from here on is looked through each time
    try:
        async with asyncio.timeout(5), open_runtime(model=model, tools=[look]) as runtime:
            for _ in range(3):
                runtime.start("go")
                while (await runtime.session.queues.output.get()).type != "done":
                    gc.collect()
    finally:
        gc.unfreeze()


async def test_a_closed_session_is_collected() -> None:
    async def lived() -> weakref.ref[DebugRuntime]:
        async with open_runtime(model=echo) as runtime:
            await turn(runtime)
        return weakref.ref(runtime)

    ref = await lived()
    await ticks()
    gc.collect()

    assert ref() is None
