"""What a model thought is kept from its answer to the history, and only when it is well made."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from agent_lab import ChatMessage, ToolCall
from agent_lab.domain.assembly import Assembly
from agent_lab.domain.messages import Finish, ModelEvent, Reply, TextDelta, malformed
from agent_lab.domain.repair import repair
from agent_lab.domain.thinking import (
    THINKING,
    ReasoningItem,
    ReasoningText,
    RedactedThinking,
    ThinkingBlock,
    Thought,
    ThoughtSignature,
)
from agent_lab.testing import ScriptedModel, call, open_runtime, reply, simulate

SIGNED = ThinkingBlock("Look outside.", "c2ln")
ITEM = ReasoningItem("rs_1", ("Look outside.",), "ZW5j", before=1)
ONE_OF_EACH = (
    SIGNED,
    ITEM,
    RedactedThinking("eHh4"),
    Thought("Look outside."),
    ThoughtSignature("c2ln", before=1),
    ReasoningText("Look outside."),
)


def get_weather(city: str) -> str:
    """The weather."""
    return f"4 degrees in {city}"


async def said_by(*replies: Any) -> tuple[list[ChatMessage], list[dict[str, Any]]]:
    """The history after a turn, and its `assistant` payloads as on the wire."""
    async with open_runtime(model=ScriptedModel(replies), tools=[get_weather]) as runtime:
        payloads = [p.as_dict() async for p in runtime.run("Weather in Oslo?")]
    return runtime.history, [p for p in payloads if p["type"] == "assistant"]


def test_every_kind_is_tried_here() -> None:
    assert {type(thought) for thought in ONE_OF_EACH} == set(THINKING)


@pytest.mark.parametrize("pieces", [None, ["It has ", "4 degrees."]])
def test_thinking_stays_with_calls_and_with_text(pieces: list[Any] | None) -> None:
    asks = reply(calls=[call("get_weather", city="Oslo")], thinking=ONE_OF_EACH)
    answers = reply("It has 4 degrees.", deltas=pieces, thinking=[SIGNED])

    history, told = simulate(lambda: said_by(asks, answers))

    assert [message.thinking for message in history] == [(), ONE_OF_EACH, (), (SIGNED,)]
    assert told[0]["thinking"][1] == {
        "type": "reasoning_item",
        "id": "rs_1",
        "summary": ["Look outside."],
        "encrypted_content": "ZW5j",
        "before": 1,
    }
    assert told[1]["thinking"] == [
        {"type": "thinking", "text": "Look outside.", "signature": "c2ln", "before": 0}
    ]


def test_thinking_that_led_to_nothing_is_not_kept() -> None:
    history, told = simulate(lambda: said_by(reply(thinking=[SIGNED])))

    assert ([message.role for message in history], told) == (["user"], [])


def test_what_a_cancelled_answer_thought_stays_with_its_text() -> None:
    async def cancelled() -> list[ChatMessage]:
        slow = reply(deltas=["It has ", "4 degrees."], delta_delay=1.0, thinking=[SIGNED])
        async with (
            open_runtime(model=ScriptedModel([slow])) as runtime,
            runtime.run("Weather in Oslo?") as run,
        ):
            async for payload in run:
                if payload.type == "text_delta":
                    runtime.cancel()
        return runtime.history

    assert simulate(cancelled)[-1] == ChatMessage("assistant", "It has", thinking=(SIGNED,))


def test_thinking_survives_repair() -> None:
    asks = ChatMessage("assistant", tool_calls=(ToolCall("c1", "wait"),), thinking=ONE_OF_EACH)

    assert repair([ChatMessage("user", "A"), asks])[1] is asks


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    broken = [ReasoningItem("rs_1", ("Look \ud83d",), "ZW5j"), ThinkingBlock("\udc00", "c2ln")]

    history, _ = simulate(lambda: said_by(reply("Hello.", thinking=broken)))

    assert history[-1].thinking == (
        ReasoningItem("rs_1", ("Look ?",), "ZW5j"),
        ThinkingBlock("?", "c2ln"),
    )


@pytest.mark.parametrize(
    "event",
    [
        ThinkingBlock(1, "c2ln"),  # type: ignore[arg-type]  # a model that is wrong
        ReasoningItem("rs_1", summary="Look outside."),  # type: ignore[arg-type]  # as above
        ThoughtSignature("c2ln", before=-1),
        Thought(object()),  # type: ignore[arg-type]  # as above
        Reply("Hello.", thinking=[SIGNED]),  # type: ignore[arg-type]  # as above
        Reply("Hello.", thinking=("Look outside.",)),  # type: ignore[arg-type]  # as above
    ],
)
def test_thinking_that_is_not_well_made_is_said_to_be(event: ModelEvent) -> None:
    assert malformed(event) == f"the model gave {event!r}, which is no well made event"


def test_a_stream_keeps_thinking_in_its_order() -> None:
    assembly = Assembly()
    for event in (SIGNED, TextDelta("Hello."), ITEM, Finish()):
        assembly.feed(event)

    assert assembly.reply() == Reply("Hello.", (), "stop", None, (SIGNED, ITEM))


def test_a_message_without_thinking_costs_no_object_more() -> None:
    message = ChatMessage("assistant", "Hello.")

    assert message.thinking is ChatMessage("user", "Hello?").thinking == ()
    assert not gc.is_tracked(message)
