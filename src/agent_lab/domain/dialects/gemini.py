"""Gemini: how a conversation is written for it.

Gemini counts the responses in the one content behind the calls, so they stand there alone and in
call order; what the user says next is a content of its own, lest Gemini 3 goes on with that text
instead of answering. Neighbours of one role are joined. Thought signatures go back on the part they
came with; where Gemini 3 wants one and there is none, Google's own stand-in takes its place.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from agent_lab.domain.dialects.rules.profile import of_family
from agent_lab.domain.dialects.wire_ids import CallIds, failed, wire_name
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.thinking import Thought, ThoughtSignature

WireMessage = dict[str, Any]

BLANK = "(empty message)"
NO_SIGNATURE = "skip_thought_signature_validator"


def render(messages: Sequence[ChatMessage], *, model: str = "") -> list[WireMessage]:
    """A whole history as `contents`. Instructions go into the request's `systemInstruction`."""
    return [content for _, content in placed(messages, model=model)]


def placed(
    messages: Sequence[ChatMessage], *, model: str = ""
) -> Iterator[tuple[int, WireMessage]]:
    """The same, each with the place of the first message that it tells."""
    ids = CallIds(lambda call: call or "call")
    stand_in = NO_SIGNATURE if of_family(model, "gemini-3") else None
    kept = [said for said in enumerate(messages) if _says_something(said[1])]
    for side, group in groupby(kept, _side):
        places, run = zip(*group, strict=True)
        if side == "tool":
            replies = ids.in_call_order(run)
            parts = [_response(wire_id, reply, ids.name_of(reply)) for wire_id, reply in replies]
        else:
            parts = [part for message in run for part in _parts(message, ids, stand_in)]
        yield places[0], {"role": "user" if side == "tool" else side, "parts": parts}


def _side(said: tuple[int, ChatMessage]) -> str:
    match said[1].role:
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


def _parts(message: ChatMessage, ids: CallIds, stand_in: str | None) -> list[WireMessage]:
    text = message.content or ""
    if message.role != "assistant":
        mark = "[system] " if message.role == "system" else ""
        return [{"text": f"{mark}{text}" if text.strip() else BLANK}]
    signatures = {t.before: t.signature for t in message.thinking if type(t) is ThoughtSignature}
    parts = [_signed({"text": text}, signatures.get(0))] if text.strip() else []
    thought = [(t.before, _thought(t)) for t in message.thinking if type(t) is Thought]
    parts = [*(part for before, part in thought if not before), *parts]
    calls = ids.open_round(message.tool_calls) if message.tool_calls else ()
    for n, (wire_id, call) in enumerate(calls, 1):
        parts += [part for before, part in thought if before == n]
        said = {"name": wire_name(call.name), "args": call.arguments, "id": wire_id}
        signature = signatures.get(n) or (stand_in if n == 1 else None)
        parts.append(_signed({"functionCall": said}, signature))
    return parts


def _thought(thought: Thought) -> WireMessage:
    return _signed({"text": thought.text, "thought": True}, thought.signature)


def _signed(part: WireMessage, signature: str | None) -> WireMessage:
    return {**part, "thoughtSignature": signature} if signature else part


def _response(wire_id: str, reply: ChatMessage, name: str) -> WireMessage:
    said = {"error" if failed(reply) else "result": reply.content or ""}
    return {"functionResponse": {"name": name, "response": said, "id": wire_id}}
