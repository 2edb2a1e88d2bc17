"""A session's story in few words: what was said, called and replied, one item for each."""

import json

from agent_lab.domain.hand_payloads import PermissionRequested, PermissionResolved
from agent_lab.domain.payloads import (
    Accepted,
    AnyPayload,
    Assistant,
    Cancelled,
    Imported,
    Rejected,
    Retrying,
    ToolCalled,
    ToolReplied,
    TurnFailed,
    Withdrawn,
)

SAID, REPLIED = 4_000, 500
"""Characters that are kept of what somebody said, and of what a tool was asked or replied."""


def item(payload: AnyPayload) -> str | None:
    """The entry as an item of a curated activity; None for what is no part of it."""
    match payload:
        case Accepted():
            return f"[User] {_short(payload.content, SAID)}"
        case Withdrawn() | Rejected():
            return f"[Message {payload.type}] {payload.message_id}"
        case Assistant() if payload.content:
            return f"[Assistant] {_short(payload.content, SAID)}"
        case ToolCalled():
            return f"[Call] {payload.name} {_json(payload.arguments)}"
        case ToolReplied():
            return f"[Reply, {payload.kind}] {payload.name}: {_short(payload.content, REPLIED)}"
        case Retrying():
            return f"[Tried again] {payload.code}: {_short(payload.message, REPLIED)}"
        case TurnFailed():
            return f"[Error] {payload.code}: {_short(payload.message, REPLIED)}"
        case Cancelled():
            return f"[Cancelled] {payload.reason}"
        case Imported() if payload.fate != "dropped" and payload.message.content:
            role = payload.message.role.capitalize()
            return f"[{role}, imported] {_short(payload.message.content, SAID)}"
        case PermissionRequested():
            return f"[Asks for permission] {payload.name} {_json(payload.arguments)}"
        case PermissionResolved():
            return f"[Permission] {payload.decision}"
        case _:
            return None


def _json(value: object) -> str:
    return _short(json.dumps(value, ensure_ascii=False, default=str), REPLIED)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"
