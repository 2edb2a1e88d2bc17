"""What the MCP server's tools take and give, in shapes; their JSON Schemas are of these."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from agent_lab.domain.execution import Status
from agent_lab.presentation.line_shapes import ExecutionView

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000_000)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=500)]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a tool takes; an unknown argument is refused."""


class ChatWithAgent(Arguments, frozen=True, kw_only=True):
    """`parallel` in a session of its own; `timeout_seconds` is the longest run."""

    agent_name: Name
    message: Text
    parallel: bool = False
    timeout_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None


class ListExecutions(Arguments, frozen=True, kw_only=True):
    """Of one agent, or of all, newest first."""

    agent_name: Name | None = None
    limit: Limit = 20
    status: Status | None = None


class GetExecution(Arguments, frozen=True, kw_only=True):
    """`include_log`: the entries of its turn too."""

    execution_id: Id
    include_log: bool = False


class ListSchedules(Arguments, frozen=True, kw_only=True):
    """Of one agent."""

    agent_name: Name


class TriggerSchedule(Arguments, frozen=True, kw_only=True):
    """One schedule, of whatever agent."""

    schedule_id: Id


# -- what is given -------------------------------------------------------------------------------


ChatStatus: TypeAlias = Literal[
    "completed",
    "agent_busy",
    "queued_timeout",
    "rate_limited",
    "failed",
    "timeout",
    "cancelled",
    "interrupted",
    "refused",
]


class ChatAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a message to an agent.

    `completed`: `response` is the answer. `agent_busy`: nothing was accepted, ask again after
    `retry_after_seconds`. `queued_timeout`: it still waits in line and will run; ask
    get_execution_result for `execution_id`. `rate_limited`: the provider refused it; `retryable` is
    false, since asking again at once makes it worse. The rest did not complete; `code` and
    `message` say why.
    """

    status: ChatStatus
    response: str | None = None
    execution_id: str | None = None
    session_id: str | None = None
    retryable: bool | None = None
    retry_after_seconds: int | None = None
    queue_length: int | None = None
    position: int | None = None
    code: str | None = None
    message: str | None = None
    hint: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether the message got no answer and will get none."""
        return self.status not in ("completed", "agent_busy", "queued_timeout")


class Executions(msgspec.Struct, frozen=True, kw_only=True):
    """Records, newest first."""

    executions: list[ExecutionView]


class ExecutionResult(msgspec.Struct, frozen=True, kw_only=True):
    """One record, and the entries of its turn if they were asked for."""

    execution: ExecutionView
    log: dict[str, Any] | None
