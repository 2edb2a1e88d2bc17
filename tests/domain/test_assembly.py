"""Pieces of an answer, joined by index whatever their order."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from agent_lab.domain.assembly import Assembly
from agent_lab.domain.messages import CallDelta, Finish, Reply, TextDelta, ToolCall

Piece = TextDelta | CallDelta | Finish


def assembled(*events: Piece) -> Reply | None:
    assembly = Assembly()
    for event in events:
        assembly.feed(event)
    return assembly.reply()


def test_text_is_joined_and_calls_are_none() -> None:
    assert assembled(TextDelta("We"), TextDelta("ll."), Finish("stop")) == Reply(
        "Well.", (), "stop", None
    )


def test_without_the_providers_last_event_there_is_no_answer() -> None:
    assert assembled(TextDelta("We"), CallDelta(0, "c1", "wait", "{}")) is None


@given(st.data(), st.integers(1, 20))
def test_fragments_of_calls_may_interleave_and_come_out_of_order(
    data: st.DataObject, count: int
) -> None:
    whole = [
        ToolCall(f"c{index}", "wait", {}, json.dumps({"seconds": index})) for index in range(count)
    ]
    left = [
        [
            CallDelta(index, call.id, call.name),
            *(CallDelta(index, arguments=x) for x in call.raw or ""),
        ]
        for index, call in enumerate(whole)
    ]
    events: list[Piece] = []
    chance = data.draw(st.randoms(use_true_random=False))
    while left:
        pieces = chance.choice(left)
        events.append(pieces.pop(0))
        left = [pieces for pieces in left if pieces]

    assert assembled(*events, Finish("tool_calls")) == Reply(None, tuple(whole), "tool_calls")
