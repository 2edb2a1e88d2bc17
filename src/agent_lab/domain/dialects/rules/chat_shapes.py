"""Faults of single messages, for servers with the Chat Completions format."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from agent_lab.domain.dialects.rules.chat_view import ChatView, function_of, ids_of
from agent_lab.domain.dialects.rules.reading import as_list, as_text, kind_of
from agent_lab.domain.dialects.rules.rule import Finding

Check = Callable[[ChatView], Iterator[Finding]]

NAME = re.compile(r"[a-zA-Z0-9_-]+")
MESSAGE_NAME = re.compile(r"[^\s<|\\/>]+")
ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def history_empty(view: ChatView) -> Iterator[Finding]:
    """No message at all."""
    if not view.messages:
        yield Finding(None)


def role_unknown(roles: frozenset[str]) -> Check:
    """Messages whose role the server does not know."""

    def find(view: ChatView) -> Iterator[Finding]:
        for i, role in enumerate(view.roles):
            if role not in roles:
                yield Finding(i, (), {"role": role or str(view.messages[i].get("role"))})

    return find


def shape_wrong(view: ChatView) -> Iterator[Finding]:
    """Fields of another JSON type than the format has."""
    for i, message in enumerate(view.messages):
        content = message.get("content")
        if content and not isinstance(content, str) and not _all_objects(content):
            yield _misfit(i, "content", "a string or an array of objects", content)
    for i, calls in view.calls.items():
        given = view.messages[i]["tool_calls"]
        if not isinstance(given, list) or len(calls) < len(as_list(given)):
            yield _misfit(i, "tool_calls", "an array of objects", given)
    nameless = dict.fromkeys(i for i, _, function in view.functions if not function)
    yield from (_misfit(i, "tool_calls[0].function", "an object", None) for i in nameless)


def _all_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in as_list(value))


def _misfit(i: int, field: str, expected: str, value: Any) -> Finding:
    return Finding(i, (), {"field": field, "expected": expected, "got": kind_of(value)})


def content_null(view: ChatView) -> Iterator[Finding]:
    """No content, where neither calls nor a refusal nor audio stand in for it."""
    for i, message in enumerate(view.messages):
        if message.get("content") is not None:
            continue
        if view.roles[i] != "assistant" or not any(
            message.get(field) for field in ("tool_calls", "refusal", "function_call", "audio")
        ):
            yield Finding(i)


def function_names(view: ChatView) -> Iterator[tuple[int | None, int, str]]:
    """Where each function name stands: message, place, name; the tools have no message."""
    for i, j, function in view.functions:
        if function:
            yield i, j, as_text(function.get("name"))
    for j, tool in enumerate(view.tools):
        if function := function_of(tool):
            yield None, j, as_text(function.get("name"))


def _misnamed(where: int | None, j: int, name: str) -> Finding:
    path = f"tools[{j}]" if where is None else f"messages[{where}].tool_calls[{j}]"
    return Finding(where, (), {"path": f"{path}.function.name", "name": name, "n": len(name)})


def name_pattern(view: ChatView) -> Iterator[Finding]:
    """Function names with other characters than letters, digits, _ and -."""
    for where, j, name in function_names(view):
        if name and not NAME.fullmatch(name):
            yield _misnamed(where, j, name)


def name_empty(view: ChatView) -> Iterator[Finding]:
    """Function names that are empty or not there."""
    for where, j, name in function_names(view):
        if not name:
            yield _misnamed(where, j, name)


def name_length(view: ChatView) -> Iterator[Finding]:
    """Function names of more than 64 characters."""
    for where, j, name in function_names(view):
        if len(name) > 64:
            yield _misnamed(where, j, name)


def id_refused(wrong: Callable[[str], bool]) -> Check:
    """Call ids that the server refuses, each at the first message that has it."""

    def find(view: ChatView) -> Iterator[Finding]:
        if not any(map(wrong, view.ids)):
            return
        told: set[str] = set()
        for i, message in enumerate(view.messages):
            if i in view.calls:
                ids = ids_of(view.calls[i])
            else:
                ids = [as_text(message.get("tool_call_id"))] if view.roles[i] == "tool" else []
            for j, call in enumerate(ids):
                if call and call not in told and wrong(call):
                    told.add(call)
                    yield Finding(i, (call,), {"j": j, "n": len(call)})

    return find


def message_name(view: ChatView) -> Iterator[Finding]:
    """A speaker's `name` with blanks or brackets."""
    for i, message in enumerate(view.messages):
        name = message.get("name")
        if isinstance(name, str) and not MESSAGE_NAME.fullmatch(name):
            yield Finding(i, (), {"pattern": r"^[^\s<|\\/>]+$"})


def _arguments(view: ChatView) -> Iterator[tuple[int, int, Any]]:
    for i, j, function in view.functions:
        yield i, j, function.get("arguments")


def arguments_not_string(view: ChatView) -> Iterator[Finding]:
    """Arguments as an object where the format has JSON text."""
    for i, j, arguments in _arguments(view):
        if arguments is not None and not isinstance(arguments, str):
            yield Finding(i, (), {"j": j, "got": kind_of(arguments)})


def arguments_not_object(view: ChatView) -> Iterator[Finding]:
    """Arguments as text where the format has an object."""
    for i, j, arguments in _arguments(view):
        if arguments is not None and not isinstance(arguments, dict):
            kind = kind_of(arguments).rpartition(" ")[2]
            yield Finding(i, (), {"j": j, "got": "bool" if kind == "boolean" else kind})


def json_fault(text: str) -> str | None:
    """What Python's parser says of a text that is not JSON."""
    try:
        json.loads(text)
    except ValueError as error:
        return str(error)
    except RecursionError:
        return "maximum recursion depth exceeded"
    return None


def arguments_not_json(view: ChatView) -> Iterator[Finding]:
    """Arguments that do not parse; an empty text is no arguments."""
    for i, j, arguments in _arguments(view):
        if arguments and isinstance(arguments, str) and (fault := json_fault(arguments)):
            yield Finding(i, (), {"j": j, "fault": fault, "n": len(arguments) + 1})


def arguments_not_json_object(view: ChatView) -> Iterator[Finding]:
    """Arguments that are not the JSON text of an object."""
    for i, j, arguments in _arguments(view):
        if arguments is not None and not holds_object(arguments):
            yield Finding(i, (), {"j": j})


def holds_object(arguments: Any) -> bool:
    """Whether this is the JSON text of an object."""
    try:
        return isinstance(arguments, str) and isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def content_not_string(*roles: str) -> Check:
    """Content in parts, for roles (all when none is named) whose content must be text."""

    def find(view: ChatView) -> Iterator[Finding]:
        for i, message in enumerate(view.messages):
            content = message.get("content")
            if content is None or isinstance(content, str):
                continue
            if not roles or view.roles[i] in roles:
                yield Finding(i, (), {"got": kind_of(content).rpartition(" ")[2]})

    return find
