"""The guard before a real Starlette application in a real uvicorn, asked over real sockets."""

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from agent_lab.presentation.guard import SUBPROTOCOL, Guard, allowed_hosts, choose_subprotocol
from agent_lab.presentation.guard_rules import MAX_BAD_TOKENS, MAX_BODY_BYTES

TOKEN = "T" * 43
BEARER = f"Authorization: Bearer {TOKEN}"
BY_SUBPROTOCOL = f"agent-lab.token.{TOKEN}"
JSON_TYPE = "Content-Type: application/json"
UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
OPEN = {"/", "/healthz", "/static/app.js"}
BOUND = 5.0


# The server


async def page(_: Request) -> Response:
    return HTMLResponse("<!doctype html><title>agent_lab</title>")


async def agents(_: Request) -> Response:
    answer = JSONResponse([])
    answer.set_cookie("session", "x")
    answer.headers["Access-Control-Allow-Origin"] = "*"
    return answer


async def echo(request: Request) -> Response:
    return JSONResponse(await request.json())


async def talk(websocket: WebSocket) -> None:
    await websocket.accept(choose_subprotocol(websocket.scope["subprotocols"]))
    async for text in websocket.iter_text():
        await websocket.send_text(text)


def make_app(static: Path) -> Starlette:
    return Starlette(
        routes=[
            Route("/", page),
            Route("/healthz", page),
            Route("/metrics", page),
            Route("/api/agents", agents),
            Route("/api/echo", echo, methods=["POST"]),
            Mount("/docs", routes=[Route("/", page), WebSocketRoute("/live", talk)]),
            Mount("/static", StaticFiles(directory=static)),
            WebSocketRoute("/ws", talk),
        ]
    )


# uvicorn says so of each socket that is refused with a status and a body (its pull request 3138).
REFUSED_SOCKET = "ASGI callable returned without completing handshake."


class Faults(logging.Handler):
    """Keeps what the server logs as an error: an exception of the guard ends there (SEC-06)."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() != REFUSED_SOCKET:
            self.texts.append(self.format(record))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Served:
    port: int
    app: Starlette
    clock: Clock
    faults: Faults

    @property
    def host(self) -> str:
        return f"Host: 127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests here; it listens before its thread runs, so nobody has to wait."""
    static = tmp_path_factory.mktemp("static")
    (static / "app.js").write_text("export {}")
    (static.parent / "secret.txt").write_text("secret")
    (static / "out").symlink_to(static.parent)
    app, clock, faults = make_app(static), Clock(), Faults()
    logging.getLogger("uvicorn.error").addHandler(faults)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served = Served(listener.getsockname()[1], app, clock, faults)
        guard = Guard(app, token=TOKEN, hosts=allowed_hosts(served.port), clock=clock)
        server = uvicorn.Server(
            uvicorn.Config(
                guard,
                http="h11",
                ws="websockets-sansio",
                ws_per_message_deflate=False,
                h11_max_incomplete_event_size=64 * 1024,
                lifespan="off",
                log_config=None,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=2,
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield served
        finally:
            server.should_exit = True
            thread.join(BOUND)
            logging.getLogger("uvicorn.error").removeHandler(faults)
            assert not thread.is_alive()


@pytest.fixture
def server(running: Served) -> Iterator[Served]:
    running.clock.now += 60  # what another test guessed is forgotten
    running.faults.texts.clear()
    yield running
    assert running.faults.texts == []


# The clients


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    @property
    def code(self) -> str | None:
        return dict(self.headers).get("x-agent-lab-error-code")


def talk_raw(server: Served, request: bytes, *, method: str = "GET") -> Answer:
    """Sends the bytes as they are; a server that has answered may stop listening to the rest."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=BOUND) as connection:
        with suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(request)
        with HTTPResponse(connection, method=method) as response:
            response.begin()
            headers = [(name.lower(), value) for name, value in response.getheaders()]
            return Answer(response.status, headers, response.read())


def ask(
    server: Served, line: str, *headers: str, body: bytes = b"", host: str | None = None
) -> Answer:
    lines = [f"{line} HTTP/1.1", host if host is not None else server.host, *headers]
    head = "\r\n".join([*filter(None, lines), "", ""]).encode("latin-1")
    return talk_raw(server, head + body, method=line.partition(" ")[0])


def ask_socket(server: Served, line: str, *headers: str, host: str | None = None) -> Answer:
    return ask(server, line, *UPGRADE, *headers, host=host)


def open_socket(
    server: Served, *, origin: str | None = None, subprotocols: Iterable[str] = (BY_SUBPROTOCOL,)
) -> ClientConnection:
    return connect(
        f"ws://127.0.0.1:{server.port}/ws",
        origin=None if origin is None else Origin(origin),
        subprotocols=[Subprotocol(name) for name in subprotocols] or None,
        proxy=None,
        open_timeout=BOUND,
        close_timeout=BOUND,
    )


def refused_socket(
    server: Served, *, origin: str | None = None, subprotocols: Iterable[str] = (BY_SUBPROTOCOL,)
) -> tuple[int, str | None]:
    with pytest.raises(InvalidStatus) as refused:
        open_socket(server, origin=origin, subprotocols=subprotocols)
    response = refused.value.response
    code = response.headers.get("X-Agent-Lab-Error-Code")
    assert response.body is not None
    assert json.loads(response.body)["error"] == code
    return response.status_code, code


# Host and target


Asker = Callable[..., Answer]
over_both = pytest.mark.parametrize("asker", [ask, ask_socket])


@pytest.mark.fault("SEC-04")
@over_both
@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:{port}",
        "localhost.evil.com",
        "127.0.0.1.nip.io",
        "localhost:1{port}",
        "localhost@evil.com",
        "0.0.0.0:{port}",
        "127.1",
        "2130706433",
        "localhost.",
        "[",
        "%",
        "\xff\xfe",
        "",
    ],
)
def test_a_foreign_host_is_told_421_and_a_socket_before_the_101(
    asker: Asker, server: Served, host: str
):
    answer = asker(server, "GET /ws", BEARER, host="Host: " + host.format(port=server.port))
    assert (answer.status, answer.code) == (421, "host_not_allowed")


@pytest.mark.fault("SEC-04")
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_our_own_hosts_are_let_in(server: Served, name: str):
    host = f"Host: {name}:{server.port}"
    assert ask(server, "GET /api/agents", BEARER, host=host).status == 200
    assert ask_socket(server, "GET /ws", BEARER, host=host).status == 101


@pytest.mark.fault("T3")
@pytest.mark.fault("SEC-05")
@over_both
def test_a_request_without_exactly_one_host_is_told_400(asker: Asker, server: Served):
    none = asker(server, "GET /ws", BEARER, host="")
    two = asker(server, "GET /ws", BEARER, "Host: evil.com")
    assert (none.status, two.status) == (400, 400)


@pytest.mark.fault("SEC-05")
def test_http_1_0_needs_a_host_too(server: Served):
    answer = talk_raw(server, f"GET / HTTP/1.0\r\n{BEARER}\r\n\r\n".encode())
    assert (answer.status, answer.code) == (400, "bad_host")


@pytest.mark.fault("T3")
@pytest.mark.fault("SEC-05")
@over_both
@pytest.mark.parametrize("target", ["http://evil.com/", "http://evil.com/static/app.js", "x", "*"])
def test_a_target_that_is_not_a_path_is_told_400(asker: Asker, server: Served, target: str):
    answer = asker(server, f"GET {target}", BEARER)
    assert (answer.status, answer.code) == (400, "bad_target")


@pytest.mark.fault("SEC-06")
@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "Cookie", "X"])
@pytest.mark.parametrize("value", ["[" * 65_536, "%" * 65_536, "\xff" * 65_536, "\xff%[\t@"])
def test_a_malformed_header_is_told_4xx_and_the_server_lives(server: Served, name: str, value: str):
    headers = [f"{name}: {value}"] if name != "Host" else []
    host = f"Host: {value}" if name == "Host" else None
    answer = ask(server, "POST /api/echo", *headers, host=host)
    assert 400 <= answer.status < 500
    assert ask(server, "GET /healthz").status == 200


# Origin and CORS


@pytest.mark.fault("T2")
@pytest.mark.fault("SEC-07")
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost:3000",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1",
    ],
)
def test_a_foreign_page_is_told_403_before_the_101(server: Served, origin: str):
    refused = refused_socket(server, origin=origin.format(port=server.port))
    assert refused == (403, "origin_not_allowed")


@pytest.mark.fault("SEC-07")
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", None])
def test_our_own_page_and_a_program_may_open_a_socket(server: Served, name: str | None):
    origin = name and f"http://{name}:{server.port}"
    with open_socket(server, origin=origin) as client:
        client.send("hello")
        assert client.recv(BOUND) == "hello"


@pytest.mark.fault("SEC-08")
@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Origin: http://evil.example", (403, "origin_not_allowed")),
        ("Sec-Fetch-Site: cross-site", (403, "cross_site_not_allowed")),
        ("Sec-Fetch-Site: same-site", (403, "cross_site_not_allowed")),
        ("Sec-Fetch-Site: same-origin", (200, None)),
        ("Accept: */*", (200, None)),
    ],
)
def test_only_our_own_page_and_programs_may_post(
    server: Served, header: str, expected: tuple[int, str | None]
):
    length = "Content-Length: 2"
    answer = ask(server, "POST /api/echo", BEARER, JSON_TYPE, length, header, body=b"{}")
    assert (answer.status, answer.code) == expected


@pytest.mark.fault("SEC-09")
def test_a_preflight_is_told_405(server: Served):
    asked = ("Origin: http://evil.example", "Access-Control-Request-Method: POST")
    answer = ask(server, "OPTIONS /api/echo", *asked)
    assert (answer.status, answer.code) == (405, "method_not_allowed")


# Token


def every_route(routes: Iterable[BaseRoute], prefix: str = "") -> Iterator[tuple[Asker, str]]:
    for route in routes:
        match route:
            case Mount(app=StaticFiles()):
                yield ask, f"{prefix}{route.path}/app.js"
            case Mount():
                yield from every_route(route.routes, prefix + route.path)
            case Route():
                yield ask, prefix + route.path
            case WebSocketRoute():
                yield ask_socket, prefix + route.path
            case _:
                pytest.fail(f"this test does not know how to ask {route!r}")


@pytest.mark.fault("T1")
@pytest.mark.fault("SEC-16")
def test_every_route_but_the_open_ones_is_refused_without_the_token(server: Served):
    routes = list(every_route(server.app.routes))
    assert len(routes) == 9
    for asker, path in routes:
        answer = asker(server, f"GET {path}")
        expected = (200, None) if path in OPEN else (401, "token_required")
        assert (answer.status, answer.code) == expected, path


@pytest.mark.fault("SEC-09")
@pytest.mark.fault("SEC-13")
@pytest.mark.fault("SEC-20")
def test_no_route_sets_a_cookie_or_opens_to_other_origins(server: Served):
    for asker, path in every_route(server.app.routes):
        for headers in ((), (BEARER,), ("Cookie: session=x",)):
            answer = asker(server, f"GET {path}", *headers)
            names = {name for name, _ in answer.headers}
            assert "set-cookie" not in names
            assert not [name for name in names if name.startswith("access-control-")]
            assert answer.status == 101 or "x-content-type-options" in names


@pytest.mark.fault("SEC-13")
def test_a_forged_cookie_is_no_token(server: Served):
    answer = ask(server, f"GET /api/agents?token={TOKEN}", f"Cookie: session=x; token={TOKEN}")
    assert (answer.status, answer.code) == (401, "token_required")


@pytest.mark.fault("SEC-14")
@pytest.mark.fault("SEC-15")
@pytest.mark.parametrize(
    ("offered", "accepted"),
    [
        ([SUBPROTOCOL, BY_SUBPROTOCOL], SUBPROTOCOL),
        ([BY_SUBPROTOCOL], BY_SUBPROTOCOL),
    ],
)
def test_the_page_brings_the_token_as_a_subprotocol(
    server: Served, offered: list[str], accepted: str
):
    with open_socket(server, subprotocols=offered) as client:
        assert client.subprotocol == accepted


@pytest.mark.fault("SEC-15")
@pytest.mark.parametrize(
    ("offered", "code"),
    [
        ([], "token_required"),
        ([SUBPROTOCOL], "token_required"),
        ([SUBPROTOCOL, BY_SUBPROTOCOL[:-1]], "token_wrong"),
        ([BY_SUBPROTOCOL, "agent-lab.token.x"], "token_wrong"),
    ],
)
def test_a_page_of_ours_without_the_token_is_told_401_before_the_101(
    server: Served, offered: list[str], code: str
):
    origin = f"http://127.0.0.1:{server.port}"
    assert refused_socket(server, origin=origin, subprotocols=offered) == (401, code)


@pytest.mark.fault("SEC-12")
@over_both
def test_a_token_that_lacks_its_last_character_is_told_401(asker: Asker, server: Served):
    answer = asker(server, "GET /ws", BEARER[:-1])
    assert (answer.status, answer.code) == (401, "token_wrong")


@pytest.mark.fault("SEC-18")
def test_wrong_tokens_over_http_and_sockets_are_limited_together_and_the_right_one_is_not(
    server: Served,
):
    askers = [ask, ask_socket] * MAX_BAD_TOKENS
    codes = [asker(server, "GET /ws", f"{BEARER}x").code for asker in askers]
    assert codes[:MAX_BAD_TOKENS] == ["token_wrong"] * MAX_BAD_TOKENS
    assert codes[MAX_BAD_TOKENS:] == ["too_many_bad_tokens"] * MAX_BAD_TOKENS
    assert ask(server, "GET /api/agents", BEARER).status == 200
    assert ask_socket(server, "GET /ws", BEARER).status == 101


@pytest.mark.fault("SEC-17")
@pytest.mark.parametrize("sent", [b"", b"{" * 65_536, b"{" * 10_000_000])
def test_who_has_no_token_is_told_so_without_the_body_being_asked_for(server: Served, sent: bytes):
    expects = ("Content-Length: 10000000", "Expect: 100-continue")
    answer = ask(server, "POST /api/echo", *expects, body=sent)
    assert (answer.status, answer.code) == (401, "token_required")
    assert ("connection", "close") in answer.headers


def test_a_refusal_leaves_the_connection_usable(server: Served):
    with socket.create_connection(("127.0.0.1", server.port), timeout=BOUND) as connection:
        statuses: list[int] = []
        for header in ("Accept: */*", BEARER):
            request = f"GET /api/agents HTTP/1.1\r\n{server.host}\r\n{header}\r\n\r\n"
            connection.sendall(request.encode())
            with HTTPResponse(connection) as response:
                response.begin()
                response.read()
                statuses.append(response.status)
    assert statuses == [401, 200]


def test_a_refused_head_request_has_no_body_on_the_wire(server: Served):
    with socket.create_connection(("127.0.0.1", server.port), timeout=BOUND) as connection:
        lines = ("HEAD /api/agents HTTP/1.1", server.host, "Connection: close", "", "")
        connection.sendall("\r\n".join(lines).encode())
        with connection.makefile("rb") as stream:
            head, _, body = stream.read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 401 ")
    assert b"x-agent-lab-error-code: token_required" in head.lower()
    assert body == b""


# Sizes and kinds


@pytest.mark.fault("T4")
@pytest.mark.fault("SEC-26")
def test_33_kib_of_headers_are_told_431(server: Served):
    long = [f"X-{number}: {'a' * 1000}" for number in range(33)]
    answer = ask(server, "GET /api/agents", BEARER, *long)
    assert (answer.status, answer.code) == (431, "headers_too_large")


@pytest.mark.fault("T7")
@pytest.mark.fault("SEC-26")
def test_33_kib_of_headers_open_no_socket(server: Served):
    long = [f"X-{number}: {'a' * 1000}" for number in range(33)]
    answer = ask_socket(server, "GET /ws", BEARER, *long)
    assert (answer.status, answer.code) == (431, "headers_too_large")


def chunked(total: int) -> bytes:
    block = b"1000\r\n" + b" " * 4096 + b"\r\n"
    rest = total % 4096
    last = b"%x\r\n%b\r\n" % (rest, b"1".rjust(rest)) if rest else b""
    return block * (total // 4096) + last + b"0\r\n\r\n"


@pytest.mark.fault("SEC-26")
@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (MAX_BODY_BYTES - 1, (200, None)),
        (MAX_BODY_BYTES + 1, (413, "body_too_large")),
        (MAX_BODY_BYTES * 8 + 1, (413, "body_too_large")),
    ],
)
def test_a_body_over_1_mib_is_told_413_declared_or_chunked(
    server: Served, total: int, expected: tuple[int, str | None]
):
    post = ("POST /api/echo", BEARER, JSON_TYPE)
    body = b"1".rjust(total)
    declared = ask(server, *post, f"Content-Length: {total}", body=body)
    streamed = ask(server, *post, "Transfer-Encoding: chunked", body=chunked(total))
    assert (declared.status, declared.code) == expected
    assert (streamed.status, streamed.code) == expected


@pytest.mark.fault("SEC-10")
@pytest.mark.fault("SEC-27")
@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("Content-Type: text/plain", "content_type_not_json"),
        ("Content-Type: application/x-www-form-urlencoded", "content_type_not_json"),
        ("Content-Type: multipart/form-data; boundary=x", "content_type_not_json"),
        ("Content-Type: application/json-evil", "content_type_not_json"),
        ("Accept: application/json", "content_type_not_json"),
        ("Content-Encoding: gzip", "content_encoding_not_allowed"),
    ],
)
def test_a_body_that_is_not_plain_json_is_told_415(server: Served, header: str, code: str):
    answer = ask(server, "POST /api/echo", BEARER, header, "Content-Length: 2", body=b"{}")
    assert (answer.status, answer.code) == (415, code)


# Paths, proxies, pages


@pytest.mark.fault("T36")
@pytest.mark.fault("SEC-28")
@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "%2e%2e%2fsecret.txt",
        "..%5csecret.txt",
        "..\\secret.txt",
        "%252e%252e/secret.txt",
        "..;/secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "%2fetc%2fpasswd",
        "out/secret.txt",
        "%00",
        "app.js%00.html",
        "./../secret.txt",
        "%c0%ae%c0%ae/secret.txt",
        "../api/agents",
    ],
)
def test_a_static_path_leads_nowhere_else(server: Served, path: str):
    answer = ask(server, f"GET /static/{path}")
    assert answer.status == 404
    assert b"secret" not in answer.body


@pytest.mark.fault("T6")
@pytest.mark.fault("SEC-41")
@over_both
def test_what_a_proxy_says_changes_nothing(asker: Asker, server: Served):
    ours = f"127.0.0.1:{server.port}"
    spoof = (
        f"Forwarded: for=127.0.0.1;host={ours};proto=http",
        "X-Forwarded-For: 127.0.0.1",
        f"X-Forwarded-Host: {ours}",
        "X-Forwarded-Proto: https",
    )
    foreign = asker(server, "GET /ws", BEARER, *spoof, host="Host: evil.com")
    no_token = asker(server, "GET /ws", *spoof)
    assert (foreign.code, no_token.code) == ("host_not_allowed", "token_required")


@pytest.mark.fault("SEC-19")
@pytest.mark.fault("SEC-20")
def test_the_page_comes_with_its_policy(server: Served):
    headers = dict(ask(server, "GET /").headers)
    assert headers.pop("date")
    assert int(headers.pop("content-length")) > 0
    sockets = f"ws://127.0.0.1:{server.port} ws://localhost:{server.port}"
    assert headers == {
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-store",
        "content-security-policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
            f" connect-src 'self' {sockets}; base-uri 'none'; form-action 'none';"
            " frame-ancestors 'none'; require-trusted-types-for 'script'"
        ),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
    }
