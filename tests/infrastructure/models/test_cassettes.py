"""Recordings of what went over the wire, and playing them with no network."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_lab import Agent, DebugRuntime, Limits, tool
from agent_lab.bootstrap import open_tape
from agent_lab.domain.errors import ModelError
from agent_lab.domain.redaction import SECRETS
from agent_lab.infrastructure.models.cassette import Tape
from tests.application.helpers_runtime import said, take_turn
from tests.infrastructure.models.helpers_formats import answer
from tests.infrastructure.models.helpers_provider import (
    MODELS,
    Answer,
    ProviderServer,
    ask,
    by_dialect,
)


@tool
async def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"4 degrees in {city}"


def agent(dialect: str, url: str | None, question: str = "Be brief.") -> Agent:
    return Agent(
        "weather",
        model=MODELS[dialect],
        base_url=url,
        instructions=question,
        tools=[get_weather],
        limits=Limits(retry_delay=0.01),
    )


def answers(dialect: str) -> list[Answer]:
    calls = [("call_a", "get_weather", ['{"city": ', '"Oslo"}'])]
    busy = Answer(b'{"error": {"message": "Busy"}}', 529, {"content-type": "application/json"})
    half = b"".join(answer(dialect, ["so", " far"])[:2])
    return [
        busy,
        Answer(b"".join(answer(dialect, ["I look."], calls))),
        Answer(half, cut=len(half)),
        Answer(b"".join(answer(dialect, ["4 degrees", " in Oslo 🌦."]))),
    ]


@asynccontextmanager
async def recording(dialect: str, folder: Path) -> AsyncIterator[list[Any]]:
    """One whole turn recorded in a folder; gives what the journal said."""
    async with ProviderServer(*answers(dialect)) as server:
        yield await story_of(dialect, server.url(dialect), open_tape(folder, record=True))


async def story_of(dialect: str, url: str | None, tape: Tape) -> list[Any]:
    async with DebugRuntime(agent(dialect, url), session_id="s_tape", tape=tape) as runtime:
        runtime.start("Weather in Oslo?")
        await take_turn(runtime)
        told = [payload.as_dict() for payload in said(runtime) if payload.type in TOLD]
    for one in told:
        one.pop("sha256", None)
    return told


TOLD = ("model_request", "model_response", "retrying", "assistant", "tool_reply", "done", "error")


@by_dialect
async def test_a_run_plays_again_without_its_server(dialect: str, tmp_path: Path) -> None:
    async with recording(dialect, tmp_path / "tape") as recorded:
        pass
    tape = open_tape(tmp_path / "tape", record=False)
    assert await story_of(dialect, None, tape) == recorded
    assert tape.unused == []
    assert [one["type"] for one in recorded].count("retrying") == 2
    assert recorded[-1]["type"] == "done"
    sizes = [path.stat().st_size for path in (tmp_path / "tape").iterdir()]
    assert len(sizes) == 4 and max(sizes) < 20_000


@by_dialect
async def test_a_committed_cassette_plays(
    dialect: str, agent_lab_tape: Tape, pytestconfig: pytest.Config
) -> None:
    """Record them anew with `pytest --agent-lab-record` and this test's name."""
    if pytestconfig.getoption("--agent-lab-record"):
        async with ProviderServer(*answers(dialect)) as server:
            told = await story_of(dialect, server.url(dialect), agent_lab_tape)
    else:
        told = await story_of(dialect, None, agent_lab_tape)
        assert agent_lab_tape.unused == []
    assert [one["content"] for one in told if one["type"] == "assistant"][-1] == (
        "4 degrees in Oslo 🌦."
    )
    assert told[-1]["type"] == "done"


async def test_a_request_that_changed_names_the_nearest_and_the_field(tmp_path: Path) -> None:
    async with recording("openai_chat", tmp_path / "tape"):
        pass
    tape = open_tape(tmp_path / "tape", record=False)
    changed = agent("openai_chat", None, "Be long.")
    async with DebugRuntime(changed, tape=tape) as runtime:
        runtime.start("Weather in Oslo?")
        end: Any = (await take_turn(runtime))[-1]
    assert (end.type, end.code) == ("error", "cassette_mismatch")
    for part in ("0001.json", "messages[0].content", '"Be brief."', '"Be long."', "1 place"):
        assert part in end.message, part


async def test_a_recording_plays_once(tmp_path: Path) -> None:
    said_ = Answer(b"".join(answer("anthropic", ["Hello"])))
    async with ProviderServer(said_) as server:
        tape = open_tape(tmp_path, record=True)
        await ask(server.model_at("anthropic", server.url("anthropic"), tape=tape))
    model = ProviderServer.model_at(
        "anthropic", "http://127.0.0.1:9", tape=open_tape(tmp_path, record=False)
    )
    await ask(model)
    with pytest.raises(ModelError, match=r"0001\.json was played already") as raised:
        await ask(model)
    assert raised.value.code == "cassette_mismatch"


async def test_no_secret_gets_on_tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-canary-on-tape-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    echo = Answer(b"".join(answer("openai_chat", [f"Your key is {key}."])))
    try:
        async with ProviderServer(echo) as server:
            tape = open_tape(tmp_path, record=True)
            model = server.model_at("openai_chat", server.url("openai_chat"), tape=tape, user=key)
            await ask(model)
            assert any(key in value for value in server.asked[0].headers.values())
        text = (tmp_path / "0001.json").read_text()
        assert key not in text and "[redacted]" in text
        await ask(
            ProviderServer.model_at(
                "openai_chat",
                "http://127.0.0.1:9/v1",
                tape=open_tape(tmp_path, record=False),
                user=key,
            )
        )
    finally:
        SECRETS.forget(key)


def test_folders_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no recordings"):
        open_tape(tmp_path / "none", record=False)
    (tmp_path / "0001.json").write_text("{}")
    with pytest.raises(ModelError, match="holds recordings"):
        open_tape(tmp_path, record=True)
    with pytest.raises(ModelError, match=r"0001\.json' cannot be read"):
        open_tape(tmp_path, record=False)


AGENT = """
from agent_lab import Agent, tool

@tool
async def get_weather(city: str) -> str:
    "The weather in a city."
    return f"4 degrees in {city}"

agent = Agent("weather", model="openai:gpt-test", instructions="Be brief.", tools=[get_weather])
"""


async def test_the_command_line_records_and_plays(tmp_path: Path) -> None:
    file, tape = tmp_path / "agent.py", tmp_path / "tape"
    file.write_text(AGENT)

    async def run(*options: str) -> str:
        command = [sys.executable, "-c", "from agent_lab.presentation.cli import main; main()"]
        process = await asyncio.create_subprocess_exec(
            *command,
            "run",
            str(file),
            "Weather in Oslo?",
            "--json",
            *options,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        entries = [json.loads(line) for line in out.decode().splitlines()]
        return next(e["content"] for e in reversed(entries) if e["type"] == "assistant")

    async with ProviderServer(*answers("openai_chat")) as server:
        url = server.url("openai_chat")
        first = await run("--base-url", url, "--record", str(tape))
        assert len(server.asked) == 4
    assert first == await run("--replay", str(tape)) == "4 degrees in Oslo 🌦."
