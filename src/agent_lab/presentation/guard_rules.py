"""What the guard refuses and why: pure rules over the head of one request.

A rule takes a `Head` and answers with a `Refusal`, or with None when it has no objection. No ASGI,
no I/O and no clock of its own here; `guard.Guard` asks the rules in order and does what they say.
All comparisons are of whole byte strings: nothing is parsed that could be parsed differently by
somebody else (`localhost@evil.com`, `127.1`, `localhost.`), so no byte string can raise (SEC-06).
Headers that a proxy writes (`Forwarded`, `X-Forwarded-*`) are read by no rule (T6, SEC-41).
"""

import hmac
import math
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

MAX_HEADER_BYTES = 32 * 1024
"""All header lines of a request together, as on the wire (SEC-26)."""
MAX_BODY_BYTES = 1024 * 1024
"""One request body, declared or chunked (SEC-26)."""
MAX_BAD_TOKENS = 20
BAD_TOKEN_WINDOW = 10.0
"""Seconds; MAX_BAD_TOKENS wrong tokens within it, and further ones are answered 429 (SEC-18)."""
BEARER_SUBPROTOCOL = "agent-lab.token."
"""How the subprotocol begins that brings the token, where a browser can set no header."""

RefusalCode: TypeAlias = Literal[
    "bad_content_length",
    "bad_host",
    "bad_target",
    "body_too_large",
    "content_encoding_not_allowed",
    "content_type_not_json",
    "cross_site_not_allowed",
    "headers_too_large",
    "host_not_allowed",
    "method_not_allowed",
    "not_found",
    "origin_not_allowed",
    "token_required",
    "token_wrong",
    "too_many_bad_tokens",
]
"""Every code the guard can put in `X-Agent-Lab-Error-Code`."""

RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_TRUSTED_FETCH_SITES = frozenset({b"same-origin", b"none"})
_JSON = re.compile(rb'application/json(?:[ \t]*;[ \t]*charset=(?:utf-8|"utf-8"))?', re.IGNORECASE)
_SEND_TOKEN = (
    "Send 'Authorization: Bearer TOKEN', or on a WebSocket the subprotocol"
    f" '{BEARER_SUBPROTOCOL}TOKEN'. TOKEN is in the address that agent-lab serve printed."
)
_OPEN_PRINTED = "Use the address that agent-lab serve printed."


@dataclass(frozen=True, slots=True)
class Refusal:
    """One answer in place of the application's: status, machine code, what happened and what to do.

    Nothing of the request is ever part of it, so it can neither split a header nor carry a script.
    """

    status: int
    code: RefusalCode
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Head:
    """A request as the rules see it, before any byte of its body is read.

    `path` is percent-decoded once, as the router sees it; `target` is the path as sent. Header
    names are lower case; each keeps all its values, in order.
    """

    kind: Literal["http", "websocket"]
    method: str
    path: str
    target: bytes
    headers: Mapping[bytes, Sequence[bytes]]
    header_bytes: int
    subprotocols: Sequence[str]

    def values(self, name: bytes) -> Sequence[bytes]:
        return self.headers.get(name, ())

    @property
    def is_safe(self) -> bool:
        """A method that may change nothing; one we do not know is taken to change something."""
        return self.method in _SAFE_METHODS

    @property
    def has_body(self) -> bool:
        """Whether HTTP/1.1 announces a body (RFC 9112, section 6.3)."""
        lengths = self.values(b"content-length")
        return bool(self.values(b"transfer-encoding")) or any(n.strip(b"0") for n in lengths)


def read_head(scope: Mapping[str, Any]) -> Head:
    """The head of an ASGI `http` or `websocket` scope; total, whatever the bytes are."""
    headers: dict[bytes, list[bytes]] = {}
    size = 0
    for name, value in scope["headers"]:
        headers.setdefault(name.lower(), []).append(value)
        size += len(name) + len(value) + len(b": \r\n")
    path: str = scope["path"]
    return Head(
        kind=scope["type"],
        method=scope.get("method", "GET"),
        path=path,
        target=scope.get("raw_path") or path.encode("utf-8", "replace"),
        headers=headers,
        header_bytes=size,
        subprotocols=scope.get("subprotocols") or (),
    )


def check_host(head: Head, hosts: Collection[bytes]) -> Refusal | None:
    """Exactly one Host, and it is on the list: stops DNS rebinding (SEC-04, SEC-05, T3)."""
    match head.values(b"host"):
        case [host] if host in hosts:
            return None
        case [_]:
            message = f"This server does not answer to that Host. {_OPEN_PRINTED}"
            return Refusal(421, "host_not_allowed", message)
        case _:
            message = f"A request needs exactly one Host header. {_OPEN_PRINTED}"
            return Refusal(400, "bad_host", message)


def check_target(head: Head) -> Refusal | None:
    """Only `/path` is a target here: an absolute URL could name another host (SEC-05, T3)."""
    if head.target.startswith(b"/"):
        return None
    message = "The request target must be a path that begins with '/'. Send the path alone."
    return Refusal(400, "bad_target", message)


def check_method(head: Head) -> Refusal | None:
    """No CORS: a preflight is told no, before its Origin is looked at (SEC-09)."""
    if head.method != "OPTIONS":
        return None
    message = "OPTIONS is not served: pages of other origins have no access. Use GET or POST."
    return Refusal(405, "method_not_allowed", message, ((b"allow", b"GET, HEAD, POST"),))


def check_origin(head: Head, origins: Collection[bytes]) -> Refusal | None:
    """An Origin, when there is one, is ours to the byte; `null` never is (SEC-07, SEC-08, T2)."""
    match head.values(b"origin"):
        case []:
            return None
        case [origin] if origin in origins:
            return None
        case _:
            message = f"A page of another origin has no access to this server. {_OPEN_PRINTED}"
            return Refusal(403, "origin_not_allowed", message)


def check_fetch_site(head: Head) -> Refusal | None:
    """A browser that says a state-changing request comes from elsewhere is believed (SEC-08).

    Not for sockets, whose method is GET: a browser always sends Origin with those, and the page
    at `localhost` may open one to `127.0.0.1`, which is `cross-site` to the browser.
    """
    if head.is_safe or _TRUSTED_FETCH_SITES.issuperset(head.values(b"sec-fetch-site")):
        return None
    message = f"Another site's page may not change anything on this server. {_OPEN_PRINTED}"
    return Refusal(403, "cross_site_not_allowed", message)


def check_header_size(head: Head) -> Refusal | None:
    """At most MAX_HEADER_BYTES of headers (SEC-26, T4)."""
    if head.header_bytes <= MAX_HEADER_BYTES:
        return None
    message = f"The headers are over {MAX_HEADER_BYTES // 1024} KiB. Send fewer or shorter ones."
    return Refusal(431, "headers_too_large", message)


def check_dots(head: Head) -> Refusal | None:
    """An open path has no `..` in it that a router could follow out of the open part (SEC-28)."""
    if "\\" not in head.path and "\0" not in head.path and ".." not in head.path.split("/"):
        return None
    return Refusal(404, "not_found", "There is no such file. Use the path as the page names it.")


def check_body(head: Head) -> Refusal | None:
    """A body is JSON, not compressed, and says no more than MAX_BODY_BYTES (SEC-10, 26, 27).

    A chunked body has no length to look at: `guard` counts it while it streams.
    """
    if head.values(b"content-encoding"):
        message = "A compressed body is not taken. Send it again without Content-Encoding."
        return Refusal(415, "content_encoding_not_allowed", message)
    return _check_length(head.values(b"content-length")) or _check_type(head)


def _check_length(lengths: Sequence[bytes]) -> Refusal | None:
    if not lengths:
        return None
    if len(lengths) > 1 or not lengths[0].isdigit():
        message = "Content-Length must be one whole number. Send it once, in digits."
        return Refusal(400, "bad_content_length", message)
    digits = lengths[0].lstrip(b"0") or b"0"
    # More digits than the limit has is too large; int() of thousands of digits would raise.
    if len(digits) > len(str(MAX_BODY_BYTES)) or int(digits) > MAX_BODY_BYTES:
        return BODY_TOO_LARGE
    return None


def _check_type(head: Head) -> Refusal | None:
    if not head.has_body:
        return None
    match head.values(b"content-type"):
        case [kind] if _JSON.fullmatch(kind.strip(b" \t")):
            return None
        case _:
            message = "The body must be JSON in UTF-8. Send 'Content-Type: application/json'."
            return Refusal(415, "content_type_not_json", message)


BODY_TOO_LARGE = Refusal(
    413,
    "body_too_large",
    f"The body is over {MAX_BODY_BYTES // 1024 // 1024} MiB. Send less in one request.",
)
_CHALLENGE = (b"www-authenticate", b'Bearer realm="agent-lab"')
_TOKEN_REQUIRED = Refusal(
    401, "token_required", f"This path needs the server's token. {_SEND_TOKEN}", (_CHALLENGE,)
)
_TOKEN_WRONG = Refusal(
    401, "token_wrong", f"That is not this server's token. {_SEND_TOKEN}", (_CHALLENGE,)
)


class TokenCheck:
    """Asks for the token, and slows down those who guess it (SEC-12, SEC-15, SEC-18).

    A missing token is `token_required` and counts for nothing. Wrong ones are counted for all
    clients together (behind loopback they cannot be told apart): after MAX_BAD_TOKENS in
    BAD_TOKEN_WINDOW seconds the next is 429 `too_many_bad_tokens` until the first is that old.
    The right token is let in at any time and resets nothing. Who offers several must offer the
    right one each time.
    """

    def __init__(self, token: str, *, clock: Callable[[], float]) -> None:
        self._token = token.encode("ascii")
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=MAX_BAD_TOKENS)

    def __call__(self, head: Head) -> Refusal | None:
        offered = _offered_tokens(head)
        if not offered:
            return _TOKEN_REQUIRED
        if all(hmac.compare_digest(each, self._token) for each in offered):
            return None
        return self._failed()

    def _failed(self) -> Refusal:
        now = self._clock()
        if len(self._failures) == MAX_BAD_TOKENS:
            seconds = math.ceil(self._failures[0] + BAD_TOKEN_WINDOW - now)
            if seconds > 0:
                message = f"Too many wrong tokens. Wait {seconds} s. {_SEND_TOKEN}"
                retry = (b"retry-after", b"%d" % seconds)
                return Refusal(429, "too_many_bad_tokens", message, (retry,))
        self._failures.append(now)
        return _TOKEN_WRONG


def _offered_tokens(head: Head) -> list[bytes]:
    offered = [_bearer(value) for value in head.values(b"authorization")]
    if head.kind == "websocket":
        for name in head.subprotocols:
            if name.startswith(BEARER_SUBPROTOCOL):
                token = name.removeprefix(BEARER_SUBPROTOCOL)
                offered.append(token.encode("utf-8", "replace"))
    return offered


def _bearer(authorization: bytes) -> bytes:
    scheme, _, token = authorization.partition(b" ")
    return token.strip(b" ") if scheme.lower() == b"bearer" else b""  # b"" is nobody's token
