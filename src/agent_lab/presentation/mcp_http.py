"""`/mcp`: the MCP server over streamable HTTP, behind the guard like everything else.

The SDK is loaded with the first request, in a thread, and what it enters is left by one owner task.
"""

import asyncio
from collections.abc import Collection, Generator
from contextlib import contextmanager
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from agent_lab.application.agents import Agents
from agent_lab.presentation.strict import MAX_BYTES
from agent_lab.presentation.views import Encoders

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from agent_lab.presentation.mcp import McpFace

SESSIONS = 64
"""Clients at once; a further one is told 503."""
_PATIENCE = 1.0
"""Seconds that answers have to get out when the server stops."""


class McpDoor:
    """An ASGI application for one path; it serves while the `async with` lasts."""

    def __init__(self, agents: Agents, encoders: Encoders, *, hosts: Collection[str]) -> None:
        self._agents = agents
        self._encoders = encoders
        self._hosts = sorted(hosts)
        self._group: asyncio.TaskGroup | None = None
        self._opening = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._asking = 0
        self._face: McpFace | None = None
        self._manager: StreamableHTTPSessionManager | None = None

    async def __aenter__(self) -> Self:
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        group, self._group = self._group, None
        if group is not None:
            await group.__aexit__(None, None, None)

    def stop(self) -> None:
        """Take nothing more; who waits is told that the server stops. May be called twice."""
        self._stopping.set()
        if self._face is not None:
            self._face.stop("the server stops")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = await self._open()
        if refused is None and self._manager is not None:
            with self._counted(scope["method"]):
                await self._manager.handle_request(scope, receive, send)
            return
        response = refused or _refusal(503, "closing", "the server stops", "come back later")
        await response(scope, receive, send)

    async def _open(self) -> JSONResponse | None:
        """See to it that there is a manager; why there is none."""
        if self._stopping.is_set() or self._group is None:
            return None
        async with self._opening:
            if self._face is None:
                try:
                    module = await asyncio.to_thread(import_module, "agent_lab.presentation.mcp")
                except ModuleNotFoundError:
                    said = "the MCP server needs the package mcp"
                    return _refusal(501, "mcp_missing", said, "pip install 'agent-lab[mcp]'")
                face: McpFace = module.McpFace(self._agents, self._encoders)
                ready = asyncio.Event()
                self._group.create_task(self._own(face, ready), name="mcp")
                await ready.wait()
                self._face = face
        return None

    async def _own(self, face: "McpFace", ready: asyncio.Event) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        manager = StreamableHTTPSessionManager(
            face.server,
            security_settings=self._security(),
            max_request_body_size=MAX_BYTES,
            max_sessions=SESSIONS,
        )
        async with manager.run():
            self._manager = manager
            ready.set()
            await self._stopping.wait()
            with anyio.move_on_after(_PATIENCE):
                await self._idle.wait()
            self._manager = None

    @contextmanager
    def _counted(self, method: str) -> Generator[None]:
        """A request with an answer to come; a stream that is only listened to has none."""
        is_asking = method == "POST"
        self._asking += is_asking
        if is_asking:
            self._idle.clear()
        try:
            yield
        finally:
            self._asking -= is_asking
            if not self._asking:
                self._idle.set()

    def _security(self) -> Any:
        """The guard has looked at Host and Origin already; the SDK looks too."""
        from mcp.server.transport_security import TransportSecuritySettings

        return TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=self._hosts,
            allowed_origins=[f"http://{host}" for host in self._hosts],
        )


def _refusal(status: int, code: str, message: str, hint: str) -> JSONResponse:
    said = {"error": code, "code": code, "message": message, "hint": hint}
    return JSONResponse(said, status, headers={"X-Agent-Lab-Error-Code": code})
