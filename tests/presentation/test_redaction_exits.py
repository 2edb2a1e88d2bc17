"""A planted key leaves by no exit: sockets, HTTP, reports, logs, errors (S75)."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from agent_lab import Agent, Limits, tool
from agent_lab.application.logs import log
from agent_lab.domain.errors import ModelError
from agent_lab.domain.redaction import MARK, SECRETS
from agent_lab.presentation.terminal import Story, one_line
from agent_lab.testing import ScriptedModel, call, reply
from tests.presentation.helpers_server import Serving

KEY = "sk-canary-exits-0815"


@pytest.fixture(autouse=True)
def logged() -> Iterator[io.StringIO]:
    """The key is known to the process; everything that is logged meanwhile."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    log.addHandler(handler)
    level, _ = log.level, log.setLevel(logging.DEBUG)
    SECRETS.add(KEY)
    yield out
    SECRETS.forget(KEY)
    log.setLevel(level)
    log.removeHandler(handler)


@tool
async def leak(key: str, deep: dict[str, Any]) -> str:
    """Say and do what no tool should."""
    if deep:
        raise ValueError(f"https://ann:{key}@host/ said {base64.b64encode(key.encode())!r}")
    return f"the key is {key}"


def leaking() -> Agent:
    """An agent that says its key in every way there is."""
    calls = [
        call("leak", "c1", key=KEY, deep={}),
        call("leak", "c2", key=KEY, deep={KEY: [{"a": KEY}]}),
    ]
    script = [
        reply(f"Mine is {KEY}.", calls=calls),
        reply(deltas=["again ", KEY[:7], KEY[7:12], KEY[12:], " and sk-ca"]),
    ]
    limits = Limits(text_interval=0)
    model, said = ScriptedModel(script), f"Your key is {KEY}."
    return Agent("a", model=model, instructions=said, tools=[leak], limits=limits)


@pytest.mark.scenario("S71")
@pytest.mark.scenario("S75")
@pytest.mark.fault("SEC-30")
@pytest.mark.fault("T39")
async def test_no_exit_tells_a_known_secret(logged: io.StringIO) -> None:
    async with Serving(leaking()) as serving:
        client = await serving.run(f"Use {KEY}", message_id=f"m-{KEY}")
        await client.end()
        await client.send({"type": "withdraw", "message_id": KEY})
        await client.until("error")
        base = f"/api/sessions/{client.session_id}/entries"
        request = client.said("model_request")[-1]["seq"]
        paths = (base, f"{base}/{request}/body", f"/api/sessions/{KEY}/entries")
        answers = [await serving.get(path) for path in (*paths, "/api/sessions", "/api/agents")]
        journal = serving.agents.sessions()[0].runtime.session.journal
        _, entries = journal.read()
        story = [row.text for row in Story().tell(entries)]
        report = [one_line(entry, 0) for entry in entries]

    said = [*client.texts, *(answer.text for answer in answers), *story, *report, logged.getvalue()]
    assert [text for text in said if KEY in text or KEY[5:] in text] == []
    assert base64.b64encode(KEY.encode()).decode()[:8] not in "".join(said)
    deltas = "".join(frame["text"] for frame in client.said("text_delta"))
    assert deltas == f"again {MARK} and sk-ca"
    assert client.said("tool_call")[1]["arguments"] == {"key": MARK, "deep": {MARK: [{"a": MARK}]}}
    assert "raised ValueError" in logged.getvalue()


@pytest.mark.scenario("S72")
async def test_what_looks_like_a_secret_is_kept_in_what_was_said_and_not_in_errors() -> None:
    async def stream(_: object) -> str:
        raise ModelError("401 for Authorization: Bearer other-key-4711", hint="password=abc wrong")

    async with Serving(Agent("a", model=stream)) as serving:
        client = await serving.run("My password=abc, is it good?")
        end = await client.end()

    assert client.said("accepted")[0]["content"] == "My password=abc, is it good?"
    assert end["message"] == f"401 for Authorization: {MARK}"
    assert end["hint"] == f"password={MARK} wrong"


@pytest.mark.scenario("S72")
async def test_the_exception_of_a_tool_is_redacted_for_the_model_too() -> None:
    @tool
    async def fetch() -> str:
        """Fail with the header in the text."""
        raise RuntimeError("{'headers': {'Authorization': 'Bearer abc-4711-xyz'}}")

    script = [reply(calls=[call("fetch", "c1")]), "So."]
    async with Serving(Agent("a", model=ScriptedModel(script), tools=[fetch])) as serving:
        client = await serving.run()
        await client.end()

    (said,) = client.said("tool_reply")
    assert said["content"] == f"Error: {{'headers': {{'Authorization': '{MARK}'}}}}"
    assert client.said("model_request")[-1]["body"]["messages"][-1]["content"] == said["content"]
