"""What all readers share: a message with its place, texts out of parts, arguments out of text."""

from typing import Any, NamedTuple, cast

import msgspec

from agent_lab.domain.dialects.repairs.passes import as_json
from agent_lab.domain.dialects.rules.reading import Wire, as_text
from agent_lab.domain.messages import ChatMessage, ToolCall


class Read(NamedTuple):
    """One message of ours, the place of the (first) wire message it was read from, and what of it
    our messages cannot hold: images, arguments that are not JSON, tools that a server ran."""

    at: int
    message: ChatMessage
    left_out: tuple[str, ...] = ()


_decode = msgspec.json.Decoder(dict[str, Any]).decode


def read_call(call_id: Any, name: Any, arguments: Any, left_out: list[str]) -> ToolCall:
    """A call with its arguments as an object; text that is none is left out, and said to be."""
    call, function = as_text(call_id), as_text(name)
    if isinstance(arguments, dict):
        return ToolCall(call, function, cast("dict[str, Any]", arguments))
    raw = as_text(arguments)
    try:
        return ToolCall(call, function, _decode(raw), raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        if raw.strip() not in ("", "null"):
            left_out.append(f"arguments that are not a JSON object: {raw[:200]}")
        return ToolCall(call, function)


def read_text(content: Any, left_out: list[str], joint: str = "\n") -> str | None:
    """The text of a content; for a part that is no text its type in brackets."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        left_out.append("a content that is neither text nor parts")
        return as_json(content)
    texts = [read_part(part, left_out) for part in cast("list[Any]", content)]
    return joint.join(text for text in texts if text)


def read_part(part: Any, left_out: list[str]) -> str:
    """The text of one part."""
    if isinstance(part, str):
        return part
    wire = cast("Wire", part) if isinstance(part, dict) else {}
    for field in ("text", "refusal"):
        if isinstance(said := wire.get(field), str):
            return said
    kind = as_text(wire.get("type")) or next(iter(wire), "nothing")
    left_out.append(f"a part of type {kind}")
    return f"[{kind}]"
