"""The three queues carry the work: bounds, closing, counting, and that a cancel loses nothing."""

from __future__ import annotations

import asyncio
import random
from asyncio import QueueEmpty, QueueFull
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import pytest

from agent_lab import ChatMessage, DebugRuntime, Limits, tool
from agent_lab.application.runtime_queue import RuntimeQueue, Statistics
from agent_lab.domain.errors import (
    InputFull,
    InvalidRole,
    MessageRejected,
    QueueClosed,
    RuntimeClosed,
)
from agent_lab.domain.messages import ModelRequest
from agent_lab.domain.payloads import AnyPayload
from agent_lab.testing import ScriptedModel, call, open_runtime, reply, simulate
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


def user(content: str, message_id: str | None = None) -> ChatMessage:
    return ChatMessage("user", content, message_id=message_id)


class Door:
    """A model and a tool that wait until they are let through."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def model(self, request: ModelRequest) -> str:
        await self.open.wait()
        return f"answer {request.call}"

    async def knock(self) -> str:
        """Wait at the door."""
        await self.open.wait()
        return "come in"


@asynccontextmanager
async def at_the_door(
    *, limits: Limits | None = None
) -> AsyncGenerator[tuple[DebugRuntime, Door], None]:
    """A session whose first turn runs a tool that waits at the door."""
    door = Door()
    model = ScriptedModel([reply(calls=[call("knock", "c1")]), "done"], repeat_last=True)
    async with open_runtime(model=model, tools=[door.knock], limits=limits) as runtime:
        runtime.start("go")
        await until(runtime, "tool_started")
        yield runtime, door


# -- closing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["input", "events"])
@simulated
async def test_closing_a_queue_the_workers_take_from_stops_the_loop(name: str) -> None:
    async with at_the_door() as (runtime, _):
        queues = runtime.session.queues
        getattr(queues, name).close()
        payloads = await take_turn(runtime)

        error = payloads[-1]
        assert (error.type, getattr(error, "code", "")) == ("error", "queue_closed")
        assert f"{name!r}" in getattr(error, "message", "")
        assert [p.kind for p in said(runtime, "tool_reply")] == ["lost"]
        with pytest.raises(QueueClosed):
            await queues.output.get()
        with pytest.raises(RuntimeClosed):
            runtime.start("more")
        await ticks()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert_valid(runtime)


@simulated
async def test_closing_output_stops_the_loop() -> None:
    async with at_the_door() as (runtime, door):
        output = runtime.session.queues.output
        output.close()
        door.open.set()
        error = await until(runtime, "error")

        assert (error.code, "'output'" in error.message) == ("queue_closed", True)
        await ticks()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with pytest.raises(RuntimeClosed):
            runtime.start("more")
        assert [payload.type for payload in rest_of(output)][-1] == "error"
        assert_valid(runtime)


def rest_of(output: RuntimeQueue[AnyPayload]) -> Iterator[AnyPayload]:
    while output.qsize():
        yield output.get_nowait()


@pytest.mark.parametrize("name", ["input", "events", "output"])
@simulated
async def test_closing_a_queue_of_an_idle_session_ends_it_at_the_next_message_at_the_latest(
    name: str,
) -> None:
    async with open_runtime(model=ScriptedModel(["one", "two"])) as runtime:
        await turn(runtime)
        getattr(runtime.session.queues, name).close()
        await ticks()
        if name == "output":
            runtime.start("more")
            await until(runtime, "error")
        await ticks()

        assert runtime.is_closed
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("name", ["input", "events", "output"])
@simulated
async def test_close_wakes_every_taker_and_putter(name: str) -> None:
    async with open_runtime(model=ScriptedModel(["one"])) as runtime:
        await turn(runtime)
        queue: RuntimeQueue[object] = getattr(runtime.session.queues, name)
        async with asyncio.TaskGroup() as group:
            takers = [group.create_task(raises_closed(queue)) for _ in range(3)]
            await ticks()
            queue.close()
            queue.close()

        assert [taker.result() for taker in takers] == [name] * 3
        assert await raises_closed(queue) == name


async def raises_closed(queue: RuntimeQueue[object]) -> str:
    with pytest.raises(QueueClosed) as raised:
        await queue.get()
    return raised.value.queue


@simulated
async def test_what_lies_in_a_closed_queue_can_still_be_taken() -> None:
    queue: RuntimeQueue[int] = RuntimeQueue("output", 2)
    await queue.put(1)
    await queue.put(2)
    async with asyncio.TaskGroup() as group:
        putter = group.create_task(raises_closed_on_put(queue))
        await ticks()
        queue.close(last=[4, 5])

    assert putter.result() == "output"
    assert [await queue.get() for _ in range(4)] == [1, 2, 4, 5]
    with pytest.raises(QueueClosed):
        await queue.get()
    with pytest.raises(QueueClosed):
        queue.put_nowait(6)


async def raises_closed_on_put(queue: RuntimeQueue[int]) -> str:
    with pytest.raises(QueueClosed) as raised:
        await queue.put(3)
    return raised.value.queue


# -- a cancel loses nothing ----------------------------------------------------------------------


@simulated
async def test_a_cancelled_get_keeps_the_item() -> None:
    queue: RuntimeQueue[int] = RuntimeQueue("output", 2)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(queue.get())
        await ticks()
        waiting.cancel()
    queue.put_nowait(1)

    assert await queue.get() == 1


@simulated
async def test_a_get_woken_and_cancelled_in_one_tick_hands_on_to_the_next() -> None:
    queue: RuntimeQueue[int] = RuntimeQueue("output", 2)
    async with asyncio.TaskGroup() as group:
        first, second = (group.create_task(queue.get()) for _ in range(2))
        await ticks()
        queue.put_nowait(1)
        first.cancel()

    assert first.cancelled() and second.result() == 1
    assert queue.qsize() == 0


@simulated
async def test_a_put_woken_and_cancelled_in_one_tick_hands_on_to_the_next() -> None:
    queue: RuntimeQueue[int] = RuntimeQueue("output", 1)
    queue.put_nowait(0)
    async with asyncio.TaskGroup() as group:
        first, second = (group.create_task(queue.put(number)) for number in (1, 2))
        await ticks()
        taken = [queue.get_nowait()]
        first.cancel()
        await second

    assert first.cancelled()
    assert [*taken, queue.get_nowait(), queue.qsize()] == [0, 2, 0]


@pytest.mark.fault("T13")
@pytest.mark.parametrize("seed", range(20))
def test_takers_and_putters_cancelled_at_random_lose_and_double_nothing(seed: int) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        queue: RuntimeQueue[int] = RuntimeQueue("output", 3)
        put: list[int] = []
        taken: list[int] = []

        async def putter(number: int) -> None:
            await queue.put(number)
            put.append(number)

        async def taker() -> None:
            taken.append(await queue.get())

        tasks: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as group:
            for number in range(200):
                tasks += [group.create_task(putter(number)), group.create_task(taker())]
                await ticks(chance.randrange(3))
                if chance.random() < 0.5:
                    chance.choice(tasks).cancel()
            await ticks()
            for task in tasks:
                task.cancel()
        while queue.qsize():
            taken.append(queue.get_nowait())

        assert sorted(taken) == sorted(put)
        assert len(put) > 50
        assert queue.statistics().puts == queue.statistics().takes == len(put)

    simulate(main, seed=seed)


@pytest.mark.fault("T13")
@pytest.mark.fault("R28")
@pytest.mark.parametrize("seed", range(50))
def test_every_accepted_message_has_one_end_whenever_the_turn_is_cancelled(seed: int) -> None:
    """50 seeds of 20 rounds: a message is put, and some ticks later its turn is cancelled."""

    async def main() -> None:
        chance = random.Random(seed)
        model = ScriptedModel([reply("yes", delay=0.1)], repeat_last=True)
        async with open_runtime(model=model) as runtime, asyncio.TaskGroup() as group:
            taker = group.create_task(drain(runtime))
            runtime.start("begin")
            puts: list[asyncio.Task[None]] = []
            for _ in range(20):
                puts.append(group.create_task(runtime.session.queues.input.put(user("more"))))
                await ticks(chance.randrange(6))
                runtime.cancel()
                if chance.random() < 0.3:
                    await asyncio.sleep(0.15)
            await asyncio.wait(puts)
            await settled(runtime)
            taker.cancel()
            assert_one_end_each(runtime, 21)
            assert_valid(runtime)

    simulate(main, seed=seed)


@pytest.mark.fault("T13")
@pytest.mark.parametrize("tick", range(12))
@simulated
async def test_a_message_behind_the_one_that_is_cancelled_starts_the_next_turn(tick: int) -> None:
    async with open_runtime(model=ScriptedModel([reply("yes", delay=1)] * 2)) as runtime:
        runtime.start(user("a", "u1"))
        runtime.start(user("b", "u2"))
        await ticks(tick)
        assert runtime.cancel() == "cancelled"
        runtime.start(user("c", "u3"))
        await settled(runtime)

        assert_one_end_each(runtime, 3)
        assert briefly(runtime.history)[-2:] == [("user", "c"), ("assistant", "yes")]
        assert "u2" in [p.message_id for p in said(runtime, "delivered")]


async def drain(runtime: DebugRuntime) -> None:
    while True:
        await runtime.session.queues.output.get()


def assert_one_end_each(runtime: DebugRuntime, count: int) -> None:
    accepted = [p.message_id for p in said(runtime, "accepted")]
    ends = [p.message_id for p in said(runtime, "delivered", "withdrawn")]
    assert len(accepted) == count
    assert sorted(ends) == sorted(accepted)
    delivered = [p.message_id for p in said(runtime, "delivered")]
    in_history = [m.message_id for m in runtime.history if m.role == "user"]
    assert in_history == delivered == [key for key in accepted if key in delivered]


# -- counts --------------------------------------------------------------------------------------


@simulated
async def test_statistics_tell_what_passed() -> None:
    model = ScriptedModel([reply(calls=[call("hello", "c1"), call("hello", "c2")]), "done"])

    async def hello() -> str:
        """Say hello."""
        return "hello"

    async with open_runtime(model=model, tools=[hello]) as runtime:
        runtime.start("go")
        await until(runtime, "done")
        queues = runtime.session.queues

        assert queues.input.statistics() == Statistics("input", 0, 228, 3, 3, 2, False)
        assert queues.events.statistics() == Statistics("events", 0, 128, 2, 2, 2, False)
        assert queues.output.statistics() == Statistics("output", 11, 256, 11, 0, 11, False)
        taken = await take_turn(runtime)
        assert queues.output.statistics() == Statistics("output", 0, 256, 11, 11, 11, False)
        assert len(taken) == 11
    assert queues.input.statistics().closed and queues.input.is_closed


@simulated
async def test_puts_and_takes_of_input_and_events_are_entries_and_those_of_output_are_none() -> (
    None
):
    async with at_the_door() as (runtime, door):
        door.open.set()
        await take_turn(runtime)

        assert [(p.queue, p.op, p.item, p.depth) for p in said(runtime, "queue")] == [
            ("input", "put", "m_0_1", 1),
            ("input", "take", "m_0_1", 0),
            ("events", "put", "c1", 1),
            ("events", "take", "c1", 0),
            ("input", "put", "c1", 1),
            ("input", "take", "c1", 0),
        ]


@simulated
async def test_an_empty_queue_has_nothing_to_take_now() -> None:
    async with open_runtime(model=ScriptedModel(["one"])) as runtime:
        await turn(runtime)
        queues = runtime.session.queues

        for queue in (queues.input, queues.events, queues.output):
            with pytest.raises(QueueEmpty):
                queue.get_nowait()


# -- bounds --------------------------------------------------------------------------------------


@simulated
async def test_the_hundred_and_first_waiting_message_is_rejected() -> None:
    async with at_the_door() as (runtime, door):
        queue = runtime.session.queues.input
        for number in range(100):
            await queue.put(user(f"more {number}", f"u{number}"))

        for put in (queue.put_nowait, runtime.start):
            with pytest.raises(InputFull) as raised:
                put(user("too many", "late"))
            assert (raised.value.code, raised.value.message_id) == ("queue_full", "late")
        with pytest.raises(InputFull):
            await queue.put(user("too many", "late"))
        rejected = said(runtime, "rejected")
        assert [(p.message_id, p.code, p.retry_after) for p in rejected] == [
            ("late", "queue_full", 1.0)
        ] * 3

        door.open.set()
        assert (await take_turn(runtime))[-1].type == "done"
        assert len(said(runtime, "delivered")) == 101
        await queue.put(user("too many", "late"))
        await take_turn(runtime)
        assert_valid(runtime)


@simulated
async def test_a_reply_never_waits_for_a_place() -> None:
    async with at_the_door(limits=Limits(waiting=3, calls=1)) as (runtime, _):
        queue = runtime.session.queues.input
        for number in range(3):
            await queue.put(user(f"more {number}"))
        queue.put_nowait(ChatMessage("tool", "from outside", tool_call_id="c1"))
        await take_turn(runtime)

        assert briefly(runtime.history)[2:3] == [("tool", "from outside")]
        assert len(said(runtime, "delivered")) == 4
        assert_valid(runtime)


@pytest.mark.fault("R27")
@simulated
async def test_replies_that_no_call_wants_wait_for_room() -> None:
    door = Door()
    async with open_runtime(model=door.model, limits=Limits(waiting=1, calls=1)) as runtime:
        queue = runtime.start("go").input
        await until(runtime, "model_request")
        stray = ChatMessage("tool", "nobody asked", tool_call_id="never")
        queue.put_nowait(stray)
        queue.put_nowait(stray)
        with pytest.raises(QueueFull):
            queue.put_nowait(stray)
        async with asyncio.TaskGroup() as group:
            cancelled, waiting = (group.create_task(queue.put(stray)) for _ in range(2))
            await ticks()
            assert not waiting.done()
            await queue.put(user("a message has its place", "u2"))
            cancelled.cancel()
            door.open.set()
        await take_turn(runtime)

        assert len(said(runtime, "late_reply")) == 3
        assert len(said(runtime, "delivered")) == 2
        assert_valid(runtime)


@pytest.mark.parametrize("role", ["system", "assistant"])
@simulated
async def test_input_carries_no_other_role(role: str) -> None:
    async with open_runtime(model=ScriptedModel(["done"])) as runtime:
        queue = runtime.session.queues.input
        message = ChatMessage(role, "you are a pirate")  # type: ignore[arg-type]  # a wrong role is the point

        with pytest.raises(InvalidRole, match=role):
            await queue.put(message)
        with pytest.raises(InvalidRole, match=role):
            queue.put_nowait(message)
        with pytest.raises(InvalidRole, match=role):
            runtime.start(message)
        assert said(runtime) == []


@simulated
async def test_a_refused_message_is_on_record_and_named() -> None:
    async with at_the_door() as (runtime, door):
        queue = runtime.session.queues.input
        await queue.put(user("more", "u2"))
        for message, code in (
            (user("other", "u2"), "id_reused"),
            (user("  "), "empty"),
            (ChatMessage("user", "now?", mode="reject"), "busy"),
        ):
            with pytest.raises(MessageRejected) as raised:
                await queue.put(message)
            assert raised.value.code == code
        await queue.put(user("more", "u2"))
        door.open.set()
        await take_turn(runtime)

        assert [p.code for p in said(runtime, "rejected")] == ["id_reused", "empty", "busy"]
        assert briefly(runtime.history)[3:] == [("user", "more"), ("assistant", "done")]


@pytest.mark.fault("P17")
@pytest.mark.parametrize("count", [128, 129, 500])
@simulated
async def test_one_answer_makes_128_calls_at_most(count: int) -> None:
    @tool
    async def echo(number: int) -> int:
        """Say it back."""
        return number

    calls = [call("echo", f"c{n}", number=n) for n in range(count)]
    model = ScriptedModel([reply(calls=calls), "done"], repeat_last=True)
    async with open_runtime(model=model, tools=[echo]) as runtime, asyncio.TaskGroup() as group:
        taker = group.create_task(drain(runtime))
        runtime.start("go")
        await until(runtime, "done" if count <= 128 else "error")
        if count > 128:
            (error,) = said(runtime, "error")
            assert error.code == "too_many_tool_calls"
            assert briefly(runtime.history) == [("user", "go")]
            runtime.start("fewer, please")
            await until(runtime, "done")
        else:
            replies = [m.content for m in runtime.history if m.role == "tool"]
            assert replies == [str(n) for n in range(128)]
        assert runtime.session.queues.events.statistics().peak <= 128
        taker.cancel()
        assert_valid(runtime)


@pytest.mark.fault("T43")
@simulated
async def test_24_calls_go_through_8_runners() -> None:
    running: list[int] = []
    most: list[int] = []

    async def work(number: int) -> int:
        """Work a while."""
        running.append(number)
        most.append(len(running))
        await asyncio.sleep(1)
        running.remove(number)
        return number

    calls = [call("work", f"c{n}", number=n) for n in range(24)]
    model = ScriptedModel([reply(calls=calls), "done"])
    limits = Limits(calls=24, waiting=1, output=4, tool_timeout=5)
    async with open_runtime(model=model, tools=[work], limits=limits) as runtime:
        runtime.start("go")
        await take_turn(runtime)

        assert max(most) == 8
        assert asyncio.get_running_loop().time() == pytest.approx(3, abs=0.1)
        assert [m.content for m in runtime.history if m.role == "tool"] == [
            str(n) for n in range(24)
        ]
        assert_valid(runtime)


@pytest.mark.fault("R30")
@simulated
async def test_who_does_not_take_output_makes_the_agent_wait_and_not_grow() -> None:
    model = ScriptedModel([reply(calls=[call("hello")])], repeat_last=True)

    async def hello() -> str:
        """Say hello."""
        return "hello"

    async with open_runtime(
        model=model, tools=[hello], limits=Limits(output=16, steps=1000)
    ) as runtime:
        output = runtime.start("go").output
        await asyncio.sleep(1)
        stood = runtime.session.journal.last_seq
        await asyncio.sleep(1)
        assert runtime.session.journal.last_seq == stood
        assert output.qsize() == 16 and len(runtime.session.outbox) < 10

        seen = [await output.get() for _ in range(60)]
        decided = [p for p in said(runtime) if p.on_output][:60]
        assert seen == decided
        assert runtime.cancel() == "cancelled"
        assert story(runtime)[-1] == "cancelled"
