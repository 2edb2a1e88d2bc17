"""Gemini: how a conversation is written for it.

Gemini counts the responses in the one content behind the calls, so they stand there alone and in
call order; what the user says next is a content of its own, lest Gemini 3 goes on with that text
instead of answering. Neighbours of one role are joined. Thought signatures are not in our messages
yet: for Gemini 3 Google's own stand-in takes their place.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from agent_lab.domain.dialects.rules.profile import of_family
from agent_lab.domain.dialects.wire_ids import CallIds, failed
from agent_lab.domain.messages import ChatMessage

WireMessage = dict[str, Any]

BLANK = "(empty message)"
NO_SIGNATURE = "skip_thought_signature_validator"


def render(messages: Sequence[ChatMessage], *, model: str = "") -> list[WireMessage]:
    """A whole history as `contents`. Instructions go into the request's `systemInstruction`."""
    ids = CallIds(lambda call: call or "call")
    signature = {"thoughtSignature": NO_SIGNATURE} if of_family(model, "gemini-3") else {}
    contents: list[WireMessage] = []
    kept = (message for message in messages if _says_something(message))
    for side, group in groupby(kept, _side):
        if side == "tool":
            replies = ids.in_call_order(list(group))
            parts = [_response(wire_id, reply, ids.name_of(reply)) for wire_id, reply in replies]
        else:
            parts = [part for message in group for part in _parts(message, ids, signature)]
        contents.append({"role": "user" if side == "tool" else side, "parts": parts})
    return contents


def _side(message: ChatMessage) -> str:
    match message.role:
        case "assistant":
            return "model"
        case "tool":
            return "tool"
        case _:
            return "user"


def _says_something(message: ChatMessage) -> bool:
    """An empty model turn is refused: parts must not be empty."""
    said = bool((message.content or "").strip())
    return message.role != "assistant" or said or bool(message.tool_calls)


def _parts(message: ChatMessage, ids: CallIds, signature: WireMessage) -> list[WireMessage]:
    text = message.content or ""
    if message.role != "assistant":
        mark = "[system] " if message.role == "system" else ""
        return [{"text": f"{mark}{text}" if text.strip() else BLANK}]
    calls: list[WireMessage] = [
        {"functionCall": {"name": call.name, "args": call.arguments, "id": wire_id}}
        for wire_id, call in (ids.open_round(message.tool_calls) if message.tool_calls else ())
    ]
    calls[:1] = [{**call, **signature} for call in calls[:1]]
    return [*([{"text": text}] if text.strip() else []), *calls]


def _response(wire_id: str, reply: ChatMessage, name: str) -> WireMessage:
    said = {"error" if failed(reply) else "result": reply.content or ""}
    return {"functionResponse": {"name": name, "response": said, "id": wire_id}}
