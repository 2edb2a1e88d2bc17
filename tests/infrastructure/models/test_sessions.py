"""Whole sessions with a provider over real HTTP: what the journal says of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent_lab import Agent, DebugRuntime, Limits, tool
from agent_lab.domain.dialects.check import check_history
from agent_lab.domain.errors import ModelError
from agent_lab.domain.payloads import ModelRequested
from agent_lab.testing import ScriptedModel, SeededOutside, faulty, open_runtime
from tests.application.helpers_runtime import (
    said,
    settled,
    simulated,
    story,
    take_turn,
    until,
)
from tests.infrastructure.models.helpers_formats import Call, answer
from tests.infrastructure.models.helpers_provider import (
    MODELS,
    Answer,
    ProviderServer,
    by_dialect,
)

ran: list[str] = []


@tool
async def get_weather(city: str) -> str:
    """The weather in a city."""
    ran.append(city)
    return f"4 degrees in {city}"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def agent(server: ProviderServer, dialect: str, **limits: Any) -> Agent:
    return Agent(
        "weather",
        model=MODELS[dialect],
        base_url=server.url(dialect),
        instructions="Be brief.",
        tools=[get_weather],
        limits=Limits(**{"retry_delay": 0.01, **limits}),
    )


def whole(dialect: str, *text: str, calls: Sequence[Call] = (), **said: Any) -> Answer:
    return Answer(b"".join(answer(dialect, text, calls, **said)))


def oslo(call_id: str = "call_a", arguments: str = '{"city": "Oslo"}') -> Call:
    return (call_id, "get_weather", [arguments[:5], arguments[5:]])


async def turn(runtime: DebugRuntime, content: str = "Weather in Oslo?") -> list[Any]:
    runtime.start(content)
    return list(await take_turn(runtime))


# -- what goes well ------------------------------------------------------------------------------


@by_dialect
async def test_the_journal_holds_the_bytes_that_went_out_and_the_events_that_came(
    dialect: str,
) -> None:
    from agent_lab.presentation.encoder import Encoder

    answers = [whole(dialect, calls=[oslo()]), whole(dialect, "4 degrees", " in Oslo.")]
    async with ProviderServer(*answers) as server:
        async with open_runtime(agent(server, dialect)) as runtime:
            await turn(runtime)
            requests = [p for p in said(runtime, "model_request") if isinstance(p, ModelRequested)]
            encoder = Encoder(runtime.session_id, 0.0)
            entries = runtime.session.journal.read()[1]
            shown = [
                json.loads(encoder.encode(entry))
                for entry in entries
                if isinstance(entry.payload, ModelRequested)
            ]
        assert len(server.asked) == len(requests) == 2
        for asked, payload, entry, told in zip(server.asked, requests, shown, answers, strict=True):
            assert encoder.whole_body(payload.request).encode() == asked.body
            assert hashlib.sha256(asked.body).hexdigest() == entry["sha256"]
            assert entry["body"] == asked.json == payload.as_dict()["body"]
            assert payload.request.wire is not None
            assert len(payload.request.wire.raw.events) == told.body.count(b"data: ")


@by_dialect
async def test_usage_finish_and_options_are_where_they_belong(dialect: str) -> None:
    async with ProviderServer(whole(dialect, "Hello")) as server:
        one = agent(server, dialect)
        one.model_options = {"temperature": 0.5}
        async with open_runtime(one) as runtime:
            await turn(runtime)
            (responded,) = said(runtime, "model_response")
        assert responded.usage.context_tokens == 100
        assert server.asked[0].json["temperature"] == 0.5


# -- what goes ill -------------------------------------------------------------------------------


@pytest.mark.fault("P03")
@by_dialect
@pytest.mark.parametrize("status", [500, 502, 503, 529])
async def test_a_fault_that_passes_leaves_nothing_said_twice(dialect: str, status: int) -> None:
    cut = answer(dialect, ["Hel", "lo"])
    half = b"".join(cut[:2])
    failing = Answer(b"{}", status, {"content-type": "application/json"}, framing="length")
    broken = Answer(half, cut=len(half))
    async with ProviderServer(failing, broken, whole(dialect, "Hel", "lo")) as server:
        async with open_runtime(agent(server, dialect)) as runtime:
            await turn(runtime)
            assert [p.code for p in said(runtime, "retrying")][-1] == "provider_cut"
            assert [p.content for p in said(runtime, "assistant")] == ["Hello"]
            last = story(runtime).index("model_request", story(runtime).index("retrying") + 1)
            text = [p.text for p in said(runtime)[last:] if p.type == "text_delta"]
            assert "".join(text).count("Hello") == 1 or "".join(text).endswith("Hello")
        assert len(server.asked) == 3


@pytest.mark.fault("P04")
@by_dialect
@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_a_refusal_that_does_not_pass_is_asked_once(dialect: str, status: int) -> None:
    refusal = Answer(b'{"error": {"message": "No"}}', status, {"content-type": "application/json"})
    async with ProviderServer(refusal) as server:
        async with open_runtime(agent(server, dialect)) as runtime:
            end = (await turn(runtime))[-1]
        assert end.type == "error" and len(server.asked) == 1
        assert end.code.startswith("provider_") and end.hint


def limited(after: str) -> Answer:
    headers = {"content-type": "application/json", "retry-after": after}
    return Answer(b'{"error": {"message": "Slow down"}}', 429, headers, framing="length")


@pytest.mark.fault("P01")
@by_dialect
async def test_the_wait_that_was_asked_for_is_seen_and_capped(dialect: str) -> None:
    answers = [limited("0"), limited("86400"), limited("garbage"), whole(dialect, "Hello")]
    async with ProviderServer(*answers) as server:
        limits = {"retry_after": 0.02, "model_retries": 3}
        async with open_runtime(agent(server, dialect, **limits)) as runtime:
            assert (await turn(runtime))[-1].type == "done"
            first, second, third = said(runtime, "retrying")
    assert [p.code for p in (first, second, third)] == ["rate_limited"] * 3
    assert (first.delay, second.delay) == (0, 0.02)
    assert 0.02 <= third.delay <= 0.04, "our own backoff, since that was no wait"


@pytest.mark.fault("P01")
@by_dialect
async def test_a_cancel_ends_a_wait_at_once(dialect: str) -> None:
    async with (
        ProviderServer(limited("50"), whole(dialect, "Hello")) as server,
        open_runtime(agent(server, dialect)) as runtime,
    ):
        runtime.start("go")
        waiting = await until(runtime, "retrying")
        assert waiting.delay == 50
        async with asyncio.timeout(0.5):
            assert runtime.cancel() == "cancelled"
            assert (await take_turn(runtime))[-1].type == "cancelled"
        assert (await turn(runtime))[-1].type == "done"


@pytest.mark.fault("P02")
@by_dialect
async def test_limited_for_ever_ends_as_limited(dialect: str) -> None:
    async with ProviderServer(limited("0")) as server:
        async with open_runtime(agent(server, dialect)) as runtime:
            end = (await turn(runtime))[-1]
        assert (end.type, end.code) == ("error", "rate_limited")
        assert len(server.asked) == 3, "the first and two retries"


@pytest.mark.fault("P05")
async def test_a_refused_connection_ends_the_turn_within_two_seconds() -> None:
    async with ProviderServer(Answer()) as server:
        pass
    one = agent(server, "openai_chat", retry_delay=Limits().retry_delay)
    async with open_runtime(one) as runtime:
        async with asyncio.timeout(2):
            end = (await turn(runtime))[-1]
    assert (end.type, end.code) == ("error", "provider_unreachable")


@pytest.mark.fault("P09")
@by_dialect
async def test_no_tool_runs_from_a_call_that_was_cut(dialect: str) -> None:
    events = answer(dialect, ["I look"], [oslo("call_a"), oslo("call_b")])
    body = b"".join(events)
    behind = 2 if dialect == "openai_chat" else 0
    whole_from = len(body) - len(b"".join(events[len(events) - behind :])) - 2
    async with ProviderServer() as server:
        for offset in range(0, whole_from, 97):
            server.answers = [Answer(body, cut=offset, framing="close")]
            async with open_runtime(agent(server, dialect, model_retries=0)) as runtime:
                end = (await turn(runtime))[-1]
                assert end.type == "error", offset
                assert "tool_call" not in story(runtime)
    assert ran == []


@pytest.mark.fault("P13")
@pytest.mark.fault("P14")
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic"])
@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ('{"city": "Os', "bad_arguments"),
        ("[1, 2]", "bad_arguments"),
        ("", "bad_arguments"),
        ("null", "bad_arguments"),
        ('{"city": {"deep": 1}}', "bad_arguments"),
        ('{"town": "Oslo"}', "bad_arguments"),
        ('{"city": "Rome", "city": "Oslo"}', "result"),
    ],
)
async def test_arguments_that_do_not_fit_are_told_to_the_model(
    dialect: str, arguments: str, kind: str
) -> None:
    calling = whole(dialect, calls=[oslo("call_a", arguments)])
    async with ProviderServer(calling, whole(dialect, "Sorry.")) as server:
        async with open_runtime(agent(server, dialect)) as runtime:
            assert (await turn(runtime))[-1].type == "done"
            (reply,) = said(runtime, "tool_reply")
        assert reply.kind == kind
        assert ran == (["Oslo"] if kind == "result" else [])
        messages = server.asked[1].json.get("messages") or server.asked[1].json["input"]
        found = check_history(messages, dialect)
        assert [fault.rule for fault in found if fault.severity == "error"] == []


@pytest.mark.fault("P15")
@by_dialect
@pytest.mark.parametrize("call_id", ["same", ""])
async def test_calls_with_one_id_or_none_get_each_their_own_reply(
    dialect: str, call_id: str
) -> None:
    rome = (call_id, "get_weather", ['{"city": ', '"Rome"}'])
    calling = whole(dialect, calls=[oslo(call_id), rome])
    async with ProviderServer(calling, whole(dialect, "Both."), calling) as server:
        server.answers.append(whole(dialect, "Again."))
        async with open_runtime(agent(server, dialect)) as runtime:
            for _ in range(2):
                assert (await turn(runtime))[-1].type == "done"
            replies = [(r.call_id, r.content) for r in said(runtime, "tool_reply")]
        assert sorted(ran) == ["Oslo", "Oslo", "Rome", "Rome"]
        assert len({call for call, _ in replies[:2]}) == 2
        messages = server.asked[-1].json
        found = check_history(
            messages.get("messages") or messages.get("input") or messages["contents"], dialect
        )
        assert [fault.rule for fault in found if fault.severity == "error"] == []


@pytest.mark.fault("P16")
@by_dialect
async def test_an_unknown_tool_is_told_to_the_model(dialect: str) -> None:
    calling = whole(dialect, calls=[("call_a", "launch", ['{"x": ', "1}"])])
    async with (
        ProviderServer(calling, whole(dialect, "Sorry.")) as server,
        open_runtime(agent(server, dialect)) as runtime,
    ):
        assert (await turn(runtime))[-1].type == "done"
        assert [r.kind for r in said(runtime, "tool_reply")] == ["unknown_tool"]


@pytest.mark.fault("P17")
@by_dialect
async def test_five_hundred_calls_are_too_many(dialect: str) -> None:
    calls = [oslo(f"call_{number}") for number in range(500)]
    async with (
        ProviderServer(whole(dialect, calls=calls)) as server,
        open_runtime(agent(server, dialect)) as runtime,
    ):
        end = (await turn(runtime))[-1]
    assert (end.type, end.code, ran) == ("error", "too_many_tool_calls", [])


@pytest.mark.fault("P19")
@pytest.mark.parametrize(
    ("dialect", "finish"),
    [
        ("openai_chat", "length"),
        ("openai_chat", "whim"),
        ("openai_responses", "max_output_tokens"),
        ("anthropic", "max_tokens"),
        ("anthropic", "pause_turn"),
        ("gemini", "MAX_TOKENS"),
    ],
)
async def test_no_call_runs_when_the_answer_was_cut_short(dialect: str, finish: str) -> None:
    calling = whole(dialect, calls=[oslo()], finish=finish)
    async with (
        ProviderServer(calling, whole(dialect, "Sorry.")) as server,
        open_runtime(agent(server, dialect)) as runtime,
    ):
        await turn(runtime)
        assert [r.kind for r in said(runtime, "tool_reply")] == ["truncated"]
        assert said(runtime, "model_response")[0].finish_reason not in ("stop", "tool_calls")
    assert ran == []


@pytest.mark.fault("P26")
@by_dialect
async def test_a_cancel_closes_the_providers_socket_at_once(dialect: str) -> None:
    begun = b"".join(answer(dialect, ["so far ", "so good ", "and on"])[:-3])
    forever = asyncio.Event().wait
    async with ProviderServer(Answer(begun, pause=forever)) as server:
        async with open_runtime(agent(server, dialect)) as runtime:
            runtime.start("go")
            await until(runtime, "text_delta")
            runtime.cancel()
            async with asyncio.timeout(0.2):
                await server.ended.wait()
            assert (await take_turn(runtime))[-1].type == "cancelled"
        assert server.open == 0


@pytest.mark.fault("P29")
@simulated
async def test_a_wait_is_by_the_loops_clock_and_by_no_other() -> None:
    """The wall clock jumps while a retry waits; nothing but `loop.time()` is looked at."""
    limited_ = faulty(ScriptedModel(["ok"], repeat_last=True), error=429, retry_after=40, times=1)
    jumping = JumpingWall()
    async with open_runtime(model=limited_, outside=jumping) as runtime:
        loop = asyncio.get_running_loop()
        before = loop.time()
        runtime.start("go")
        await until(runtime, "retrying")
        jumping.wall = 1e12
        assert await settled(runtime, seconds=100) is None
        assert loop.time() - before == pytest.approx(40)
        assert story(runtime)[-1] == "done"


class JumpingWall(SeededOutside):
    wall = SeededOutside.WALL_TIME

    def wall_time(self) -> float:
        return self.wall


@pytest.mark.scenario("S69")
async def test_an_open_circuit_ends_a_turn_at_once_and_says_why() -> None:
    async with ProviderServer(Answer()) as server:
        pass
    one = agent(server, "openai_chat")
    async with open_runtime(one) as runtime:
        await turn(runtime)
        end = (await turn(runtime))[-1]
    assert (end.type, end.code) == ("error", "circuit_open")
    assert "no connection" in end.message and end.hint


def test_a_missing_extra_is_named_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_lab.bootstrap import resolve_model

    monkeypatch.setitem(__import__("sys").modules, "anthropic", None)
    with pytest.raises(ModelError) as raised:
        resolve_model("anthropic:claude-test", base_url="http://127.0.0.1:1")
    assert raised.value.code == "model_unavailable"
    assert raised.value.hint == 'pip install "agent-lab[anthropic]"'


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/y", "http://", "", "http://[::1"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    from agent_lab.bootstrap import resolve_model

    if not url:
        pytest.skip("no address is the provider's own")
    with pytest.raises(ModelError, match="base_url"):
        resolve_model("openai:gpt-test", base_url=url)


def test_a_key_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_lab.bootstrap import resolve_model

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError) as raised:
        resolve_model("openai:gpt-test")
    assert raised.value.code == "provider_auth" and "OPENAI_API_KEY" in str(raised.value)
