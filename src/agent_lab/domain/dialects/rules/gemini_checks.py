"""Gemini: a history in contents and parts, and the faults of it."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from agent_lab.domain.dialects.rules.profile import Profile, of_family
from agent_lab.domain.dialects.rules.reading import (
    Wire,
    as_list,
    as_object,
    as_text,
    either,
    objects,
)
from agent_lab.domain.dialects.rules.rule import Finding, History

CALL = ("functionCall", "function_call")
RESPONSE = ("functionResponse", "function_response")
SIGNATURE = ("thoughtSignature", "thought_signature")
OTHER_DATA = (
    *("text", "inlineData", "inline_data", "fileData", "file_data"),
    *("executableCode", "executable_code", "codeExecutionResult", "code_execution_result"),
    *("toolCall", "tool_call", "toolResponse", "tool_response"),
)
# What makes a part hold something, and the two kinds that rules look at.
KINDS = {
    **dict.fromkeys(OTHER_DATA, "data"),
    **dict.fromkeys(CALL, "function_call"),
    **dict.fromkeys(RESPONSE, "function_response"),
}
ROLES = ("user", "model", "function")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]*")
OLD = ("gemini-pro", "gemini-1.0")


class Parts(msgspec.Struct, gc=False):
    """What is in a content: its parts, how many call and respond, and which hold nothing."""

    parts: list[Wire]
    calls: int = 0
    responses: int = 0
    empty: int | None = None  # the first part that holds nothing
    nameless: tuple[int, str] | None = None  # the first without the function's name


class GeminiView(msgspec.Struct, frozen=True):
    """What Gemini's rules read; `calls` and `responses` count the parts of each content."""

    contents: list[Wire]
    roles: list[str]
    read: list[Parts]
    parts: list[list[Wire]]
    calls: list[int]
    responses: list[int]
    tools: list[Wire]
    profile: Profile


def read_gemini(history: History) -> GeminiView:
    """Reads a history once, for all rules. A content without a role is the user's."""
    contents = history.messages
    read = [read_parts(objects(content.get("parts"))) for content in contents]
    return GeminiView(
        contents=contents,
        roles=[role_of(content) for content in contents],
        read=read,
        parts=[found.parts for found in read],
        calls=[found.calls for found in read],
        responses=[found.responses for found in read],
        tools=history.tools,
        profile=history.profile,
    )


def read_parts(parts: list[Wire]) -> Parts:
    """Looks at each part once."""
    found = Parts(parts)
    for j, part in enumerate(parts):
        kinds = [KINDS[field] for field in part if field in KINDS and part[field] is not None]
        if not kinds:
            found.empty = j if found.empty is None else found.empty
        if "function_call" in kinds:
            found.calls += 1
            found.nameless = found.nameless or _nameless(j, "function_call", either(part, *CALL))
        if "function_response" in kinds:
            found.responses += 1
            data = either(part, *RESPONSE)
            found.nameless = found.nameless or _nameless(j, "function_response", data)
    return found


def _nameless(j: int, kind: str, data: Any) -> tuple[int, str] | None:
    return None if as_text(as_object(data).get("name")) else (j, kind)


def role_of(content: Wire) -> str:
    """The role, `user` when there is none; "" for what is no text."""
    role = content.get("role")
    return "user" if role is None else as_text(role)


def having(field: tuple[str, str], parts: list[Wire]) -> list[Wire]:
    """The parts with this kind of data."""
    camel, snake = field
    return [part for part in parts if part.get(camel) is not None or part.get(snake) is not None]


def has_data(part: Wire) -> bool:
    """Whether a part holds anything but flags."""
    return any(field in KINDS and part[field] is not None for field in part)


def wants_signatures(profile: Profile) -> bool:
    """Gemini 3 wants thought signatures back, 2.5 does not."""
    return of_family(profile.model, "gemini-3")


def role_invalid(view: GeminiView) -> Iterator[Finding]:
    """Roles other than user and model; `function` is taken for responses."""
    for i, role in enumerate(view.roles):
        if role not in ROLES:
            yield Finding(i)


def parts_empty(view: GeminiView) -> Iterator[Finding]:
    """Contents without parts."""
    for i, content in enumerate(view.contents):
        if not content.get("parts"):
            yield Finding(i)


def part_without_data(view: GeminiView) -> Iterator[Finding]:
    """Parts that hold nothing, or are no objects."""
    for i, content in enumerate(view.contents):
        given: Any = content.get("parts")
        empty = view.read[i].empty
        if empty is not None or (given and len(view.parts[i]) < (len(as_list(given)) or 1)):
            yield Finding(i, (), {"j": empty or 0})


def name_empty(view: GeminiView) -> Iterator[Finding]:
    """Calls and responses without the function's name; one finding a content."""
    for i, read in enumerate(view.read):
        if read.nameless:
            j, kind = read.nameless
            yield Finding(i, (), {"j": j, "kind": kind})


def call_turn_position(view: GeminiView) -> Iterator[Finding]:
    """Calls that do not follow a user or response turn, or stand in a user turn."""
    for i, count in enumerate(view.calls):
        if count and (not i or view.roles[i] != "model" or view.roles[i - 1] == "model"):
            yield Finding(i)


def _calls_before(view: GeminiView, i: int) -> bool:
    return i > 0 and view.roles[i - 1] == "model" and view.calls[i - 1] > 0


def response_turn_position(view: GeminiView) -> Iterator[Finding]:
    """Responses that do not stand in the content right after their calls.

    Not those that go on from a content with the wrong count: that count is the one fault.
    """
    split = False
    for i, count in enumerate(view.responses):
        if not count or view.roles[i] == "model":
            split = False
            if count:
                yield Finding(i)
        elif _calls_before(view, i):
            split = count != view.calls[i - 1]
        elif not split:
            yield Finding(i)


def response_count(view: GeminiView) -> Iterator[Finding]:
    """Fewer or more responses in the next content than there are calls."""
    for i, count in enumerate(view.calls):
        if not count or view.roles[i] != "model":
            continue
        if i + 1 == len(view.contents):
            yield Finding(i)
        elif view.roles[i + 1] == "model":
            if not view.calls[i + 1] and not _answered_late(view, i):
                yield Finding(i)
        elif view.responses[i + 1] != count:
            if view.responses[i + 1]:
                yield Finding(i + 1)
            elif not _answered_late(view, i):
                yield Finding(i)


def _answered_late(view: GeminiView, i: int) -> bool:
    """Whether responses come before the next calls; then their place is the fault."""
    for later in range(i + 1, len(view.contents)):
        if view.responses[later] or view.calls[later]:
            return view.responses[later] > 0
    return False


def current_turn(view: GeminiView) -> int:
    """The index of the user content that the model is answering: the last with other than
    responses."""
    for i in range(len(view.contents) - 1, -1, -1):
        if view.roles[i] == "user" and len(view.parts[i]) > view.responses[i]:
            return i
    return 0


def signature_missing(view: GeminiView) -> Iterator[Finding]:
    """First calls of a step without their signature, in the current turn (Gemini 3)."""
    if wants_signatures(view.profile):
        for i in range(current_turn(view), len(view.contents)):
            if view.calls[i] and view.roles[i] == "model":
                first = having(CALL, view.parts[i])[0]
                if not either(first, *SIGNATURE):
                    name = as_text(as_object(either(first, *CALL)).get("name"))
                    yield Finding(i, (), {"name": name, "n": i + 1})


def tool_name_invalid(view: GeminiView) -> Iterator[Finding]:
    """Names of declared functions; between 64 and 128 characters it is doubtful."""
    for tool in view.tools:
        for declared in objects(either(tool, "functionDeclarations", "function_declarations")):
            name = as_text(declared.get("name"))
            if not NAME.fullmatch(name) or len(name) > 64:
                fits = bool(NAME.fullmatch(name)) and len(name) <= 128
                yield Finding(None, (), {"name": name}, doubtful=fits)


def same_role_turns(view: GeminiView) -> Iterator[Finding]:
    """Neighbours of one role (gemini-pro of 2023)."""
    if of_family(view.profile.model, *OLD):
        for i in range(1, len(view.roles)):
            if view.roles[i] == view.roles[i - 1] and not view.responses[i]:
                yield Finding(i)


def ends_on_model(view: GeminiView) -> Iterator[Finding]:
    """A model turn at the end (gemini-pro of 2023)."""
    if of_family(view.profile.model, *OLD) and view.roles and view.roles[-1] == "model":
        yield Finding(len(view.roles) - 1)


def contents_empty(view: GeminiView) -> Iterator[Finding]:
    """No content at all."""
    if not view.contents:
        yield Finding(None)
