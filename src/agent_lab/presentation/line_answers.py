"""What an execution, or the refusal of one, comes to in HTTP: status, body and machine code."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from agent_lab.application.asked import seconds
from agent_lab.application.fan_out import UnknownFanOut
from agent_lab.application.served import AgentsClosed, UnknownAgent
from agent_lab.domain.errors import AgentLabError, NotAdmitted, StorageError, UnknownExecution
from agent_lab.domain.execution import Execution
from agent_lab.domain.schedule import ScheduleRefused, UnknownSchedule
from agent_lab.presentation.encoder import hidden_text
from agent_lab.presentation.line_shapes import AcceptedAnswer, Answered, Refusal
from agent_lab.presentation.line_views import admission
from agent_lab.presentation.strict import Refused

Handler = Callable[[Request, str], Awaitable[Response]]
ID = "X-Agent-Lab-Execution-Id"
CODE = "X-Agent-Lab-Error-Code"

LineCode: TypeAlias = Literal[
    "bad_header",
    "bad_message",
    "bad_model",
    "bad_schedule",
    "cancelled",
    "capacity",
    "closing",
    "depth_exceeded",
    "interrupted",
    "key_reused",
    "model_not_allowed",
    "queued_timeout",
    "request_in_progress",
    "run_timeout",
    "turn_failed",
]
"""Every code of an answer about the line that is no other answer's too."""

_STATUS = {
    "bad_json": 400,
    "bad_model": 422,
    "capacity": 429,
    "closing": 503,
    "depth_exceeded": 429,
    "key_reused": 422,
    "model_not_allowed": 422,
    "request_in_progress": 409,
}


def answer(shape: msgspec.Struct, status: int = 200, **headers: str) -> Response:
    """A JSON answer of this shape; header names are given with underscores."""
    said = msgspec.to_builtins(shape)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(hidden_text(said), status, given, media_type="application/json")


def accepted(execution: Execution, position: int | None) -> Response:
    """It goes on without its caller."""
    said = AcceptedAnswer(
        execution_id=execution.id, execution=admission(execution), position=position
    )
    found = f"/api/agents/{quote(execution.agent_name, safe='')}/executions/{execution.id}"
    return _told(answer(said, 202, Location=found), execution)


def finished(execution: Execution) -> Response:
    """Its end, as the answer to whoever asked for it."""
    if execution.status == "completed":
        said = Answered(
            response=execution.response,
            execution=admission(execution),
            session_id=execution.session_id,
            turn=execution.turn,
        )
        return _told(answer(said), execution)
    status, error, code = _failure(execution)
    refusal = Refusal(
        error=error,
        code=code,
        message=execution.error or error,
        agent=execution.agent_name,
        execution_id=execution.id,
        retry_after=30 if code == "queued_timeout" else None,
        metadata={
            "status": execution.status,
            "reason": execution.error_code,
            "session_id": execution.session_id,
            "turn": execution.turn,
        },
    )
    return _told(_refused(refusal, status, code), execution)


def interrupted(execution: Execution, why: str) -> Response:
    """The server stops before it has its end."""
    said = Refusal(
        error="Interrupted",
        code="interrupted",
        message=why,
        agent=execution.agent_name,
        execution_id=execution.id,
    )
    return _refused(said, 503, "interrupted")


def refused(error: AgentLabError, agent_name: str) -> Response:
    """Why nothing of it was accepted, or found."""
    match error:
        case NotAdmitted(code="capacity"):
            wait = seconds(error.retry_after or 1.0)
            said = Refusal(
                error="Agent queue is full",
                agent=agent_name,
                queue_length=error.queue_length,
                retry_after=wait,
                message=str(error),
                code="capacity",
                hint=error.hint,
            )
            return _refused(said, 429, "capacity")
        case NotAdmitted():
            return _plain(error.code, str(error), error.hint, execution_id=error.execution_id)
        case Refused():
            return _plain(error.code, str(error), error.hint)
        case ScheduleRefused():
            hint = "see docs/protocol.md for what a schedule says"
            return _plain("bad_schedule", str(error), hint)
        case UnknownAgent() | UnknownExecution() | UnknownFanOut() | UnknownSchedule():
            # alike for what never was and for what is another's
            text = f"there is no such thing at agent {agent_name!r}"
            return _plain("not_found", text, "GET /api/agents lists the agents", status=404)
        case StorageError():
            return _plain(error.code, str(error), error.hint, status=503)
        case AgentsClosed():
            return _plain("closing", str(error), "come back when it is up again")
        case _:
            raise error


def told(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """The handler with its refusals told, and the agent's name out of the path."""

    async def answered(request: Request) -> Response:
        name = request.path_params.get("name", "")
        try:
            return await handler(request, name)
        except AgentLabError as error:
            return refused(error, name)

    return answered


def _failure(execution: Execution) -> tuple[int, str, str]:
    match execution.status:
        case "timeout" if execution.started_at is None:
            return 503, "Waited too long", "queued_timeout"
        case "timeout":
            return 504, "Run took too long", "run_timeout"
        case "cancelled":
            return 409, "Cancelled", "cancelled"
        case "interrupted" | "skipped":
            return 503, "Interrupted", "interrupted"
        case _:
            return 502, "Agent turn failed", execution.error_code or "turn_failed"


def _plain(
    code: str, message: str, hint: str, *, status: int | None = None, **more: Any
) -> Response:
    said = Refusal(error=code, code=code, message=message, hint=hint or None, **more)
    return _refused(said, status or _STATUS.get(code, 422), code)


def _refused(said: Refusal, status: int, code: str) -> Response:
    response = answer(said, status)
    response.headers[CODE] = code
    if said.retry_after is not None:
        response.headers["Retry-After"] = str(said.retry_after)
    if said.execution_id is not None:
        response.headers[ID] = said.execution_id
    return response


def _told(response: Response, execution: Execution) -> Response:
    response.headers[ID] = execution.id
    if execution.idempotency_unchecked:
        response.headers["X-Agent-Lab-Idempotency"] = "unchecked"
    return response
