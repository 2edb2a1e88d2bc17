"""The ASGI application: page, `/api`, `/ws`, `/mcp` behind the guard, which is outermost."""

from collections.abc import Collection
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from agent_lab.application.agents import Agents
from agent_lab.application.control import AgentControl
from agent_lab.application.line import ExecutionLine
from agent_lab.domain.errors import StorageError
from agent_lab.presentation.api import Api, crashed, failed, not_stored
from agent_lab.presentation.api_control import ControlApi
from agent_lab.presentation.api_line import LineApi
from agent_lab.presentation.api_schedules import SchedulesApi
from agent_lab.presentation.api_watched import Watched
from agent_lab.presentation.downstream import SocketLimits
from agent_lab.presentation.guard import Guard
from agent_lab.presentation.histories import Histories
from agent_lab.presentation.mcp_http import McpDoor
from agent_lab.presentation.sockets import Sockets
from agent_lab.presentation.views import Encoders

STATIC = Path(str(files("agent_lab") / "static"))
"""The debug page, as it lies in the package."""


class App:
    """What a server serves. `router` is the application without its guard, for tests to look at.

    It needs no lifespan: open `agents` before, and call `close()` when the server stops.
    """

    def __init__(
        self,
        router: Starlette,
        guard: Guard,
        sockets: Sockets,
        line: ExecutionLine,
        mcp: McpDoor,
        control: AgentControl,
    ) -> None:
        self.router = router
        self.sockets = sockets
        self.mcp = mcp
        self._guard = guard
        self._line = line
        self._control = control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(scope, receive, send)

    async def close(self) -> None:
        """Close all sockets with 1001, and answer who waits; sessions are the agents' to close."""
        self.mcp.stop()
        self._line.close()
        self._control.stop()
        await self.sockets.close()


def make_app(
    agents: Agents,
    *,
    token: str,
    hosts: Collection[str],
    limits: SocketLimits | None = None,
) -> App:
    """The application for these agents; `hosts` are the exact Host values, see allowed_hosts()."""
    encoders = Encoders()
    sockets = Sockets(agents, encoders, limits or SocketLimits())
    mcp = McpDoor(agents, encoders, hosts=hosts)
    control = AgentControl(agents)
    router = Starlette(
        routes=[
            Route("/", _page),
            *Api(agents, encoders).routes,
            *Histories(agents).routes,
            *ControlApi(control).routes,
            *LineApi(agents, encoders).routes,
            *SchedulesApi(agents).routes,
            *Watched(agents, token).routes,
            Route("/mcp", mcp),
            Mount("/static", StaticFiles(directory=STATIC)),
            WebSocketRoute("/ws", sockets.serve),
        ],
        exception_handlers={
            HTTPException: failed,
            StorageError: not_stored,
            Exception: crashed,
        },
    )
    guard = Guard(router, token=token, hosts=hosts)
    return App(router, guard, sockets, agents.line, mcp, control)


async def _page(_: Request) -> Response:
    return FileResponse(STATIC / "index.html")
