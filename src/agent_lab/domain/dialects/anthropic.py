"""Anthropic Messages: how a conversation is written for it.

All results of a round in one user message, right behind the calls and in their order; tool_use
blocks last; no empty block. Neighbours of one role are one turn for the provider, so a user
message stays its own message. Thinking blocks are not in our messages yet.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from agent_lab.domain.dialects.wire_ids import CallIds, failed
from agent_lab.domain.messages import ChatMessage

WireMessage = dict[str, Any]

# Anthropic takes no message without content; what a user sent blank must not end the session.
BLANK = "(empty message)"


def render(messages: Sequence[ChatMessage]) -> list[WireMessage]:
    """A whole history on the wire. Instructions go into the request's `system`, not in here."""
    ids = CallIds(_fit)
    wire: list[WireMessage] = []
    for is_reply, group in groupby(messages, lambda message: message.role == "tool"):
        if is_reply:
            results = [_result(*replied) for replied in ids.in_call_order(list(group))]
            wire.append({"role": "user", "content": results})
        else:
            wire += [written for message in group if (written := _message(message, ids))]
    return wire


def _fit(call_id: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id) or "call"


def _message(message: ChatMessage, ids: CallIds) -> WireMessage | None:
    text = message.content or ""
    match message.role:
        case "assistant":
            return _assistant(message, ids)
        case "system":
            return {"role": "user", "content": f"[system] {text}"}
        case _:
            return {"role": "user", "content": text if text.strip() else BLANK}


def _assistant(message: ChatMessage, ids: CallIds) -> WireMessage | None:
    text = message.content or ""
    said = [{"type": "text", "text": text}] if text.strip() else []
    if not message.tool_calls:
        return {"role": "assistant", "content": text} if said else None
    called = [
        {"type": "tool_use", "id": wire_id, "name": call.name, "input": call.arguments}
        for wire_id, call in ids.open_round(message.tool_calls)
    ]
    return {"role": "assistant", "content": [*said, *called]}


def _result(wire_id: str, reply: ChatMessage) -> WireMessage:
    """An empty output has no content: an empty text block would be refused."""
    result: WireMessage = {"type": "tool_result", "tool_use_id": wire_id}
    if reply.content:
        result["content"] = reply.content
    if failed(reply):
        result["is_error"] = True
    return result
