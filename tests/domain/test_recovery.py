"""What a stored journal comes to: the conversation as it was, wherever it was cut."""

from __future__ import annotations

import pytest

from agent_lab import Agent, ChatMessage, DebugRuntime, tool
from agent_lab.domain.dialects.check import DIALECTS
from agent_lab.domain.payloads import PAYLOADS, AnyPayload, Payload, Withdrawn
from agent_lab.domain.records import Record, checked, read, write
from agent_lab.domain.recovery import recover
from agent_lab.domain.redaction import SECRETS
from agent_lab.testing import ScriptedModel, assert_provider_valid, call, reply


@tool
async def look(place: str) -> str:
    """Look there."""
    return f"seen {place}"


async def story() -> tuple[list[AnyPayload], list[ChatMessage]]:
    """The payloads of a session with two calls in one answer and an edit, and its history."""
    says = [
        reply("I look.", calls=[call("look", "a", place="Oslo"), call("look", "b", place="Rome")]),
        "Well.",
        "And so.",
        "The end.",
    ]
    runtime = DebugRuntime(Agent("looker", model=ScriptedModel(says), tools=[look]))
    async with runtime, runtime.run("Weather?") as run:
        await run.queues.input.put(ChatMessage("user", "Later", mode="follow_up", message_id="m"))
        await run.queues.input.put(ChatMessage("user", "Never", mode="follow_up", message_id="n"))
        runtime.edit("m", "Later, please")
        runtime.withdraw("n")
        async for _ in run:
            pass
        _, entries = runtime.session.journal.read()
        return [entry.payload for entry in entries], runtime.history


async def test_a_whole_journal_gives_the_history_it_tells_of() -> None:
    payloads, history = await story()

    stored = [read(write(payload)) for payload in payloads]
    recovered, ends = recover(enumerate(stored, 1), last_seq=len(stored))

    plain = [(m.role, m.content, m.tool_calls, m.tool_call_id, m.kind) for m in history]
    assert [
        (m.role, m.content, m.tool_calls, m.tool_call_id, m.kind) for m in recovered.history
    ] == plain
    assert (ends, recovered.waiting) == ([], {})
    assert (recovered.turn, recovered.call, recovered.answers) == (2, 3, 3)
    assert recovered.accepted.keys() == {"m", "n"} | {next(iter(recovered.accepted))}


@pytest.mark.fault("S09")
@pytest.mark.scenario("R6")
async def test_cut_anywhere_it_gives_a_history_that_every_provider_takes() -> None:
    payloads, _ = await story()
    stored = [read(write(payload)) for payload in payloads]

    for cut in range(len(stored) + 1):
        recovered, ends = recover(enumerate(stored[:cut], 1), last_seq=cut)
        said = list(recovered.history)
        assert_provider_valid([*said, ChatMessage("user", "Go on")], *DIALECTS)
        delivered = {m.message_id for m in said if m.role == "user"}
        waiting = set(recovered.waiting)
        gone = {p.message_id for p in stored[:cut] if isinstance(p, Withdrawn)}
        assert delivered | waiting | gone == set(recovered.accepted)
        assert not delivered & waiting
        assert [end.type for end in ends][-1:] in ([], ["error"])
        assert not recovered.in_turn


@pytest.mark.parametrize("payload", PAYLOADS, ids=[payload.type for payload in PAYLOADS])
def test_every_payload_has_a_stored_form(payload: type[Payload]) -> None:
    with pytest.raises(Exception, match="missing required field"):
        read(b'{"type":"%s"}' % payload.type.encode())


@pytest.mark.scenario("S75")
def test_no_secret_of_this_process_is_stored() -> None:
    SECRETS.add("sk-very-secret-9")
    try:
        body = b'{"type":"text_delta","turn":1,"step":1,"text":"it is sk-very-secret-9"}'
        kept = checked(Record("task", "t", "a", "queued", 1.0, body))
    finally:
        SECRETS.forget("sk-very-secret-9")

    assert isinstance(kept, Record)
    assert kept.body == b'{"type":"text_delta","turn":1,"step":1,"text":"it is [redacted]"}'
