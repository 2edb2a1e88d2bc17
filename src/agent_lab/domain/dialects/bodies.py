"""The whole request body of each dialect, history last; the bytes that go out are made here."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from agent_lab.domain.dialects import anthropic, gemini, openai_chat, openai_responses
from agent_lab.domain.messages import ModelRequest, ToolSchema

Body = dict[str, Any]
_encode = msgspec.json.Encoder().encode


def encode_body(request: ModelRequest, options: Mapping[str, Any] | None = None) -> bytes:
    """The body as it goes out, or went out; the same bytes each time."""
    return _encode(render_body(request, options))


def render_body(request: ModelRequest, options: Mapping[str, Any] | None = None) -> Body:
    """The whole body, rendered from the conversation now, in the request's dialect.

    `options` stand between the model's name and the rest; without them, those it went out with. A
    dialect without a body of its own is written as OpenAI Chat.
    """
    if options is None:
        options = request.wire.options if request.wire else {}
    return _BODIES.get(request.dialect, _openai_chat)(request, options)


def body_with(request: ModelRequest, messages: list[Body]) -> Body:
    """The body of OpenAI Chat around history messages that are rendered already."""
    options = request.wire.options if request.wire else {}
    return _chat_body(request, options, messages)


def _openai_chat(request: ModelRequest, options: Mapping[str, Any]) -> Body:
    writer = openai_chat.Writer()
    wire = [writer.write(message) for message in request.messages[: request.stop]]
    return _chat_body(request, options, wire[request.start :])


def _chat_body(request: ModelRequest, options: Mapping[str, Any], messages: list[Body]) -> Body:
    system = [{"role": "system", "content": request.instructions}] if request.instructions else []
    tools = {"tools": openai_chat.render_tools(request.tools)} if request.tools else {}
    return {"model": request.model, **options, **tools, "messages": [*system, *messages]}


def _openai_responses(request: ModelRequest, options: Mapping[str, Any]) -> Body:
    tools = {"tools": [_response_tool(tool) for tool in request.tools]} if request.tools else {}
    return {
        "model": request.model,
        **options,
        **({"instructions": request.instructions} if request.instructions else {}),
        **tools,
        "input": openai_responses.render(request.history()),
    }


def _response_tool(tool: ToolSchema) -> Body:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,  # strict schemas allow no optional parameters
    }


def _anthropic(request: ModelRequest, options: Mapping[str, Any]) -> Body:
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in request.tools
    ]
    return {
        "model": request.model,
        **options,
        **({"system": request.instructions} if request.instructions else {}),
        **({"tools": tools} if tools else {}),
        "messages": anthropic.render(request.history()),
    }


def _gemini(request: ModelRequest, options: Mapping[str, Any]) -> Body:
    """The model's name is in the address."""
    declared = [
        {
            "name": tool.name,
            "description": tool.description,
            "parametersJsonSchema": tool.parameters,
        }
        for tool in request.tools
    ]
    told = {"parts": [{"text": request.instructions}]}
    return {
        **options,
        **({"systemInstruction": told} if request.instructions else {}),
        **({"tools": [{"functionDeclarations": declared}]} if declared else {}),
        "contents": gemini.render(request.history(), model=request.model),
    }


_BODIES: dict[str, Callable[[ModelRequest, Mapping[str, Any]], Body]] = {
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}

OWN_BODY = frozenset(_BODIES) - {"openai_chat"}
"""Dialects whose body is not that of OpenAI Chat."""
