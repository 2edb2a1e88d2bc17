"""Wire formats: how each provider wants a history, and what it refuses.

`render_body` is the request body as sent. Only `openai_chat` is rendered from a live session so
far; a model that names another dialect is shown in this one.
"""

from typing import Any

from agent_lab.domain.dialects import openai_chat
from agent_lab.domain.messages import ModelRequest

__all__ = ["body_with", "render_body"]


def render_body(request: ModelRequest) -> dict[str, Any]:
    """The whole request body, rendered from the conversation now."""
    writer = openai_chat.Writer()
    wire = [writer.write(message) for message in request.messages[: request.stop]]
    return body_with(request, wire[request.start :])


def body_with(request: ModelRequest, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The request body around history messages that are rendered already."""
    system = [{"role": "system", "content": request.instructions}] if request.instructions else []
    body: dict[str, Any] = {"model": request.model, "messages": [*system, *messages]}
    if request.tools:
        body["tools"] = openai_chat.render_tools(request.tools)
    return body
