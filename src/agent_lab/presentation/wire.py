"""What a client may say on the socket: a text to a frame of one closed union, or a refusal."""

import re
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec

from agent_lab.domain.errors import AnswerCode, StorageCode
from agent_lab.domain.hand_payloads import Decision
from agent_lab.domain.messages import Mode
from agent_lab.domain.redaction import SECRETS
from agent_lab.presentation.strict import JsonCode, Refused, read

FrameCode: TypeAlias = Literal[
    AnswerCode,
    JsonCode,
    StorageCode,
    "already_attached",
    "bad_message",
    "bad_model",
    "capacity",
    "closing",
    "empty",
    "first_frame_missing",
    "not_attached",
    "not_running",
    "not_waiting",
    "not_yet",
    "rate_limited",
    "resume_gone",
    "session_closed",
    "session_failed",
    "session_mismatch",
    "too_many_viewers",
    "unknown_agent",
    "unknown_session",
]
"""Every code of an `error` frame with scope `frame`."""


# -- what a client may say -----------------------------------------------------------------------

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
"""Printable: an id ends up in logs and in terminals."""
Seq = Annotated[int, msgspec.Meta(ge=0)]


class Frame(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", kw_only=True
):
    """Base of the closed union."""


class RunFrame(Frame, frozen=True, tag="run"):
    """First frame: give this message to an agent, in a new session or in the one named."""

    content: str
    agent: Id | None = None
    message_id: Id | None = None
    session_id: Id | None = None
    mode: Mode = "steer"


class AttachFrame(Frame, frozen=True, tag="attach"):
    """First frame: look on, from the entry behind `after`. Another `epoch` begins at 1."""

    session_id: Id
    after: Seq = 0
    epoch: Id | None = None


class WatchFrame(Frame, frozen=True, tag="watch"):
    """First frame: look on at all agents and sessions."""


class MessageFrame(Frame, frozen=True, tag="user_message"):
    """A user message for the session."""

    content: str
    message_id: Id | None = None
    mode: Mode = "steer"


class WithdrawFrame(Frame, frozen=True, tag="withdraw"):
    """Take back a message that waits."""

    message_id: Id


class EditFrame(Frame, frozen=True, tag="edit"):
    """Change a message that waits."""

    message_id: Id
    content: str


class CancelFrame(Frame, frozen=True, tag="cancel"):
    """Stop the turn; without `turn`, the one that runs."""

    turn: Annotated[int, msgspec.Meta(ge=1)] | None = None
    drop_waiting: bool = False


class CancelToolFrame(Frame, frozen=True, tag="cancel_tool"):
    """Close one open tool call."""

    call_id: Id


class PermissionFrame(Frame, frozen=True, tag="permission"):
    """Answer a permission request; `sha256` is that of the arguments its sender was shown."""

    request_id: Id
    decision: Decision
    arguments: dict[str, Any] | None = None
    message: str | None = None
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")] | None = None


ClientFrame = (
    RunFrame
    | AttachFrame
    | WatchFrame
    | MessageFrame
    | WithdrawFrame
    | EditFrame
    | CancelFrame
    | CancelToolFrame
    | PermissionFrame
)
NOT_YET = frozenset(("pause", "step", "resume", "breakpoints", "release", "drop"))
"""Frames of the contract that this version does not obey."""

_FIELD = re.compile(r"(?:required field|unknown field) `(?P<field>[^`]*)`")
_TYPES = f"type is one of: {', '.join(str(f.__struct_config__.tag) for f in get_args(ClientFrame))}"


def decode(text: str) -> ClientFrame:
    """The frame that this text is; raises Refused. A frame without `type` is a run."""
    return _frame(read(text))


def error_frame(refused: Refused) -> str:
    """The unnumbered frame that tells its sender, and nobody else."""
    said = {"code": refused.code, "message": str(refused), "hint": refused.hint, **refused.facts}
    said = {name: SECRETS.redact(it) if isinstance(it, str) else it for name, it in said.items()}
    return msgspec.json.encode({"type": "error", "scope": "frame", **said}).decode()


def _frame(value: Any) -> ClientFrame:
    if isinstance(value, dict):
        kind: Any = value.setdefault("type", "run")  # type: ignore[misc]  # of any kind
        if isinstance(kind, str) and kind in NOT_YET:
            raise Refused(
                "not_yet",
                f"this version does not know what to do with a {kind!r} frame",
                "see docs/protocol.md for the frames it obeys",
            )
    try:
        return msgspec.convert(value, ClientFrame)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `")
        field = _FIELD.search(what)
        path = (path.rstrip("`") or "$") + (f".{field['field']}" if field else "")
        raise Refused(
            "bad_message",
            f"{what[:200]} at {path[:200]}",
            _TYPES if path == "$.type" else "see docs/protocol.md for the fields of each frame",
            path=path[:200],
        ) from None
