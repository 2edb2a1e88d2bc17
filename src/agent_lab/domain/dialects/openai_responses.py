"""OpenAI Responses: how a conversation is written for it, as the `input`.

An assistant's text and each of its calls are items of their own, outputs stand behind the calls
and in their order. Reasoning items are not in our messages yet, so calls carry no item id: with
one the server would ask for the reasoning it stored beside it (mastra-ai/mastra#8738).
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from agent_lab.domain.dialects.openai_chat import arguments_text
from agent_lab.domain.dialects.wire_ids import CallIds
from agent_lab.domain.messages import ChatMessage

WireItem = dict[str, Any]

LONGEST_ID = 64
TAIL = 8  # room for what tells repeats apart


def render(messages: Sequence[ChatMessage]) -> list[WireItem]:
    """A whole history as input items. Instructions go into the request's `instructions`."""
    ids = CallIds(_fit)
    items: list[WireItem] = []
    for is_reply, group in groupby(messages, lambda message: message.role == "tool"):
        if is_reply:
            items += [_output(*replied) for replied in ids.in_call_order(list(group))]
        else:
            for message in group:
                items += _items(message, ids, len(items))
    return items


def _fit(call_id: str) -> str:
    return call_id[: LONGEST_ID - TAIL] if len(call_id) > LONGEST_ID else call_id or "call"


def _items(message: ChatMessage, ids: CallIds, place: int) -> list[WireItem]:
    text = message.content or ""
    if message.role != "assistant":
        content = [{"type": "input_text", "text": text}]
        return [{"type": "message", "role": message.role, "content": content}]
    said = [_said(text, message.message_id or str(place))] if text.strip() else []
    called = [
        {
            "type": "function_call",
            "call_id": wire_id,
            "name": call.name,
            "arguments": arguments_text(call),
        }
        for wire_id, call in (ids.open_round(message.tool_calls) if message.tool_calls else ())
    ]
    return [*said, *called]


def _said(text: str, name: str) -> WireItem:
    return {
        "type": "message",
        "role": "assistant",
        "id": f"msg_{name}",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def _output(wire_id: str, reply: ChatMessage) -> WireItem:
    return {"type": "function_call_output", "call_id": wire_id, "output": reply.content or ""}
