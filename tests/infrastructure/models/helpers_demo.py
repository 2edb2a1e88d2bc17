"""The demo's plan as a provider carries it out, in each wire format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from agent_lab import Agent, ChatMessage
from agent_lab.domain.messages import ToolCall
from agent_lab.presentation.demo import demo_agent, next_step
from tests.infrastructure.models.helpers_formats import answer
from tests.infrastructure.models.helpers_provider import MODELS, Answer, Asked


def demo_at(dialect: str, url: str | None) -> Agent:
    """The demo with a provider's model, at this address, and with no pauses."""
    local = demo_agent(pace=0)
    return Agent(
        "demo",
        model=MODELS[dialect],
        base_url=url,
        instructions=local.instructions,
        tools=list(local.tools.values()),
    )


def demo(dialect: str) -> Callable[[Asked], Answer]:
    """The demo's plan, as a provider would carry it out: it reads the history off the wire."""

    def reply_to(asked: Asked) -> Answer:
        text, calls = next_step(histories[dialect](asked.json))
        pieces = [(call.id, call.name, [json.dumps(call.arguments)]) for call in calls]
        return Answer(b"".join(answer(dialect, re.findall(r"\s*\S+", text), pieces)))

    return reply_to


def _reply(messages: list[ChatMessage], call_id: str, content: str) -> ChatMessage:
    """A tool's reply; its name stands at the call it answers."""
    (name,) = {call.name for one in messages for call in one.tool_calls if call.id == call_id}
    return ChatMessage("tool", content, name=name, is_error=content.startswith("Error: "))


def _from_chat(body: Any) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    for message in body["messages"]:
        calls = [
            ToolCall(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
            for c in message.get("tool_calls", ())
        ]
        if message["role"] == "tool":
            messages.append(_reply(messages, message["tool_call_id"], message["content"]))
        elif message["role"] != "system":
            messages.append(
                ChatMessage(message["role"], message["content"], tool_calls=tuple(calls))
            )
    return messages


def _from_responses(body: Any) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    for item in body["input"]:
        match item["type"]:
            case "message":
                text = "".join(part["text"] for part in item["content"])
                messages.append(ChatMessage(item["role"], text))
            case "function_call":
                call = ToolCall(item["call_id"], item["name"], json.loads(item["arguments"]))
                last = messages[-1]
                if last.role == "assistant":
                    messages[-1] = ChatMessage(
                        "assistant", last.content, tool_calls=(*last.tool_calls, call)
                    )
                else:
                    messages.append(ChatMessage("assistant", None, tool_calls=(call,)))
            case _:
                messages.append(_reply(messages, item["call_id"], item["output"]))
    return messages


def _from_anthropic(body: Any) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    for message in body["messages"]:
        if isinstance(message["content"], str):
            messages.append(ChatMessage(message["role"], message["content"]))
            continue
        blocks = message["content"]
        calls = [
            ToolCall(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"
        ]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        if message["role"] == "assistant":
            messages.append(ChatMessage("assistant", text, tool_calls=tuple(calls)))
        else:
            messages += [_reply(messages, b["tool_use_id"], b["content"]) for b in blocks]
    return messages


def _from_gemini(body: Any) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    for content in body["contents"]:
        parts = content["parts"]
        calls = [
            ToolCall(p["functionCall"]["id"], p["functionCall"]["name"], p["functionCall"]["args"])
            for p in parts
            if "functionCall" in p
        ]
        if content["role"] == "model":
            text = "".join(part.get("text", "") for part in parts)
            messages.append(ChatMessage("assistant", text, tool_calls=tuple(calls)))
        else:
            for part in parts:
                if "functionResponse" in part:
                    replied = part["functionResponse"]
                    (said,) = replied["response"].values()
                    messages.append(_reply(messages, replied["id"], said))
                else:
                    messages.append(ChatMessage("user", part["text"]))
    return messages


histories: dict[str, Callable[[Any], list[ChatMessage]]] = {
    "openai_chat": _from_chat,
    "openai_responses": _from_responses,
    "anthropic": _from_anthropic,
    "gemini": _from_gemini,
}
