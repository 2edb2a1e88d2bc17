"""OpenAI Chat `messages` as ours; the servers with this format too."""

from collections.abc import Iterator

from agent_lab.domain.dialects.readings.pieces import Read, read_call, read_text
from agent_lab.domain.dialects.rules.reading import Wire, as_object, as_text, objects
from agent_lab.domain.messages import ChatMessage, ToolCall
from agent_lab.domain.thinking import ReasoningText


def read(messages: list[Wire]) -> Iterator[Read]:
    """Each message, whatever stands in it; a `developer` is a system message."""
    for at, wire in enumerate(messages):
        left_out: list[str] = []
        message = _message(wire, left_out)
        yield Read(at, message, tuple(left_out))


def _message(wire: Wire, left_out: list[str]) -> ChatMessage:
    role = as_text(wire.get("role"))
    text = read_text(wire.get("content"), left_out, "" if role == "assistant" else "\n")
    match role:
        case "assistant":
            calls = tuple(_call(call, left_out) for call in objects(wire.get("tool_calls")))
            return ChatMessage("assistant", text, tool_calls=calls, thinking=_thinking(wire))
        case "tool" | "function":
            call_id = as_text(wire.get("tool_call_id"))
            name = as_text(wire.get("name")) or None
            return ChatMessage("tool", text or "", tool_call_id=call_id, name=name)
        case "system" | "developer":
            return ChatMessage("system", text)
        case _:
            return ChatMessage("user", text)


def _call(wire: Wire, left_out: list[str]) -> ToolCall:
    function = as_object(wire.get("function"))
    return read_call(wire.get("id"), function.get("name"), function.get("arguments"), left_out)


def _thinking(wire: Wire) -> tuple[ReasoningText, ...]:
    return tuple(
        ReasoningText(wire[field], field)
        for field in ("reasoning_content", "reasoning")
        if isinstance(wire.get(field), str)
    )
