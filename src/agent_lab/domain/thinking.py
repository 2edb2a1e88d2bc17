"""What a model thought before it answered, as its provider wants it back.

A closed union, one kind a wire form, because each is signed or named by the provider that made it
and nobody else takes it. A rendering sends back the kinds of its own format and leaves the others
out: a foreign signature is refused (anthropics/claude-code#63203, nanbingxyz/5ire#405).

`before` says where it stood: 0 in front of the answer's text, n in front of its n-th call.
"""

from typing import Annotated, Any, Literal, cast, get_args

import msgspec

Place = Annotated[int, msgspec.Meta(ge=0)]


class _Kind(msgspec.Struct, frozen=True, gc=False, tag_field="type", forbid_unknown_fields=True):
    pass


class ThinkingBlock(_Kind, frozen=True, gc=False, tag="thinking"):
    """Anthropic's `thinking` block; sent back byte for byte or not at all."""

    text: str
    signature: str
    before: Place = 0


class RedactedThinking(_Kind, frozen=True, gc=False, tag="redacted_thinking"):
    """Anthropic's `redacted_thinking` block: nothing of it can be read."""

    data: str
    before: Place = 0


class ReasoningItem(_Kind, frozen=True, gc=False, tag="reasoning_item"):
    """OpenAI Responses' `reasoning` item.

    With `store=False` the server remembers nothing, and needs `encrypted_content` back.
    """

    id: str
    summary: tuple[str, ...] = ()
    encrypted_content: str | None = None
    before: Place = 0


class Thought(_Kind, frozen=True, gc=False, tag="thought"):
    """Gemini's summary of a thought; it may have a signature of its own."""

    text: str
    signature: str | None = None
    before: Place = 0


class ThoughtSignature(_Kind, frozen=True, gc=False, tag="thought_signature"):
    """Gemini's signature on the answer's text (`before` 0) or on its n-th call (`before` n).

    Gemini 3 refuses the first call of a step without it.
    """

    signature: str
    before: Place = 0


class ReasoningText(_Kind, frozen=True, gc=False, tag="reasoning_text"):
    """What servers with the Chat format say beside `content`, and the field they say it in.

    DeepSeek wants it back with calls; it is sent in the field that it came in.
    """

    text: str
    field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    before: Place = 0


Thinking = (
    ThinkingBlock | RedactedThinking | ReasoningItem | Thought | ThoughtSignature | ReasoningText
)
THINKING: tuple[type[Thinking], ...] = get_args(Thinking)


def is_well_made(thought: object) -> bool:
    """Whether it is one of these, with every field of its type."""
    if type(thought) not in THINKING:
        return False
    try:
        msgspec.convert(msgspec.to_builtins(thought), type(thought))
    except (msgspec.ValidationError, TypeError):
        return False
    return True


def cleaned(thinking: tuple[Thinking, ...]) -> tuple[Thinking, ...]:
    """Without lone surrogates, which no socket takes (T24); as it was when it has none."""
    try:
        msgspec.json.encode(thinking)
    except UnicodeEncodeError:
        return tuple(map(_clean, thinking))
    return thinking


def _clean(thought: Thinking) -> Thinking:
    return msgspec.convert(_replaced(msgspec.to_builtins(thought)), type(thought))


def _replaced(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {key: _replaced(part) for key, part in cast("dict[str, Any]", value).items()}
        case tuple():
            return tuple(map(_replaced, cast("tuple[Any, ...]", value)))
        case _:
            return value
