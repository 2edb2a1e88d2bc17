"""Wire formats: how each provider wants a history, and what it refuses.

`render_body` is the request body as sent. A model that names a dialect without a body of its own
is shown in OpenAI Chat.
"""

from typing import Any

from agent_lab.domain.dialects import openai_chat
from agent_lab.domain.dialects.bodies import body_of, encode_body
from agent_lab.domain.messages import ModelRequest

__all__ = ["body_with", "encode_body", "render_body"]


def render_body(request: ModelRequest) -> dict[str, Any]:
    """The whole request body, rendered from the conversation now."""
    return body_of(request, request.sent.options if request.sent else {})


def body_with(request: ModelRequest, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The body of OpenAI Chat around history messages that are rendered already."""
    system = [{"role": "system", "content": request.instructions}] if request.instructions else []
    options = request.sent.options if request.sent else {}
    tools = {"tools": openai_chat.render_tools(request.tools)} if request.tools else {}
    return {"model": request.model, **options, **tools, "messages": [*system, *messages]}
