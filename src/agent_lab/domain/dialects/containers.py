"""Where a history is in what somebody logged: a list, a request body, or JSON lines of either."""

import json
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from agent_lab.domain.dialects.formats import FORMATS, format_of
from agent_lab.domain.dialects.rules.reading import DEEPEST, Wire, as_text, objects, read_objects
from agent_lab.domain.dialects.rules.rule import Format
from agent_lab.domain.dialects.violations import HistoryUnreadable
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import Accepted, Assistant, Delivered, Edited, Imported, ToolReplied
from agent_lab.domain.story import history_of

LARGEST = 32 << 20
"""Bytes of one history."""
LISTS = ("messages", "input", "contents", "history")
"""Where a request body of Chat and Anthropic, of Responses, of Gemini, or of ours has it."""
WRAPPERS = ("body", "request", "request_body")
"""Where a log's line has the request body."""


class Found(msgspec.Struct, frozen=True):
    """A history as it lay there: its format, the wire list (or our messages), and what the body
    says besides: tools, the system text, what a verdict depends on."""

    format: Format
    wire: list[Wire]
    ours: list[ChatMessage] | None = None
    tools: list[Wire] | None = None
    system: str = ""
    profile: dict[str, Any] = {}


def parse(content: bytes | str) -> Any:
    """The JSON value, or the values of JSON lines as a list; raises HistoryUnreadable."""
    if len(content) > LARGEST:
        raise HistoryUnreadable(f"it is over {LARGEST >> 20} MiB")
    text = content if isinstance(content, str) else _decoded(content)
    try:
        return json.loads(text)
    except RecursionError:
        raise HistoryUnreadable(f"it is nested more than {DEEPEST} deep") from None
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise HistoryUnreadable(f"it is not JSON: {error}") from error
        return [_line(number, line) for number, line in enumerate(lines, 1)]


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HistoryUnreadable(f"it is not UTF-8: {error.reason}") from error


def _line(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        said = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        problem = f"it is neither JSON nor JSON lines: {said}"
        raise HistoryUnreadable(problem, f"line {number}") from None


def find(value: Any, wire_format: str | None = None) -> Found:
    """The history in a JSON value; of several bodies the last, which has the whole history.

    Raises HistoryUnreadable when there is none.
    """
    if wire_format not in (None, "journal", *FORMATS):
        known = ", ".join((*FORMATS, "journal"))
        raise HistoryUnreadable(f"there is no format {wire_format!r}; it is one of {known}")
    found = _in_list(cast("list[Any]", value)) if isinstance(value, list) else _in_body(value)
    if found is None:
        raise HistoryUnreadable(
            f"no list of messages is in it, nor a request body with one of {', '.join(LISTS)}"
        )
    read_objects(found.wire, "messages")
    if wire_format in FORMATS:
        return replace(found, format=wire_format)
    return found


def _in_body(value: Any) -> Found | None:
    body = cast("Wire", value) if isinstance(value, dict) else {}
    for name in LISTS:
        history = body.get(name)
        if isinstance(history, str):  # Responses takes a bare string for one user message
            history = [{"role": "user", "content": history}]
        if isinstance(history, list):
            return _of_body(body, name, cast("list[Any]", history))
    for name in WRAPPERS:
        if (found := _in_body(body[name]) if name in body else None) is not None:
            return found
    return None


def _of_body(body: Wire, name: str, history: list[Any]) -> Found:
    found = _in_list(history) or Found("openai_chat", cast("list[Wire]", history))
    if name != "history" and found.ours is None:
        found = replace(found, format=_format_of_body(body, name, objects(history)))
    tools = body.get("tools")
    kinds = {"model": str, "store": bool}
    profile = {key: body[key] for key, kind in kinds.items() if isinstance(body.get(key), kind)}
    given = cast("list[Wire]", tools) if isinstance(tools, list) else None
    return replace(found, tools=given, system=_system(body), profile=profile)


def _format_of_body(body: Wire, name: str, history: list[Wire]) -> Format:
    if name == "contents":
        return "gemini"
    if name == "input":
        return "openai_responses"
    default: Format = "anthropic" if "system" in body else "openai_chat"
    return format_of(history) or default


def _system(body: Wire) -> str:
    """The instructions that stand beside the history."""
    for name in ("system", "instructions", "systemInstruction", "system_instruction"):
        said = body.get(name)
        if isinstance(said, str):
            return said
        parts = cast("Wire", said).get("parts") if isinstance(said, dict) else said
        if texts := [as_text(part.get("text")) for part in objects(parts)]:
            return "\n".join(texts)
    return ""


def _in_list(values: list[Any]) -> Found | None:
    items = objects(values)
    if items and all("seq" in item and "type" in item for item in items):
        return _of_journal(items)
    bodies = [found for item in items if "role" not in item and (found := _in_body(item))]
    if bodies and len(bodies) == len(items):
        return bodies[-1]
    if items and all("role" in item and "mode" in item for item in items):
        return _of_ours(items)
    wire = cast("list[Wire]", values)
    return Found(format_of(items) or "openai_chat", wire)


def _of_ours(items: list[Wire]) -> Found:
    try:
        return Found("openai_chat", [], msgspec.convert(items, list[ChatMessage]))
    except (msgspec.ValidationError, RecursionError) as error:
        problem = f"it looks like messages of agent_lab and is not: {error}"
        raise HistoryUnreadable(problem) from None


_KNOWN = Accepted | Assistant | Delivered | Edited | Imported | ToolReplied
_TYPES = {"accepted", "assistant", "delivered", "edited", "imported", "tool_reply"}


def _of_journal(items: list[Wire]) -> Found:
    try:
        entries = [
            (int(item["seq"]), msgspec.convert(item, _KNOWN))
            for item in items
            if item["type"] in _TYPES
        ]
    except (msgspec.ValidationError, RecursionError, TypeError, ValueError) as error:
        raise HistoryUnreadable(f"it looks like a journal and is not: {error}") from None
    return Found("openai_chat", [], [told.message for told in history_of(entries)])
