"""Everything that goes wrong between us and a provider, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import tracemalloc
import zlib
from typing import Any

import pytest

from agent_lab.domain.errors import ModelError
from agent_lab.domain.limits import Limits
from agent_lab.domain.messages import CallDelta, Finish, ModelEvent, TextDelta
from agent_lab.infrastructure.models.clients import connections
from agent_lab.infrastructure.models.provider import ProviderModel
from tests.infrastructure.models.helpers_formats import answer, sse
from tests.infrastructure.models.helpers_provider import (
    MODELS,
    Answer,
    ProviderServer,
    ask,
    by_dialect,
    request,
)

QUICK = Limits(model_first_byte=0.3, model_stall=0.3)
LONG = [f"word {number} " for number in range(50)]


def stream(dialect: str, **said: Any) -> bytes:
    return b"".join(answer(dialect, ["Hel", "lo"], **said))


async def never() -> None:
    await asyncio.Event().wait()


async def refused(model: ProviderModel) -> ModelError:
    """The one error that asking ends with, within the bound."""
    async with asyncio.timeout(5):
        with pytest.raises(ModelError) as raised:
            await ask(model)
    assert str(raised.value).strip()
    return raised.value


async def heard(model: ProviderModel) -> tuple[list[ModelEvent], str | None]:
    """What came, and the code of the error if there was one."""
    events: list[ModelEvent] = []
    try:
        async with asyncio.timeout(5):
            async for event in model.stream(request(model)):
                events.append(event)  # noqa: PERF401  # what came before an error counts
    except ModelError as error:
        return events, error.code
    return events, None


# -- no connection, no answer --------------------------------------------------------------------


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.fault("P05")
@by_dialect
async def test_a_refused_connection_is_unreachable(dialect: str) -> None:
    model = ProviderServer.model_at(dialect, f"http://127.0.0.1:{closed_port()}/v1")
    error = await refused(model)
    assert (error.code, error.may_pass) == ("provider_unreachable", True)
    assert "127.0.0.1" in str(error)


@pytest.mark.fault("P05")
async def test_a_name_that_is_none_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    model = ProviderServer.model_at("openai_chat", "http://no.such.host.test/v1")
    error = await refused(model)
    assert error.code == "provider_unreachable" and "Name or service not known" in str(error)


@pytest.mark.fault("P05")
async def test_a_server_without_tls_is_unreachable_by_https() -> None:
    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error = await refused(
            ProviderServer.model_at("openai_chat", f"https://127.0.0.1:{port}/v1")
        )
    assert error.code == "provider_unreachable" and "SSL" in str(error)


@pytest.mark.fault("P05")
async def test_a_proxy_that_is_not_there_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    model = ProviderServer.model_at("openai_chat", "http://example.test/v1")
    assert (await refused(model)).code == "provider_unreachable"


@pytest.mark.fault("P06")
@by_dialect
async def test_a_server_that_never_answers_is_timed_out(dialect: str) -> None:
    async with ProviderServer(Answer(wait=never)) as server:
        error = await refused(server.model(dialect, limits=QUICK))
        assert (error.code, error.may_pass) == ("provider_timeout", True)
        async with asyncio.timeout(5):
            await server.ended.wait()
        assert server.open == 0


@pytest.mark.fault("P06")
async def test_a_head_without_a_body_is_no_first_event() -> None:
    async with ProviderServer(Answer(pause=never)) as server:
        assert (await refused(server.model("openai_chat", limits=QUICK))).code == "provider_timeout"


@pytest.mark.fault("P07")
@by_dialect
async def test_a_stream_that_stalls_is_ended(dialect: str) -> None:
    begun = b"".join(answer(dialect, LONG)[:10])
    async with ProviderServer(Answer(begun, pause=never)) as server:
        events, code = await heard(server.model(dialect, limits=QUICK))
    assert code == "provider_stalled"
    assert any(isinstance(event, TextDelta) for event in events)


@pytest.mark.fault("P08")
@pytest.mark.fault("T25")
@pytest.mark.parametrize("drip", [b": still here\n\n", b"data: {"])
async def test_a_drip_of_comments_or_half_an_event_is_silence(drip: bytes) -> None:
    """A read time-out of a second never comes when three bytes come each 0.3 s."""
    async with ProviderServer() as server:

        async def dripping() -> None:
            while True:
                await asyncio.sleep(0.02)
                for writer in server.writers:
                    writer.write(b"%x\r\n%s\r\n" % (len(drip), drip))

        begun = answer("openai_chat", LONG)[1]
        server.answers.append(Answer(begun, pause=dripping))
        events, code = await heard(server.model("openai_chat", limits=QUICK))
    assert (events, code) == ([TextDelta("word 0 ")], "provider_stalled")


@pytest.mark.parametrize(("end", "path"), [("", "/v1"), ("/v1beta", "/v1beta"), ("/x", "/x/v1")])
async def test_geminis_address_may_have_the_apis_version(end: str, path: str) -> None:
    async with ProviderServer(Answer(stream("gemini"))) as server:
        await ask(server.model_at("gemini", f"{server.url('gemini')}{end}"))
        assert server.asked[0].path == f"{path}/models/gemini-test:streamGenerateContent?alt=sse"


async def test_a_slow_listener_is_no_stall() -> None:
    async with ProviderServer(Answer(stream("openai_chat"), size=40)) as server:
        model = server.model("openai_chat", limits=Limits(model_stall=0.05))
        events: list[ModelEvent] = []
        async for event in model.stream(request(model)):
            events.append(event)
            await asyncio.sleep(0.1)
    assert isinstance(events[-1], Finish)


# -- cut -----------------------------------------------------------------------------------------


CUT = [("call_a", "get_weather", ['{"city": ', '"Oslo"}'])]


def whole_from(dialect: str, body: bytes, events: list[bytes], framing: str) -> int:
    """The offset from which on the answer is whole: the end of the provider's last word.

    OpenAI Chat gives its reason before the usage and `[DONE]`. A clean end of the stream closes an
    event as the blank line does, a broken connection does not.
    """
    behind = 2 if dialect == "openai_chat" else 0
    end = len(body) - len(b"".join(events[len(events) - behind :]))
    return end - (2 if framing == "close" else 0)


@pytest.mark.fault("P09")
@pytest.mark.fault("P10")
@by_dialect
@pytest.mark.parametrize("framing", ["chunked", "close"])
async def test_cut_between_events_and_within_on_a_real_socket(dialect: str, framing: Any) -> None:
    events = answer(dialect, ["Hi"], CUT)
    body = b"".join(events)
    ends = whole_from(dialect, body, events, framing)
    starts = [sum(map(len, events[:count])) for count in range(len(events) + 1)]
    async with ProviderServer() as server:
        model = server.model(dialect)
        for offset in sorted({at + more for at in starts for more in (-20, 0, 9)} - {len(body)}):
            if not 0 <= offset < len(body):
                continue
            server.answers = [Answer(body, cut=offset, framing=framing)]
            came, code = await heard(model)
            assert any(isinstance(event, Finish) for event in came) == (offset >= ends), offset
            assert code in (None, "provider_cut")


@pytest.mark.fault("P22")
@pytest.mark.parametrize(
    ("head", "ends_well"),
    [
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 10\r\n\r\n",
            False,
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99999\r\n\r\n",
            True,
        ),
        (b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", True),
        (b"HTTP/1.1 200\r\nContent-Type: text/event-stream\r\n\r\n", True),
        (b"ICY 200 OK\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", False),
    ],
)
async def test_heads_that_lie_end_in_an_answer_or_an_error(head: bytes, ends_well: bool) -> None:
    said = Answer(stream("openai_chat"), framing="close", head=head)
    async with ProviderServer(said) as server:
        events, code = await heard(server.model("openai_chat", limits=QUICK))
    assert isinstance(events[-1] if events else None, Finish) == ends_well
    assert ends_well or code in (None, "provider_cut", "provider_stalled", "provider_bad_stream")


# -- what comes is not what it should be ---------------------------------------------------------


@pytest.mark.fault("P20")
@by_dialect
async def test_a_login_page_is_no_answer(dialect: str) -> None:
    page = b"<html><body>Please log in" + b"." * 500
    html = {"content-type": "text/html; charset=utf-8"}
    async with ProviderServer(Answer(page, headers=html, framing="length")) as server:
        error = await refused(server.model(dialect))
    assert (error.code, error.may_pass) == ("provider_bad_content", False)
    assert "text/html" in str(error) and "Please log in" in str(error) and len(str(error)) < 400


@pytest.mark.fault("P21")
@pytest.mark.fault("T28")
@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_bomb_is_not_unpacked(status: int, coding: str) -> None:
    bomb = {"gzip": gzip.compress, "deflate": zlib.compress}[coding](b"data: " + b"a" * (40 << 20))
    headers = {"content-type": "text/event-stream", "content-encoding": coding}
    async with ProviderServer(Answer(bomb, status, headers, framing="length")) as server:
        tracemalloc.start()
        error = await refused(server.model("openai_chat"))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        asked = server.asked[0]
    assert error.code == ("provider_too_large" if status == 200 else "provider_bad_request")
    assert most < 32 << 20, "bytes"
    assert asked.headers["accept-encoding"] == "identity"


@pytest.mark.fault("P21")
@pytest.mark.parametrize(
    ("coding", "body", "code"),
    [
        ("gzip", b"not packed at all", "provider_bad_content"),
        ("br", b"whatever", "provider_bad_content"),
        ("gzip", gzip.compress(stream("openai_chat")), None),
    ],
)
async def test_content_encodings(coding: str, body: bytes, code: str | None) -> None:
    headers = {"content-type": "text/event-stream", "content-encoding": coding}
    async with ProviderServer(Answer(body, headers=headers, size=3)) as server:
        events, said = await heard(server.model("openai_chat"))
    assert said == code and bool(events) == (code is None)


@pytest.mark.fault("P11")
@by_dialect
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"data: {not json}\n\n", "provider_bad_stream"),
        (b'data: {"half": \n\ndata: "event"}\n\n', "provider_bad_stream"),
        (b"data: \xff\xfe\n\n", "provider_bad_stream"),
        (b"data: [1, 2]\n\n", "provider_bad_stream"),
        (b'data: {"x": "' + b"\xe2\x82" + b'"}\n\n', "provider_bad_stream"),
        (b"data: " + b"[" * 100_000 + b"\n\n", "provider_bad_stream"),
        (b"data: " + b"x" * (9 << 20), "provider_too_large"),
    ],
    ids=["words", "halves", "bytes", "list", "half a letter", "deep", "long"],
)
async def test_a_stream_that_cannot_be_read_is_named(dialect: str, bad: bytes, code: str) -> None:
    async with ProviderServer(Answer(answer(dialect, LONG)[0] + bad)) as server:
        events, said = await heard(server.model(dialect))
    assert said == code and not any(isinstance(event, Finish) for event in events)


@pytest.mark.fault("P25")
@by_dialect
async def test_events_that_nobody_knows_say_nothing(dialect: str) -> None:
    odd = [
        sse(
            {"type": "surprise", "delta": {"text": 7}} if dialect != "anthropic" else {"type": "x"}
        ),
        sse({}),
        sse("", "ping"),
        b": comment\n\n",
        b"id: 3\nretry: 10\n\n",
    ]
    body = b"".join(part for event in answer(dialect, LONG) for part in (*odd, event))
    async with ProviderServer(Answer(body)) as server:
        events, code = await heard(server.model(dialect))
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert (text, code) == ("".join(LONG), None)


@pytest.mark.fault("P25")
@by_dialect
async def test_a_stream_told_twice_is_heard_once(dialect: str) -> None:
    if dialect == "gemini":
        pytest.skip("Gemini's chunks have neither a last event nor an id to tell a repeat by")
    body = b"".join(answer(dialect, ["once"])) * 2
    async with ProviderServer(Answer(body)) as server:
        events, code = await heard(server.model(dialect))
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["once"]
    assert sum(isinstance(event, Finish) for event in events) == 1 and code is None


@pytest.mark.fault("P25")
async def test_index_gaps_and_blocks_out_of_order() -> None:
    block = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": "{}"}
    events: list[dict[str, Any]] = [
        {"type": "content_block_delta", "index": 3, "delta": delta},
        {"type": "content_block_start", "index": 7, "content_block": block},
        {"type": "content_block_stop", "index": 9},
        {"type": "content_block_delta", "index": 7, "delta": delta},
        {"type": "content_block_start", "index": 7, "content_block": block},
        {"type": "content_block_stop", "index": 7},
        {"type": "content_block_stop", "index": 7},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    async with ProviderServer(Answer(b"".join(map(sse, events)))) as server:
        heard_ = await ask(server.model("anthropic"))
    assert heard_ == [
        CallDelta(0, "a", "look"),
        CallDelta(0, arguments="{}"),
        Finish("tool_calls"),
    ]


@pytest.mark.fault("P15")
@pytest.mark.parametrize("index", [0, None], ids=["all 0", "none"])
async def test_calls_that_share_an_index_are_told_apart_by_id(index: int | None) -> None:
    pieces = [("a", "look", "{"), (None, None, "}"), ("b", "find", "{"), (None, None, "}")]
    chunks = [
        {"index": 0, "delta": {"tool_calls": [_piece(index, *piece)]}, "finish_reason": None}
        for piece in pieces
    ]
    body = b"".join(sse({"choices": [chunk]}) for chunk in chunks) + b"data: [DONE]\n\n"
    async with ProviderServer(Answer(body)) as server:
        events = await ask(server.model("openai_chat"))
    assert events == [
        CallDelta(0, "a", "look", "{"),
        CallDelta(0, None, None, "}"),
        CallDelta(1, "b", "find", "{"),
        CallDelta(1, None, None, "}"),
        Finish("tool_calls"),
    ]


def _piece(index: int | None, call: str | None, name: str | None, text: str) -> dict[str, Any]:
    piece = {"id": call, "function": {"name": name, "arguments": text}}
    return piece if index is None else {**piece, "index": index}


@pytest.mark.fault("P18")
@pytest.mark.parametrize(
    "choices",
    [[], None, [{"index": 0}], [{"index": 0, "delta": None}], [{"delta": {"content": None}}]],
)
async def test_an_answer_of_nothing_is_named(choices: Any) -> None:
    body = sse({"choices": choices}) + b"data: [DONE]\n\n"
    async with ProviderServer(Answer(body)) as server:
        events, code = await heard(server.model("openai_chat"))
    assert (events, code) == ([], "provider_empty")


@pytest.mark.fault("P19")
@pytest.mark.parametrize(
    ("dialect", "said", "reason"),
    [
        ("openai_chat", "length", "length"),
        ("openai_chat", "content_filter", "content_filter"),
        ("openai_chat", "eos", "eos"),
        ("openai_responses", "max_output_tokens", "length"),
        ("openai_responses", "content_filter", "content_filter"),
        ("openai_responses", "whim", "whim"),
        ("anthropic", "max_tokens", "length"),
        ("anthropic", "refusal", "content_filter"),
        ("anthropic", "pause_turn", "pause_turn"),
        ("gemini", "MAX_TOKENS", "length"),
        ("gemini", "SAFETY", "content_filter"),
        ("gemini", "MALFORMED_FUNCTION_CALL", "malformed_function_call"),
    ],
)
async def test_reasons_to_end(dialect: str, said: str, reason: str) -> None:
    calls = [("call_a", "get_weather", ['{"city": "Oslo"}'])]
    body = b"".join(answer(dialect, ["Hi"], calls, finish=said))
    async with ProviderServer(Answer(body)) as server:
        events = await ask(server.model(dialect))
    assert isinstance(events[-1], Finish) and events[-1].reason == reason


@pytest.mark.fault("P28")
@by_dialect
@pytest.mark.parametrize("count", [-5, 10**30, "many", None, 1.5])
async def test_counts_that_are_none_harm_nothing(dialect: str, count: Any) -> None:
    said = "null" if count is None else f'"{count}"' if isinstance(count, str) else str(count)
    body = b"".join(answer(dialect, ["Hi"])).replace(b": 100", f": {said}".encode())
    async with ProviderServer(Answer(body)) as server:
        events = await ask(server.model(dialect))
    assert isinstance(events[-1], Finish)


@pytest.mark.fault("P28")
@by_dialect
async def test_usage_may_be_missing(dialect: str) -> None:
    body = b"".join(answer(dialect, ["Hi"], usage=False))
    async with ProviderServer(Answer(body)) as server:
        events = await ask(server.model(dialect))
    assert isinstance(events[-1], Finish)


@pytest.mark.fault("P24")
@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("openai_chat", sse({"error": {"type": "server_error", "code": 529, "message": "Busy"}})),
        ("openai_responses", sse({"type": "error", "code": "overloaded", "message": "Busy"})),
        (
            "openai_responses",
            sse(
                {
                    "type": "response.failed",
                    "response": {"error": {"code": "overloaded", "message": "Busy"}},
                }
            ),
        ),
        (
            "anthropic",
            sse(
                {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}, "error"
            ),
        ),
        ("gemini", sse({"error": {"code": 503, "status": "UNAVAILABLE", "message": "Busy"}})),
    ],
)
async def test_an_error_inside_a_stream_is_the_providers(dialect: str, event: bytes) -> None:
    body = b"".join(answer(dialect, LONG)[:5]) + event
    async with ProviderServer(Answer(body)) as server:
        events, code = await heard(server.model(dialect))
    assert code in ("provider_overloaded", "provider_error")
    assert not any(isinstance(one, Finish) for one in events)


# -- keys, redirections, sockets -----------------------------------------------------------------

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    return KEY


@pytest.mark.fault("P23")
@by_dialect
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirection_is_not_followed(dialect: str, status: int, key: str) -> None:
    async with ProviderServer(Answer()) as thief:
        location = {"location": f"http://127.0.0.1:{thief.port}/v1/chat/completions"}
        async with ProviderServer(Answer(status=status, headers=location)) as server:
            error = await refused(server.model(dialect))
        assert thief.asked == []
    assert (error.code, error.may_pass) == ("provider_redirect", False)


@pytest.mark.fault("P04")
@by_dialect
async def test_the_key_goes_to_the_provider_and_nowhere_else(
    dialect: str, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with ProviderServer(Answer(b"{}", 401, {"content-type": "application/json"})) as server:
        error = await refused(server.model(dialect))
        asked = server.asked[0]
    assert error.code == "provider_auth"
    assert any(key in value for value in asked.headers.values())
    assert key not in str(error) + error.hint + asked.path + caplog.text


@pytest.mark.fault("T39")
@pytest.mark.parametrize("bad", ["sk-canary\nx: y", "sk-canary\x00", "sk-canaré"])
def test_a_key_that_no_header_takes_is_refused_unsaid(
    bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", {"OPENAI_API_KEY": bad})
    with pytest.raises(ModelError) as raised:
        ProviderServer.model_at("openai_chat", "http://127.0.0.1:1")
    assert raised.value.code == "provider_auth"
    assert "canar" not in f"{raised.value!r} {raised.value.hint}"
    assert raised.value.__cause__ is None


@pytest.mark.fault("P26")
@by_dialect
async def test_leaving_a_stream_closes_its_socket_at_once(dialect: str) -> None:
    begun = b"".join(answer(dialect, LONG)[:20])
    async with ProviderServer(Answer(begun, pause=never)) as server:
        model = server.model(dialect)
        heard_one = asyncio.Event()

        async def listen() -> None:
            async for _ in model.stream(request(model)):
                heard_one.set()

        async with asyncio.TaskGroup() as group:
            listening = group.create_task(listen())
            await heard_one.wait()
            listening.cancel()
            async with asyncio.timeout(0.2):
                await server.ended.wait()
        assert server.open == 0


@pytest.mark.fault("P27")
async def test_cancelled_requests_leave_nothing_in_the_pool() -> None:
    """At any point of the request: connecting, waiting, listening (httpcore#1093)."""
    async with ProviderServer(Answer(stream("openai_chat"), size=16)) as server:
        model = server.model("openai_chat")
        for count in range(300):
            task = asyncio.ensure_future(ask(model))
            for _ in range(count % 60):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        async with asyncio.timeout(5):
            events = await asyncio.gather(*(ask(model) for _ in range(30)))
        assert all(isinstance(said[-1], Finish) for said in events)


async def test_a_connection_is_used_again() -> None:
    async with ProviderServer(Answer(stream("openai_chat"))) as server:
        model = server.model("openai_chat")
        for _ in range(5):
            await ask(model)
        assert (len(server.asked), server.accepted) == (5, 1)


# -- the breaker ---------------------------------------------------------------------------------


@pytest.mark.scenario("S65")
async def test_ten_dropped_together_evict_one_client_and_open_no_breaker() -> None:
    begun = b"".join(answer("openai_chat", LONG)[:5])
    together = asyncio.Event()
    async with ProviderServer(Answer(begun, cut=len(begun), pause=together.wait)) as server:
        model = server.model("openai_chat")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(heard(model)) for _ in range(10)]
            await server.until_asked(10)
            all_ = await connections()
            (pool,) = [p for key, p in all_.pools.items() if model.base_url in str(key)]
            sockets = pool.sockets
            together.set()
        assert {code for _, code in (task.result() for task in tasks)} == {"provider_cut"}
        breaker = all_.breaker("openai", f"127.0.0.1:{server.port}")
        assert breaker.state(asyncio.get_running_loop().time()) == "closed"
        assert sockets is not None and sockets.is_closed and pool.sockets is None

        server.answers = [Answer(stream("openai_chat"))]
        await ask(model)
        assert pool.sockets is not sockets


@pytest.mark.scenario("S65")
async def test_a_dropped_stream_leaves_its_siblings_alone() -> None:
    go_on = asyncio.Event()
    whole = Answer(stream("openai_chat"), wait=go_on.wait)
    begun = answer("openai_chat", LONG)[0]
    async with ProviderServer(whole, whole, Answer(begun, cut=len(begun))) as server:
        model = server.model("openai_chat")
        async with asyncio.TaskGroup() as group:
            siblings = [group.create_task(ask(model)) for _ in range(2)]
            await server.until_asked(2)
            assert (await heard(model))[1] == "provider_cut"
            go_on.set()
        assert all(isinstance(task.result()[-1], Finish) for task in siblings)


async def test_three_refused_connections_open_the_circuit() -> None:
    base = f"http://127.0.0.1:{closed_port()}/v1"
    model = ProviderServer.model_at("openai_chat", base)
    codes = [(await refused(model)).code for _ in range(4)]
    assert codes == ["provider_unreachable"] * 3 + ["circuit_open"]
    error = await refused(model)
    assert not error.may_pass and error.retry_after is not None and error.retry_after > 25
    other = ProviderServer.model_at("anthropic", base)
    assert (await refused(other)).code == "provider_unreachable", "each provider has its own"


@pytest.mark.scenario("S69")
async def test_fifty_that_wait_are_answered_at_once_when_the_circuit_is_open() -> None:
    model = ProviderServer.model_at("openai_chat", f"http://127.0.0.1:{closed_port()}/v1")
    for _ in range(3):
        await refused(model)
    async with asyncio.timeout(2):
        results = await asyncio.gather(*(heard(model) for _ in range(50)))
    assert {code for _, code in results} == {"circuit_open"}


@pytest.mark.scenario("S66")
async def test_cancelled_calls_open_no_circuit() -> None:
    async with ProviderServer(Answer(wait=never)) as server:
        model = server.model("openai_chat")
        for _ in range(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await ask(model)
        all_ = await connections()
        breaker = all_.breaker("openai", f"127.0.0.1:{server.port}")
        assert breaker.state(asyncio.get_running_loop().time()) == "closed"


def test_every_kind_of_model_is_tested() -> None:
    from agent_lab.bootstrap import _PROVIDERS

    assert {name.partition(":")[0] for name in MODELS.values()} == set(_PROVIDERS)
