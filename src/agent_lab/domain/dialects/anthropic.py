"""Anthropic Messages: how a conversation is written for it.

All results of a round in one user message, right behind the calls and in their order; tool_use
blocks last; no empty block. Neighbours of one role are one turn for the provider, so a user
message stays its own message. Thinking that Anthropic made goes back as it came, where it stood;
a message with thinking begins with it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from agent_lab.domain.dialects.wire_ids import CallIds, failed, runs, wire_name
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.thinking import RedactedThinking, ThinkingBlock

WireMessage = dict[str, Any]

# Anthropic takes no message without content; what a user sent blank must not end the session.
BLANK = "(empty message)"


def render(messages: Sequence[ChatMessage]) -> list[WireMessage]:
    """A whole history on the wire. Instructions go into the request's `system`, not in here."""
    return [wire for _, wire in placed(messages)]


def placed(messages: Sequence[ChatMessage]) -> Iterator[tuple[int, WireMessage]]:
    """The same, each with the place of the (first) message that it tells."""
    ids = CallIds(_fit)
    for place, is_reply, run in runs(messages):
        if is_reply:
            results = [_result(*replied) for replied in ids.in_call_order(run)]
            yield place, {"role": "user", "content": results}
            continue
        for n, message in enumerate(run, place):
            if written := _message(message, ids):
                yield n, written


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
    called = [
        {"type": "tool_use", "id": wire_id, "name": wire_name(call.name), "input": call.arguments}
        for wire_id, call in (ids.open_round(message.tool_calls) if message.tool_calls else ())
    ]
    if not (said or called):
        return None
    thought = _thinking(message, first=0 if said else 1) if message.thinking else {}
    if not (called or thought):
        return {"role": "assistant", "content": text}
    blocks = [*thought.get(0, ()), *said]
    for n, call in enumerate(called, 1):
        blocks += [*thought.get(n, ()), call]
    return {"role": "assistant", "content": blocks}


def _thinking(message: ChatMessage, *, first: int) -> dict[int, list[WireMessage]]:
    """Thinking blocks by what they stand in front of; `first` is the first of that.

    None may stand last, and where all would stand behind the first they move to the front ("the
    first block must be thinking", anthropics/claude-code#20705).
    """
    places: dict[int, list[WireMessage]] = {}
    for thought in message.thinking:
        match thought:
            case ThinkingBlock(text, signature, before):
                block = {"type": "thinking", "thinking": text, "signature": signature}
            case RedactedThinking(data, before):
                block = {"type": "redacted_thinking", "data": data}
            case _:
                continue
        if before <= len(message.tool_calls):
            places.setdefault(before, []).append(block)
    if places and min(places) > first:
        return {0: [block for place in sorted(places) for block in places[place]]}
    return places


def _result(wire_id: str, reply: ChatMessage) -> WireMessage:
    """An empty output has no content: an empty text block would be refused."""
    result: WireMessage = {"type": "tool_result", "tool_use_id": wire_id}
    if reply.content:
        result["content"] = reply.content
    if failed(reply):
        result["is_error"] = True
    return result
