"""The four wire formats, told apart by what only one of them has."""

from collections.abc import Iterator
from typing import NamedTuple, get_args

from agent_lab.domain.dialects.rules.reading import Wire, as_list, as_text, objects
from agent_lab.domain.dialects.rules.rule import Finding, Format, Rule

FORMATS: tuple[Format, ...] = get_args(Format)
NAMES: dict[Format, str] = {
    "openai_chat": "OpenAI Chat",
    "openai_responses": "OpenAI Responses",
    "anthropic": "Anthropic Messages",
    "gemini": "Gemini contents",
}

ITEMS = frozenset(
    ("function_call", "function_call_output", "reasoning", "item_reference", "custom_tool_call")
)
BLOCKS = frozenset(("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"))
SAID = frozenset(("input_text", "output_text", "input_image", "input_file"))
CHAT_PARTS = frozenset(("image_url", "input_audio"))


class Mark(NamedTuple):
    """What gives a format away: a field that others do not have, or a value of one they have."""

    format: Format
    at: int
    field: str
    value: str = ""


def marks(messages: list[Wire]) -> Iterator[Mark]:
    """What gives the format away, in order; nothing for plain talk, which three formats share."""
    for i, message in enumerate(messages):
        if "parts" in message:
            yield Mark("gemini", i, "parts")
        role = message.get("role")
        if role == "model":
            yield Mark("gemini", i, "role", "model")
        elif role == "tool":
            yield Mark("openai_chat", i, "role", "tool")
        if as_list(message.get("tool_calls")):
            yield Mark("openai_chat", i, "tool_calls")
        type_ = message.get("type")
        if type(type_) is str and type_ in ITEMS:
            yield Mark("openai_responses", i, "type", type_)
        if type(message.get("content")) is list:
            yield from _part_marks(i, message)


def _part_marks(i: int, message: Wire) -> Iterator[Mark]:
    for part in objects(message["content"]):
        type_ = as_text(part.get("type"))
        if type_ in BLOCKS:
            yield Mark("anthropic", i, "content", type_)
        elif type_ in SAID:
            yield Mark("openai_responses", i, "content", type_)
        elif type_ in CHAT_PARTS:
            yield Mark("openai_chat", i, "content", type_)


def format_of(messages: list[Wire]) -> Format | None:
    """The format with the first mark; None for plain talk."""
    first = next(marks(messages), None)
    return first.format if first else None


def foreign(messages: list[Wire], own: Format) -> Mark | None:
    """The first mark of another format, if nothing at all speaks for this one."""
    other: Mark | None = None
    for mark in marks(messages):
        if mark.format == own:
            return None
        other = other or mark
    if other is None and own == "gemini":  # which shares not even plain talk with the others
        return next((_plain(i) for i, said in enumerate(messages) if "content" in said), None)
    return other


def _plain(i: int) -> Mark:
    return Mark("openai_chat", i, "content")


def _rule(*texts: str) -> Rule:
    return Rule(
        "wrong_format",
        lambda _: (),  # found by `foreign`, before any rule looks
        "{text}",
        "This is the {found} format, not {own}: it shows in message {i}.",
        "Check it as {name}, or write the conversation anew for this provider.",
        also=texts,
    )


WRONG: dict[Format, Rule] = {
    "openai_chat": _rule(
        "Missing required parameter: 'messages[{i}].role'.",
        "Missing required parameter: 'messages[{i}].content'.",
        "Invalid value: '{value}'. Supported values are: 'text', 'image_url', 'input_audio', "
        "'refusal', 'audio', and 'file'.",
        "Invalid value: 'model'. Supported values are: 'system', 'assistant', 'user', 'function', "
        "'tool', and 'developer'.",
    ),
    "openai_responses": _rule(
        "Unknown parameter: 'input[{i}].{field}'.",
        "Invalid value: '{value}'. Supported values are: 'assistant', 'system', 'developer', and "
        "'user'.",
        "Invalid value: '{value}'. Supported values are: 'input_text', 'input_image', "
        "'output_text', 'refusal', 'input_file', 'computer_screenshot', and 'summary_text'.",
    ),
    "anthropic": _rule(
        "messages.{i}.{field}: Extra inputs are not permitted",
        "messages.{i}.role: Field required",
        "messages.{i}.role: Input should be 'user' or 'assistant'",
        "messages.{i}.content.0: Input tag '{value}' found using 'type' does not match any of the "
        "expected tags: 'document', 'image', 'redacted_thinking', 'search_result', 'text', "
        "'thinking', 'tool_result', 'tool_use'",
    ),
    "gemini": _rule(
        "Invalid JSON payload received. Unknown name \"{field}\" at 'contents[{i}]': Cannot find "
        "field.",
    ),
}
"""What each provider answers: by an unknown field, a missing one, a role, a content type."""


def wrong_format(messages: list[Wire], own: Format) -> tuple[Rule, Finding] | None:
    """The one fault of a list that is in another format."""
    mark = foreign(messages, own)
    if mark is None:
        return None
    text = _answer(mark, own).format(i=mark.at, field=mark.field, value=mark.value)
    said = {"found": NAMES[mark.format], "own": NAMES[own], "name": mark.format, "text": text}
    return WRONG[own], Finding(mark.at, (), said)


def _answer(mark: Mark, own: Format) -> str:
    texts = WRONG[own].also
    if own == "gemini":
        return texts[0]
    if own == "openai_chat":
        return texts[{"type": 0, "parts": 1, "content": 2, "role": 3}[mark.field]]
    if mark.field == "type":  # an item of Responses, which has no role
        return texts[1]
    return texts[{"role": 1 if own == "openai_responses" else 2, "content": -1}.get(mark.field, 0)]
