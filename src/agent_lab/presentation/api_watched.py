"""What watches over a server asks it: its health, its figures, and what its API is."""

from hmac import compare_digest
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_lab.application.agents import Agents
from agent_lab.presentation.api import as_json
from agent_lab.presentation.health import health_of
from agent_lab.presentation.metrics import Metrics
from agent_lab.presentation.openapi import document


class Watched:
    """`/healthz`, `/metrics` and `/api/openapi.json`."""

    def __init__(self, agents: Agents, token: str) -> None:
        self._agents = agents
        self._known = f"Bearer {token}".encode()
        self._metrics = Metrics(agents)

    @property
    def routes(self) -> list[Route]:
        """What to mount."""
        return [
            Route("/healthz", self.healthz),
            Route("/metrics", self.metrics),
            Route("/api/openapi.json", self.openapi),
        ]

    async def healthz(self, request: Request) -> Response:
        """`ok`, or 503 with the names of what is wrong; in words only to who may know."""
        problems = await health_of(self._agents)
        said: dict[str, Any] = {"status": "failing" if problems else "ok"}
        if problems:
            said["problems"] = [self._problem(request, one.code, one.message) for one in problems]
        return as_json(said, 503 if problems else 200)

    async def metrics(self, _: Request) -> Response:
        """Prometheus' text."""
        text, kind = self._metrics.text()
        return Response(text, headers={"Content-Type": kind})

    async def openapi(self, _: Request) -> Response:
        """The document of `/api`."""
        return as_json(document(self._agents.names))

    def _problem(self, request: Request, code: str, message: str) -> dict[str, str]:
        given = request.headers.get("Authorization", "").encode("utf-8", "replace")
        may_know = compare_digest(given, self._known)
        return {"code": code, "message": message} if may_know else {"code": code}
