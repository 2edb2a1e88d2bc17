"""What is stored: rows of a journal, ids of messages, and records of everything else.

Bodies are JSON in bytes. A `model_request` is stored as two numbers into the history, which only
grows, so a session costs its length and not the square of it; what the model was told besides is
its prelude, stored once by digest.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Literal, Union

import msgspec

from agent_lab.domain.errors import StorageError
from agent_lab.domain.messages import ChatMessage, ModelRequest, ToolSchema, Wire, clean
from agent_lab.domain.payloads import PAYLOADS, AnyPayload, ModelRequested, Payload
from agent_lab.domain.redaction import SECRETS

RecordKind = Literal[
    "activity", "audit", "chat", "execution", "key", "prelude", "raw", "schedule", "session", "task"
]
MAX_BODY = 64 << 20
"""Bytes of the longest body that is stored."""


class Record(msgspec.Struct, frozen=True):
    """One thing that is looked up by `id`, or listed by `agent`, `state` and `at`, newest first.

    `at` is wall time in seconds and orders the list; `body` is JSON. Written again under its
    `kind` and `id` it takes the place of the older one.
    """

    kind: RecordKind
    id: str
    agent: str
    state: str
    at: float
    body: bytes


class Removed(msgspec.Struct, frozen=True):
    """This record goes."""

    kind: RecordKind
    id: str


class Row(msgspec.Struct, frozen=True):
    """One entry of the journal that `epoch` names; `at` is wall time, `body` as `write` gives it.

    By epoch and not by session: a conversation that is begun anew under its id has another one.
    """

    epoch: str
    seq: int
    at: float
    type: str
    body: bytes


class Taken(msgspec.Struct, frozen=True):
    """A message id of an agent that was accepted: in this session, as this entry."""

    agent: str
    message_id: str
    session_id: str
    seq: int


Change = Record | Removed | Row | Taken


class Created(msgspec.Struct, frozen=True):
    """What makes a created agent another than the one it comes from."""

    name: str
    instructions: str | None = None


class SessionBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a session's record; times are wall time. Its state is `running` or `idle`.

    `failed`: its last turn did. `gone` says why it was closed, if somebody closed it.
    """

    epoch: str
    started_at: float
    title: str | None
    turn: int
    last_seq: int
    created: Created | None = None
    failed: bool = False
    gone: str | None = None


class Prelude(msgspec.Struct, frozen=True):
    """What a model was told besides the messages."""

    instructions: str | None
    tools: tuple[ToolSchema, ...]


class Requested(Payload, frozen=True, gc=False, tag="model_request", kw_only=True):
    """A `model_request` as it is stored: messages `start` to `stop` of the history."""

    dialect: str
    model: str
    prelude: str
    start: int
    stop: int
    call: int
    answers: int
    sha256: str | None = None
    options: dict[str, Any] | None = None

    def whole(self, session_id: str, prelude: Prelude, history: list[ChatMessage]) -> AnyPayload:
        """The payload as it was."""
        request = ModelRequest(
            session_id,
            self.model,
            self.dialect,
            prelude.instructions,
            prelude.tools,
            history,
            self.start,
            self.stop,
            self.call,
            self.answers,
            Wire(self.sha256, self.options or {}) if self.sha256 else None,
        )
        return ModelRequested(turn=self.turn, step=self.step, request=request)


Stored = AnyPayload | Requested
"""A payload as it is stored: `Requested` in place of ModelRequested."""

encode = msgspec.json.Encoder().encode
_TYPES = (Requested, *(payload for payload in PAYLOADS if payload is not ModelRequested))
_decode: Callable[[bytes], Stored] = msgspec.json.Decoder(Union[_TYPES]).decode  # noqa: UP007 - of a tuple


def write(payload: AnyPayload) -> bytes:
    """The body of an entry's row."""
    if isinstance(payload, ModelRequested):
        request = payload.request
        said: Payload = Requested(
            turn=payload.turn,
            step=payload.step,
            dialect=request.dialect,
            model=request.model,
            prelude=prelude_of(request)[0],
            start=request.start,
            stop=request.stop,
            call=request.call,
            answers=request.answers,
            sha256=request.wire.sha256 if request.wire else None,
            options=request.wire.options if request.wire else None,
        )
    else:
        said = payload
    try:
        return encode(said)
    except UnicodeEncodeError:  # half of a surrogate pair, which no database takes (T24)
        return encode(_cleaned(msgspec.to_builtins(said)))


def read(body: bytes) -> Stored:
    """The payload of a row; raises msgspec.MsgspecError for a body that is none."""
    return _decode(body)


def checked(change: Change) -> Change:
    """The change as it may be stored: its ids clean, its body without the secrets of this process.

    Raises StorageError for a body that is longer than MAX_BODY.
    """
    if isinstance(change, Record | Row):
        if len(change.body) > MAX_BODY:
            raise StorageError(
                "storage_too_large",
                f"a body of {len(change.body)} bytes is more than the {MAX_BODY} that are stored",
                "say less at once",
            )
        if SECRETS and SECRETS.are_in(change.body.decode()):
            change = msgspec.structs.replace(change, body=_hidden(change.body))
    texts = {
        name: text
        for name in change.__struct_fields__
        if isinstance(text := getattr(change, name), str) and not text.isascii()
    }
    if not texts:
        return change
    return msgspec.structs.replace(change, **{name: clean(text) for name, text in texts.items()})


def _hidden(body: bytes) -> bytes:
    said = msgspec.json.decode(body)
    kept = {name: said[name] for name in ("type", "turn", "step") if name in said}
    return encode({**SECRETS.hide_in(said), **kept})


def beginning_of(epoch: str) -> str:
    """Id of the prelude that is the history with which the journal of this epoch began."""
    return f"history {epoch}"


def prelude_of(request: ModelRequest) -> tuple[str, bytes]:
    """What this request carries besides its messages, as a body, and its digest."""
    body = encode(_cleaned(msgspec.to_builtins(Prelude(request.instructions, request.tools))))
    return blake2b(body, digest_size=12).hexdigest(), body


def _cleaned(value: Any) -> Any:
    """The value with every text in it clean."""
    match value:
        case str():
            return clean(value)
        case dict():
            return {_cleaned(key): _cleaned(one) for key, one in value.items()}  # type: ignore[misc]  # of any JSON
        case list() | tuple():
            return [_cleaned(one) for one in value]  # type: ignore[misc]  # of any JSON
        case _:
            return value
