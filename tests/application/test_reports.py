"""R1 to R24: faults that other agent loops had in public, shown not to be here."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agent_lab import ChatMessage, Limits, ToolCall, tool
from agent_lab.domain.dialects.check import check_history
from agent_lab.domain.messages import ModelRequest, Reply
from agent_lab.testing import (
    ScriptedModel,
    assert_provider_valid,
    call,
    open_runtime,
    reply,
    simulate,
)
from tests.application.data.story import TOOLS, Stage, stage

THREE = [call("wait", f"c{n}", seconds=n) for n in (1, 2, 3)]


@pytest.mark.scenario("R1")
def test_a_steer_skips_no_call_of_the_batch() -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply(calls=THREE), reply("Well.")])
        async with stage(model=model, tools=TOOLS, limits=Limits(parallel_tools=1)) as on:
            on.say("Three edits.")
            await on.until("tool_started")
            on.say("And a fourth.")
            await on.settled()
        return on

    on = simulate(main)
    assert [said.call_id for said in on.said("tool_started")] == ["c1", "c2", "c3"]
    assert on.story[2:] == [
        ("tool", "c1", "result"),
        ("tool", "c2", "result"),
        ("tool", "c3", "result"),
        ("user", "And a fourth."),
        ("assistant", "Well."),
    ]


@pytest.mark.scenario("R2")
def test_a_long_tools_answer_reaches_model_and_user_though_a_message_came() -> None:
    async def main() -> Stage:
        calls = [call("wait", "c1", seconds=29, then="4 degrees")]
        async with stage(model=ScriptedModel([reply(calls=calls), "Well."]), tools=TOOLS) as on:
            on.say("Oslo?")
            await on.until("tool_started")
            on.say("Still there?")
            await on.settled()
        return on

    on = simulate(main)
    shown = [said.content for said in on.taken if said.type == "tool_reply"]  # type: ignore[union-attr]  # of that type
    assert shown == ["4 degrees"]
    assert [said["content"] for said in on.requests[-1]][2:] == ["4 degrees", "Still there?"]


@pytest.mark.scenario("R3")
@pytest.mark.parametrize("seed", range(25))
def test_a_message_that_races_the_runs_end_is_delivered_as_its_receipt_says(seed: int) -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply("Well.", delay=1)], repeat_last=True)
        async with stage(model=model, tools=TOOLS) as on:
            on.say("Oslo?", "u1")
            await asyncio.sleep(1)
            on.say("And Rome?", "u2")
            await on.settled()
        return on

    on = simulate(main, seed=seed)
    delivered = {said.message_id: said.position for said in on.said("delivered")}
    assert on.runtime.history[delivered["u2"]].content == "And Rome?"
    assert on.story[-2:] == [("user", "And Rome?"), ("assistant", "Well.")]


@pytest.mark.scenario("R4")
def test_an_interrupt_during_a_tool_starts_a_fresh_model_call() -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply(calls=[call("never", "c1")]), reply("Rome, then.")])
        async with stage(model=model, tools=TOOLS) as on:
            on.say("Oslo?")
            await on.until("tool_started")
            on.say("No, Rome.", "u2", mode="interrupt")
            await on.settled()
        return on

    on = simulate(main)
    (stopped,) = on.said("cancelled")
    assert (stopped.reason, stopped.by, stopped.pending) == ("interrupted", "u2", 1)
    assert on.story[2:] == [
        ("tool", "c1", "cancelled"),
        ("user", "No, Rome."),
        ("assistant", "Rome, then."),
    ]
    assert [said.turn for said in on.said("model_request")] == [1, 2]


@pytest.mark.scenario("R5")
def test_the_request_after_an_interrupt_answers_the_open_call() -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply(calls=[call("never", "c1")]), reply("Well.")])
        async with stage(model=model, tools=TOOLS) as on:
            on.say("Oslo?")
            await on.until("tool_call")
            await on.runtime.session.queues.input.put(
                ChatMessage("user", "Stop.", mode="interrupt")
            )
            await on.settled()
        return on

    on = simulate(main)
    assert on.requests[-1][2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "Error: cancelled by the user"},
        {"role": "user", "content": "Stop."},
    ]
    assert_provider_valid(on.requests[-1], "openai_chat")


def as_anthropic(history: list[ChatMessage]) -> list[dict[str, Any]]:
    """Enough of Anthropic's format for a history of text, calls and replies."""
    wire: list[dict[str, Any]] = []
    for message in history:
        if message.role == "tool":
            block = {"type": "tool_result", "tool_use_id": message.tool_call_id}
            block |= {"content": message.content, "is_error": message.is_error}
            if isinstance(wire[-1]["content"], list) and wire[-1]["role"] == "user":
                wire[-1]["content"].append(block)
            else:
                wire.append({"role": "user", "content": [block]})
        elif message.tool_calls:
            uses = [
                {"type": "tool_use", "id": made.id, "name": made.name, "input": made.arguments}
                for made in message.tool_calls
            ]
            wire.append({"role": "assistant", "content": uses})
        else:
            wire.append({"role": message.role, "content": message.content})
    return wire


@pytest.mark.scenario("R6")
def test_a_transcript_saved_at_an_interrupt_is_valid_when_it_is_loaded_again() -> None:
    async def main() -> Stage:
        calls = [call("wait", "c1", seconds=1), call("never", "c2")]
        async with stage(model=ScriptedModel([reply(calls=calls)]), tools=TOOLS) as on:
            on.say("Oslo?")
            await on.until("tool_reply")
            on.runtime.cancel()
            saved = msgspec.json.encode([message.as_dict() for message in on.runtime.history])
        loaded = msgspec.json.decode(saved, type=list[ChatMessage])
        async with stage(model=ScriptedModel(["Well."]), tools=TOOLS, history=loaded) as again:
            again.say("And Rome?")
            await again.settled()
        return again

    on = simulate(main)
    assert on.story == [
        ("user", "Oslo?"),
        ("assistant", "c1", "c2"),
        ("tool", "c1", "result"),
        ("tool", "c2", "cancelled"),
        ("user", "And Rome?"),
        ("assistant", "Well."),
    ]
    assert_provider_valid(on.requests[-1], "openai_chat")
    assert_provider_valid(as_anthropic(on.runtime.history), "anthropic")


@pytest.mark.scenario("R6")
def test_a_transcript_saved_with_a_call_open_closes_it_when_it_is_loaded() -> None:
    async def main() -> Stage:
        calls = [call("never", "c1"), call("wait", "c2", seconds=1)]
        async with stage(model=ScriptedModel([reply(calls=calls)]), tools=TOOLS) as on:
            on.say("Oslo?")
            await on.until("tool_reply")
            saved = on.runtime.history
        async with stage(model=ScriptedModel(["Well."]), tools=TOOLS, history=saved) as again:
            again.say("And Rome?")
            await again.settled()
        return again

    assert simulate(main).story[1:] == [
        ("assistant", "c1", "c2"),
        ("tool", "c1", "lost"),
        ("tool", "c2", "result"),
        ("user", "And Rome?"),
        ("assistant", "Well."),
    ]


@pytest.mark.scenario("R8")
def test_a_conversation_goes_on_after_a_stop_with_a_call_open() -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply(calls=[call("never", "c1")]), reply("Well.")])
        async with stage(model=model, tools=TOOLS) as on:
            on.say("Oslo?")
            await on.until("tool_started")
            on.runtime.cancel()
            await on.settled()
            on.say("And Rome?")
            await on.settled()
        return on

    on = simulate(main)
    assert [(said.type, said.turn) for said in on.said("cancelled", "done", "error")] == [
        ("cancelled", 1),
        ("done", 2),
    ]


@pytest.mark.scenario("R9")
def test_a_retry_after_an_aborted_call_is_a_message_of_its_own_after_the_reply() -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply(calls=[call("never", "c1")]), reply("Again, then.")])
        async with stage(model=model, tools=TOOLS) as on:
            on.say("Oslo?")
            await on.until("tool_started")
            on.runtime.cancel()
            on.say("Try again.")
            await on.settled()
        return on

    assert simulate(main).story[1:] == [
        ("assistant", "c1"),
        ("tool", "c1", "cancelled"),
        ("user", "Try again."),
        ("assistant", "Again, then."),
    ]


@pytest.mark.scenario("R9")
def test_the_checker_names_the_order_rule_when_text_follows_a_call_in_one_message() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "wait", "input": {}}
    after = {"type": "text", "text": "Again, then."}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "done"}
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Oslo?"},
        {"role": "assistant", "content": [use, after]},
        {"role": "user", "content": [result]},
    ]

    faults = check_history(history, "anthropic")

    assert [(found.rule, found.where) for found in faults] == [("tool_use_not_last_in_message", 1)]


@pytest.mark.scenario("R10")
def test_a_trim_keeps_no_reply_without_its_call_and_the_checker_flags_one() -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply(calls=THREE[:1]), reply("Well.")] * 2)
        async with stage(model=model, tools=TOOLS, limits=Limits(window=3)) as on:
            for question in ("Oslo?", "And Rome?"):
                on.say(question)
                await on.settled()
        return on

    on = simulate(main)
    assert [said["role"] for said in on.requests[-1]] == ["user", "assistant", "tool"]
    cut = [{"role": "system", "content": "Be brief."}, *on.requests[1][2:], *on.requests[2]]
    assert [(found.rule, found.where) for found in check_history(cut, "openai_chat")] == [
        ("tool_reply_orphan", 1)
    ]


@pytest.mark.scenario("R11")
@pytest.mark.parametrize("window", [1, 2, 3, 4, 6, 9])
@pytest.mark.parametrize("way", ["live", "resumed", "steered"])
def test_a_window_is_valid_after_three_rounds_on_every_path(window: int, way: str) -> None:
    async def main() -> Stage:
        limits = Limits(window=window)
        model = ScriptedModel([reply(calls=THREE)] * 3 + [reply("Well.")] * 2)
        async with stage(model=model, tools=TOOLS, limits=limits) as on:
            on.say("Oslo?")
            await on.until("tool_started", count=9)
            if way == "steered":
                on.say("And Rome?")
            await on.settled()
            if way == "live":
                on.say("And Rome?")
                await on.settled()
            saved = on.runtime.history
        if way != "resumed":
            return on
        answer = ScriptedModel(["Well."])
        async with stage(model=answer, tools=TOOLS, limits=limits, history=saved) as again:
            again.say("And Rome?")
            await again.settled()
        return again

    on = simulate(main)
    for request in on.requests:
        assert_provider_valid(request, "openai_chat", "deepseek", "dashscope", "minimax")
    assert on.requests[-1][-1] == {"role": "user", "content": "And Rome?"}


@pytest.mark.scenario("R12")
def test_one_orphan_reply_has_one_cause_in_the_words_of_each_provider() -> None:
    orphan = {"role": "tool", "tool_call_id": "a1b2c3d4e", "content": "4 degrees"}
    history = [{"role": "user", "content": "Oslo?"}, orphan, {"role": "user", "content": "Well?"}]

    faults = [check_history(history, name) for name in ("openai_chat", "deepseek", "mistral")]

    assert [[(found.where, found.ids) for found in found] for found in faults] == [
        [(1, ("a1b2c3d4e",))]
    ] * 3
    assert len({found[0].provider_error for found in faults}) == 3


@pytest.mark.scenario("R15")
def test_a_repeated_tool_use_id_is_reported_with_both_positions() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "wait", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "done"}
    turn: list[dict[str, Any]] = [
        {"role": "user", "content": "Oslo?"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": "Well."},
    ]

    (found,) = check_history(turn * 2, "anthropic")

    assert (found.rule, found.where, found.ids) == ("tool_use_id_duplicate", 5, ("c1",))
    assert "message 1" in found.explanation


@pytest.mark.scenario("R16")
def test_calls_to_one_tool_get_their_own_results_whatever_the_order() -> None:
    async def main() -> Stage:
        calls = [
            call("wait", "c1", seconds=3, then="Oslo: 4"),
            call("wait", "c2", seconds=2, then="Rome: 20"),
            call("wait", "c3", seconds=1, then="Cairo: 35"),
        ]
        async with stage(model=ScriptedModel([reply(calls=calls), "Well."]), tools=TOOLS) as on:
            on.say("Three towns?")
            await on.settled()
        return on

    replies = [said for said in simulate(main).requests[-1] if said["role"] == "tool"]
    assert [(said["tool_call_id"], said["content"]) for said in replies] == [
        ("c1", "Oslo: 4"),
        ("c2", "Rome: 20"),
        ("c3", "Cairo: 35"),
    ]


class Stubborn:
    """A tool that ignores every cancellation until it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.tool = tool(self.hold_on)

    async def hold_on(self) -> str:
        """Holds on."""
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                continue
        return "at last"


@pytest.mark.scenario("R17")
@pytest.mark.parametrize("how", ["timeout", "cancelled"])
def test_a_stalled_tool_is_answered_in_time_and_the_worker_survives(how: str) -> None:
    async def main() -> tuple[Stage, float]:
        loop, stubborn = asyncio.get_running_loop(), Stubborn()
        calls = [call("hold_on", "c1")]
        model = ScriptedModel([reply(calls=calls), "Well.", reply(calls=THREE), "Well."])
        tools = [*TOOLS, stubborn.tool]
        limits = Limits(tool_timeout=10, parallel_tools=1)
        async with stage(model=model, tools=tools, limits=limits) as on:
            on.say("Oslo?")
            await on.until("tool_started")
            if how == "cancelled":
                on.runtime.cancel()
                on.say("Never mind.")
            await on.settled()
            at = loop.time()
            on.say("And Rome?")
            await on.settled()
            stubborn.go.set()
        return on, at

    on, at = simulate(main)
    assert at == (10 if how == "timeout" else 0)
    assert [said.kind for said in on.said("tool_reply")] == [how, "result", "result", "result"]
    assert [said.type for said in on.said("done", "error")][-1] == "done"


@pytest.mark.scenario("R18")
def test_a_hung_tool_does_not_pin_the_run_or_its_memory() -> None:
    async def main() -> tuple[list[str], weakref.ref[Any]]:
        model = ScriptedModel([reply(calls=[call("never", "c1")]), reply("Well.")])
        async with open_runtime(model=model, tools=TOOLS, limits=Limits(tool_timeout=5)) as runtime:
            types = [payload.type async for payload in runtime.run("Oslo?")]
        return types, weakref.ref(runtime.session)

    types, session = simulate(main)
    gc.collect()
    assert types[-1] == "done"
    assert session() is None


async def late_answer(request: ModelRequest) -> AsyncIterator[Reply]:
    """Ignores its cancellation, and then wants a tool."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        yield Reply("too late", (ToolCall("c1", "wait", {"seconds": 1}),))


@pytest.mark.scenario("R20")
def test_a_turn_that_timed_out_ends_once_though_its_work_finishes_later() -> None:
    async def main() -> Stage:
        limits = Limits(model_timeout=5, model_retries=0)
        async with stage(model=late_answer, tools=TOOLS, limits=limits) as on:
            on.say("Oslo?")
            await on.settled()
            await asyncio.sleep(60)
        return on

    on = simulate(main)
    ends = on.said("done", "error", "cancelled")
    assert [(said.type, said.code) for said in ends] == [("error", "model_timeout")]
    assert on.story == [("user", "Oslo?")]


@pytest.mark.scenario("R20")
def test_a_tool_that_finishes_after_its_time_out_is_recorded_as_late() -> None:
    async def main() -> Stage:
        stubborn = Stubborn()
        model = ScriptedModel([reply(calls=[call("hold_on", "c1")]), reply("Well.")])
        limits = Limits(tool_timeout=5)
        async with stage(model=model, tools=[stubborn.tool], limits=limits) as on:
            on.say("Oslo?")
            await on.settled()
            stubborn.go.set()
            await on.until("late_reply")
        return on

    on = simulate(main)
    assert [said.kind for said in on.said("tool_reply")] == ["timeout"]
    assert [said.content for said in on.said("late_reply")] == ["at last"]
    assert [said.type for said in on.said("done", "error", "cancelled")] == ["done"]


@pytest.mark.scenario("R21")
@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_an_answer_after_the_turns_end_starts_no_tool_and_no_model_call(how: str) -> None:
    async def main() -> Stage:
        limits = Limits(model_timeout=5, model_retries=0)
        async with stage(model=late_answer, tools=TOOLS, limits=limits) as on:
            on.say("Oslo?")
            await on.until("model_request")
            if how == "cancel":
                on.runtime.cancel()
            await on.settled()
            await asyncio.sleep(60)
        return on

    on = simulate(main)
    assert on.said("tool_call", "tool_started") == []
    assert len(on.said("model_request")) == 1


@pytest.mark.scenario("R23")
def test_a_failing_and_a_cancelled_call_cost_their_siblings_nothing() -> None:
    async def main() -> Stage:
        calls = [call("broken", "c1"), call("never", "c2"), call("wait", "c3", seconds=2)]
        async with stage(model=ScriptedModel([reply(calls=calls), "Well."]), tools=TOOLS) as on:
            on.say("Three towns?")
            await on.until("tool_started", count=3)
            assert on.runtime.cancel_tool("c2") == "cancelled"
            await on.settled()
        return on

    replies = [said for said in simulate(main).requests[-1] if said["role"] == "tool"]
    assert [said["content"] for said in replies] == [
        "Error: no such town",
        "Error: cancelled by the user",
        "done",
    ]


@pytest.mark.scenario("R24")
def test_a_cancel_before_the_worker_takes_the_message_means_that_nothing_runs() -> None:
    async def main() -> Stage:
        async with stage(model=ScriptedModel(["Well."]), tools=TOOLS) as on:
            on.say("Oslo?", "u1")
            assert on.runtime.cancel() == "cancelled"
            await on.settled()
            assert on.runtime.cancel() == "not_running"
        return on

    on = simulate(main)
    assert on.said("model_request") == []
    assert [(said.type, said.turn) for said in on.said("withdrawn", "cancelled")] == [
        ("withdrawn", 1),
        ("cancelled", 1),
    ]


@pytest.mark.scenario("R24")
@pytest.mark.parametrize("seed", range(25))
def test_a_cancel_just_after_a_tool_result_is_no_error(seed: int) -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply(calls=THREE[:1]), reply("Well.", delay=1), "Rome, then."])
        async with stage(model=model, tools=TOOLS) as on:
            on.say("Oslo?")
            await on.until("tool_reply")
            on.runtime.cancel()
            on.say("And Rome?")
            await on.settled()
        return on

    on = simulate(main, seed=seed)
    assert [said.type for said in on.said("done", "error", "cancelled")] == ["cancelled", "done"]
    assert on.story[2][:2] == ("tool", "c1")
