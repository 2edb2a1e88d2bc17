"""OpenAI Chat Completions: how a conversation is written for it.

One message of ours is one message on the wire, so the history is rendered as it grows and never
again from the start. A call id that was used before in the session is renamed on the wire only
(`call_0`, `call_0-2`): some servers number calls anew each turn, and Anthropic and OpenAI have
both refused repeats ("Duplicate value for 'tool_call_id'", agno-agi/agno#5116). Reasoning that a
server gave beside the text goes back in the field it came in.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from agent_lab.domain.dialects.wire_ids import wire_name
from agent_lab.domain.messages import ChatMessage, ToolCall, ToolSchema
from agent_lab.domain.thinking import ReasoningText

WireMessage = dict[str, Any]

_ID_LENGTH = 40  # "Expected a string with maximum length 40", vercel/ai#8132


class Writer:
    """Writes messages one after the other; remembers which call ids were used."""

    __slots__ = ("_renamed", "_used")

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._renamed: dict[str, str] = {}

    def write(self, message: ChatMessage) -> WireMessage:
        """The next message of the history on the wire."""
        match message.role:
            case "assistant":
                return self._assistant(message)
            case "tool":
                call_id = message.tool_call_id or ""
                return {
                    "role": "tool",
                    "tool_call_id": self._renamed.get(call_id, call_id),
                    "content": message.content or "",
                }
            case "user" | "system":
                return {"role": message.role, "content": message.content or ""}

    def _assistant(self, message: ChatMessage) -> WireMessage:
        wire: WireMessage = {"role": "assistant", "content": message.content}
        for thought in message.thinking:
            if type(thought) is ReasoningText:
                wire[thought.field] = wire.get(thought.field, "") + thought.text
        if message.tool_calls:
            self._renamed = {call.id: self._fresh(call.id) for call in message.tool_calls}
            wire["tool_calls"] = [
                {
                    "id": self._renamed[call.id],
                    "type": "function",
                    "function": {
                        "name": wire_name(call.name),
                        "arguments": arguments_text(call),
                    },
                }
                for call in message.tool_calls
            ]
        return wire

    def _fresh(self, call_id: str) -> str:
        name, count = call_id[:_ID_LENGTH], 1
        while name in self._used:
            count += 1
            suffix = f"-{count}"
            name = call_id[: _ID_LENGTH - len(suffix)] + suffix
        self._used.add(name)
        return name


def render(messages: Iterable[ChatMessage]) -> list[WireMessage]:
    """A whole history on the wire."""
    writer = Writer()
    return [writer.write(message) for message in messages]


def render_tools(tools: Sequence[ToolSchema]) -> list[WireMessage]:
    """The tools as the request names them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]


def arguments_text(call: ToolCall) -> str:
    """The arguments as the model sent them, or as JSON; always a JSON object."""
    return call.raw if call.raw is not None else json.dumps(call.arguments)
