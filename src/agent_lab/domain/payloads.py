"""Everything a journal can say, on one screen.

A payload is what was decided; an entry is a payload with its number and its time. The payloads in
`OUTPUT` also go to the `output` queue; all others are in the journal only.
"""

from typing import Any, ClassVar, Literal, get_args

from agent_lab.domain.dialects import render_body
from agent_lab.domain.hand_payloads import (
    Dropped,
    Edited,
    Paused,
    PermissionRequested,
    PermissionResolved,
    Resumed,
)
from agent_lab.domain.messages import ChatMessage, Mode, ModelRequest, ReplyKind, ToolCall, Usage
from agent_lab.domain.payload import Payload
from agent_lab.domain.thinking import Thinking
from agent_lab.domain.usage import Spent

# -- receipts of a user message ------------------------------------------------------------------


class Accepted(Payload, frozen=True, gc=False, tag="accepted", kw_only=True):
    """The message has its place and will have exactly one end."""

    message_id: str
    content: str
    mode: Mode


class Held(Payload, frozen=True, gc=False, tag="held", kw_only=True):
    """It cannot go now: it waits for open calls (their ids), `["model"]` or `["turn"]`."""

    message_id: str
    blocked_by: tuple[str, ...]


class Delivered(Payload, frozen=True, gc=False, tag="delivered", kw_only=True):
    """It is in the history, at `position` (system not counted)."""

    message_id: str
    position: int


class Withdrawn(Payload, frozen=True, gc=False, tag="withdrawn", kw_only=True):
    """It will not be delivered: taken back, dropped at the gate, or its session ended."""

    message_id: str
    reason: Literal["user", "cancelled", "dropped", "closed"]


class Rejected(Payload, frozen=True, gc=False, tag="rejected", kw_only=True):
    """It was never accepted; `code` says why, `retry_after` (seconds) when to try again."""

    message_id: str
    code: Literal["queue_full", "id_reused", "busy", "empty"]
    message: str
    retry_after: float | None = None


# -- hand-offs -----------------------------------------------------------------------------------


class QueueOp(Payload, frozen=True, gc=False, tag="queue", kw_only=True):
    """One put or take of `input` or `events`; `depth` is what the queue holds afterwards."""

    queue: Literal["input", "events"]
    op: Literal["put", "take"]
    item: str
    depth: int


# -- the model -----------------------------------------------------------------------------------


class ModelRequested(Payload, frozen=True, gc=False, tag="model_request", kw_only=True):
    """A model call begins. The body is rendered from `request` when somebody reads it."""

    on_output: ClassVar[bool] = True
    request: ModelRequest

    def as_dict(self) -> dict[str, Any]:
        """With `dialect`, `model` and the `body` as sent, rendered now and whole.

        `sha256` is of the bytes that went out, for a model that sends any.
        """
        wire = self.request.wire
        return {
            "type": "model_request",
            "turn": self.turn,
            "step": self.step,
            "dialect": self.request.dialect,
            "model": self.request.model,
            **({"sha256": wire.sha256} if wire else {}),
            "body": render_body(self.request),
        }


class ModelResponded(Payload, frozen=True, gc=False, tag="model_response", kw_only=True):
    """The provider's last word on this call, and what turn and session came to so far."""

    on_output: ClassVar[bool] = True
    finish_reason: str
    usage: Usage | None = None
    turn_spent: Spent | None = None
    session_spent: Spent | None = None


class Retrying(Payload, frozen=True, gc=False, tag="retrying", kw_only=True):
    """The call failed in a way that may pass; text streamed in this step is void."""

    attempt: int
    delay: float
    code: str
    message: str


class Text(Payload, frozen=True, gc=False, tag="text_delta", kw_only=True):
    """A piece of the answer, coalesced to at most one each 20 ms."""

    on_output: ClassVar[bool] = True
    text: str


class Assistant(Payload, frozen=True, gc=False, tag="assistant", kw_only=True):
    """The whole answer as it stands in the history."""

    on_output: ClassVar[bool] = True
    content: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    partial: bool = False
    thinking: tuple[Thinking, ...] = ()


# -- tools ---------------------------------------------------------------------------------------


class ToolCalled(Payload, frozen=True, gc=False, tag="tool_call", kw_only=True):
    """The model asks for a tool. `round` and `call_id` together name the call."""

    on_output: ClassVar[bool] = True
    call_id: str
    name: str
    arguments: dict[str, Any]
    round: int


class ToolStarted(Payload, frozen=True, gc=False, tag="tool_started", kw_only=True):
    """A runner runs it now; `timeout` is its limit in seconds."""

    call_id: str
    name: str
    timeout: float | None = None


class ToolReplied(Payload, frozen=True, gc=False, tag="tool_reply", kw_only=True):
    """The one reply that closes the call; `kind` says who closed it."""

    on_output: ClassVar[bool] = True
    call_id: str
    name: str
    content: str
    kind: ReplyKind
    is_error: bool


class LateReply(Payload, frozen=True, gc=False, tag="late_reply", kw_only=True):
    """A reply for a call that is closed or was never made. It is not in the history."""

    on_output: ClassVar[bool] = True
    call_id: str
    name: str | None
    content: str
    kind: ReplyKind
    is_error: bool


# -- ends of a turn ------------------------------------------------------------------------------


class Done(Payload, frozen=True, gc=False, tag="done", kw_only=True):
    """The model answered without calls and nothing waits to steer it; `spent` is the turn's."""

    on_output: ClassVar[bool] = True
    reason: str
    pending: int
    spent: Spent | None = None


class TurnFailed(Payload, frozen=True, gc=False, tag="error", kw_only=True):
    """The turn ended with a named fault; the session lives on."""

    on_output: ClassVar[bool] = True
    code: str
    message: str
    hint: str
    pending: int
    scope: Literal["turn"] = "turn"


class Cancelled(Payload, frozen=True, gc=False, tag="cancelled", kw_only=True):
    """The turn was stopped; `by` is the message that interrupted it, if one did."""

    on_output: ClassVar[bool] = True
    reason: Literal["user", "interrupted", "closed"]
    pending: int
    by: str | None = None


class Imported(Payload, frozen=True, gc=False, tag="imported", kw_only=True):
    """A message that came from elsewhere; `index` is its place there, None if it was made here."""

    is_long: ClassVar[bool] = True
    index: int | None
    message: ChatMessage
    fate: Literal["kept", "edited", "moved", "made", "dropped"]
    why: str | None = None


Receipt = Accepted | Held | Delivered | Withdrawn | Rejected
End = Done | TurnFailed | Cancelled
AnyPayload = (
    Receipt
    | QueueOp
    | ModelRequested
    | ModelResponded
    | Retrying
    | Text
    | Assistant
    | ToolCalled
    | ToolStarted
    | ToolReplied
    | LateReply
    | PermissionRequested
    | PermissionResolved
    | Paused
    | Resumed
    | Edited
    | Dropped
    | Imported
    | End
)

PAYLOADS: tuple[type[Payload], ...] = get_args(AnyPayload)

OUTPUT = frozenset(payload for payload in PAYLOADS if payload.on_output)
"""Types that also go to the `output` queue."""

for _payload in PAYLOADS:
    _payload.type = str(_payload.__struct_config__.tag)
