"""`/api` of histories: check a session's, explain an error, import one, and what was not held."""

from asyncio import to_thread
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_lab.application.agents import Agents
from agent_lab.application.histories import Blamed, HistoryOf, open_imported
from agent_lab.application.served import UnknownAgent, UnknownSession
from agent_lab.domain.dialects.check import DIALECTS
from agent_lab.domain.dialects.containers import parse
from agent_lab.domain.dialects.explain import explain_error
from agent_lab.domain.dialects.importing import ImportedHistory, import_history
from agent_lab.domain.dialects.violations import HistoryUnreadable
from agent_lab.domain.errors import ModelError
from agent_lab.presentation.api import as_json, refusal
from agent_lab.presentation.line_answers import refused
from agent_lab.presentation.line_requests import body_of
from agent_lab.presentation.line_shapes import Body
from agent_lab.presentation.strict import Refused

Json = dict[str, Any]


class ImportBody(Body, frozen=True, kw_only=True):
    """A history from elsewhere: any JSON, or the text of a file."""

    content: Any
    format: str | None = None
    agent: str | None = None


class ExplainBody(Body, frozen=True, kw_only=True):
    """A provider's error text, and the session to look for it in."""

    text: str
    session_id: str | None = None


class Histories:
    """The routes of histories. What takes long runs in a thread, on a copy."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    @property
    def routes(self) -> list[Route]:
        """What to mount."""
        return [
            Route("/api/sessions/import", self.take_in, methods=["POST"]),
            Route("/api/sessions/{id:path}/check", self.check),
            Route("/api/sessions/{id:path}/entries/{seq}/unheld", self.unheld),
            Route("/api/explain", self.explain, methods=["POST"]),
        ]

    async def check(self, request: Request) -> Response:
        """Whether each dialect would take the session's history."""
        dialects = request.query_params.getlist("dialect") or list(DIALECTS)
        if unknown := [dialect for dialect in dialects if dialect not in DIALECTS]:
            raise HTTPException(422, _no_dialect(unknown[0]))
        history = HistoryOf(self._session(request.path_params["id"]))
        found = await to_thread(lambda: {name: history.check(name) for name in dialects})
        imported = history.imported
        given = imported and {"format": imported.format, **_verdict(history.check_imported())}
        return as_json(
            {
                "session_id": history.session_id,
                "last_seq": history.last_seq,
                "messages": len(history.messages),
                "dialects": {name: _verdict(blamed) for name, blamed in found.items()},
                "imported": given,
            }
        )

    async def explain(self, request: Request) -> Response:
        """Which rule an error text is about, and which message of a session."""
        try:
            asked = await body_of(request, ExplainBody)
        except Refused as error:
            return refused(error, "")
        text, session_id = asked.text, asked.session_id
        rules = [one._asdict() for one in explain_error(text)]
        if session_id is None:
            return as_json({"rules": rules, "found": [], "named": []})
        history = HistoryOf(self._session(session_id))
        found = await to_thread(history.locate, text)
        named = [{"id": i, "message": n, "seq": seq} for i, n, seq in history.named(text)]
        at_fault = [{**_violation(blamed), "dialect": dialect} for dialect, blamed in found]
        return as_json({"rules": rules, "found": at_fault, "named": named})

    async def unheld(self, request: Request) -> Response:
        """What a provider would have said if nothing had been held."""
        history = HistoryOf(self._session(request.path_params["id"]))
        said, dialect = request.path_params["seq"], request.query_params.get("dialect")
        if dialect is not None and dialect not in DIALECTS:
            raise HTTPException(422, _no_dialect(dialect))
        seq = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else 0
        unheld = await to_thread(history.unheld, seq, dialect)
        if unheld is None:
            raise HTTPException(404, f"entry {said!r} is neither `held` nor a `model_request`")
        verdict = _verdict(unheld.found)
        errors = [v["provider_error"] for v in verdict["violations"] if v["severity"] == "error"]
        return as_json(
            {
                "session_id": history.session_id,
                "seq": seq,
                "dialect": unheld.dialect,
                "request": unheld.request,
                "provider_error": errors[0] if errors else None,
                "messages": unheld.wire,
                **verdict,
            }
        )

    async def take_in(self, request: Request) -> Response:
        """Open a history from elsewhere as a session."""
        try:
            asked = await body_of(request, ImportBody, is_data=True)
            imported = await to_thread(_imported, asked.content, asked.format)
            agent = self._agents.get(asked.agent or self._agents.names[0])
            served = open_imported(self._agents, agent, imported)
        except Refused as error:
            return refused(error, "")
        except HistoryUnreadable as error:
            return refusal(422, "bad_history", str(error), "see docs/protocol.md for what it takes")
        except UnknownAgent as error:
            raise HTTPException(404, str(error)) from None
        except ModelError as error:
            return refusal(422, "bad_model", f"{error} ({error.code})", error.hint)
        changes = [
            {"deed": c.deed, "where": c.where, "by": c.by, "reason": c.reason}
            for c in imported.changes
        ]
        answer: Json = {
            "session_id": served.session_id,
            "agent": agent.name,
            "format": imported.format,
            "messages": len(imported.wire),
            **_verdict(HistoryOf(served).check_imported()),
            "changes": changes,
        }
        return as_json(answer, 201)

    def _session(self, session_id: str) -> Any:
        try:
            return self._agents.session(session_id)
        except UnknownSession as error:
            raise HTTPException(404, str(error)) from None


def _imported(content: Any, wire_format: str | None) -> ImportedHistory:
    return import_history(parse(content) if isinstance(content, str) else content, wire_format)


def _verdict(found: list[Blamed]) -> Json:
    violations = [_violation(blamed) for blamed in found]
    valid = all(blamed.violation.severity == "warning" for blamed in found)
    return {"valid": valid, "violations": violations}


def _violation(blamed: Blamed) -> Json:
    said = blamed.violation
    return {
        "rule": said.rule,
        "where": said.where,
        "ids": said.ids,
        "explanation": said.explanation,
        "provider_error": said.provider_error,
        "fix": said.fix,
        "severity": said.severity,
        "message": blamed.message,
        "seq": blamed.seq,
    }


def _no_dialect(name: str) -> str:
    return f"there is no dialect {name!r}; it is one of {', '.join(DIALECTS)}"
