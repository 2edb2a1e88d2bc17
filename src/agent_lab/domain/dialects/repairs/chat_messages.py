"""Passes on single messages, for servers with the Chat Completions format."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from agent_lab.domain.dialects.repairs.passes import (
    CONTINUE,
    Pass,
    as_json,
    edit,
    short_id,
    text_of,
    without,
)
from agent_lab.domain.dialects.rules.chat_order import GROQ_FIELDS, thinks
from agent_lab.domain.dialects.rules.chat_shapes import MESSAGE_NAME, holds_object, json_fault
from agent_lab.domain.dialects.rules.chat_view import function_of
from agent_lab.domain.dialects.rules.reading import Wire, as_list, as_object, as_text, objects
from agent_lab.domain.dialects.rules.rule import History

UNNAMED = "unknown_tool"


def known_roles(roles: frozenset[str]) -> Pass:
    """Messages of a role that the server does not know go; nobody can say whose words they are."""

    def run(history: History) -> list[Wire]:
        return [m for m in history.messages if as_text(m.get("role")) in roles]

    return Pass("known_roles", "the server knows no such role", run)


def _developer_as_system(_: int, message: Wire) -> Wire:
    return {**message, "role": "system"} if message.get("role") == "developer" else message


def _shaped(_: int, message: Wire) -> Wire:
    shaped = {**message}
    content: Any = message.get("content")
    if isinstance(content, list):
        shaped["content"] = [_part(part) for part in as_list(content)]
    elif content is not None and not isinstance(content, str):
        shaped["content"] = text_of(content) if content else ""
    if "tool_calls" in message:
        calls = [call for call in objects(message["tool_calls"]) if function_of(call)]
        shaped["tool_calls"] = calls
        if not calls or message.get("role") != "assistant":
            del shaped["tool_calls"]
    return shaped


def _part(part: Any) -> Wire:
    if isinstance(part, dict):
        return as_object(part)
    return {"type": "text", "text": part if isinstance(part, str) else text_of(part)}


def _says_something(message: Wire) -> bool:
    fields = ("content", "tool_calls", "refusal", "function_call", "audio")
    return message.get("role") != "assistant" or any(message.get(field) for field in fields)


def drop_blank(history: History) -> list[Wire]:
    """An assistant message that neither says nor calls anything goes."""
    return [message for message in history.messages if _says_something(message)]


def _never_null(_: int, message: Wire) -> Wire:
    if message.get("content") is None and message.get("role") != "assistant":
        return {**message, "content": ""}
    return message


def _each_function(message: Wire, change: Callable[[Wire], Wire]) -> Wire:
    """The message with each called function changed."""
    if message.get("role") != "assistant" or not message.get("tool_calls"):
        return message
    calls: list[Wire] = []
    for call in objects(message["tool_calls"]):
        field = "function" if call.get("function") else "custom"
        function = as_object(call.get(field))
        calls.append({**call, field: change(function)} if function else call)
    return {**message, "tool_calls": calls}


def _named(function: Wire) -> Wire:
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", as_text(function.get("name"))) or UNNAMED
    return {**function, "name": name[:64]}


def _speaker(_: int, message: Wire) -> Wire:
    name = message.get("name")
    if isinstance(name, str) and not MESSAGE_NAME.fullmatch(name):
        cleaned = re.sub(r"[\s<|\\/>]+", "_", name).strip("_")
        return {**message, "name": cleaned} if cleaned else without(message, "name")
    return message


def _arguments(keep: Callable[[Any], bool], write: Callable[[Wire], Any]) -> Callable[[Wire], Wire]:
    """Arguments as the server takes them; what is no JSON object becomes an empty one."""

    def change(function: Wire) -> Wire:
        given: Any = function.get("arguments")
        if given is None or keep(given):
            return function
        return {**function, "arguments": write(_parsed(given))}

    return change


def _parsed(given: Any) -> Wire:
    try:
        return as_object(msgspec.json.decode(given) if isinstance(given, str) else given)
    except (ValueError, RecursionError):
        return {}


def _parses(given: Any) -> bool:
    return isinstance(given, str) and (not given or json_fault(given) is None)


def each(name: str, reason: str, change: Callable[[int, Wire], Wire]) -> Pass:
    """A pass that looks at one message at a time."""
    return Pass(name, reason, lambda history: edit(history.messages, change))


def functions(name: str, reason: str, change: Callable[[Wire], Wire]) -> Pass:
    """A pass that looks at one call at a time."""
    return each(name, reason, lambda _, message: _each_function(message, change))


def rename_ids(refused: Callable[[str, History], bool], new: Callable[[str], str]) -> Pass:
    """Ids that the server refuses, renamed wherever they stand: the same old id, the same new."""

    def run(history: History) -> list[Wire]:
        def fit(call: Any) -> Any:
            return new(call) if isinstance(call, str) and call and refused(call, history) else call

        def change(_: int, message: Wire) -> Wire:
            if message.get("role") == "tool" and "tool_call_id" in message:
                return {**message, "tool_call_id": fit(message["tool_call_id"])}
            if message.get("role") == "assistant" and message.get("tool_calls"):
                calls = objects(message["tool_calls"])
                named = [{**c, "id": fit(c["id"])} if "id" in c else c for c in calls]
                return {**message, "tool_calls": named}
            return message

        return edit(history.messages, change)

    return Pass("rename_ids", "the server refuses the id", run)


def not_empty(history: History) -> list[Wire]:
    """A history of nothing gets something to answer."""
    return history.messages or [{"role": "user", "content": CONTINUE}]


def give_reasoning(history: History) -> list[Wire]:
    """DeepSeek wants reasoning with each call; what was not kept can only be empty."""

    def change(_: int, message: Wire) -> Wire:
        has = isinstance(message.get("reasoning_content"), str)
        if has or message.get("role") != "assistant" or not message.get("tool_calls"):
            return message
        return {**message, "reasoning_content": ""}

    return edit(history.messages, change) if thinks(history.profile) else history.messages


def _groq(_: int, message: Wire) -> Wire:
    known = GROQ_FIELDS.get(as_text(message.get("role")), frozenset())
    kept = {field: value for field, value in message.items() if field in known}
    if message.get("role") == "assistant" and isinstance(kept.get("content"), list):
        kept["content"] = text_of(kept["content"])
    return kept


def _plain(_: int, message: Wire) -> Wire:
    """Text as text, and images in Ollama's own field."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return message
    images = [
        as_text(as_object(part.get("image_url")).get("url")).partition("base64,")[2]
        for part in objects(content)
        if part.get("type") == "image_url"
    ]
    plain = {**message, "content": text_of(content)}
    return {**plain, "images": [*as_list(message.get("images")), *images]} if images else plain


DEVELOPER = each("developer_as_system", "the server knows no developer", _developer_as_system)
SHAPES = each("shapes", "fields have the JSON types of the format", _shaped)
DROP_BLANK = Pass("drop_blank", "an empty assistant message is refused", drop_blank)
NEVER_NULL = each("never_null", "content must be there", _never_null)
NAMES = functions("names", "names have letters, digits, _ and -, at most 64", _named)
SPEAKERS = each("speakers", "a speaker's name has no blanks or brackets", _speaker)
NOT_EMPTY = Pass("not_empty", "there must be something to answer", not_empty)
REASONING = Pass("give_reasoning", "thinking mode wants the reasoning back", give_reasoning)
GROQ = each("groq_fields", "Groq knows only these fields, and text", _groq)
PLAIN = each("plain_content", "Ollama takes text, and images beside it", _plain)
ARGUMENTS_TEXT = functions(
    "arguments_text",
    "arguments are JSON text",
    _arguments(lambda given: isinstance(given, str), as_json),
)
ARGUMENTS_PARSE = functions(
    "arguments_parse",
    "the server parses old arguments again",
    _arguments(_parses, as_json),
)
ARGUMENTS_HOLD_OBJECT = functions(
    "arguments_hold_object", "the server needs a JSON object", _arguments(holds_object, as_json)
)
ARGUMENTS_OBJECT = functions(
    "arguments_object",
    "Ollama takes an object",
    _arguments(lambda given: isinstance(given, dict), lambda arguments: arguments),
)
SHORTEN_IDS = rename_ids(
    lambda call, _: len(call) > 40, lambda call: f"{call[:30]}-{short_id(call)}"
)
