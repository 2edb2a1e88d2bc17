"""Connections below ASGI: how many, how long a request may take to arrive, and how noisy they are.

What never becomes a request is answered for here, in one place around h11 and websockets: a head
that does not come (T5), a header line that websockets does not take (T40), a message whose last
fragment never comes (C19), floods of control frames (C20), and what uvicorn logs about all of them
(T41). What did become a request is the guard's affair.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode

from agent_lab.application.logs import clean_logs
from agent_lab.presentation.rates import Rate

ConnectionCode: TypeAlias = Literal[
    "headers_too_large", "malformed_request", "request_timeout", "too_many_connections"
]
"""Every code of an answer that is given here."""

_NOISE = (
    "Invalid UTF-8 sequence received from client.",  # the client was told: 1007 (T41)
    "Cancel %s running task(s), timeout graceful shutdown exceeded",  # that is the plan (T11)
    "ASGI callable returned without completing handshake.",  # a socket refused with a body
)


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Every bound of a connection; times in seconds."""

    connections: int = 256
    """Open at once, sockets and all; one more is told 503."""
    half_open: int = 16
    """Whose first request is not there yet; for one more, the oldest of them goes."""
    head: float = 5.0
    """What the head of a request gets to arrive whole."""
    body: float = 10.0
    """What its body gets."""
    line: int = 8 << 10
    """Bytes of one header line, or of the request line, of an upgrade."""
    lines: int = 128
    """Header lines of an upgrade."""
    ping: float = 20.0
    """Between two pings of a socket."""
    pong: float = 20.0
    """What the answer gets; then the peer is gone, and the socket closed with 1011."""
    fragment: float = 10.0
    """Longest wait for the next fragment of a message."""
    fragments: int = 1024
    """Of one message."""
    control: float = 50.0
    """Pings and pongs a second; who sends more is closed with 1008."""
    control_burst: int = 200
    """As many at once."""


LIMITS = ConnectionLimits()


class Http(H11Protocol):
    """uvicorn's, with a deadline for what arrives and a bound on how many wait for that."""

    limits = LIMITS
    _deadline: asyncio.TimerHandle | None = None
    _awaited: Literal["head", "body"] | None = None
    _has_begun = _has_asked = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Let it in, if there is room."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(503, "too_many_connections", "too many connections are open; try later")
            return
        self._await("head", self.limits.head)
        waiting = [one for one in self.connections if isinstance(one, Http) and one.is_half_open]
        if len(waiting) > self.limits.half_open:
            min(waiting, key=lambda one: one.waits_until).give_up()

    @property
    def is_half_open(self) -> bool:
        """Whether not even its first request is there."""
        return self._deadline is not None and not self._has_asked

    @property
    def waits_until(self) -> float:
        """When it will be given up, on the loop's clock."""
        return self._deadline.when() if self._deadline is not None else float("inf")

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more will come."""
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take it, and look whether the head or the body is whole now."""
        self._has_begun = True
        super().data_received(data)
        self._has_asked = self._has_asked or self.conn.their_state is not h11.IDLE
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            self._forget()
        elif self.conn.their_state is h11.IDLE:
            self._await("head", self.limits.head)
        elif self.conn.their_state is h11.SEND_BODY:
            self._await("body", self.limits.body)
        else:
            self._forget()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand it to websockets, unless that would say nothing at all to it (T40)."""
        most, lines = self.limits.line, [name + b": " + value for name, value in self.headers]
        request = event.method + b" " + event.target + b" HTTP/1.1"
        if max(map(len, (request, *lines))) + 2 > most or len(lines) > self.limits.lines:
            message = f"an upgrade has at most {self.limits.lines} header lines of {most} bytes"
            self._refuse(431, "headers_too_large", message)
            return
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Say it as everything else is said; called where h11's error is being handled."""
        if getattr(sys.exception(), "error_status_hint", 400) == 431:
            self._refuse(431, "headers_too_large", "the headers are too large; send less")
        else:
            self._refuse(400, "malformed_request", "this is no HTTP request; see RFC 9112")

    def give_up(self) -> None:
        """It took too long; who has said nothing yet is told nothing."""
        self._deadline = None
        if self._has_begun and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            message = f"the {self._awaited} of the request did not arrive in time"
            self._refuse(408, "request_timeout", message)
        else:
            self.transport.close()

    def _await(self, what: Literal["head", "body"], seconds: float) -> None:
        if self._deadline is not None and self._awaited == what:
            return  # trickling bytes do not put it off
        self._forget()
        self._awaited = what
        self._deadline = self.loop.call_later(seconds, self.give_up)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, status: int, code: ConnectionCode, message: str) -> None:
        self._forget()
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(_answer(status, code, message))
        self.transport.close()


class WebSocket(WebSocketsSansIOProtocol):
    """uvicorn's, with bounds on fragments and control frames, and a close that does not wait.

    A close does not wait behind what a slow client has not read. Otherwise a client that is closed
    for its slowness never hears the code, and a connection whose peer is gone or silent lives for
    as long as its bytes are not taken.
    """

    limits = LIMITS
    _patience: asyncio.TimerHandle | None = None
    _control: Rate | None = None

    def data_received(self, data: bytes) -> None:
        """Take it, unless it is one control frame too many."""
        self.conn.receive_data(data)
        if self._control is None:
            limits = self.limits
            self._control = Rate(limits.control, limits.control_burst, self.loop.time)
        for event in self.conn.events:
            is_control = isinstance(event, Frame) and event.opcode in (Opcode.PING, Opcode.PONG)
            if is_control and self._control.take():
                return self._fail("too many control frames")
        if self.conn.parser_exc is not None:
            return self.handle_parser_exception()
        self.handle_events()
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more will come."""
        self._wait_for_fragment(waits=False)
        super().connection_lost(exc)

    def handle_text(self, event: Frame) -> None:
        """A message, or its first fragment."""
        super().handle_text(event)
        self._wait_for_fragment(waits=not event.fin)

    def handle_bytes(self, event: Frame) -> None:
        """A message, or its first fragment."""
        super().handle_bytes(event)
        self._wait_for_fragment(waits=not event.fin)

    def handle_cont(self, event: Frame) -> None:
        """A further fragment."""
        super().handle_cont(event)
        if len(self.frames) > self.limits.fragments:
            self._fail("too many fragments")
        else:
            self._wait_for_fragment(waits=not event.fin)

    async def send(self, message: Any) -> None:
        """Send it; a close at once, and the connection is cut when nobody answers that."""
        if message["type"] == "websocket.close":
            self.writable.set()
        await super().send(message)
        if self.close_timer is not None:
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    def _wait_for_fragment(self, *, waits: bool) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if waits and not self.transport.is_closing():
            late = "the rest of a message did not come"
            self._patience = self.loop.call_later(self.limits.fragment, self._fail, late)

    def _fail(self, why: str) -> None:
        """Close with 1008; what waits to be said, such as a flood of pongs, is not."""
        self._wait_for_fragment(waits=False)
        if self.close_sent or self.transport.is_closing():
            return
        self.conn.data_to_send()
        self.conn.fail(1008, why)
        self.handle_parser_exception()


def quiet_logs() -> None:
    """No noise and no secrets in what uvicorn and asyncio log."""
    clean_logs("uvicorn.error", "asyncio")
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg not in _NOISE


def _answer(status: int, code: ConnectionCode, message: str) -> bytes:
    """A whole answer, after which the connection is closed."""
    body = json.dumps({"error": code, "message": message}).encode()
    headers: Mapping[str, object] = {
        "Content-Type": "application/json",
        "Content-Length": len(body),
        "X-Agent-Lab-Error-Code": code,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "Connection": "close",
        **({"Retry-After": 5} if status == 503 else {}),
    }
    lines = (f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *map(": ".join, _said(headers)))
    return "\r\n".join((*lines, "", "")).encode() + body


def _said(headers: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in headers.items()]
