"""The guard at the ASGI level: each rule, their order, and what no byte string breaks."""

import json
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_lab.presentation.guard import (
    SUBPROTOCOL,
    Guard,
    allowed_hosts,
    choose_subprotocol,
    content_security_policy,
    new_token,
)
from agent_lab.presentation.guard_rules import (
    BAD_TOKEN_WINDOW,
    MAX_BAD_TOKENS,
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    RefusalCode,
)

TOKEN = "T" * 43
BEARER = (b"authorization", b"Bearer " + TOKEN.encode())
HOST = b"127.0.0.1:8123"
OK_HOST = (b"host", HOST)
JSON_TYPE = (b"content-type", b"application/json")
HOSTS = allowed_hosts(8123)
DENIAL = {"websocket.http.response": {}}

Headers = Sequence[tuple[bytes, bytes]]
Message = dict[str, Any]


@dataclass
class Exchange:
    """What went over one ASGI connection: the messages sent, and how often receive was called."""

    sent: list[Message] = field(default_factory=list[Message])
    received: int = 0

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])

    @property
    def code(self) -> str:
        return self.headers.get(b"x-agent-lab-error-code", b"").decode()


class App:
    """An application that answers 200 with the body it read, and counts how often it was."""

    def __init__(self, headers: Headers = ()) -> None:
        self.reached = 0
        self.headers = headers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.reached += 1
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept", "headers": list(self.headers)})
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError("the client has gone")
            body, more = body + message["body"], message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": list(self.headers)})
        await send({"type": "http.response.body", "body": body})


def finish(coroutine: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine that never waits; one that does is a failure, not a hang."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


def make_guard(app: Any = None, **options: Any) -> Guard:
    return Guard(app or App(), **{"token": TOKEN, "hosts": HOSTS, **options})


def ask(
    guard: Guard,
    headers: Iterable[tuple[bytes, bytes]] = (OK_HOST, BEARER),
    *,
    method: str = "GET",
    path: str = "/api/agents",
    chunks: Sequence[bytes] = (b"",),
    **scope: Any,
) -> Exchange:
    exchange = Exchange()

    async def receive() -> Message:
        exchange.received += 1
        last = exchange.received >= len(chunks)
        return {
            "type": "http.request",
            "body": chunks[exchange.received - 1],
            "more_body": not last,
        }

    async def send(message: Any) -> None:
        exchange.sent.append(message)

    head = {"type": "http", "method": method, "path": path, "headers": list(headers)}
    finish(guard({**head, **scope}, receive, send))
    return exchange


def ask_socket(
    guard: Guard,
    headers: Iterable[tuple[bytes, bytes]] = (OK_HOST, BEARER),
    *,
    path: str = "/ws",
    subprotocols: Sequence[str] = (),
    extensions: Any = DENIAL,
    **scope: Any,
) -> Exchange:
    socket = {"type": "websocket", "subprotocols": list(subprotocols), "extensions": extensions}
    return ask(guard, headers, path=path, **{**socket, **scope})


ASKERS = [pytest.param(ask, id="http"), pytest.param(ask_socket, id="websocket")]
over_both = pytest.mark.parametrize("asker", ASKERS)
Asker = Callable[..., Exchange]


# Host and target


@pytest.mark.fault("SEC-04")
@over_both
@pytest.mark.parametrize("host", sorted(HOSTS))
def test_each_allowed_host_is_let_in(asker: Asker, host: str):
    app = App()
    asker(make_guard(app), [(b"host", host.encode()), BEARER])
    assert app.reached == 1


@pytest.mark.fault("SEC-04")
@over_both
@pytest.mark.parametrize(
    "host",
    [
        b"evil.com",
        b"evil.com:8123",
        b"localhost",
        b"localhost.",
        b"localhost.:8123",
        b"localhost:8124",
        b"localhost:08123",
        b"LOCALHOST:8123",
        b"localhost.evil.com",
        b"localhost.evil.com:8123",
        b"127.0.0.1.nip.io:8123",
        b"localhost@evil.com",
        b"localhost:8123@evil.com",
        b"evil.com#localhost:8123",
        b"localhost:8123,evil.com",
        b" localhost:8123",
        b"0.0.0.0:8123",
        b"127.1:8123",
        b"2130706433:8123",
        b"0x7f000001:8123",
        b"[::]:8123",
        b"::1:8123",
        b"[::ffff:127.0.0.1]:8123",
        b"",
    ],
)
def test_any_other_host_is_told_421(asker: Asker, host: bytes):
    app = App()
    answer = asker(make_guard(app), [(b"host", host), BEARER])
    assert (answer.status, answer.code, app.reached) == (421, "host_not_allowed", 0)


@pytest.mark.fault("SEC-05")
@over_both
@pytest.mark.parametrize("count", [0, 2, 3])
def test_a_request_without_exactly_one_host_is_told_400(asker: Asker, count: int):
    answer = asker(make_guard(), [OK_HOST] * count + [BEARER])
    assert (answer.status, answer.code) == (400, "bad_host")


@pytest.mark.fault("SEC-05")
@over_both
@pytest.mark.parametrize("target", [b"http://evil.com/", b"evil.com:443", b"*", b"?a", b"\xff"])
def test_a_target_that_is_not_a_path_is_told_400(asker: Asker, target: bytes):
    answer = asker(make_guard(), raw_path=target, path="/")
    assert (answer.status, answer.code) == (400, "bad_target")


@pytest.mark.fault("SEC-05")
def test_an_absolute_url_in_the_path_is_seen_without_a_raw_path():
    assert ask(make_guard(), path="http://evil.com/").code == "bad_target"


# Origin, Sec-Fetch-Site, CORS


@pytest.mark.fault("SEC-07")
@over_both
@pytest.mark.parametrize("host", sorted(HOSTS))
def test_each_of_our_own_origins_is_let_in(asker: Asker, host: str):
    app = App()
    asker(make_guard(app), [OK_HOST, BEARER, (b"origin", b"http://" + host.encode())])
    assert app.reached == 1


@pytest.mark.fault("SEC-07")
@pytest.mark.fault("SEC-08")
@over_both
@pytest.mark.parametrize(
    "origin",
    [
        b"http://evil.example",
        b"null",
        b"",
        b"http://localhost:3000",
        b"https://127.0.0.1:8123",
        b"ws://127.0.0.1:8123",
        b"http://127.0.0.1",
        b"http://127.0.0.1:8123/",
        b"HTTP://127.0.0.1:8123",
        b"http://127.0.0.1:8123.evil.com",
        b"http://evil.com@127.0.0.1:8123",
        b"http://127.0.0.1:8123, http://evil.example",
        b"127.0.0.1:8123",
    ],
)
def test_any_other_origin_is_told_403_even_with_the_token(asker: Asker, origin: bytes):
    app = App()
    answer = asker(make_guard(app), [OK_HOST, BEARER, (b"origin", origin)])
    assert (answer.status, answer.code, app.reached) == (403, "origin_not_allowed", 0)


@pytest.mark.fault("SEC-07")
@over_both
def test_two_origins_are_told_403_though_each_is_ours(asker: Asker):
    origin = (b"origin", b"http://127.0.0.1:8123")
    assert asker(make_guard(), [OK_HOST, BEARER, origin, origin]).code == "origin_not_allowed"


@pytest.mark.fault("SEC-08")
@pytest.mark.parametrize(
    ("method", "site", "status"),
    [
        ("POST", b"cross-site", 403),
        ("POST", b"same-site", 403),
        ("PUT", b"cross-site", 403),
        ("PATCH", b"cross-site", 403),
        ("DELETE", b"same-site", 403),
        ("BREW", b"cross-site", 403),
        ("get", b"cross-site", 403),
        ("POST", b"same-origin, cross-site", 403),
        ("POST", b"", 403),
        ("POST", b"same-origin", 200),
        ("POST", b"none", 200),
        ("GET", b"cross-site", 200),
        ("HEAD", b"same-site", 200),
    ],
)
def test_sec_fetch_site_stops_what_could_change_something(method: str, site: bytes, status: int):
    answer = ask(make_guard(), [OK_HOST, BEARER, (b"sec-fetch-site", site)], method=method)
    assert answer.status == status
    assert answer.code == ("" if status == 200 else "cross_site_not_allowed")


@pytest.mark.fault("SEC-07")
def test_the_page_at_localhost_may_open_a_socket_to_127_0_0_1():
    app = App()
    headers = [(b"origin", b"http://localhost:8123"), (b"sec-fetch-site", b"cross-site")]
    ask_socket(make_guard(app), [OK_HOST, BEARER, *headers])
    assert app.reached == 1


@pytest.mark.fault("SEC-08")
def test_a_program_without_origin_needs_the_token_alone():
    headers = [OK_HOST, BEARER, JSON_TYPE, (b"content-length", b"2")]
    answer = ask(make_guard(), headers, method="POST", chunks=[b"{}"])
    assert (answer.status, answer.body) == (200, b"{}")


@pytest.mark.fault("SEC-09")
@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/agents", "/nowhere"])
@pytest.mark.parametrize("origin", [b"http://evil.example", b"http://127.0.0.1:8123"])
def test_a_preflight_is_told_405_and_given_no_cors_header(path: str, origin: bytes):
    asked = (b"access-control-request-method", b"POST")
    answer = ask(make_guard(), [OK_HOST, (b"origin", origin), asked], method="OPTIONS", path=path)
    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert answer.headers[b"allow"] == b"GET, HEAD, POST"
    assert not [name for name in answer.headers if name.startswith(b"access-control-")]


# Token


@pytest.mark.fault("T1")
@pytest.mark.fault("SEC-15")
@pytest.mark.fault("SEC-16")
@over_both
@pytest.mark.parametrize(
    "path", ["/api/agents", "/ws", "/docs", "/metrics", "/static", "/healthz/", "//", "/nowhere"]
)
def test_without_a_token_nothing_is_let_in(asker: Asker, path: str):
    app = App()
    answer = asker(make_guard(app), [OK_HOST], path=path)
    assert (answer.status, answer.code, app.reached) == (401, "token_required", 0)
    assert answer.headers[b"www-authenticate"] == b'Bearer realm="agent-lab"'


@pytest.mark.fault("SEC-12")
@over_both
@pytest.mark.parametrize(
    "value",
    [
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN} x",
        f"Bearer {TOKEN.lower()}",
        "Bearer ",
        "Bearer",
        "",
        TOKEN,
        f"Basic {TOKEN}",
        f"Bearer\t{TOKEN}",
        "Bearer \xff\xfe",
    ],
)
def test_a_wrong_token_is_told_401(asker: Asker, value: str):
    app = App()
    answer = asker(make_guard(app), [OK_HOST, (b"authorization", value.encode("latin-1"))])
    assert (answer.status, answer.code, app.reached) == (401, "token_wrong", 0)


@over_both
@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER"])
def test_the_scheme_of_the_token_has_no_case(asker: Asker, scheme: bytes):
    app = App()
    asker(make_guard(app), [OK_HOST, (b"authorization", scheme + b" " + TOKEN.encode())])
    assert app.reached == 1


@pytest.mark.fault("SEC-14")
@pytest.mark.fault("SEC-15")
@pytest.mark.parametrize(
    ("offered", "code"),
    [
        ([SUBPROTOCOL, f"agent-lab.token.{TOKEN}"], ""),
        ([f"agent-lab.token.{TOKEN}"], ""),
        ([SUBPROTOCOL], "token_required"),
        ([f"agent-lab.token.{TOKEN[:-1]}"], "token_wrong"),
        (["agent-lab.token."], "token_wrong"),
        ([f"agent-lab.token.{TOKEN}", "agent-lab.token.x"], "token_wrong"),
        ([TOKEN], "token_required"),
        (["agent-lab.token.\udcff\u20ac"], "token_wrong"),
    ],
)
def test_a_socket_may_bring_the_token_as_a_subprotocol(offered: list[str], code: str):
    app = App()
    answer = ask_socket(make_guard(app), [OK_HOST], subprotocols=offered)
    assert (app.reached == 1) == (code == "")
    assert code == "" or (answer.status, answer.code) == (401, code)


@pytest.mark.fault("SEC-15")
def test_the_subprotocol_is_no_way_in_for_plain_http():
    offer = (b"sec-websocket-protocol", f"agent-lab.token.{TOKEN}".encode())
    answer = ask(make_guard(), [OK_HOST, offer], subprotocols=[f"agent-lab.token.{TOKEN}"])
    assert answer.code == "token_required"


@pytest.mark.fault("SEC-13")
@pytest.mark.fault("SEC-14")
def test_a_cookie_or_a_query_is_no_way_in():
    cookie = (b"cookie", f"token={TOKEN}; agent-lab={TOKEN}".encode())
    answer = ask(make_guard(), [OK_HOST, cookie], query_string=f"token={TOKEN}".encode())
    assert (answer.status, answer.code) == (401, "token_required")


@over_both
def test_a_wrong_token_beside_the_right_one_is_told_401(asker: Asker):
    answer = asker(make_guard(), [OK_HOST, BEARER, (b"authorization", b"Bearer x")])
    assert answer.code == "token_wrong"


@pytest.mark.fault("SEC-16")
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/", "/healthz", "/static/app.js", "/static/"])
def test_the_open_paths_need_no_token_to_be_read(method: str, path: str):
    assert ask(make_guard(), [OK_HOST], method=method, path=path).status == 200


@pytest.mark.fault("SEC-16")
@pytest.mark.parametrize("method", ["POST", "DELETE", "BREW"])
@pytest.mark.parametrize("path", ["/", "/healthz", "/static/app.js"])
def test_the_open_paths_need_the_token_for_more_than_reading(method: str, path: str):
    assert ask(make_guard(), [OK_HOST], method=method, path=path).code == "token_required"


@pytest.mark.fault("SEC-15")
@pytest.mark.parametrize("path", ["/", "/healthz", "/static/app.js"])
def test_a_socket_needs_the_token_on_the_open_paths_too(path: str):
    assert ask_socket(make_guard(), [OK_HOST], path=path).code == "token_required"


@pytest.mark.fault("SEC-03")
@over_both
def test_host_and_origin_hold_where_no_token_is_asked_for(asker: Asker):
    guard = make_guard(open_paths=(), open_prefixes=("/",))
    foreign_host = asker(guard, [(b"host", b"evil.com")])
    foreign_origin = asker(guard, [OK_HOST, (b"origin", b"http://evil.example")])
    assert (foreign_host.code, foreign_origin.code) == ("host_not_allowed", "origin_not_allowed")


@pytest.mark.fault("SEC-28")
@pytest.mark.fault("T36")
@pytest.mark.parametrize(
    "path",
    ["/static/../api/agents", "/static/..", "/static/a\\..\\b", "/static/a\0.js", "/static/x/.."],
)
def test_an_open_prefix_leads_nowhere_else(path: str):
    app = App()
    answer = ask(make_guard(app), [OK_HOST], path=path)
    assert (answer.status, answer.code, app.reached) == (404, "not_found", 0)


# The limit on wrong tokens


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def guess(guard: Guard, value: bytes = b"Bearer x") -> Exchange:
    return ask(guard, [OK_HOST, (b"authorization", value)])


@pytest.mark.fault("SEC-18")
def test_after_twenty_wrong_tokens_the_next_is_told_429_until_the_first_is_ten_seconds_old():
    clock = Clock()
    guard = make_guard(clock=clock)
    first = [guess(guard).status for _ in range(MAX_BAD_TOKENS)]
    clock.now += BAD_TOKEN_WINDOW - 0.5
    refused = guess(guard)
    clock.now += 0.5
    later = [guess(guard).status for _ in range(MAX_BAD_TOKENS + 1)]

    assert first == [401] * MAX_BAD_TOKENS
    assert (refused.status, refused.code) == (429, "too_many_bad_tokens")
    assert refused.headers[b"retry-after"] == b"1"
    assert later == [401] * MAX_BAD_TOKENS + [429]


@pytest.mark.fault("SEC-18")
@over_both
def test_the_right_token_is_let_in_during_a_flood_and_resets_nothing(asker: Asker):
    app = App()
    guard = make_guard(app, clock=Clock())
    for _ in range(MAX_BAD_TOKENS):
        guess(guard)
    asker(guard)
    assert app.reached == 1
    assert guess(guard).status == 429
    assert asker(guard, [OK_HOST, (b"authorization", b"Bearer x")]).status == 429


@pytest.mark.fault("SEC-18")
@pytest.mark.fault("SEC-41")
def test_a_forwarded_address_does_not_escape_the_limit():
    guard = make_guard(clock=Clock())
    statuses = [
        ask(
            guard,
            [OK_HOST, (b"authorization", b"Bearer x"), (b"x-forwarded-for", b"8.8.8.%d" % number)],
            client=(f"8.8.8.{number}", 1),
        ).status
        for number in range(MAX_BAD_TOKENS + 1)
    ]
    assert statuses == [401] * MAX_BAD_TOKENS + [429]


@pytest.mark.fault("SEC-18")
def test_a_missing_token_counts_for_nothing():
    guard = make_guard(clock=Clock())
    answers = {ask(guard, [OK_HOST]).code for _ in range(MAX_BAD_TOKENS * 2)}
    assert (answers, guess(guard).code) == ({"token_required"}, "token_wrong")


# Sizes and kinds of bodies


def pad_headers(total: int) -> list[tuple[bytes, bytes]]:
    headers = [OK_HOST, BEARER]
    used = sum(len(name) + len(value) + 4 for name, value in headers)
    return [*headers, (b"x", b"a" * (total - used - 5))]


@pytest.mark.fault("SEC-26")
@pytest.mark.fault("T4")
@over_both
def test_headers_up_to_32_kib_are_let_in_and_a_byte_more_is_told_431(asker: Asker):
    app = App()
    asker(make_guard(app), pad_headers(MAX_HEADER_BYTES))
    answer = asker(make_guard(app), pad_headers(MAX_HEADER_BYTES + 1))
    assert (app.reached, answer.status, answer.code) == (1, 431, "headers_too_large")


def post(guard: Guard, *headers: tuple[bytes, bytes], chunks: Sequence[bytes] = (b"{}",)):
    return ask(guard, [OK_HOST, BEARER, *headers], method="POST", chunks=chunks)


@pytest.mark.fault("SEC-26")
@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (b"%d" % MAX_BODY_BYTES, (200, "")),
        (b"%d" % (MAX_BODY_BYTES + 1), (413, "body_too_large")),
        (b"0" * 5000 + b"2", (200, "")),
        (b"9" * 5000, (413, "body_too_large")),
        (b"-1", (400, "bad_content_length")),
        (b"+2", (400, "bad_content_length")),
        (b"2, 2", (400, "bad_content_length")),
        (b"0x2", (400, "bad_content_length")),
        (b"\xb2", (400, "bad_content_length")),
        (b"", (400, "bad_content_length")),
    ],
)
def test_a_declared_length_is_judged_before_the_body_is_read(
    length: bytes, expected: tuple[int, str]
):
    answer = post(make_guard(), (b"content-length", length), JSON_TYPE)
    assert (answer.status, answer.code) == expected
    assert answer.received == (1 if expected == (200, "") else 0)


@pytest.mark.fault("SEC-26")
def test_two_lengths_are_told_400():
    length = (b"content-length", b"2")
    assert post(make_guard(), length, length, JSON_TYPE).code == "bad_content_length"


CHUNKED = (b"transfer-encoding", b"chunked")
MEBIBYTE = [b"a" * (MAX_BODY_BYTES // 4)] * 4


@pytest.mark.fault("SEC-26")
def test_a_chunked_body_of_1_mib_is_let_in():
    answer = post(make_guard(), CHUNKED, JSON_TYPE, chunks=MEBIBYTE)
    assert (answer.status, len(answer.body)) == (200, MAX_BODY_BYTES)


@pytest.mark.fault("SEC-26")
def test_a_chunked_body_over_1_mib_is_told_413_where_it_passes_the_limit():
    answer = post(make_guard(), CHUNKED, JSON_TYPE, chunks=[*MEBIBYTE, b"a", b"never read"])
    assert (answer.status, answer.code, answer.received) == (413, "body_too_large", 5)
    assert answer.headers[b"connection"] == b"close"
    assert len(answer.sent) == 2


@pytest.mark.fault("SEC-26")
def test_an_application_that_carries_on_after_413_is_not_heard():
    async def stubborn(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        assert await receive() == {"type": "http.disconnect"}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"fine"})

    answer = post(make_guard(stubborn), CHUNKED, JSON_TYPE, chunks=[*MEBIBYTE, b"a"])
    assert (answer.status, answer.code, len(answer.sent)) == (413, "body_too_large", 2)


@pytest.mark.fault("SEC-26")
def test_an_application_that_answered_before_the_limit_is_only_cut_off():
    async def eager(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 202, "headers": []})
        while (await receive())["type"] != "http.disconnect":
            pass
        await send({"type": "http.response.body", "body": b"enough"})

    answer = post(make_guard(eager), CHUNKED, JSON_TYPE, chunks=[*MEBIBYTE, b"a"])
    assert (answer.status, answer.body) == (202, b"enough")


@pytest.mark.fault("SEC-10")
@pytest.mark.parametrize(
    ("kind", "is_json"),
    [
        (b"application/json", True),
        (b"Application/JSON", True),
        (b"application/json; charset=utf-8", True),
        (b'application/json;charset="UTF-8"', True),
        (b"text/plain", False),
        (b"text/plain; application/json", False),
        (b"application/x-www-form-urlencoded", False),
        (b"multipart/form-data; boundary=x", False),
        (b"application/json-evil", False),
        (b"application/json, text/plain", False),
        (b"application/json; charset=utf-7", False),
        (b"application/json\n", False),
        (b"application/jso\xff", False),
        (b"", False),
    ],
)
@pytest.mark.parametrize("length", [(b"content-length", b"2"), CHUNKED])
def test_a_body_that_is_not_json_is_told_415(
    kind: bytes, is_json: bool, length: tuple[bytes, bytes]
):
    answer = post(make_guard(), length, (b"content-type", kind))
    expected = (200, "") if is_json else (415, "content_type_not_json")
    assert (answer.status, answer.code) == expected


@pytest.mark.fault("SEC-10")
def test_a_body_of_no_kind_or_of_two_kinds_is_told_415():
    length = (b"content-length", b"2")
    assert post(make_guard(), length).code == "content_type_not_json"
    assert post(make_guard(), length, JSON_TYPE, JSON_TYPE).code == "content_type_not_json"


@pytest.mark.fault("SEC-10")
@pytest.mark.parametrize("headers", [[], [(b"content-length", b"0")]])
def test_a_post_without_a_body_needs_no_kind(headers: Headers):
    assert post(make_guard(), *headers, chunks=[b""]).status == 200


@pytest.mark.fault("SEC-27")
@pytest.mark.parametrize("coding", [b"gzip", b"deflate, br", b"identity", b""])
def test_a_compressed_body_is_told_415(coding: bytes):
    answer = post(make_guard(), (b"content-encoding", coding), (b"content-length", b"2"), JSON_TYPE)
    assert (answer.status, answer.code) == (415, "content_encoding_not_allowed")


@pytest.mark.fault("SEC-17")
def test_who_has_no_token_is_told_so_before_the_body_is_read_or_judged():
    body = [(b"content-length", b"10000000"), (b"content-encoding", b"gzip")]
    answer = ask(make_guard(), [OK_HOST, *body], method="POST", chunks=[b"{" * 65536])
    assert (answer.status, answer.received) == (401, 0)
    assert answer.headers[b"connection"] == b"close"


# The order, and the shape of every refusal


@over_both
def test_the_first_rule_that_objects_is_the_one_that_answers(asker: Asker):
    guard = make_guard()
    bad_host, origin = (b"host", b"evil.com"), (b"origin", b"null")
    long = (b"x", b"a" * MAX_HEADER_BYTES)
    codes = [
        asker(guard, [bad_host, origin, long]).code,
        asker(guard, [OK_HOST, origin, long]).code,
        asker(guard, [OK_HOST, long]).code,
        asker(guard, [OK_HOST]).code,
    ]
    assert codes == [
        "host_not_allowed",
        "origin_not_allowed",
        "headers_too_large",
        "token_required",
    ]


def every_refusal() -> dict[str, Exchange]:
    crowded = make_guard(clock=Clock())
    for _ in range(MAX_BAD_TOKENS):
        guess(crowded)
    guard = make_guard()
    answers = [
        ask(guard, []),
        ask(guard, [(b"host", b"evil.com")]),
        ask(guard, [OK_HOST], path="*"),
        ask(guard, [OK_HOST], method="OPTIONS"),
        ask(guard, [OK_HOST, (b"origin", b"null")]),
        ask(guard, [OK_HOST, (b"sec-fetch-site", b"cross-site")], method="POST"),
        ask(guard, pad_headers(MAX_HEADER_BYTES + 1)),
        ask(guard, [OK_HOST]),
        guess(guard),
        guess(crowded),
        ask(guard, [OK_HOST], path="/static/.."),
        post(guard, (b"content-encoding", b"gzip")),
        post(guard, (b"content-length", b"x")),
        post(guard, (b"content-length", b"9999999")),
        post(guard, (b"content-length", b"2")),
    ]
    return {answer.code: answer for answer in answers}


def test_every_code_is_produced_and_has_one_shape():
    refusals = every_refusal()
    assert set(refusals) == set(get_args(RefusalCode))
    for code, answer in refusals.items():
        error = json.loads(answer.body)
        assert list(error) == ["error", "message"]
        assert error["error"] == code
        assert error["message"].endswith(".") and ". " in error["message"]
        assert 400 <= answer.status < 500
        assert answer.headers[b"content-type"] == b"application/json"
        assert answer.headers[b"content-length"] == b"%d" % len(answer.body)
        assert answer.headers[b"cache-control"] == b"no-store"


@pytest.mark.fault("SEC-20")
def test_every_refusal_carries_the_headers_of_every_answer():
    for answer in every_refusal().values():
        assert answer.headers.items() >= SECURITY.items()


@pytest.mark.fault("SEC-29")
@pytest.mark.fault("T35")
@over_both
def test_nothing_of_the_request_comes_back(asker: Asker):
    canary = b"canary\r\nset-cookie: a=b"
    tries = [
        [(b"host", canary)],
        [OK_HOST, (b"origin", canary)],
        [OK_HOST, (b"authorization", b"Bearer " + canary)],
        [OK_HOST, (b"x-request-id", canary)],
    ]
    for headers in tries:
        answer = asker(make_guard(), headers, path="/canary\r\n\x1b[31m")
        assert b"canary" not in repr(answer.sent).encode()


def test_a_refused_head_request_has_no_body():
    answer = ask(make_guard(), [OK_HOST], method="HEAD")
    assert (answer.status, answer.code, answer.body) == (401, "token_required", b"")


@pytest.mark.fault("SEC-07")
@pytest.mark.parametrize("extensions", [None, {}, {"tls": {}}])
def test_a_server_that_cannot_refuse_a_socket_in_words_closes_it_before_the_101(extensions: Any):
    headers = [OK_HOST, (b"origin", b"null")]
    answer = ask_socket(make_guard(), headers, extensions=extensions)
    assert answer.sent == [
        {"type": "websocket.close", "code": 1008, "reason": "origin_not_allowed"}
    ]


# Headers of every answer


SECURITY = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        b" connect-src 'self' ws://127.0.0.1:8123 ws://localhost:8123; base-uri 'none';"
        b" form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}
CARELESS = [
    (b"content-type", b"text/html"),
    (b"cache-control", b"max-age=60"),
    (b"Set-Cookie", b"a=b"),
    (b"Access-Control-Allow-Origin", b"*"),
    (b"X-Frame-Options", b"ALLOWALL"),
    (b"Content-Security-Policy", b"default-src *"),
]


@pytest.mark.fault("SEC-09")
@pytest.mark.fault("SEC-13")
@pytest.mark.fault("SEC-19")
@pytest.mark.fault("SEC-20")
@pytest.mark.parametrize("path", ["/", "/api/agents", "/healthz", "/metrics"])
def test_an_answer_carries_our_headers_whatever_the_application_says(path: str):
    answer = ask(make_guard(App(CARELESS)), path=path)
    ours = {**SECURITY, b"cache-control": b"no-store", b"content-type": b"text/html"}
    assert sorted(answer.sent[0]["headers"]) == sorted(ours.items())


@pytest.mark.fault("SEC-20")
def test_a_static_file_may_be_kept_by_the_browser():
    answer = ask(make_guard(App(CARELESS)), path="/static/app.js")
    kept = {**SECURITY, b"cache-control": b"max-age=60", b"content-type": b"text/html"}
    assert sorted(answer.sent[0]["headers"]) == sorted(kept.items())


@pytest.mark.fault("SEC-13")
def test_an_accepted_socket_gets_no_cookie_and_no_cors_header():
    app = App([*CARELESS[2:4], (b"x-kept", b"1")])
    assert ask_socket(make_guard(app)).sent[0]["headers"] == [(b"x-kept", b"1")]


@pytest.mark.fault("SEC-13")
@pytest.mark.fault("SEC-20")
def test_an_application_that_denies_a_socket_does_it_with_our_headers():
    async def denies(scope: Any, receive: Any, send: Any) -> None:
        start = "websocket.http.response.start"
        await send({"type": start, "status": 404, "headers": CARELESS})
        await send({"type": "websocket.http.response.body", "body": b""})

    answer = ask_socket(make_guard(denies))
    assert answer.headers.items() >= SECURITY.items()
    assert b"Set-Cookie" not in answer.headers


# Proxies, other scopes, construction


@pytest.mark.fault("SEC-41")
@pytest.mark.fault("T6")
@over_both
def test_what_a_proxy_says_changes_nothing(asker: Asker):
    spoof = [
        (b"forwarded", b"for=127.0.0.1;host=127.0.0.1:8123;proto=http"),
        (b"x-forwarded-for", b"127.0.0.1"),
        (b"x-forwarded-host", HOST),
        (b"x-forwarded-proto", b"https"),
        (b"x-original-url", b"/static/app.js"),
        (b"x-http-method-override", b"OPTIONS"),
    ]
    app = App()
    guard = make_guard(app)
    foreign = asker(guard, [(b"host", b"evil.com"), *spoof])
    no_token = asker(guard, [OK_HOST, *spoof])
    asker(guard, [OK_HOST, BEARER, *spoof])
    assert (foreign.code, no_token.code, app.reached) == ("host_not_allowed", "token_required", 1)


def test_lifespan_passes_and_an_unknown_scope_does_not():
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def nothing(*_: Any) -> Any: ...

    guard = make_guard(app)
    finish(guard({"type": "lifespan"}, nothing, nothing))
    with pytest.raises(ValueError, match="'telnet'"):
        guard({"type": "telnet"}, nothing, nothing).send(None)
    assert seen == ["lifespan"]


def test_an_error_of_the_application_is_not_swallowed():
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise LookupError("a bug")

    async def nothing(*_: Any) -> Any: ...

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [OK_HOST]}
    with pytest.raises(LookupError, match="a bug"):
        make_guard(broken)(scope, nothing, nothing).send(None)


@pytest.mark.parametrize(
    "options",
    [
        {"token": ""},
        {"token": "T" * 42},
        {"token": "T" * 42 + "\n"},
        {"token": "T" * 42 + "é"},
        {"hosts": []},
        {"hosts": "localhost:8123"},
        {"hosts": ["*"]},
        {"hosts": [""]},
        {"hosts": ["a; script-src *"]},
        {"hosts": ["http://localhost:8123"]},
        {"open_prefixes": ["/static"]},
        {"open_prefixes": [""]},
        {"open_prefixes": "/"},
    ],
)
def test_a_setting_that_leaves_a_door_open_is_refused(options: dict[str, Any]):
    with pytest.raises(ValueError, match=next(iter(options))):
        make_guard(**options)


@pytest.mark.fault("SEC-12")
def test_each_token_is_new_and_has_256_bits():
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {43}
    make_guard(token=tokens.pop())


def test_the_default_port_has_hosts_without_a_port_too():
    assert allowed_hosts(8123) == {"127.0.0.1:8123", "localhost:8123", "[::1]:8123"}
    assert {"127.0.0.1", "localhost", "[::1]", "localhost:80"} <= allowed_hosts(80)
    assert "10.0.0.5:8123" in allowed_hosts(8123, also=["10.0.0.5"])


@pytest.mark.fault("SEC-19")
def test_the_policy_names_the_sockets_of_further_hosts():
    policy = content_security_policy(allowed_hosts(8123, also=["10.0.0.5"]))
    sockets = "ws://10.0.0.5:8123 ws://127.0.0.1:8123 ws://localhost:8123"
    assert f"connect-src 'self' {sockets};" in policy


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([SUBPROTOCOL, "agent-lab.token.x"], SUBPROTOCOL),
        (["agent-lab.token.x", SUBPROTOCOL], SUBPROTOCOL),
        (["other", "agent-lab.token.x"], "agent-lab.token.x"),
        (["other"], None),
        ([], None),
    ],
)
def test_the_token_is_echoed_only_to_who_offers_nothing_else(
    offered: list[str], chosen: str | None
):
    assert choose_subprotocol(offered) == chosen


# Any bytes at all


PIECES = st.sampled_from(
    [
        *(host.encode() for host in sorted(HOSTS)),
        *(b"http://" + host.encode() for host in sorted(HOSTS)),
        *(b"[", b"]", b"%", b"%5b", b"@", b":", b",", b" ", b"\0", b"\r\n", b"\xff", b"null"),
        *(b"localhost", b".", b"8123", b"http://", b"//", b"\xc3\xa9", b"xn--"),
    ]
)
FUZZ = st.one_of(st.binary(max_size=64), st.lists(PIECES, max_size=6).map(b"".join))


@pytest.mark.fault("SEC-06")
@settings(max_examples=1250)  # four requests each
@given(value=FUZZ)
@example(value=b"[" * 65536)
@example(value=b"%" * 65536)
@example(value=b"\xff" * 65536)
@example(value=b"http://[")
@example(value=HOST + b"\0")
def test_any_bytes_for_a_host_or_an_origin_are_an_answer(value: bytes):
    our_hosts = {host.encode() for host in HOSTS}
    our_origins = {b"http://" + host for host in our_hosts}
    as_host = [(b"host", value), BEARER]
    as_origin = [OK_HOST, BEARER, (b"origin", value)]
    for asker in (ask, ask_socket):
        for headers, is_ours in ((as_host, value in our_hosts), (as_origin, value in our_origins)):
            app = App()
            answer = asker(make_guard(app), headers)
            assert app.reached == is_ours
            assert is_ours or 400 <= answer.status < 500


NAMES = st.sampled_from(
    [
        *(b"host", b"origin", b"authorization", b"content-length", b"content-type"),
        *(b"content-encoding", b"transfer-encoding", b"sec-fetch-site", b"cookie"),
    ]
)


@pytest.mark.fault("SEC-06")
@settings(max_examples=400)
@given(
    headers=st.lists(st.tuples(NAMES, FUZZ), max_size=6),
    path=st.text(max_size=20),
    raw_path=st.none() | FUZZ,
    method=st.sampled_from(["GET", "HEAD", "POST", "OPTIONS", "", "ÿ"]),
)
def test_any_head_without_the_token_reaches_at_most_an_open_path(
    headers: list[tuple[bytes, bytes]], path: str, raw_path: bytes | None, method: str
):
    app = App()
    answer = ask(make_guard(app), [OK_HOST, *headers], path=path, raw_path=raw_path, method=method)
    if app.reached:
        assert path in ("/", "/healthz") or path.startswith("/static/")
    else:
        assert 400 <= answer.status < 500
