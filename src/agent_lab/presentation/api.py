"""`/api` over HTTP: what agents and sessions there are, and their entries as on the wire."""

from typing import Any, Literal, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_lab.application.agents import Agents, UnknownSession
from agent_lab.application.raw_events import raw_before
from agent_lab.application.served import ServedSession
from agent_lab.domain.errors import StorageCode, StorageError
from agent_lab.domain.payloads import ModelRequested, ModelResponded, Retrying, TurnFailed
from agent_lab.domain.redaction import SECRETS
from agent_lab.presentation.encoder import hidden_text
from agent_lab.presentation.views import Encoders, agent_view, dormant_view, session_view

PAGE_SIZE = 1 << 20
"""Characters after which a page of entries ends: one join must not hold up the loop."""
MAX_ENTRIES = 1000
"""Entries in one answer."""

ApiCode: TypeAlias = Literal[
    StorageCode,
    "bad_history",
    "bad_model",
    "bad_query",
    "internal",
    "method_not_allowed",
    "not_found",
    "too_many_sockets",
]
"""Every code of an HTTP answer that is not the guard's."""

_BY_STATUS: dict[int, tuple[ApiCode, str]] = {
    404: ("not_found", "see docs/protocol.md for the routes; /api/sessions lists the sessions"),
    405: ("method_not_allowed", "use one of the methods that the Allow header names"),
    422: ("bad_query", "see docs/protocol.md for the parameters of each route"),
}


class Api:
    """The routes of `/api`."""

    def __init__(self, agents: Agents, encoders: Encoders) -> None:
        self._agents = agents
        self._encoders = encoders

    @property
    def routes(self) -> list[Route]:
        """What to mount; each route answers GET."""
        return [
            Route("/api/agents", self.agents),
            Route("/api/sessions", self.sessions),
            Route("/api/sessions/{id:path}/entries", self.entries),
            Route("/api/sessions/{id:path}/entries/{seq}/body", self.body),
        ]

    async def agents(self, _: Request) -> Response:
        """The agents, in the order they were given."""
        named = map(self._agents.get, self._agents.names)
        return as_json({"agents": [agent_view(self._agents, agent) for agent in named]})

    async def sessions(self, _: Request) -> Response:
        """The sessions that are kept, newest first: those in memory, then those that are stored."""
        live = [session_view(one) for one in self._agents.sessions()]
        stored = [dormant_view(one) for one in await self._agents.dormant()]
        return as_json({"sessions": [*live, *stored]})

    async def entries(self, request: Request) -> Response:
        """Entries behind `after`, at most `limit` or about a mebibyte, one at least.

        Ask again behind the last one for more; `gap` says what memory has let go of.
        """
        session = await self._session(request)
        after = _whole(request, "after", 0, least=0)
        limit = _whole(request, "limit", MAX_ENTRIES, least=1, most=MAX_ENTRIES)
        gap, found = await self._agents.entries(session, after, limit)
        encoder = self._encoders.of(session)
        head = {
            "session_id": session.session_id,
            "epoch": session.epoch,
            "last_seq": session.last_seq,
            "gap": gap and {"from": gap.first, "to": gap.last},
        }
        page: list[str] = []
        room = PAGE_SIZE
        for entry in found:
            page.append(encoder.encode(entry))
            room -= len(page[-1])
            if room <= 0:
                break
        entries = ",".join(page)
        return _raw(f'{hidden_text(head)[:-1]},"entries":[{entries}]}}')

    async def body(self, request: Request) -> Response:
        """The whole request of a `model_request` entry as it was sent; of a `model_response`, the
        provider's events as they came.
        """
        session, said = await self._session(request), request.path_params["seq"]
        seq = int(said) if said.isascii() and said.isdigit() and len(said) < 16 else 0
        _, found = await self._agents.entries(session, max(seq - 1, 0), 1)
        if not seq or not found or found[0].seq != seq:
            raise HTTPException(404, f"session {session.session_id!r} keeps no entry {said!r}")
        payload = found[0].payload
        if isinstance(payload, ModelRequested):
            return _raw(self._encoders.of(session).whole_body(payload.request))
        if isinstance(payload, ModelResponded | Retrying | TurnFailed):
            return _raw(hidden_text(await raw_before(session, seq)))
        raise HTTPException(404, f"entry {seq} is of the type {payload.type}, which has no body")

    async def _session(self, request: Request) -> ServedSession:
        try:
            await self._agents.recall(session_id=request.path_params["id"])
            return self._agents.session(request.path_params["id"])
        except UnknownSession as error:
            raise HTTPException(404, str(error)) from None


def as_json(said: dict[str, Any], status: int = 200) -> Response:
    """A JSON answer."""
    return Response(hidden_text(said), status, media_type="application/json")


async def failed(_: Request, error: Exception) -> Response:
    """What went wrong, as JSON and as a machine code in a header."""
    assert isinstance(error, HTTPException)
    code, hint = _BY_STATUS.get(error.status_code, ("internal", ""))
    said = error.detail if error.detail not in ("Not Found", "Method Not Allowed") else ""
    message = SECRETS.redact(said) or "there is nothing here that answers to this"
    answer = refusal(error.status_code, code, message, hint)
    answer.headers.update(error.headers or {})
    return answer


def refusal(status: int, code: ApiCode, message: str, hint: str) -> Response:
    """A refusal as JSON and as a machine code in a header."""
    answer = as_json({"error": code, "message": message, "hint": hint}, status)
    answer.headers["X-Agent-Lab-Error-Code"] = code
    return answer


async def not_stored(_: Request, error: Exception) -> Response:
    """The store fails, or what was asked for cannot be read from it."""
    assert isinstance(error, StorageError)
    said = {"error": error.code, "message": SECRETS.redact(str(error)), "hint": error.hint}
    answer = as_json(said, 503)
    answer.headers["X-Agent-Lab-Error-Code"] = error.code
    return answer


async def crashed(_: Request, __: Exception) -> Response:
    """A fault of ours; the log has it."""
    message = "this is a fault of agent_lab; its log says more"
    answer = as_json({"error": "internal", "message": message, "hint": "try again"}, 500)
    answer.headers["X-Agent-Lab-Error-Code"] = "internal"
    return answer


def _whole(request: Request, name: str, default: int, *, least: int, most: int = 1 << 53) -> int:
    said = request.query_params.getlist(name)
    if not said:
        return default
    digits = said[0]
    if len(said) == 1 and digits.isascii() and digits.isdigit() and len(digits) < 17:
        value = int(digits)
        if least <= value <= most:
            return value
    raise HTTPException(422, f"`{name}` must be one whole number from {least} to {most}")


def _raw(text: str | bytes) -> Response:
    return Response(text, media_type="application/json")
