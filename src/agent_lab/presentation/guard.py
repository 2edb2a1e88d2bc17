"""The guard: a pure ASGI wrapper that lets in only who holds the token, on http and websocket.

It must be outermost, and it must be ASGI itself: Starlette's function-style middleware lets a
WebSocket straight through (T1), and uvicorn checks no Origin (T2). A request is asked, in order:

1. Host: exactly one, on the list. A target that is not a path, and OPTIONS, end here.
2. Origin, Sec-Fetch-Site: a page of ours, or no page at all.
3. Header size, 32 KiB.
4. Token, except GET and HEAD of the open paths. A socket always needs it.
5. Body: JSON, uncompressed, at most 1 MiB. After the token, because who has none is told so at
   once, before a byte of the body is read or asked for (SEC-17).
6. The route, which is the application's affair.

What is not let in gets JSON `{"error": CODE, "message": WHAT AND WHAT NOW}` with the header
`X-Agent-Lab-Error-Code: CODE`, sockets too where the server has the extension
`websocket.http.response`; elsewhere the socket is closed before the 101, which is a 403. When a
body was announced, the connection is closed after the refusal, so that nobody has to read it.

Subprotocols: the page offers `["agent-lab.v1", "agent-lab.token.TOKEN"]`. The guard reads the
token from `scope["subprotocols"]` and leaves the list as it is; the application accepts with
`choose_subprotocol(...)`, so that the token is not sent back to a client that offers both.

Holds for uvicorn with `http="h11"`, `proxy_headers=False`, and `h11_max_incomplete_event_size` of
64 KiB: with h11's 16 KiB, oversized headers that arrive in pieces get h11's own 400 (T4). Requests
that never become a scope (header time, an upgrade with a long header line: T5, T40) are the
server's. Run it above log level `debug`, at which the server prints handshakes, token and all.
"""

import json
import re
import secrets
import time
from collections.abc import Callable, Collection, Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_lab.presentation.guard_rules import (
    BEARER_SUBPROTOCOL,
    BODY_TOO_LARGE,
    MAX_BODY_BYTES,
    Head,
    RawHeaders,
    Refusal,
    TokenCheck,
    check_body,
    check_dots,
    check_fetch_site,
    check_header_size,
    check_host,
    check_method,
    check_origin,
    check_target,
    read_head,
)

SUBPROTOCOL = "agent-lab.v1"
"""What a socket speaks here, and what the server accepts it with when the client offers it."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43,128}")
_HOST = re.compile(r"(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_OPEN_PREFIX = re.compile(r"/(?:.+/)?")
_FIXED_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_NO_STORE = (b"cache-control", b"no-store")


def new_token() -> str:
    """A token for one launch: 256 random bits as 43 URL-safe characters (SEC-12)."""
    return secrets.token_urlsafe(32)


def allowed_hosts(port: int, *, also: Collection[str] = ()) -> frozenset[str]:
    """The `Host` values of a server on loopback: 127.0.0.1, localhost and [::1] with that port.

    `also` names further hosts without a port (IPv6 in brackets). On port 80 the bare names are
    in too, for browsers leave the default port out.
    """
    names = ("127.0.0.1", "localhost", "[::1]", *also)
    with_port = {f"{name}:{port}" for name in names}
    return frozenset(with_port.union(names) if port == 80 else with_port)


def choose_subprotocol(offered: Sequence[str]) -> str | None:
    """What to accept a socket with: `agent-lab.v1` if offered, or else the token's, or else None.

    A browser drops a socket whose server picks none of those it offered, so a client that offers
    only its token gets that back; nobody else sees it.
    """
    if SUBPROTOCOL in offered:
        return SUBPROTOCOL
    return next((name for name in offered if name.startswith(BEARER_SUBPROTOCOL)), None)


def content_security_policy(hosts: Collection[str]) -> str:
    """The policy of SEC-19 with the sockets of these hosts.

    IPv6 hosts are left out: the grammar of CSP has no brackets, and browsers complain about and
    ignore such a source (w3c/webappsec-csp issue 224). There `'self'` covers the page's own socket.
    """
    sockets = " ".join(f"ws://{host}" for host in sorted(hosts) if not host.startswith("["))
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        f"connect-src 'self' {sockets}; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'"
    )


class Guard:
    """Wraps an ASGI application; see the module's text for the order and the answers.

    `token`: at least 43 characters of the URL-safe base64 alphabet, see `new_token`. `hosts`: the
    exact `Host` values, see `allowed_hosts`. `open_paths` (whole paths) and `open_prefixes` (ending
    in `/`) need no token for GET and HEAD, and all else as everything does. `clock`: seconds that
    never go back. Raises ValueError for values that would leave a door open.

    On each HTTP answer: the headers of SEC-19 and SEC-20, `no-store` outside the open prefixes, and
    never `Set-Cookie` or `Access-Control-*`, whatever the application says (SEC-09, SEC-13). The
    policy is on every answer, not on HTML alone: SVG and XML run scripts too.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        hosts: Collection[str],
        open_paths: Collection[str] = ("/", "/healthz"),
        open_prefixes: Collection[str] = ("/static/",),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not _TOKEN.fullmatch(token):
            raise ValueError("token must be 43 to 128 of A-Z a-z 0-9 _ -; make it with new_token()")
        if isinstance(hosts, str) or not hosts or not all(map(_HOST.fullmatch, hosts)):
            raise ValueError(f"hosts must be host:port values, see allowed_hosts(); got {hosts!r}")
        if isinstance(open_prefixes, str) or not all(map(_OPEN_PREFIX.fullmatch, open_prefixes)):
            raise ValueError(f"open_prefixes must begin and end with '/'; got {open_prefixes!r}")
        self._app = app
        self._hosts = frozenset(host.encode("ascii") for host in hosts)
        self._origins = frozenset(b"http://" + host for host in self._hosts)
        self._open_paths = frozenset(open_paths)
        self._open_prefixes = tuple(open_prefixes)
        self._check_token = TokenCheck(token, clock=clock)
        policy = content_security_policy(hosts).encode("ascii")
        self._headers = (*_FIXED_HEADERS, (b"content-security-policy", policy))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "lifespan":
                await self._app(scope, receive, send)
            case "http":
                await self._http(scope, receive, send)
            case "websocket":
                await self._websocket(scope, receive, send)
            case unknown:
                raise ValueError(f"no rule lets ASGI scope {unknown!r} in; serve http or websocket")

    def _refuse(self, head: Head) -> Refusal | None:
        return (
            check_host(head, self._hosts)
            or check_target(head)
            or check_method(head)
            or check_origin(head, self._origins)
            or check_fetch_site(head)
            or check_header_size(head)
            or (check_dots(head) if self._is_open(head) else self._check_token(head))
            or (check_body(head) if head.kind == "http" else None)
        )

    def _is_open(self, head: Head) -> bool:
        if head.kind == "websocket" or not head.is_safe:
            return False
        return head.path in self._open_paths or self._is_cacheable(head)

    def _is_cacheable(self, head: Head) -> bool:
        return head.path.startswith(self._open_prefixes)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = read_head(scope)

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": self._dress(head, message.get("headers", ()))}
            await send(message)

        if refusal := self._refuse(head):
            await _answer(dressed, head, refusal)
            return
        exchange = _Exchange(head, receive, dressed)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception:
            # Cut off in the middle of its body, an application may well fail; it is answered for.
            if not exchange.is_refused:
                raise

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = read_head(scope)

        async def dressed(message: Message) -> None:
            match message["type"]:
                case "websocket.accept":
                    headers = [*_kept(message.get("headers", ()), frozenset())]
                    message = {**message, "headers": headers}
                case "websocket.http.response.start":
                    message = {**message, "headers": self._dress(head, message.get("headers", ()))}
                case _:
                    pass
            await send(message)

        refusal = self._refuse(head)
        if refusal is None:
            await self._app(scope, receive, dressed)
        elif "websocket.http.response" in (scope.get("extensions") or {}):
            await _answer(dressed, head, refusal)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.code})

    def _dress(self, head: Head, headers: RawHeaders) -> list[tuple[bytes, bytes]]:
        ours = self._headers if self._is_cacheable(head) else (*self._headers, _NO_STORE)
        return [*_kept(headers, frozenset(name for name, _ in ours)), *ours]


class _Exchange:
    """One HTTP exchange that was let in: its body is counted as the application takes it.

    Past the limit the application is told that the client has gone, and, if it had not answered,
    the guard answers 413 in its place and drops what it still says.
    """

    def __init__(self, head: Head, receive: Receive, send: Send) -> None:
        self._head = head
        self._receive = receive
        self._send = send
        self._taken = 0
        self._started = False
        self.is_refused = False

    async def receive(self) -> Message:
        if self._taken <= MAX_BODY_BYTES:
            message = await self._receive()
            self._taken += len(message.get("body", b""))
            if self._taken <= MAX_BODY_BYTES:
                return message
            if not self._started:
                self.is_refused = True
                await _answer(self._send, self._head, BODY_TOO_LARGE)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if not self.is_refused:
            self._started = True
            await self._send(message)


async def _answer(send: Send, head: Head, refusal: Refusal) -> None:
    body = json.dumps({"error": refusal.code, "message": refusal.message}).encode("ascii")
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-agent-lab-error-code", refusal.code.encode("ascii")),
        _NO_STORE,
        *refusal.headers,
    ]
    if head.has_body:
        headers.append((b"connection", b"close"))
    kind = "http.response" if head.kind == "http" else "websocket.http.response"
    await send({"type": f"{kind}.start", "status": refusal.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": b"" if head.method == "HEAD" else body})


def _kept(headers: RawHeaders, replaced: Collection[bytes]) -> RawHeaders:
    """The application's headers without cookies, CORS and those the guard sets itself."""
    for name, value in headers:
        lower = name.lower()
        if lower == b"set-cookie" or lower.startswith(b"access-control-") or lower in replaced:
            continue
        yield name, value
