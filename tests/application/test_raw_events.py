"""What a provider sent is given as it came, also when memory has let go of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_lab import Agent, Limits
from agent_lab.domain.raw_events import RawEvents, from_store, pack, to_store, unpack
from agent_lab.domain.redaction import SECRETS
from agent_lab.infrastructure.models import reading
from agent_lab.infrastructure.sqlite import SqliteStore
from tests.infrastructure.models.helpers_formats import answer
from tests.infrastructure.models.helpers_provider import (
    MODELS,
    Answer,
    ProviderServer,
    by_dialect,
)
from tests.presentation.helpers_server import Serving

KEY = "sk-canary-in-an-event-4711"


def agent(server: ProviderServer, dialect: str) -> Agent:
    limits = Limits(retry_delay=0.01)
    return Agent("a", model=MODELS[dialect], base_url=server.url(dialect), limits=limits)


def data_of(events: list[bytes]) -> list[str]:
    return [event.decode().partition("data: ")[2].removesuffix("\n\n") for event in events]


async def raw(serving: Serving, session_id: str, seq: int) -> Any:
    said = await serving.get(f"/api/sessions/{session_id}/entries/{seq}/body")
    assert said.status_code == 200
    return said.json()


@by_dialect
async def test_events_are_there_after_a_restart(dialect: str, tmp_path: Path) -> None:
    cut, whole = answer(dialect, ["Hel", "lo"])[:2], answer(dialect, ["Hello ", "you 🌦"])
    answers = [Answer(b"".join(cut), cut=len(b"".join(cut))), Answer(b"".join(whole))]
    async with ProviderServer(*answers) as server:
        store = SqliteStore(tmp_path / "lab.db")
        async with Serving(agent(server, dialect), store=store) as serving:
            client = await serving.run("Hello?")
            await client.end()
            session_id = client.session_id
            seqs = {kind: client.said(kind)[-1]["seq"] for kind in ("retrying", "model_response")}
            before = {kind: await raw(serving, session_id, seq) for kind, seq in seqs.items()}

        async with Serving(agent(server, dialect), store=SqliteStore(tmp_path / "lab.db")) as again:
            after = {kind: await raw(again, session_id, seq) for kind, seq in seqs.items()}

    assert (
        before
        == after
        == {
            "retrying": {"events": data_of(cut), "omitted": 0},
            "model_response": {"events": data_of(whole), "omitted": 0},
        }
    )


async def test_an_answer_without_events_has_none(tmp_path: Path) -> None:
    refusal = Answer(b"{}", 401, {"content-type": "application/json"}, framing="length")
    async with (
        ProviderServer(refusal) as server,
        Serving(agent(server, "openai_chat"), store=SqliteStore(tmp_path / "lab.db")) as serving,
    ):
        client = await serving.run("Hello?")
        end = await client.end()
        assert await raw(serving, client.session_id, end["seq"]) == {"events": [], "omitted": 0}


async def test_a_long_answer_says_how_many_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    events = answer("anthropic", [f"word {number} " for number in range(50)])
    monkeypatch.setattr(reading, "RAW_SIZE", sum(map(len, data_of(events[:10]))))
    async with (
        ProviderServer(Answer(b"".join(events))) as server,
        Serving(agent(server, "anthropic")) as serving,
    ):
        client = await serving.run("Hello?")
        await client.end()
        said = await raw(serving, client.session_id, client.said("model_response")[0]["seq"])
    assert said == {"events": data_of(events[:10]), "omitted": len(events) - 10}


def test_no_secret_is_packed_away() -> None:
    SECRETS.add(KEY)
    try:
        body = to_store(RawEvents([f'{{"text": "it is {KEY}"}}']))
    finally:
        SECRETS.forget(KEY)
    assert from_store(body) == RawEvents(['{"text": "it is [redacted]"}'])


@pytest.mark.parametrize("cut", range(1, len(KEY)))
def test_a_secret_told_in_two_pieces_is_in_no_raw_event(cut: int) -> None:
    def delta(text: str, **others: Any) -> str:
        return json.dumps({"id": "c1", "choices": [{"delta": {"content": text}, **others}]})

    plain = [delta("It is "), "[DONE]", '"alone"', delta(" for you.", finish_reason="stop")]
    events = [*plain[:1], delta(KEY[:cut]), delta(KEY[cut:]), *plain[1:]]
    SECRETS.add(KEY)
    try:
        kept = from_store(to_store(RawEvents(events))).events
    finally:
        SECRETS.forget(KEY)
    said = [json.loads(event) for event in kept if event.startswith("{")]
    text = "".join(one["choices"][0]["delta"]["content"] for one in said)
    assert text == "It is [redacted] for you."
    assert [one["choices"][0].get("finish_reason") for one in said][-1] == "stop"
    assert len(kept) == len(events) and kept[3:5] == plain[1:3]


def test_packing_keeps_all() -> None:
    raw_ = RawEvents(["{}", "\u2028 🌦", ""], 3)
    assert unpack(pack(raw_)) == from_store(to_store(raw_)) == raw_
