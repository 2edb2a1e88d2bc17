"""A hand on the gate: every hop can be held, let go, changed and thrown away; nothing breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from agent_lab import ChatMessage, DebugRuntime, Limits, tool
from agent_lab.application.gate import Parked
from agent_lab.domain.errors import HopRefused, QueueClosed, UnknownHop
from agent_lab.infrastructure.models.scripted import ScriptedCall
from agent_lab.testing import HandGate, ScriptedModel, call, open_runtime, reply, simulate
from tests.application.helpers_runtime import (
    assert_valid,
    briefly,
    said,
    simulated,
    story,
    take_turn,
    ticks,
    turn,
    until,
)

HOPS = ["put input", "take input", "put events", "take events", "model", "tool", "thread"]


@tool
async def look(city: str) -> str:
    """Look it up."""
    return f"saw {city}"


@tool
def read(city: str) -> str:
    """Read it, in a thread."""
    return f"read {city}"


LOOK = call("look", "c1", city="Oslo")
READ = call("read", "c2", city="Rome")


def asks_for(*calls: ScriptedCall) -> ScriptedModel:
    """A model that takes its time to make these calls, and then always answers."""
    return ScriptedModel(
        [reply(calls=list(calls), delay=0.1), reply("done", delay=0.1)], repeat_last=True
    )


async def parked(gate: HandGate, pattern: str = "*") -> Parked:
    async with asyncio.timeout(5):
        return await gate.arrival(pattern)


def names(hop: Parked) -> tuple[str, str]:
    kind = f"{hop.hop.kind} {hop.hop.queue}" if hop.hop.queue else hop.hop.kind
    return kind, hop.hop.item_id


# -- hold ----------------------------------------------------------------------------------------

ONCE = {
    "put input": [("put input", "c2")],
    "take input": [("take input", "m_0_1"), ("take input", "c2")],
    "put events": [("put events", "c2")],
    "take events": [("take events", "c2")],
    "model": [("model", "model"), ("model", "model")],
    "tool": [("tool", "c2")],
    "thread": [("thread", "c2")],
    "*": [
        ("take input", "m_0_1"),
        ("model", "model"),
        ("put events", "c2"),
        ("take events", "c2"),
        ("tool", "c2"),
        ("thread", "c2"),
        ("put input", "c2"),
        ("take input", "c2"),
        ("model", "model"),
    ],
}


@pytest.mark.parametrize("pattern", ONCE)
@simulated
async def test_each_hop_is_stopped_once_and_on_record(pattern: str) -> None:
    gate = HandGate(pattern)
    async with open_runtime(model=asks_for(READ), tools=[read], gate=gate) as runtime:
        runtime.start("go")
        stopped: list[tuple[str, str]] = []
        for _ in ONCE[pattern]:
            hop = await parked(gate)
            await ticks()
            assert gate.parked == [hop]
            stopped.append(names(hop))
            gate.release(hop.number)
        await take_turn(runtime)

        assert stopped == ONCE[pattern]
        assert len(said(runtime, "paused")) == len(stopped)
        assert [(p.hop, p.why) for p in said(runtime, "resumed")] == [
            (entry.seq, "released")
            for entry in runtime.session.journal.read()[1]
            if entry.payload.type == "paused"
        ]
        assert briefly(runtime.history) == [
            ("user", "go"),
            ("assistant", "c2"),
            ("tool", "read Rome"),
            ("assistant", "done"),
        ]
        assert_valid(runtime)


@simulated
async def test_a_message_put_by_a_script_is_accepted_before_it_is_held() -> None:
    gate = HandGate("put input")
    async with open_runtime(model=asks_for(LOOK), tools=[look], gate=gate) as runtime:
        queues = runtime.start("go")
        await parked(gate)
        async with asyncio.TaskGroup() as group:
            group.create_task(queues.input.put(ChatMessage("user", "and?", message_id="u2")))
            await until(runtime, "held")
            await ticks()
            assert [names(hop) for hop in gate.parked] == [("put input", "c1"), ("put input", "u2")]
            gate.open()
        await take_turn(runtime)

        assert story(runtime, "accepted", "held", "delivered") == [
            "accepted",
            "delivered",
            "accepted",
            "held",
            "delivered",
        ]
        assert_valid(runtime)


@simulated
async def test_put_nowait_is_recorded_and_never_held() -> None:
    gate = HandGate("put input")
    async with open_runtime(model=ScriptedModel(["done"]), gate=gate) as runtime:
        await turn(runtime)

        assert story(runtime, "paused", "queue") == ["queue", "queue"]


@simulated
async def test_a_held_take_lets_control_through() -> None:
    gate = HandGate("take input")
    async with open_runtime(model=ScriptedModel(["done"]), gate=gate) as runtime:
        runtime.start(ChatMessage("user", "go", message_id="u1"))
        await parked(gate)

        assert runtime.edit("u1", "gone") and runtime.withdraw("u1")
        gate.open()
        await ticks()
        assert runtime.session.is_idle and runtime.history == []


@simulated
async def test_an_unknown_hop_is_named() -> None:
    gate = HandGate("model")
    async with open_runtime(model=ScriptedModel(["done"]), gate=gate) as runtime:
        runtime.start("go")
        hop = await parked(gate)
        gate.release(hop.number)

        for act in (gate.release, gate.drop):
            with pytest.raises(UnknownHop):
                act(hop.number)
        with pytest.raises(UnknownHop):
            gate.edit(99, "x")
        await take_turn(runtime)


@pytest.mark.parametrize("pattern", HOPS)
@simulated
async def test_parked_time_is_in_no_limit(pattern: str) -> None:
    gate, loop = HandGate(pattern), asyncio.get_running_loop()
    limits = Limits(tool_timeout=5, model_timeout=5)
    async with open_runtime(
        model=asks_for(LOOK, READ), tools=[look, read], gate=gate, limits=limits
    ) as runtime:
        runtime.start("go")
        began = loop.time()
        while not runtime.session.is_idle:
            if gate.parked:
                await asyncio.sleep(60)
                gate.release(gate.parked[0].number)
            await asyncio.sleep(0.01)

        assert loop.time() - began >= 60
        assert [p.kind for p in said(runtime, "tool_reply")] == ["result", "result"]
        assert story(runtime, "error", "done") == ["done"]


@simulated
async def test_a_tool_that_runs_while_another_hop_is_parked_loses_no_time() -> None:
    """Only a hold stops the clock; 3 s of running are 3 s, before and after 60 s of thought."""
    gate, loop = HandGate("thread"), asyncio.get_running_loop()

    @tool(timeout=3)
    async def hang(city: str) -> None:
        """Never ends."""
        await asyncio.Event().wait()

    model = asks_for(call("hang", "c1", city="Oslo"), READ)
    async with open_runtime(model=model, tools=[hang, read], gate=gate) as runtime:
        runtime.start("go")
        hop = await parked(gate)
        await asyncio.sleep(60)
        gate.release(hop.number)
        began = loop.time()
        await until(runtime, "done")

        assert 3 <= loop.time() - began < 4
        assert [(p.call_id, p.kind) for p in said(runtime, "tool_reply")] == [
            ("c2", "result"),
            ("c1", "timeout"),
        ]


# -- swap ----------------------------------------------------------------------------------------


@simulated
async def test_two_replies_swapped_come_in_the_other_order_and_stand_in_call_order() -> None:
    gate = HandGate("put input")
    again = call("look", "c2", city="Rome")
    async with open_runtime(model=asks_for(LOOK, again), tools=[look], gate=gate) as runtime:
        runtime.start("go")
        await until(runtime, "paused", count=2)
        first, second = gate.parked
        gate.swap(first.number, second.number)
        await take_turn(runtime)

        assert [p.call_id for p in said(runtime, "tool_reply")] == ["c2", "c1"]
        assert [p.why for p in said(runtime, "resumed")] == ["swapped", "swapped"]
        assert briefly(runtime.history)[2:4] == [("tool", "saw Oslo"), ("tool", "saw Rome")]
        assert_valid(runtime)


@simulated
async def test_a_message_swapped_with_a_reply_breaks_nothing() -> None:
    gate = HandGate("put input")
    async with open_runtime(model=asks_for(LOOK), tools=[look], gate=gate) as runtime:
        queues = runtime.start("go")
        await parked(gate)
        async with asyncio.TaskGroup() as group:
            group.create_task(queues.input.put(ChatMessage("user", "and?")))
            await until(runtime, "paused", count=2)
            gate.swap(*[hop.number for hop in gate.parked])
        await take_turn(runtime)

        assert briefly(runtime.history) == [
            ("user", "go"),
            ("assistant", "c1"),
            ("tool", "saw Oslo"),
            ("user", "and?"),
            ("assistant", "done"),
        ]
        assert_valid(runtime)


@pytest.mark.parametrize("seed", range(40))
def test_of_two_swapped_puts_none_is_lost_whichever_comes_first(seed: int) -> None:
    async def main() -> None:
        gate = HandGate("put input")
        async with open_runtime(model=asks_for(LOOK), tools=[look], gate=gate) as runtime:
            queues = runtime.start("go")
            await parked(gate)
            async with asyncio.TaskGroup() as group:
                group.create_task(queues.input.put(ChatMessage("user", "and?")))
                await until(runtime, "paused", count=2)
                pair = [hop.number for hop in gate.parked]
                gate.swap(*(pair if seed % 2 else reversed(pair)))
            await take_turn(runtime)

            assert [p.kind for p in said(runtime, "tool_reply")] == ["result"]
            assert said(runtime, "late_reply") == []
            assert ("user", "and?") in briefly(runtime.history)
            assert_valid(runtime)

    simulate(main, seed=seed)


@simulated
async def test_only_puts_to_one_queue_are_swapped() -> None:
    gate = HandGate("put input", "tool")
    model = asks_for(LOOK, call("look", "c2", city="Rome"), call("look", "c3", city="Bonn"))
    async with open_runtime(model=model, tools=[look], gate=gate) as runtime:
        runtime.start("go")
        await until(runtime, "paused", count=3)
        gate.release(gate.parked[0].number)
        await until(runtime, "paused", count=4)
        tool_one, tool_two, put = (hop.number for hop in gate.parked)

        for pair in ((tool_one, tool_two), (put, tool_one), (tool_one, put), (put, put)):
            with pytest.raises(HopRefused):
                gate.swap(*pair)
        gate.open()
        await take_turn(runtime)
        assert_valid(runtime)


# -- edit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["put events", "take events", "tool", "thread"])
@simulated
async def test_a_call_is_run_with_the_arguments_it_was_given_at_the_gate(pattern: str) -> None:
    gate = HandGate(pattern)
    async with open_runtime(model=asks_for(READ), tools=[read], gate=gate) as runtime:
        runtime.start("go")
        hop = await parked(gate)
        gate.edit(hop.number, {"city": "Bonn"})
        await take_turn(runtime)

        (edited,) = said(runtime, "edited")
        assert (edited.hop, edited.item) == (hop.number, "c2")
        assert (edited.before, edited.after) == ({"city": "Rome"}, {"city": "Bonn"})
        assert briefly(runtime.history)[2] == ("tool", "read Bonn")
        assert_valid(runtime)


@pytest.mark.parametrize("pattern", ["put input", "take input"])
@simulated
async def test_a_reply_says_what_it_was_given_at_the_gate(pattern: str) -> None:
    gate = HandGate()
    async with open_runtime(model=asks_for(READ), tools=[read], gate=gate) as runtime:
        runtime.start("go")
        await until(runtime, "tool_call")
        gate.hold_at(pattern)
        gate.edit((await parked(gate)).number, "read nothing")
        await take_turn(runtime)

        (edited,) = said(runtime, "edited")
        assert (edited.item, edited.before, edited.after) == ("c2", "read Rome", "read nothing")
        assert briefly(runtime.history)[2] == ("tool", "read nothing")
        assert_valid(runtime)


@pytest.mark.parametrize("pattern", ["put input", "take input"])
@simulated
async def test_a_user_message_says_what_it_was_given_at_the_gate(pattern: str) -> None:
    gate = HandGate(pattern)
    async with open_runtime(model=ScriptedModel(["done", "done"]), gate=gate) as runtime:
        async with asyncio.TaskGroup() as group:
            session = runtime.session
            if pattern == "take input":
                runtime.start("start")
                gate.release((await parked(gate)).number)
                await take_turn(runtime)
            else:
                await turn(runtime, "start")
            group.create_task(session.queues.input.put(ChatMessage("user", "Oslo?")))
            gate.edit((await parked(gate)).number, "Rome?")
        await take_turn(runtime)

        (edited,) = said(runtime, "edited")
        assert (edited.before, edited.after) == ("Oslo?", "Rome?")
        assert briefly(runtime.history)[2:] == [("user", "Rome?"), ("assistant", "done")]
        assert_valid(runtime)


@pytest.mark.parametrize(
    ("pattern", "change"),
    [("model", "x"), ("model", {"city": "Bonn"}), ("tool", "x"), ("take input", {"city": "Bonn"})],
)
@simulated
async def test_an_edit_that_does_not_fit_is_refused_and_the_hop_stays_parked(
    pattern: str, change: str | dict[str, str]
) -> None:
    gate = HandGate(pattern)
    async with open_runtime(model=asks_for(LOOK), tools=[look], gate=gate) as runtime:
        runtime.start("go")
        hop = await parked(gate)
        with pytest.raises(HopRefused):
            gate.edit(hop.number, change)

        assert gate.parked == [hop] and said(runtime, "edited") == []
        gate.open()
        await take_turn(runtime)


@simulated
async def test_a_user_message_is_not_made_blank_at_the_gate() -> None:
    gate = HandGate("take input")
    async with open_runtime(model=ScriptedModel(["done"]), gate=gate) as runtime:
        runtime.start("go")
        hop = await parked(gate)
        with pytest.raises(HopRefused):
            gate.edit(hop.number, "  ")

        assert gate.parked == [hop]
        gate.open()
        await take_turn(runtime)


# -- drop ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["put events", "take events", "tool", "thread", "put input"])
@simulated
async def test_a_call_or_reply_dropped_closes_the_call_as_lost(pattern: str) -> None:
    gate = HandGate(pattern)
    model = asks_for(READ)
    async with open_runtime(model=model, tools=[read], gate=gate) as runtime:
        runtime.start("go")
        hop = await parked(gate)
        gate.drop(hop.number)
        await take_turn(runtime)

        (dropped,), (answered,) = said(runtime, "dropped"), said(runtime, "tool_reply")
        assert (dropped.hop, dropped.item) == (hop.number, "c2")
        assert (answered.call_id, answered.kind, answered.is_error) == ("c2", "lost", True)
        assert said(runtime, "late_reply") == []
        assert len(said(runtime, "model_request")) == 2
        assert briefly(runtime.history)[3:] == [("assistant", "done")]
        assert_valid(runtime)


@simulated
async def test_a_reply_dropped_as_it_is_taken_closes_the_call_as_lost() -> None:
    gate = HandGate()
    async with open_runtime(model=asks_for(LOOK), tools=[look], gate=gate) as runtime:
        runtime.start("go")
        await until(runtime, "tool_call")
        gate.hold_at("take input")
        gate.drop((await parked(gate)).number)
        await take_turn(runtime)

        assert [(p.call_id, p.kind) for p in said(runtime, "tool_reply")] == [("c1", "lost")]
        assert len(said(runtime, "model_request")) == 2
        assert briefly(runtime.history)[3:] == [("assistant", "done")]
        assert_valid(runtime)


@simulated
async def test_of_two_calls_only_the_dropped_one_is_lost() -> None:
    gate = HandGate("put events")
    model = asks_for(LOOK, call("look", "c2", city="Rome"))
    async with open_runtime(model=model, tools=[look], gate=gate) as runtime:
        runtime.start("go")
        gate.drop((await parked(gate)).number)
        gate.release((await parked(gate)).number)
        await take_turn(runtime)

        assert {p.call_id: p.kind for p in said(runtime, "tool_reply")} == {
            "c1": "lost",
            "c2": "result",
        }
        assert len(said(runtime, "model_request")) == 2
        assert_valid(runtime)


@pytest.mark.parametrize("pattern", ["put input", "take input"])
@simulated
async def test_a_user_message_dropped_is_withdrawn_and_nothing_runs(pattern: str) -> None:
    gate = HandGate()
    async with open_runtime(model=ScriptedModel(["one", "two"]), gate=gate) as runtime:
        await turn(runtime)
        gate.hold_at(pattern)
        async with asyncio.TaskGroup() as group:
            message = ChatMessage("user", "never", message_id="u2")
            group.create_task(runtime.session.queues.input.put(message))
            gate.drop((await parked(gate)).number)
        await ticks()

        (withdrawn,) = said(runtime, "withdrawn")
        assert (withdrawn.message_id, withdrawn.reason) == ("u2", "dropped")
        assert runtime.session.is_idle
        gate.open()
        await turn(runtime, "next")
        assert briefly(runtime.history)[2:] == [("user", "next"), ("assistant", "two")]
        assert_valid(runtime)


@simulated
async def test_a_model_call_is_not_dropped() -> None:
    gate = HandGate("model")
    async with open_runtime(model=ScriptedModel(["done"]), gate=gate) as runtime:
        runtime.start("go")
        hop = await parked(gate)
        with pytest.raises(HopRefused):
            gate.drop(hop.number)

        assert gate.parked == [hop] and said(runtime, "dropped") == []
        gate.open()
        assert [p.type for p in await take_turn(runtime)][-1] == "done"


# -- cancel while parked -------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", HOPS)
@simulated
async def test_a_cancel_while_parked_is_on_record_at_once_and_the_next_turn_works(
    pattern: str,
) -> None:
    gate = HandGate()
    model = ScriptedModel(["hello", reply(calls=[READ]), "done"], repeat_last=True)
    async with open_runtime(model=model, tools=[read], gate=gate) as runtime:
        await turn(runtime, "first")
        gate.hold_at(pattern)
        runtime.start("go")
        hop = await parked(gate)
        before = runtime.session.journal.last_seq

        assert runtime.cancel() == "cancelled"
        written = [entry.payload for entry in runtime.session.journal.read(before)[1]]
        assert written[-1].type == "cancelled"
        assert [p.kind for p in said(runtime, "tool_reply")] == (
            ["cancelled"] if pattern not in ("take input", "model") else []
        )
        await ticks()
        assert hop not in gate.parked
        assert said(runtime, "resumed")[-1].why == "cancelled"
        assert not runtime.session.conversation.calls.open

        gate.open()
        await take_turn(runtime)
        types = await turn(runtime, "next")
        assert types[-1] == "done"
        assert_valid(runtime)


@pytest.mark.parametrize("pattern", HOPS)
@simulated
async def test_a_close_while_parked_ends_everything(pattern: str) -> None:
    gate = HandGate(pattern)
    runtime: DebugRuntime
    async with open_runtime(model=asks_for(READ), tools=[read], gate=gate) as runtime:
        runtime.start("go")
        await parked(gate)

    assert gate.parked == [] and story(runtime, "cancelled", "withdrawn") != []
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("holds", [HandGate.hold_at, lambda gate: None])
@simulated
async def test_a_put_of_a_script_that_is_parked_when_the_session_closes_is_told(
    holds: Callable[[HandGate], None],
) -> None:
    gate = HandGate("put input")
    async with open_runtime(model=ScriptedModel(["done"]), gate=gate) as runtime:
        await turn(runtime)
        put = runtime.session.queues.input.put(ChatMessage("user", "more", message_id="u2"))
        async with asyncio.TaskGroup() as group:
            putting = group.create_task(raises_closed(put))
            await parked(gate)
            holds(gate)
            await runtime.close()

        assert putting.result() == "input"
        assert [p.reason for p in said(runtime, "withdrawn")] == ["closed"]
        assert gate.parked == []


async def raises_closed(put: Coroutine[None, None, None]) -> str:
    with pytest.raises(QueueClosed) as raised:
        await put
    return raised.value.queue


@simulated
async def test_opening_the_gate_behind_a_verdict_is_fine() -> None:
    gate = HandGate("model")
    async with open_runtime(model=ScriptedModel(["done"]), gate=gate) as runtime:
        runtime.start("go")
        gate.release((await parked(gate)).number)
        gate.open()

        assert [p.type for p in await take_turn(runtime)][-1] == "done"


@pytest.mark.parametrize("act", [HandGate.release, HandGate.drop])
@pytest.mark.parametrize("pattern", [hop for hop in HOPS if hop != "model"])
@simulated
async def test_a_verdict_and_a_cancel_in_one_tick_leave_one_end(
    pattern: str, act: Callable[[HandGate, int], None]
) -> None:
    gate = HandGate(pattern)
    async with open_runtime(model=asks_for(READ), tools=[read], gate=gate) as runtime:
        runtime.start("go")
        act(gate, (await parked(gate)).number)
        runtime.cancel()
        await ticks(30)
        gate.open()

        assert story(runtime, "done", "cancelled") == ["cancelled"]
        assert len(said(runtime, "tool_reply")) == (0 if pattern == "take input" else 1)
        await take_turn(runtime)
        assert (await turn(runtime, "next"))[-1] == "done"
        assert_valid(runtime)
