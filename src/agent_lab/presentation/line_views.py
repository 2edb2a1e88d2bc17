"""From the line's records to the shapes that `/api` answers with."""

from typing import Any

import msgspec

from agent_lab.application.executions import Executions
from agent_lab.application.fan_out import FanOut
from agent_lab.application.line_control import LineState
from agent_lab.domain.activity import Activity
from agent_lab.domain.execution import Execution
from agent_lab.presentation.line_shapes import (
    ActivityView,
    Admission,
    ExecutionView,
    FanOutResult,
    FanOutView,
    QueueView,
    TasksView,
    WaitingView,
)
from agent_lab.presentation.views import timestamp


def admission(execution: Execution) -> Admission:
    """Both ids, and whether it had to wait."""
    waits = execution.status == "queued"
    return Admission(
        id=execution.ticket,
        task_execution_id=execution.id,
        queue_status="queued" if waits and execution.was_queued else "running",
        was_queued=execution.was_queued,
    )


def execution_view(execution: Execution, position: int | None = None) -> ExecutionView:
    """The record as it is told."""
    told: dict[str, Any] = {
        name: getattr(execution, name)
        for name in ExecutionView.__struct_fields__
        if name not in ("position", *_TIMES)
    }
    told |= {name: _stamp(getattr(execution, name)) for name in _TIMES}
    return ExecutionView(**told, position=position)


def queue_view(
    agent_name: str, chat: LineState, task: LineState, book: Executions, generation: int
) -> QueueView:
    """Both lines of an agent."""
    now = book.now()
    running = [_waiting(execution, None, now) for execution in chat.running]
    return QueueView(
        agent_name=agent_name,
        is_busy=bool(running),
        capacity=chat.room.slots,
        current_execution=running[0] if running else None,
        queue_length=len(chat.waiting),
        queued_executions=_line(chat, now),
        generation=generation,
        tasks=TasksView(
            capacity=task.room.slots,
            running=[_waiting(execution, None, now) for execution in task.running],
            queue_length=len(task.waiting),
            queued_executions=_line(task, now),
        ),
    )


def activity_view(activity: Activity) -> ActivityView:
    """The line as it is told."""
    told: dict[str, Any] = msgspec.structs.asdict(activity)
    told["at"] = timestamp(activity.at)
    return ActivityView(**told)


def fan_out_view(made: FanOut, book: Executions) -> FanOutView:
    """How the list stands, task by task."""
    return FanOutView(
        fan_out_id=made.id,
        agent=made.agent_name,
        status=made.status,
        total=made.total,
        finished=made.finished,
        results=[_fan_out_result(made, index, book) for index in range(made.total)],
    )


def _fan_out_result(made: FanOut, index: int, book: Executions) -> FanOutResult:
    if refusal := made.refusals.get(index):
        return FanOutResult(
            index=index,
            status="refused",
            execution_id=None,
            response=None,
            error=str(refusal),
            error_code=getattr(refusal, "code", "refused"),
        )
    known = made.executions.get(index)
    execution = known and (book.get(known.id) or known)
    return FanOutResult(
        index=index,
        status=execution.status if execution else "waiting",
        execution_id=execution.id if execution else None,
        response=execution.response if execution else None,
        error=execution.error if execution else None,
        error_code=execution.error_code if execution else None,
    )


_TIMES = ("queued_at", "started_at", "finished_at")


def _line(state: LineState, now: float) -> list[WaitingView]:
    return [_waiting(execution, at, now) for at, execution in enumerate(state.waiting, 1)]


def _waiting(execution: Execution, position: int | None, now: float) -> WaitingView:
    started = execution.started_at
    return WaitingView(
        id=execution.id,
        position=position,
        source=execution.source,
        triggered_by=execution.triggered_by,
        source_agent=execution.source_agent,
        priority=execution.priority,
        message=execution.message[:200],
        queued_at=timestamp(execution.queued_at),
        started_at=_stamp(started),
        waited_seconds=round((now if started is None else started) - execution.queued_at, 3),
        running_seconds=None if started is None else round(now - started, 3),
    )


def _stamp(wall: float | None) -> str | None:
    return None if wall is None else timestamp(wall)
