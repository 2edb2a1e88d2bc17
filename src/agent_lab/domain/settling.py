"""When an agent has come to rest: what its entries say, read one after another from any position.

Pure. The same entries give the same answer, whoever reads them and when, so there is no moment at
which a reader could miss an end.
"""

from typing import Any, Literal

import msgspec

from agent_lab.domain.hand_payloads import PermissionRequested, PermissionResolved
from agent_lab.domain.payloads import (
    Accepted,
    AnyPayload,
    Cancelled,
    Delivered,
    Done,
    Held,
    Receipt,
    Rejected,
    TurnFailed,
    Withdrawn,
)

AgentStatus = Literal["initializing", "idle", "running", "error", "closed"]
"""`initializing`: its first message is accepted and not begun. `error`: its last turn failed."""


class Fault(msgspec.Struct, frozen=True):
    """Why a turn, or the whole session, failed."""

    code: str
    message: str
    hint: str


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that waits for somebody to allow or deny it; see PermissionRequested."""

    request_id: str
    call_id: str
    name: str
    arguments: dict[str, Any]
    sha256: str


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """An agent came to rest, or somebody has to act; entry `seq` says so.

    `reason` is `done`, `cancelled`, `interrupted` (`by` the message that did), `withdrawn`,
    `permission`, `at_rest` (nothing happened since the position that was waited from), why it was
    closed, or the code of an error. `pending` messages start the next turn.
    """

    status: AgentStatus
    reason: str
    seq: int
    turn: int | None = None
    pending: int = 0
    by: str | None = None
    error: Fault | None = None
    permission: Permission | None = None


class Settling:
    """Looks for the first entry that says that an agent is at rest, or one message is dealt with.

    Without `message_id` of the agent: a turn that failed, or one that ended and left nothing
    pending. With it of that message: the end of its turn, or that it was withdrawn. A turn that was
    interrupted is told, or with `goes_on` the message that interrupted it takes its place.
    """

    def __init__(self, *, message_id: str | None = None, goes_on: bool = True) -> None:
        self.is_moot = False
        """Whether something was taken back, so that no end may come for it."""
        self.asks: dict[str, Permission] = {}
        """Permissions that were asked for and not answered."""
        self.message_id = message_id
        self._goes_on = goes_on
        self._turn: int | None = None

    def hear(self, seq: int, payload: AnyPayload) -> Settled | None:
        """What this entry comes to; None for most."""
        match payload:
            case Delivered() if payload.message_id == self.message_id:
                self._turn = payload.turn
            case Withdrawn():
                self.is_moot = True
                if payload.message_id == self.message_id:
                    return Settled(status="idle", reason="withdrawn", seq=seq)
            case Done() | TurnFailed() | Cancelled():
                return self._ended(seq, payload)
            case PermissionRequested():
                self.asks[payload.request_id] = permission(payload)
            case PermissionResolved():
                self.asks.pop(payload.request_id, None)
            case _:
                pass
        return None

    def _ended(self, seq: int, end: Done | TurnFailed | Cancelled) -> Settled | None:
        is_mine = self.message_id is not None and end.turn == self._turn
        if self.message_id is not None and not is_mine:
            return None
        if isinstance(end, Cancelled) and end.reason == "closed":
            return None  # the session's own end follows, and says why
        if isinstance(end, Cancelled) and end.reason == "interrupted" and end.pending:
            if not self._goes_on:
                return settled(seq, end, status="running")
            if is_mine:
                self.message_id, self._turn = end.by, None
            return None
        if is_mine or isinstance(end, TurnFailed) or not end.pending:
            return settled(seq, end)
        return None


def settled(
    seq: int, end: Done | TurnFailed | Cancelled, *, status: AgentStatus | None = None
) -> Settled:
    """What a turn's end says of its agent."""
    fault = by = None
    match end:
        case Done():
            reason = "done"
        case TurnFailed():
            reason, fault = end.code, Fault(end.code, end.message, end.hint)
        case Cancelled():
            reason, by = ("interrupted" if end.reason == "interrupted" else "cancelled"), end.by
    return Settled(
        status=status or ("error" if fault else "idle"),
        reason=reason,
        seq=seq,
        turn=end.turn,
        pending=end.pending,
        by=by,
        error=fault,
    )


def permission(asked: PermissionRequested) -> Permission:
    """What is asked for, as others are told."""
    return Permission(**{name: getattr(asked, name) for name in Permission.__struct_fields__})


# -- what became of a message --------------------------------------------------------------------


class MessageReceipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a user message so far; entry `seq` says so.

    `state` is `accepted`, `held` (`blocked_by` open calls, `model` or `turn`), `delivered` (at
    `position` of the history, in `turn`), `withdrawn` (`reason`), or `rejected` (`code`, `message`,
    and `retry_after` in seconds).
    """

    message_id: str
    state: str
    seq: int
    blocked_by: tuple[str, ...] = ()
    position: int | None = None
    turn: int | None = None
    reason: str | None = None
    code: str | None = None
    message: str | None = None
    retry_after: float | None = None


def receipt(seq: int, said: Receipt) -> MessageReceipt:
    """The receipt that this entry is."""
    facts: dict[str, Any] = {}
    match said:
        case Accepted():
            pass
        case Held():
            facts = {"blocked_by": said.blocked_by}
        case Delivered():
            facts = {"position": said.position, "turn": said.turn}
        case Withdrawn():
            facts = {"reason": said.reason}
        case Rejected():
            names = ("code", "message", "retry_after")
            facts = {name: getattr(said, name) for name in names}
    return MessageReceipt(message_id=said.message_id, state=said.type, seq=seq, **facts)
