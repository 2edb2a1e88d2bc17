"""What is said in a conversation: messages, tool calls, and what a model says while it answers.

A model that streams yields each of its `Thinking` (domain/thinking.py) when it is whole.

All of them are frozen msgspec structs: they cost a tenth of a frozen dataclass to make, and a
history is read by several tasks at once.
"""

from typing import Any, Literal

import msgspec

from agent_lab.domain.raw_events import RawEvents, pack, unpack
from agent_lab.domain.thinking import THINKING, Thinking, is_well_made

Role = Literal["system", "user", "assistant", "tool"]
Mode = Literal["steer", "follow_up", "interrupt", "reject"]
ReplyKind = Literal[
    "result",
    "error",
    "timeout",
    "cancelled",
    "lost",
    "unknown_tool",
    "bad_arguments",
    "truncated",
]
FinishReason = Literal["stop", "tool_calls", "length", "content_filter"]

MODES: tuple[Mode, ...] = ("steer", "follow_up", "interrupt", "reject")


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """One thing the model asks for.

    `arguments` is always an object. `raw` is the text as the model sent it, kept so that the
    provider gets back what it said, byte for byte; it is None when there was no such text or when
    it was not a JSON object (then `arguments` is `{}`, because vLLM, SGLang, llama.cpp and
    Anthropic refuse a replayed call whose arguments do not parse).
    """

    id: str
    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None


class _Said(msgspec.Struct, frozen=True, gc=False):
    role: Role
    content: str | None = None


class ChatMessage(_Said, frozen=True, gc=False, kw_only=True):
    """One message of a conversation.

    `mode` and `message_id` belong to user messages; `tool_calls` and `thinking` to assistant
    messages; `tool_call_id`, `name`, `kind`, `is_error` and `round` to tool replies. `round`
    numbers the model answers of a session: a reply that names it cannot answer a call of another
    round that reused the id (llama.cpp and Kimi number calls anew each turn). `thinking` is in the
    order it came in.
    """

    mode: Mode = "steer"
    message_id: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    kind: ReplyKind = "result"
    is_error: bool = False
    round: int | None = None
    thinking: tuple[Thinking, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The message as it goes on the wire, `null` for what it does not have."""
        return msgspec.json.decode(msgspec.json.encode(self))


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens as the provider counted them; None where it did not say.

    Whether `input_tokens` holds the cached ones differs by provider (domain/usage.py);
    `context_tokens` is what the request filled, by that provider's meaning. `cost_usd` is the
    provider's own word, which few give.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    context_tokens: int | None = None
    cost_usd: float | None = None


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the answer's text."""

    text: str


class CallDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of a tool call. Pieces are joined by `index`, in whatever order they come."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The provider's own last word. A stream that ends without one was cut.

    A reason that is none of ours is the provider's own word; no call of such an answer runs.
    """

    reason: FinishReason | str = "stop"
    usage: Usage | None = None


class Reply(msgspec.Struct, frozen=True, gc=False):
    """A whole answer at once; what a model without streaming yields."""

    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason | str | None = None
    usage: Usage | None = None
    thinking: tuple[Thinking, ...] = ()


ModelEvent = TextDelta | CallDelta | Thinking | Finish | Reply
EVENT_TYPES: tuple[type[ModelEvent], ...] = (TextDelta, CallDelta, *THINKING, Finish, Reply)


def malformed(event: object) -> str | None:
    """What is wrong with an event of a model that is not ours; None if it is well made."""
    # by type and not by pattern: it is asked of every event, and patterns cost six times as much
    if type(event) is TextDelta:
        well = type(event.text) is str
    elif type(event) is Reply:
        well = (
            type(event.content) in _TEXT
            and type(event.finish_reason) in _TEXT
            and type(event.tool_calls) is type(event.thinking) is tuple
            and _are_calls(event.tool_calls)
        )
        if well and event.thinking:
            well = all(map(is_well_made, event.thinking))
    elif isinstance(event, CallDelta):
        well = type(event.id) in _TEXT and type(event.name) in _TEXT
        well = well and type(event.arguments) is str
        well = well and type(event.index) is int
    else:
        well = isinstance(event, Finish) or is_well_made(event)
    return None if well else f"the model gave {event!r:.200}, which is no well made event"


_TEXT = (str, type(None))


def _are_calls(calls: tuple[object, ...]) -> bool:
    for call in calls:
        if not (
            type(call) is ToolCall
            and type(call.id) is type(call.name) is str
            and type(call.arguments) is dict
            and type(call.raw) in _TEXT
        ):
            return False
    return True


class ToolSchema(msgspec.Struct, frozen=True):
    """What the model is told of a tool; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Wire(msgspec.Struct):
    """What went over the wire for one request, for a model that has a wire.

    `sha256` is of the body's bytes as they went out; `options` is what the model put into the body
    besides model, history and tools.
    """

    sha256: str
    options: dict[str, Any]
    _raw: bytes = b""

    def keep(self, raw: RawEvents) -> None:
        """What the provider sent, once the answer is over; packed, for its events are alike."""
        self._raw = pack(raw)

    @property
    def raw(self) -> RawEvents:
        """What came, event by event; nothing while the answer runs."""
        return unpack(self._raw) if self._raw else RawEvents()


class ModelRequest(msgspec.Struct, frozen=True, gc=False):
    """What a model is asked: instructions, the history it may see, and the tools.

    `messages` is a list that only ever grows, shared with the conversation and never copied:
    this request sees `messages[start:stop]`. A model that wants them calls `history()`.
    `call` counts the model calls of this session from 1; retries are counted too.
    `answers` counts the answers the session has had before this call. `wire` is there once a
    provider's model has written the body.
    """

    session_id: str
    model: str
    dialect: str
    instructions: str | None
    tools: tuple[ToolSchema, ...]
    messages: list[ChatMessage]
    start: int
    stop: int
    call: int
    answers: int
    wire: Wire | None = None

    def goes_out(self, wire: Wire) -> None:
        """Told once, by the model that sends the request, before it first waits."""
        msgspec.structs.force_setattr(self, "wire", wire)

    def history(self) -> list[ChatMessage]:
        """The messages this request carries, oldest first; a copy of the part of the list."""
        return self.messages[self.start : self.stop]


def clean(text: str) -> str:
    """The text without lone surrogates, which no socket, file or database takes (T24)."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
