"""`GET /api/openapi.json`: the document of `/api`, of one table of operations and their shapes."""

import re
from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from agent_lab.application.control_answers import (
    Activity,
    AgentSnapshot,
    AgentWait,
    CancelledAgent,
    ClosedAgent,
    CreatedAgent,
    Prompted,
    Responded,
    Waited,
)
from agent_lab.domain.dialects.check import DIALECTS
from agent_lab.domain.settling import AgentStatus
from agent_lab.presentation import control_shapes as control
from agent_lab.presentation import line_shapes as shapes
from agent_lab.presentation import schedule_shapes as plans
from agent_lab.presentation.histories import ExplainBody, ImportBody

Shape = type[msgspec.Struct] | None
ANSWERS: dict[int, str] = {
    200: "done",
    201: "made",
    202: "accepted; it goes on without its caller",
    400: "no JSON",
    401: "no token, or a wrong one",
    404: "there is none of that name here",
    409: "the request is under way, or was cancelled",
    413: "the body is too large",
    415: "the body is no JSON",
    422: "a field or a header that cannot be",
    429: "the line is full",
    502: "the turn failed",
    503: "it waited too long, or the server stops",
    504: "it ran too long",
}
_ASK = (409, 422, 429, 502, 503, 504)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One route: what it is asked with, and what it answers; None is any JSON."""

    method: str
    path: str
    summary: str
    body: Shape = None
    answers: dict[int, Shape] = {}
    query: tuple[str, ...] = ()
    errors: tuple[int, ...] = ()


def _get(path: str, summary: str, shape: Shape = None, *query: str) -> Operation:
    errors = (404, 422, 503) if "{" in path or query else (503,)
    return Operation(
        method="get", path=path, summary=summary, answers={200: shape}, query=query, errors=errors
    )


def _do(
    path: str,
    summary: str,
    answer: Shape,
    *,
    body: Shape = None,
    method: str = "post",
    later: Shape = None,
    errors: tuple[int, ...] = (422, 503),
) -> Operation:
    answers = {200: answer} | ({202: later} if later is not None else {})
    return Operation(
        method=method, path=path, summary=summary, body=body, answers=answers, errors=(404, *errors)
    )


_AGENT = "/api/agents/{name}"
_SESSION = "/api/sessions/{id}"
_PAGE = ("before", "limit")
OPERATIONS = (
    _get("/api/agents", "The agents"),
    _get("/api/sessions", "The sessions that are kept, newest first"),
    _get("/api/sessions/{id}/entries", "Entries of a session", None, "after", "limit"),
    _get("/api/sessions/{id}/entries/{seq}/body", "The whole body of a model request"),
    Operation(method="post", path="/api/sessions/import", body=ImportBody, answers={201: None},
        summary="Open a history from elsewhere as a session", errors=(404, 422, 503)),
    _get("/api/sessions/{id}/check", "Whether providers take its history", None, "dialect"),
    _get("/api/sessions/{id}/entries/{seq}/unheld", "As if nothing was held", None, "dialect"),
    Operation(method="post", path="/api/explain", body=ExplainBody, answers={200: None},
        summary="Which rule an error text is about", errors=(404, 422)),
    Operation(method="post", path="/api/agents", body=control.CreateBody,
        answers={201: CreatedAgent}, summary="Create an agent of one that is defined here",
        errors=(404, 409, 422, 429, 503)),
    _get("/api/sessions/status", "Agents as sessions, newest first", control.AgentList,
         "statuses", "limit"),
    _get(f"{_SESSION}/status", "One of them as it is now", AgentSnapshot),
    _get(f"{_SESSION}/activity", "What it did lately", Activity, "limit"),
    _do(f"{_SESSION}/prompt", "Give it a message, or wait for what comes of it", AgentWait,
        body=control.PromptBody, later=Prompted, errors=(409, 422, 429, 503)),
    _do("/api/sessions/wait", "Wait for agents", Waited, body=control.WaitBody),
    _do(f"{_SESSION}/cancel", "Stop a turn", CancelledAgent, body=control.CancelBody),
    _do(f"{_SESSION}/close", "Close it for good", ClosedAgent, errors=(409, 503)),
    _get("/api/permissions", "What waits for somebody to allow it", control.PermissionList,
         "agent_id"),
    _do(f"{_SESSION}/permissions/{{request_id}}", "Answer a permission request", Responded,
        body=control.AnswerBody, errors=(409, 422, 503)),
    _do(f"{_AGENT}/chat", "Say something in the agent's one conversation", shapes.Answered,
        body=shapes.ChatBody, later=shapes.AcceptedAnswer, errors=_ASK),
    _do(f"{_AGENT}/task", "Ask for something in a session of its own", shapes.Answered,
        body=shapes.TaskBody, later=shapes.AcceptedAnswer, errors=_ASK),
    _do(f"{_AGENT}/fan-out", "Ask for a list of tasks", shapes.FanOutView,
        body=shapes.FanOutBody, later=shapes.FanOutView),
    _get(f"{_AGENT}/fan-out/{{id}}", "How a list stands", shapes.FanOutView),
    _do(f"{_AGENT}/reset", "Begin the conversation anew", shapes.Reset),
    _get(f"{_AGENT}/queue", "Who runs and who waits", shapes.QueueView),
    _do(f"{_AGENT}/queue/capacity", "Another capacity from now on", shapes.QueueView,
        body=shapes.CapacityBody, method="put"),
    _do(f"{_AGENT}/queue/clear", "Send away who waits", shapes.Cleared),
    _do(f"{_AGENT}/queue/release", "Take the slot of whoever runs", shapes.Released),
    _get(f"{_AGENT}/executions", "Records, newest first", shapes.ExecutionPage,
         "status", "source", "kind", *_PAGE),
    _get(f"{_AGENT}/executions/running", "Records of what runs now", shapes.ExecutionPage),
    _get(f"{_AGENT}/executions/{{id}}", "One record", shapes.ExecutionView),
    _get(f"{_AGENT}/executions/{{id}}/log", "The entries of its turn", shapes.LogView),
    _do(f"{_AGENT}/executions/{{id}}/terminate", "End it, and nothing else", shapes.Terminated),
    _get(f"{_AGENT}/schedules", "Schedules of an agent", plans.ScheduleList),
    Operation(method="post", path=f"{_AGENT}/schedules", summary="Make a schedule",
        body=plans.ScheduleBody, answers={201: plans.ScheduleView}, errors=(404, 422, 503)),
    _do(f"{_AGENT}/schedules/{{id}}", "Take it away", plans.RemovedSchedule, method="delete"),
    _do(f"{_AGENT}/schedules/{{id}}/enable", "Turn it on", plans.ScheduleView),
    _do(f"{_AGENT}/schedules/{{id}}/disable", "Turn it off", plans.ScheduleView),
    _do(f"{_AGENT}/schedules/{{id}}/trigger", "Have it fire now, or say why not", plans.Triggered,
        later=plans.Triggered),
    _get(f"{_AGENT}/activity", "The timeline of an agent", shapes.ActivityPage, *_PAGE),
    _get("/api/audit", "Who did what to lines and executions", shapes.ActivityPage, *_PAGE),
    _get("/api/check", "Whether the books are right", shapes.CheckView),
    _get("/api/openapi.json", "This document"),
)  # fmt: skip

_QUERY: dict[str, dict[str, Any]] = {
    "after": {"type": "integer", "minimum": 0},
    "before": {"type": "string"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 500},
    "agent_id": {"type": "string", "minLength": 1},
    "statuses": {"enum": list(get_args(AgentStatus))},
    "dialect": {"enum": list(DIALECTS)},
    "kind": {"enum": ["chat", "task"]},
    "source": {"enum": ["user", "schedule", "agent", "mcp"]},
    "status": {
        "enum": [
            *("queued", "running", "completed", "failed", "cancelled", "timeout"),
            *("interrupted", "skipped"),
        ]
    },
}


def document(agents: Sequence[str]) -> dict[str, Any]:
    """OpenAPI 3.1, whole, for a server with these agents."""
    used = {shapes.Refusal, *(one.body for one in OPERATIONS)}
    used |= {shape for one in OPERATIONS for shape in one.answers.values()}
    kinds = sorted((shape for shape in used if shape is not None), key=lambda kind: kind.__name__)
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    refs = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _described(operation, refs, agents)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "agent_lab",
            "version": "1",
            "description": "See docs/protocol.md. Every refusal has X-Agent-Lab-Error-Code.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(
    operation: Operation, refs: dict[type[msgspec.Struct], Any], agents: Sequence[str]
) -> dict[str, Any]:
    def said(status: int, schema: dict[str, Any]) -> dict[str, Any]:
        media = {"application/json": {"schema": schema}}
        return {"description": ANSWERS[status], "content": media}

    answers = {
        str(status): said(status, refs[shape] if shape is not None else {"type": "object"})
        for status, shape in operation.answers.items()
    }
    errors = {*operation.errors, 401}
    if operation.body is not None:
        errors |= {400, 413, 415, 422}
    answers |= {str(status): said(status, refs[shapes.Refusal]) for status in sorted(errors)}
    described: dict[str, Any] = {"summary": operation.summary, "responses": answers}
    described["parameters"] = [
        {"name": name, "in": "path", "required": True, "schema": _path_part(name, agents)}
        for name in re.findall(r"\{(\w+)\}", operation.path)
    ] + [
        {"name": name, "in": "query", "required": False, "schema": _QUERY[name]}
        for name in operation.query
    ]
    if operation.body is not None:
        media = {"application/json": {"schema": refs[operation.body]}}
        described["requestBody"] = {"required": True, "content": media}
    return described


def _path_part(name: str, agents: Sequence[str]) -> dict[str, Any]:
    if name == "name":
        return {"type": "string", "enum": list(agents)}
    return {"type": "string", "minLength": 1}
