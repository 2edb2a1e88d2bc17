"""An execution: one accepted request to an agent, its states, and the one table of its transitions.

Pure: who may end what is decided here; when, by whom and where it is written is the caller's.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from agent_lab.domain.errors import AlreadyTerminal, InvalidTransition
from agent_lab.domain.messages import ReplyKind

Source: TypeAlias = Literal["user", "schedule", "agent", "mcp"]
Kind: TypeAlias = Literal["chat", "task"]
Status: TypeAlias = Literal[
    "queued",
    "running",
    "completed",
    "failed",
    "cancelled",
    "timeout",
    "interrupted",
    "skipped",
]
Terminal: TypeAlias = Literal[
    "completed", "failed", "cancelled", "timeout", "interrupted", "skipped"
]

TRANSITIONS: dict[Status, frozenset[Status]] = {
    "queued": frozenset(("running", "failed", "cancelled", "timeout", "interrupted", "skipped")),
    "running": frozenset(("completed", "failed", "cancelled", "timeout", "interrupted")),
    "completed": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
    "timeout": frozenset(),
    "interrupted": frozenset(),
    "skipped": frozenset(),
}
"""Every legal step. The one exception is `corrects`."""
TERMINAL: frozenset[Status] = frozenset(status for status, then in TRANSITIONS.items() if not then)

_UNSAID: dict[Status, str] = {
    "failed": "the run failed and gave no reason",
    "cancelled": "it was cancelled",
    "timeout": "it took longer than it may",
    "interrupted": "the server stopped before it was done",
    "skipped": "it was not run",
}


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """Who asked and through what. `triggered_by` names the door or the thing that asked.

    `ancestors` are the agents it came through, the first who asked first, the last `source_agent`.
    """

    source: Source = "user"
    triggered_by: str = "api"
    source_agent: str | None = None
    source_user: str | None = None
    mcp_key_id: str | None = None
    mcp_key_name: str | None = None
    ancestors: tuple[str, ...] = ()


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of an execution; `kind` says who closed it, None while it is open."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    kind: ReplyKind | None = None


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one request. Times are wall seconds; None is "not known", never "none".

    `id` is what routes take; `ticket` names its admission. `wait_limit` and `run_limit` are
    seconds. `detached` says that nobody holds a connection for it, so it survives its caller.
    `by_watchdog` marks an end that was a limit's doing; `superseded` is the end it had before a
    late success corrected that. `message_id` is the message's in its session: the record's id,
    unless whoever asked gave one; `epoch` is that of the session's numbering then.
    """

    id: str
    ticket: str
    agent_name: str
    kind: Kind
    message: str
    queued_at: float
    source: Source = "user"
    triggered_by: str = "api"
    source_agent: str | None = None
    source_user: str | None = None
    mcp_key_id: str | None = None
    mcp_key_name: str | None = None
    ancestors: tuple[str, ...] = ()
    priority: Source = "user"
    model: str | None = None
    detached: bool = False
    was_queued: bool = False
    wait_limit: float | None = None
    run_limit: float = 600.0
    idempotency_key: str | None = None
    body_digest: str | None = None
    idempotency_unchecked: bool = False
    message_id: str | None = None
    session_id: str | None = None
    epoch: str | None = None
    turn: int | None = None
    started_at: float | None = None
    finished_at: float | None = None
    status: Status = "queued"
    response: str | None = None
    error: str | None = None
    error_code: str | None = None
    context_used: int | None = None
    context_max: int | None = None
    context_percent: float | None = None
    cost_usd: float | None = None
    tool_calls: tuple[ToolUse, ...] | None = None
    by_watchdog: bool = False
    superseded: Status | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether it has its end."""
        return self.status in TERMINAL


class ExecutionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which records; None leaves a filter out. `before` is an id: older than that one."""

    agent_name: str | None = None
    status: Status | None = None
    source: Source | None = None
    kind: Kind | None = None
    before: str | None = None
    limit: int = 100

    def fits(self, execution: Execution) -> bool:
        """Whether this record is one of them, `before` and `limit` aside."""
        return (
            self.agent_name in (None, execution.agent_name)
            and self.status in (None, execution.status)
            and self.source in (None, execution.source)
            and self.kind in (None, execution.kind)
        )


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended, as told to `ended`. `error` may be blank; the record's never is."""

    status: Terminal
    response: str | None = None
    error: str | None = None
    error_code: str | None = None
    turn: int | None = None
    tool_calls: tuple[ToolUse, ...] | None = None
    context_used: int | None = None
    context_max: int | None = None
    cost_usd: float | None = None
    by_watchdog: bool = False


class Broken(msgspec.Struct, frozen=True):
    """A stored record that cannot be read: its id, its agent if that much is known, and why."""

    id: str
    agent_name: str | None
    reason: str


def chain_of(asked: Asker | Execution) -> tuple[str, ...]:
    """The agents it came through; of one that says only who asked, that one."""
    return asked.ancestors or ((asked.source_agent,) if asked.source_agent else ())


def refused_chain(chain: tuple[str, ...], agent_name: str, most: int) -> str | None:
    """Why an agent cannot be asked through these others, None if it can.

    An agent that asks itself would wait for its own end; a chain without end is one of them too.
    """
    way = " → ".join((*chain, agent_name))
    if agent_name in chain:
        return f"agent {agent_name!r} waits for this very answer ({way})"
    if len(chain) > most:
        return f"{len(chain)} agents ask each other already, {most} is most ({way})"
    return None


def corrects(execution: Execution, outcome: Outcome) -> bool:
    """Whether this success corrects what a watchdog had said; of a cancel nothing ever does."""
    said = execution.status in ("failed", "timeout") and execution.by_watchdog
    return said and execution.started_at is not None and outcome.status == "completed"


def begun(
    execution: Execution, *, at: float, session_id: str | None, epoch: str | None = None
) -> Execution:
    """The record as it starts to run; raises AlreadyTerminal, InvalidTransition."""
    _check(execution, "running")
    return msgspec.structs.replace(
        execution, status="running", started_at=at, session_id=session_id, epoch=epoch
    )


def ended(execution: Execution, outcome: Outcome, *, at: float) -> Execution:
    """The record with its end; raises AlreadyTerminal when it has one that this cannot correct."""
    superseded = None
    if corrects(execution, outcome):
        superseded = execution.status
    else:
        _check(execution, outcome.status)
    used, most = outcome.context_used, outcome.context_max
    return msgspec.structs.replace(
        execution,
        status=outcome.status,
        finished_at=at,
        turn=execution.turn if outcome.turn is None else outcome.turn,
        response=outcome.response,
        error=_reason(outcome),
        error_code=outcome.error_code,
        tool_calls=outcome.tool_calls,
        context_used=used,
        context_max=most,
        context_percent=round(100 * used / most, 2) if used is not None and most else None,
        cost_usd=outcome.cost_usd,
        by_watchdog=outcome.by_watchdog,
        superseded=superseded,
    )


def _check(execution: Execution, to: Status) -> None:
    if execution.is_terminal:
        raise AlreadyTerminal(execution.id, execution.status)
    if to not in TRANSITIONS[execution.status]:
        raise InvalidTransition(execution.id, execution.status, to)


def _reason(outcome: Outcome) -> str | None:
    if outcome.status == "completed":
        return None
    said = (outcome.error or "").strip()
    code = f" ({outcome.error_code})" if outcome.error_code else ""
    return said or _UNSAID[outcome.status] + code
