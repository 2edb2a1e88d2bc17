"""What `/api` is asked and answers about the line, in shapes; its OpenAPI document is of these."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from agent_lab.application.line_control import TerminateStatus
from agent_lab.domain.activity import ActivityKind
from agent_lab.domain.execution import Kind, Source, Status, ToolUse

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000_000)]
ModelName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
QueueStatus: TypeAlias = Literal["queued", "running"]


# -- what is asked -------------------------------------------------------------------------------


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a request may say; an unknown field is refused."""


class ChatBody(Body, frozen=True, kw_only=True):
    """`POST …/chat`. `wait` false is refused at once when busy."""

    message: Text
    model: ModelName | None = None
    priority: Source | None = None
    wait: bool = True
    async_mode: bool = False
    timeout_seconds: Seconds | None = None


class TaskBody(Body, frozen=True, kw_only=True):
    """`POST …/task`. With `async_mode` it may wait in the backlog, else never."""

    message: Text
    model: ModelName | None = None
    priority: Source | None = None
    async_mode: bool = False
    timeout_seconds: Seconds | None = None


class FanOutTask(Body, frozen=True, kw_only=True):
    """One task of a list."""

    message: Text
    model: ModelName | None = None
    timeout_seconds: Seconds | None = None


class FanOutBody(Body, frozen=True, kw_only=True):
    """`POST …/fan-out`: a list of tasks, so many of them under way at once."""

    tasks: Annotated[list[FanOutTask], msgspec.Meta(min_length=1, max_length=50)]
    max_concurrent: Annotated[int, msgspec.Meta(ge=1, le=10)] = 10
    async_mode: bool = False


class CapacityBody(Body, frozen=True, kw_only=True):
    """`PUT …/queue/capacity`."""

    kind: Kind = "chat"
    capacity: Annotated[int, msgspec.Meta(ge=-(1 << 31), le=1 << 31)]


# -- what is answered ----------------------------------------------------------------------------


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every answer that is not a success. `error` says what it is, `code` why, for machines."""

    error: str
    message: str
    code: str | None = None
    hint: str | None = None
    agent: str | None = None
    queue_length: int | None = None
    retry_after: int | None = None
    execution_id: str | None = None
    metadata: dict[str, Any] | None = None


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """`id` is the ticket of this admission, `task_execution_id` the record's id."""

    id: str
    task_execution_id: str
    queue_status: QueueStatus
    was_queued: bool


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """A chat or task that is done."""

    response: str | None
    execution: Admission
    session_id: str | None
    turn: int | None


class AcceptedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A chat or task that goes on without its caller."""

    status: Literal["accepted"] = "accepted"
    execution_id: str
    execution: Admission
    position: int | None


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True):
    """One record; null is "not known", never "none"."""

    id: str
    ticket: str
    agent_name: str
    kind: Kind
    source: Source
    triggered_by: str
    source_agent: str | None
    source_user: str | None
    mcp_key_id: str | None
    mcp_key_name: str | None
    priority: Source
    model: str | None
    session_id: str | None
    message_id: str | None
    turn: int | None
    message: str
    queued_at: str
    started_at: str | None
    finished_at: str | None
    status: Status
    position: int | None
    was_queued: bool
    response: str | None
    error: str | None
    error_code: str | None
    context_used: int | None
    context_max: int | None
    context_percent: float | None
    cost_usd: float | None
    tool_calls: tuple[ToolUse, ...] | None
    superseded: Status | None
    idempotency_key: str | None
    idempotency_unchecked: bool


class ExecutionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Records, newest first; ask again with `before` = `next` for older ones."""

    executions: list[ExecutionView]
    next: str | None


class WaitingView(msgspec.Struct, frozen=True, kw_only=True):
    """One who waits, or runs when `position` is null, and for how long."""

    id: str
    position: int | None
    source: Source
    triggered_by: str
    source_agent: str | None
    priority: Source
    message: str
    queued_at: str
    started_at: str | None
    waited_seconds: float
    running_seconds: float | None


class TasksView(msgspec.Struct, frozen=True, kw_only=True):
    """The line of an agent's tasks."""

    capacity: int
    running: list[WaitingView]
    queue_length: int
    queued_executions: list[WaitingView]


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """The line of an agent's conversation, and that of its tasks."""

    agent_name: str
    is_busy: bool
    capacity: int
    current_execution: WaitingView | None
    queue_length: int
    queued_executions: list[WaitingView]
    generation: int
    tasks: TasksView


class Cleared(msgspec.Struct, frozen=True, kw_only=True):
    """Who waited was sent away."""

    status: Literal["cleared"] = "cleared"
    agent: str
    cleared_count: int


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """The slot was taken; `warning` is null when nobody held it."""

    status: Literal["released"] = "released"
    agent: str
    was_running: bool
    warning: str | None


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation begins anew; whose turn was cut off is named."""

    status: Literal["reset"] = "reset"
    agent: str
    session_id: str
    generation: int
    cancelled_executions: list[str]


class Terminated(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the wish to end it."""

    status: TerminateStatus
    execution_id: str
    agent: str


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of an execution's turn; `available` is false when its session is gone."""

    execution_id: str
    session_id: str | None
    turn: int | None
    available: bool
    entries: list[dict[str, Any]]


class ActivityView(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the timeline."""

    id: str
    at: str
    agent_name: str
    kind: ActivityKind
    text: str
    status: str | None
    execution_id: str | None
    session_id: str | None
    source: Source
    triggered_by: str
    source_agent: str | None
    source_user: str | None
    mcp_key_name: str | None
    facts: dict[str, Any]


class ActivityPage(msgspec.Struct, frozen=True, kw_only=True):
    """Lines, newest first; ask again with `before` = `next` for older ones."""

    activity: list[ActivityView]
    next: str | None


class FanOutResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one task of a list; `status` is `waiting` until it is taken up."""

    index: int
    status: Status | Literal["waiting", "refused"]
    execution_id: str | None
    response: str | None
    error: str | None
    error_code: str | None


class FanOutView(msgspec.Struct, frozen=True, kw_only=True):
    """A list of tasks; `partial` when some of them failed, `failed` when all did."""

    fan_out_id: str
    agent: str
    status: Literal["running", "completed", "partial", "failed"]
    total: int
    finished: int
    results: list[FanOutResult]


class ProblemView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that must not be."""

    code: str
    message: str


class CheckView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the books are right."""

    ok: bool
    problems: list[ProblemView]
