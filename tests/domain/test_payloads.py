"""Every payload says its type, is frozen, and comes back from the wire as it was."""

from __future__ import annotations

import msgspec
import pytest

from agent_lab.domain.messages import ChatMessage, ToolCall
from agent_lab.domain.payloads import PAYLOADS, Assistant, Done, Payload, ToolCalled

ON_OUTPUT = {
    "model_request",
    "model_response",
    "text_delta",
    "assistant",
    "tool_call",
    "tool_reply",
    "late_reply",
    "done",
    "error",
    "cancelled",
}


def test_no_two_payloads_have_one_type() -> None:
    assert len({payload.type for payload in PAYLOADS}) == len(PAYLOADS)


def test_output_carries_exactly_what_the_contract_marks() -> None:
    assert {payload.type for payload in PAYLOADS if payload.on_output} == ON_OUTPUT


@pytest.mark.parametrize("payload", PAYLOADS, ids=[payload.type for payload in PAYLOADS])
def test_every_payload_is_frozen_and_carries_turn_and_step(payload: type[Payload]) -> None:
    assert payload.__struct_config__.frozen
    assert {"turn", "step"} <= set(payload.__struct_fields__)
    assert payload.__doc__


def test_a_payload_on_the_wire_says_its_type() -> None:
    assert Done(turn=1, step=2, reason="stop", pending=0).as_dict() == {
        "type": "done",
        "turn": 1,
        "step": 2,
        "reason": "stop",
        "pending": 0,
        "spent": None,
    }


def test_as_dict_is_what_goes_on_the_wire() -> None:
    said = Assistant(turn=1, step=1, content=None, tool_calls=(ToolCall("c1", "wait"),))

    assert said.as_dict() == msgspec.json.decode(msgspec.json.encode(said))


def test_a_payload_comes_back_from_json_as_it_was() -> None:
    said = ToolCalled(turn=1, step=1, call_id="c1", name="wait", arguments={"seconds": 1}, round=3)

    assert msgspec.json.decode(msgspec.json.encode(said), type=ToolCalled) == said


def test_a_message_is_frozen_and_names_what_it_does_not_have() -> None:
    message = ChatMessage("assistant", tool_calls=(ToolCall("c1", "wait", {"seconds": 1}),))

    with pytest.raises(AttributeError):
        message.content = "other"  # type: ignore[misc]  # that is what is shown
    assert message.as_dict() == {
        "role": "assistant",
        "content": None,
        "mode": "steer",
        "message_id": None,
        "tool_calls": [{"id": "c1", "name": "wait", "arguments": {"seconds": 1}, "raw": None}],
        "tool_call_id": None,
        "name": None,
        "kind": "result",
        "is_error": False,
        "round": None,
        "thinking": [],
    }
