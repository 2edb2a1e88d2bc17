"""The server around the application: its listening socket, uvicorn's settings, start and stop."""

import asyncio
import contextlib
import errno
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from ipaddress import ip_address

import uvicorn

from agent_lab.application.agents import Agents
from agent_lab.domain.errors import AgentLabError
from agent_lab.presentation.connections import LIMITS, ConnectionLimits, Http, WebSocket, quiet_logs
from agent_lab.presentation.guard import allowed_hosts
from agent_lab.presentation.strict import MAX_BYTES
from agent_lab.presentation.web import App, make_app

BACKLOG = 128
_SEARCHED = 50
"""Ports that are looked at for a free one."""


class ServerError(AgentLabError):
    """The server cannot start here; the text says what to do."""


class HostRefused(ServerError):
    """The address is not loopback, and nobody allowed others."""


class PortInUse(ServerError):
    """Somebody listens there already; `free` is the next port where nobody does, or 0."""

    def __init__(self, host: str, port: int, free: int) -> None:
        other = f"--port {free} is free" if free else "--port 0 finds a free one"
        super().__init__(f"port {port} on {host} is in use by another program; {other}")
        self.port = port
        self.free = free


# -- the listening socket ------------------------------------------------------------------------


def listen(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A listening socket; who connects from now on waits until serve() takes him.

    Port 0 is any free one; see `getsockname()`. Raises HostRefused for a host that is not loopback,
    PortInUse, and ServerError for an address that cannot be had.
    """
    family, address = _resolve(host, port)
    if not ip_address(address[0]).is_loopback:
        raise HostRefused(
            f"host {host!r} would let other machines in, and whoever has the token may run tools "
            "here; use 127.0.0.1, and from another machine a tunnel such as ssh -L"
        )
    try:
        return _bound(family, address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            free = _next_free(family, address)
            raise PortInUse(host, port, free) from None
        raise ServerError(f"cannot listen on {host!r} port {port}: {error.strerror}") from error


Address = tuple[str, int]


def _resolve(host: str, port: int) -> tuple[int, Address]:
    """The first address of the host, IPv4 before IPv6; an empty host is every address."""
    if not 0 <= port < 1 << 16:
        raise ServerError(f"there is no port {port}; use one from 1 to 65535, or 0 for any")
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise ServerError(f"there is no host {host!r}: {error}; use 127.0.0.1") from error
    family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    return family, (str(address[0]), port)


def _bound(family: int, address: Address) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _next_free(family: int, address: Address) -> int:
    for port in range(address[1] + 1, min(address[1] + 1 + _SEARCHED, 1 << 16)):
        with contextlib.suppress(OSError):
            _bound(family, (address[0], port)).close()
            return port
    return 0


# -- serving -------------------------------------------------------------------------------------


class Server:
    """Serves one application on one listening socket, until it is told to stop.

    It never looks at signals itself: see `stop_on_signals`.
    """

    def __init__(
        self, app: App, listener: socket.socket, *, limits: ConnectionLimits = LIMITS
    ) -> None:
        self._app = app
        self._listener = listener
        self._uvicorn = _Uvicorn(app, _settings(app, limits))

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._listener.getsockname()[1]

    async def serve(self) -> None:
        """Serve until stop(); then sockets are closed with 1001 and the rest within 2 seconds."""
        async with self._app.mcp:
            await self._uvicorn.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Take no new connections and end the old ones; a second time, without any patience."""
        self._uvicorn.force_exit = self._uvicorn.should_exit
        self._uvicorn.should_exit = True


async def serve(
    agents: Agents,
    listener: socket.socket,
    *,
    token: str,
    announce: Callable[[str], object],
    signals: Callable[["Server"], AbstractContextManager[None]] | None = None,
) -> None:
    """Serve these agents until SIGINT or SIGTERM, and close their sessions.

    `announce` is called once, with the address that lets somebody in, when the server is there.
    `signals` makes what looks at signals meanwhile, in place of stop_on_signals().
    """
    port: int = listener.getsockname()[1]
    app = make_app(agents, token=token, hosts=allowed_hosts(port))
    server = Server(app, listener)
    with (signals or stop_on_signals)(server):
        async with agents:
            announce(f"http://{url_host(listener)}:{port}/#token={token}")
            await server.serve()


def url_host(listener: socket.socket) -> str:
    """The host to put into an address: where it listens, or loopback if that is everywhere."""
    address = ip_address(listener.getsockname()[0])
    if address.is_unspecified:
        return "[::1]" if address.version == 6 else "127.0.0.1"
    return f"[{address}]" if address.version == 6 else str(address)


@contextlib.contextmanager
def stop_on_signals(server: Server) -> Generator[None]:
    """SIGINT and SIGTERM stop the server; outside the main thread nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, server.stop)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


class _Uvicorn(uvicorn.Server):
    """uvicorn, which leaves signals alone and lets the application close its sockets first."""

    def __init__(self, app: App, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._app = app

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Nothing is captured."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: no new connections, 1001 for each socket, and then uvicorn's own way."""
        for server in self.servers:
            server.close()
        await self._app.close()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _settings(app: App, limits: ConnectionLimits) -> uvicorn.Config:
    """Each of these is a trap otherwise: T3, T4, T6, T7, T11, T41."""
    quiet_logs()
    return uvicorn.Config(
        app,
        http=type("Http", (Http,), {"limits": limits}),
        ws=type("WebSocket", (WebSocket,), {"limits": limits}),
        ws_max_size=MAX_BYTES,
        ws_max_queue=16,
        ws_ping_interval=limits.ping,
        ws_ping_timeout=limits.pong,
        ws_per_message_deflate=False,
        h11_max_incomplete_event_size=64 << 10,
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
