"""`/api` over agents as sessions: the commands that every face shares, one route each."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_lab.application.aborts import WaitAborted
from agent_lab.application.asking import TakesTheLine, TooManyAgents
from agent_lab.application.control import AgentControl
from agent_lab.application.cursors import BadCursor
from agent_lab.application.served import AgentsClosed, UnknownAgent, UnknownSession
from agent_lab.domain.errors import (
    AgentLabError,
    AnswerRefused,
    MessageRejected,
    ModelError,
    RuntimeClosed,
    RuntimeFailed,
    StorageError,
)
from agent_lab.domain.permission import PermissionAnswer
from agent_lab.domain.settling import AgentStatus
from agent_lab.presentation.control_shapes import (
    AgentList,
    AnswerBody,
    CancelBody,
    CreateBody,
    PermissionList,
    PromptBody,
    WaitBody,
)
from agent_lab.presentation.hanging import while_there
from agent_lab.presentation.line_answers import CODE, answer
from agent_lab.presentation.line_requests import body_of
from agent_lab.presentation.line_shapes import Refusal
from agent_lab.presentation.strict import Refused

ControlCode: TypeAlias = Literal[
    "arguments_changed",
    "bad_arguments",
    "bad_cursor",
    "bad_message",
    "bad_model",
    "bad_query",
    "busy",
    "closing",
    "empty",
    "id_reused",
    "not_found",
    "prompt_closed",
    "prompt_elsewhere",
    "prompt_unknown",
    "queue_full",
    "session_closed",
    "session_failed",
    "takes_the_line",
    "too_many_agents",
]
"""Every code of an answer of these routes that is not the store's or the guard's."""

_STATUS = {
    "arguments_changed": 409,
    "bad_json": 400,
    "busy": 409,
    "closing": 503,
    "not_found": 404,
    "prompt_closed": 409,
    "prompt_elsewhere": 404,
    "prompt_unknown": 404,
    "queue_full": 429,
    "session_closed": 409,
    "session_failed": 409,
    "takes_the_line": 409,
    "too_many_agents": 429,
}
_KINDS: tuple[tuple[type[AgentLabError], ControlCode, str], ...] = (
    (UnknownAgent, "not_found", "GET /api/agents lists the agents"),
    (UnknownSession, "not_found", "GET /api/sessions/status lists them"),
    (TooManyAgents, "too_many_agents", "close some at POST /api/sessions/{id}/close"),
    (TakesTheLine, "takes_the_line", "POST /api/agents/{name}/chat, or …/reset"),
    (BadCursor, "bad_cursor", "leave `after` out to begin with what is now"),
    (RuntimeClosed, "session_closed", "what it did can still be read; create a new one"),
    (RuntimeFailed, "session_failed", "create a new one"),
    (WaitAborted, "closing", "come back when it is up again, with the cursor"),
    (AgentsClosed, "closing", "come back when it is up again"),
)
MOST = 500
"""Items in one answer."""
SESSION = "/api/sessions/{id:path}"
Handler = Callable[[Request], Awaitable[Response]]


class ControlApi:
    """The routes of the commands on agents."""

    def __init__(self, control: AgentControl) -> None:
        self._control = control

    @property
    def routes(self) -> list[Route]:
        """What to mount."""
        table: list[tuple[str, str, Handler]] = [
            ("POST", "/api/agents", self.create),
            ("POST", "/api/sessions/wait", self.wait),
            ("GET", "/api/sessions/status", self.listed),
            ("GET", "/api/permissions", self.permissions),
            ("GET", f"{SESSION}/status", self.status),
            ("GET", f"{SESSION}/activity", self.activity),
            ("POST", f"{SESSION}/prompt", self.prompt),
            ("POST", f"{SESSION}/cancel", self.cancel),
            ("POST", f"{SESSION}/close", self.close),
            ("POST", f"{SESSION}/permissions/{{request_id}}", self.permit),
        ]
        return [Route(path, _told(handler), methods=[method]) for method, path, handler in table]

    # -- create, prompt, wait --------------------------------------------------------------------

    async def create(self, request: Request) -> Response:
        """A new agent; in the background, or with what its first turn came to."""
        body = await body_of(request, CreateBody)
        if not body.background and body.initial_prompt is None:
            raise Refused(
                "bad_message",
                "there is nothing to wait for without `initial_prompt`",
                "give it one, or leave `background` out",
            )
        options: dict[str, Any] = {
            "from_agent": body.from_agent,
            "instructions": body.instructions,
            "message_id": body.message_id,
        }
        if body.background or body.initial_prompt is None:
            prompt = body.initial_prompt
            made = await self._control.create_agent(body.name, initial_prompt=prompt, **options)
            where = f"/api/sessions/{quote(made.agent_id, safe=':')}/status"
            return answer(made, 201, Location=where)
        work = self._control.create_agent_and_wait(
            body.name, body.initial_prompt, timeout_seconds=body.timeout_seconds, **options
        )
        return _answered(await while_there(request, work), 201)

    async def prompt(self, request: Request) -> Response:
        """Give it a message; in the background, or with what that message's turn came to."""
        body, agent_id = await body_of(request, PromptBody), request.path_params["id"]
        if not body.background:
            work = self._control.send_agent_prompt_and_wait(
                agent_id,
                body.prompt,
                mode=body.mode,
                message_id=body.message_id,
                if_interrupted=body.if_interrupted,
                timeout_seconds=body.timeout_seconds,
            )
            return _answered(await while_there(request, work))
        prompted = await self._control.send_agent_prompt(
            agent_id, body.prompt, mode=body.mode, message_id=body.message_id
        )
        said = prompted.receipt
        if not prompted.accepted:
            error = MessageRejected(said.code or "", said.message_id, said.message or "")
            return _refused(error, retry_after=said.retry_after)
        return answer(prompted, 202)

    async def wait(self, request: Request) -> Response:
        """Wait for agents; whoever hangs up ends his wait, and nothing else."""
        body = await body_of(request, WaitBody)
        said = {name: getattr(body, name) for name in body.__struct_fields__[1:]}
        work = self._control.wait_for_agent(body.agent_ids, **said)
        return _answered(await while_there(request, work))

    # -- look ------------------------------------------------------------------------------------

    async def listed(self, request: Request) -> Response:
        """Agents, newest first."""
        found = await self._control.list_agents(
            statuses=_statuses(request), limit=_limit(request, self._control.limits.listed)
        )
        return answer(AgentList(agents=found))

    async def status(self, request: Request) -> Response:
        """One agent as it is now."""
        return answer(await self._control.get_agent_status(request.path_params["id"]))

    async def activity(self, request: Request) -> Response:
        """What it did lately."""
        limit = _limit(request, self._control.limits.activity)
        agent_id = request.path_params["id"]
        return answer(await self._control.get_agent_activity(agent_id, limit=limit))

    async def permissions(self, request: Request) -> Response:
        """What waits for somebody to allow it."""
        agent_id = request.query_params.get("agent_id")
        found = await self._control.list_pending_permissions(agent_id)
        return answer(PermissionList(permissions=found))

    # -- stop, and answer ------------------------------------------------------------------------

    async def cancel(self, request: Request) -> Response:
        """Stop a turn."""
        has_body = bool(await request.body())
        body = await body_of(request, CancelBody) if has_body else CancelBody()
        agent_id = request.path_params["id"]
        turn, drop = body.turn, body.drop_waiting
        return answer(await self._control.cancel_agent(agent_id, turn=turn, drop_waiting=drop))

    async def close(self, request: Request) -> Response:
        """Close it for good."""
        return answer(await self._control.close_agent(request.path_params["id"]))

    async def permit(self, request: Request) -> Response:
        """Answer a permission request."""
        body = await body_of(request, AnswerBody)
        said = PermissionAnswer(**msgspec.structs.asdict(body))
        agent_id, request_id = request.path_params["id"], request.path_params["request_id"]
        return answer(await self._control.respond_to_permission(agent_id, request_id, said))


def _told(handler: Handler) -> Handler:
    """The handler with its refusals told."""

    async def told(request: Request) -> Response:
        try:
            return await handler(request)
        except AgentLabError as error:
            return _refused(error)

    return told


def _answered(found: msgspec.Struct | None, status: int = 200) -> Response:
    """The answer; whoever has hung up gets none."""
    return Response(status_code=204) if found is None else answer(found, status)


def _refused(error: AgentLabError, *, retry_after: float | None = None) -> Response:
    code, hint = _reason(error)
    status = 503 if isinstance(error, StorageError) else _STATUS.get(code, 422)
    wait = max(round(retry_after or 1), 1) if status == 429 else None
    said = Refusal(error=code, code=code, message=str(error), hint=hint or None, retry_after=wait)
    response = answer(said, status)
    response.headers[CODE] = code
    if wait is not None:
        response.headers["Retry-After"] = str(wait)
    return response


def _reason(error: AgentLabError) -> tuple[str, str]:
    """The machine's name for why, and what to do."""
    match error:
        case Refused() | AnswerRefused() | StorageError():
            return error.code, error.hint
        case MessageRejected():
            return error.code, "see `message`"
        case ModelError():
            return "bad_model", error.hint
        case _:
            for kind, code, hint in _KINDS:
                if isinstance(error, kind):
                    return code, hint
            raise error


def _limit(request: Request, default: int) -> int:
    said = request.query_params.getlist("limit")
    if not said:
        return default
    is_whole = len(said) == 1 and said[0].isascii() and said[0].isdigit() and len(said[0]) < 5
    if is_whole and 1 <= int(said[0]) <= MOST:
        return int(said[0])
    raise Refused("bad_query", f"`limit` must be a whole number from 1 to {MOST}", "mend it")


def _statuses(request: Request) -> list[AgentStatus]:
    said = request.query_params.getlist("statuses")
    try:
        return msgspec.convert(said, list[AgentStatus])
    except msgspec.ValidationError:
        names = ", ".join(get_args(AgentStatus))
        raise Refused("bad_query", f"`statuses` must each be one of {names}", "mend it") from None
