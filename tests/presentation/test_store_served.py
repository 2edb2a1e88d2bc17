"""A served session and its store: what was accepted is there after a restart, told as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_lab import Agent, ChatMessage, Limits, tool
from agent_lab.application.journal import Gap
from agent_lab.application.ports import Store
from agent_lab.infrastructure.sqlite import SqliteStore
from agent_lab.infrastructure.store_memory import MemoryStore
from agent_lab.testing import ScriptedModel, call, reply
from tests.presentation.helpers_server import (
    BOUND,
    Client,
    Doors,
    Frame,
    Serving,
    looker,
    seqs,
    talker,
)

Reopen = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Reopen:
    """Opens the store, again and again."""
    kept = MemoryStore()

    def open_store() -> Store:
        if request.param == "sqlite":
            return SqliteStore(tmp_path / "store/lab.db", pause=0.02, patience=0.1)
        kept._closed = False  # as if another process found what it kept
        return kept

    return open_store


@pytest.fixture
def on_disk(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "store/lab.db", pause=0.02, patience=0.1)


async def everything(serving: Serving, session_id: str, **fields: int) -> list[Frame]:
    """All entries of a session, as HTTP gives them."""
    query = "&".join(f"{name}={value}" for name, value in fields.items())
    answer = await serving.get(f"/api/sessions/{session_id}/entries?{query}")
    assert answer.status_code == 200
    assert answer.json()["gap"] is None
    return answer.json()["entries"]


async def told(client: Client) -> list[Frame]:
    await client.end()
    return client.entries


@pytest.mark.fault("S09")
async def test_after_a_restart_a_session_is_listed_and_read_as_it_was(reopen: Reopen) -> None:
    doors = Doors()
    doors.door.set()
    async with Serving(looker(doors), store=reopen()) as serving:
        before = await told(client := await serving.run("Weather?", message_id="m_1"))
        epoch = client.frames[0]["epoch"]
        listed = (await serving.get("/api/sessions")).json()["sessions"]

    async with Serving(looker(doors), store=reopen()) as serving:
        dormant = (await serving.get("/api/sessions")).json()["sessions"]
        read = await everything(serving, client.session_id)
        again = await serving.attach(client.session_id, before[9]["seq"], epoch=epoch)
        body = await serving.get(f"/api/sessions/{client.session_id}/entries/5/body")

        assert dormant == listed
        assert read == before
        assert [await again.until("model_request") for _ in range(1)]
        await again.end()
        assert again.entries == before[10:]
        assert (again.frames[0]["epoch"], again.frames[0]["state"]) == (epoch, "idle")
        assert body.json() == read[4]["body"]


async def test_a_session_that_is_taken_up_goes_on_with_its_numbers_turns_and_history(
    reopen: Reopen,
) -> None:
    says = ["One.", "Two.", "Three."]
    async with Serving(talker("talker", *says), store=reopen()) as serving:
        first = await serving.run("First?", message_id="m_1")
        before = await told(first)

    async with Serving(talker("talker", *says), store=reopen()) as serving:
        again = await serving.run("Second?", session_id=first.session_id, message_id="m_2")
        await again.until("done", turn=2)
        asked = again.said("model_request")[-1]["body"]["messages"]

        assert seqs(again.entries) == list(range(1, len(again.entries) + 1))
        assert again.entries[: len(before)] == before
        assert [message["content"] for message in asked] == ["First?", "One.", "Second?"]
        assert again.said("assistant")[-1]["content"] == "Two."


@pytest.mark.fault("C26")
async def test_a_message_sent_again_after_a_restart_gets_its_receipt_and_runs_nothing(
    reopen: Reopen,
) -> None:
    async with Serving(talker(), store=reopen()) as serving:
        first = await serving.run("Hello?", message_id="m_1")
        before = await told(first)

    async with Serving(talker(), store=reopen()) as serving:
        again = await serving.run("Hello?", message_id="m_1")
        await again.end()
        other = await serving.run("Hello you?", message_id="m_1", session_id=first.session_id)
        refused = await other.until("rejected")

        assert (again.session_id, again.entries) == (first.session_id, before)
        assert refused["code"] == "id_reused"


@pytest.mark.fault("S09")
@pytest.mark.scenario("R6")
async def test_what_a_stop_cuts_short_is_interrupted_and_what_waited_runs_once(
    reopen: Reopen,
) -> None:
    doors = Doors()
    async with Serving(looker(doors), store=reopen()) as serving:
        client = await serving.run("Weather?", message_id="m_1")
        await doors.inside()
        await client.send({"type": "user_message", "content": "And in Rome?", "message_id": "m_2"})
        await client.until("held", message_id="m_2")
        seen = len(client.entries)

    async with Serving(looker(doors), store=reopen()) as serving:
        again = await serving.attach(client.session_id, seen)
        end = await again.until("done")
        new = again.entries
        whole = await everything(serving, client.session_id)

    lost, interrupted = again.said("tool_reply")[0], again.said("error")[0]
    assert (lost["call_id"], lost["kind"], lost["turn"]) == ("c1", "lost", 1)
    assert (interrupted["code"], interrupted["turn"], interrupted["pending"]) == (
        "interrupted",
        1,
        1,
    )
    assert (end["turn"], end["pending"]) == (2, 0)
    assert [one["message_id"] for one in again.said("delivered")] == ["m_2"]
    roles = [m["role"] for m in again.said("model_request")[-1]["body"]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert seqs(whole) == list(range(1, len(whole) + 1))
    assert whole[seen:] == new


async def test_entries_that_memory_let_go_of_are_read_from_the_store(on_disk: SqliteStore) -> None:
    limits = Limits(journal_entries=20)
    agent = Agent("talker", model=ScriptedModel(["Well."], repeat_last=True), limits=limits)
    async with Serving(agent, store=on_disk) as serving:
        client = await serving.run("0")
        await client.until("done")
        for turn in range(1, 12):
            await client.send({"type": "user_message", "content": str(turn)})
            await client.until("done", turn=turn + 1)
        late = await serving.attach(client.session_id)
        gap = await late.until("gap")
        missing = (await serving.get(gap["read_at"])).json()["entries"]
        piece = await everything(serving, client.session_id, after=7, limit=3)

    assert gap["from"] == 1
    assert missing[: gap["to"]] == client.entries[: gap["to"]]
    assert piece == client.entries[7:10]


async def test_an_agent_that_is_not_served_now_keeps_its_sessions_for_later(
    reopen: Reopen,
) -> None:
    async with Serving(talker("one"), talker("two"), store=reopen()) as serving:
        client = await serving.run("Hello?", agent="one")
        await client.end()
    async with Serving(talker("two"), store=reopen()) as serving:
        without = (await serving.get("/api/sessions")).json()["sessions"]
        unknown = await serving.get(f"/api/sessions/{client.session_id}/entries")
    async with Serving(talker("one"), store=reopen()) as serving:
        again = await everything(serving, client.session_id)

    assert without == []
    assert unknown.status_code == 404
    assert again == client.entries


@pytest.mark.fault("S01")
async def test_on_a_full_disk_nothing_is_acknowledged_and_nothing_runs(
    on_disk: SqliteStore,
) -> None:
    asked = 0

    async def model(_: object) -> str:
        nonlocal asked
        asked += 1
        return "Well."

    def room(pages: int) -> None:
        on_disk._connection.execute(f"PRAGMA max_page_count = {pages}")

    async with Serving(Agent("talker", model=model), store=on_disk) as serving:
        client = await serving.run("First")
        await client.until("done")
        (used,) = on_disk._connection.execute("PRAGMA page_count").fetchone()
        room(used)
        frame = {"type": "user_message", "content": "x" * 100_000, "message_id": "m_2"}
        await client.send(frame)
        refused = await client.until("error")
        await client.send({**frame, "message_id": "m_3"})
        at_the_door = await client.until("error")
        acknowledged = {entry.get("message_id") for entry in client.said("accepted")}
        room(1 << 20)
        failed = await client.until("error", scope="turn")  # so there is room again
        await client.send({**frame, "message_id": "m_4"})
        await client.until("done")

    assert (refused["code"], refused["scope"]) == ("storage_full", "frame")
    assert at_the_door["code"] == "storage_full"
    assert "m_2" not in acknowledged
    assert failed["code"] == "storage_full"
    assert asked == 2
    assert [entry["message_id"] for entry in client.said("accepted")][1:] == ["m_2", "m_4"]


@pytest.mark.fault("S02")
async def test_a_run_goes_on_while_the_disk_is_full_and_stops_when_it_is_too_far_ahead(
    on_disk: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_lab.application.recorder.UNSTORED_SIZE", 200_000)
    steps = 0

    @tool
    async def think() -> str:
        nonlocal steps
        steps += 1
        if steps == 1:
            (used,) = on_disk._connection.execute("PRAGMA page_count").fetchone()
            on_disk._connection.execute(f"PRAGMA max_page_count = {used}")
        elif steps == 3:
            full = asyncio.get_running_loop().create_future()
            await asyncio.wait([asyncio.ensure_future(on_disk.sure(full))])
        return "x" * 50_000

    model = ScriptedModel([reply(calls=[call("think")])], repeat_last=True)
    async with Serving(Agent("thinker", model=model, tools=[think]), store=on_disk) as serving:
        client = await serving.run("Think")
        await client.until("error", code="storage_full", scope="frame")
        served = serving.agents.session(client.session_id)
        async with asyncio.timeout(BOUND):
            async for batch in served.runtime.follow():
                assert not isinstance(batch, Gap)
                if batch[-1].payload.type == "error":
                    break
        on_disk._connection.execute("PRAGMA max_page_count = 1000000")
        failed = await client.until("error", scope="turn")
        whole = await everything(serving, client.session_id)

    assert failed["code"] == "storage_full"
    assert 4 <= steps <= 8
    assert seqs(client.entries) == list(range(1, len(client.entries) + 1))
    assert whole == client.entries


@pytest.mark.fault("S03")
async def test_what_is_not_stored_yet_is_not_told(on_disk: SqliteStore) -> None:
    """A viewer is told nothing that a restart would take back."""
    async with Serving(talker(), store=on_disk) as serving:
        client = await serving.run("Hello?")
        await client.end()
        on_disk._connection.set_progress_handler(lambda: True, 1)  # no statement gets through
        await client.send({"type": "user_message", "content": "Again?", "message_id": "m_2"})
        await client.until("error", scope="frame")
        read = await everything(serving, client.session_id)
        on_disk._connection.set_progress_handler(None, 1)
        await client.until("accepted", message_id="m_2")

    assert "m_2" not in {entry.get("message_id") for entry in read}


@pytest.mark.fault("S09")
async def test_an_execution_is_found_after_a_restart_with_its_answer_and_its_key(
    reopen: Reopen,
) -> None:
    asked = {"method": "POST", "json": {"message": "Hello?"}, "headers": {"Idempotency-Key": "k"}}
    async with Serving(talker(), store=reopen()) as serving:
        said = (await serving.get("/api/agents/talker/chat", **asked)).json()
        key = said["execution"]["task_execution_id"]
    async with Serving(talker(), store=reopen()) as serving:
        record = (await serving.get(f"/api/agents/talker/executions/{key}")).json()
        again = await serving.get("/api/agents/talker/chat", **asked)
        more = await serving.get(
            "/api/agents/talker/chat", method="POST", json={"message": "And now?"}
        )

    assert (record["status"], record["response"]) == ("completed", "Well.")
    assert again.headers["X-Idempotent-Replay"] == "true"
    assert again.json()["response"] == said["response"]
    assert (more.json()["session_id"], more.json()["turn"]) == ("chat:talker", 2)


@pytest.mark.parametrize("kind", ["chat", "task"])
async def test_the_log_of_an_execution_is_there_after_a_restart_and_a_reset(
    reopen: Reopen, kind: str
) -> None:
    doors = Doors()
    doors.door.set()
    post = {"method": "POST"}
    path = "/api/agents/looker"
    async with Serving(looker(doors), store=reopen()) as serving:
        ids: list[str] = []
        for text in ("Weather?", "And now?"):
            said = await serving.get(f"{path}/{kind}", **post, json={"message": text})
            ids.append(said.json()["execution"]["task_execution_id"])
        before = [(await serving.get(f"{path}/executions/{key}/log")).json() for key in ids]
        await serving.get(f"{path}/reset", **post)
        anew = [(await serving.get(f"{path}/executions/{key}/log")).json() for key in ids]
    async with Serving(looker(doors), store=reopen()) as serving:
        after = [(await serving.get(f"{path}/executions/{key}/log")).json() for key in ids]

    assert [log["available"] for log in before] == [True, True]
    assert {entry["type"] for entry in before[0]["entries"]} >= {"accepted", "tool_reply", "done"}
    assert before == anew == after


async def test_a_conversation_keeps_its_model_and_its_count_over_a_restart(reopen: Reopen) -> None:
    post, path = {"method": "POST"}, "/api/agents/talker"
    other = Agent("other", model=ScriptedModel(["Other."], name="second", repeat_last=True))
    async with Serving(talker(), other, store=reopen()) as serving:
        await serving.get(f"{path}/chat", **post, json={"message": "one"})
        said = {"message": "two", "model": "second"}
        answer = (await serving.get(f"{path}/chat", **post, json=said)).json()
    async with Serving(talker(), other, store=reopen()) as serving:
        queue = (await serving.get(f"{path}/queue")).json()
        again = (await serving.get(f"{path}/chat", **post, json={"message": "three"})).json()
        await serving.get(f"{path}/reset", **post)
    async with Serving(talker(), store=reopen()) as serving:
        third = (await serving.get(f"{path}/queue")).json()
        own = (await serving.get(f"{path}/chat", **post, json={"message": "four"})).json()

    assert (answer["response"], answer["turn"]) == ("Other.", 1)
    assert queue["generation"] == 2
    assert (again["response"], again["turn"]) == ("Other.", 2)
    assert third["generation"] == 3
    assert (own["response"], own["turn"]) == ("Well.", 1)


async def test_a_model_that_is_gone_after_a_restart_leaves_the_agent_its_own(
    reopen: Reopen,
) -> None:
    post, path = {"method": "POST"}, "/api/agents/talker"
    other = Agent("other", model=ScriptedModel(["Other."], name="second", repeat_last=True))
    async with Serving(talker(), other, store=reopen()) as serving:
        said = {"message": "two", "model": "second"}
        await serving.get(f"{path}/chat", **post, json=said)
    async with Serving(talker(), store=reopen()) as serving:
        again = (await serving.get(f"{path}/chat", **post, json={"message": "three"})).json()

    assert (again["response"], again["turn"]) == ("Well.", 2)


async def test_a_store_that_fails_is_named_by_healthz(on_disk: SqliteStore) -> None:
    async with Serving(talker(), store=on_disk) as serving:
        client = await serving.run("Hello?")
        await client.end()
        on_disk._connection.set_progress_handler(lambda: True, 1)  # no statement gets through
        await client.send({"type": "user_message", "content": "Again?", "message_id": "m_2"})
        failing = await client.until("error", scope="frame")
        health = await serving.get("/healthz", extra={"Authorization": ""})
        on_disk._connection.set_progress_handler(None, 1)
        await client.until("accepted", message_id="m_2")

        assert health.json() == {"status": "failing", "problems": [{"code": failing["code"]}]}
        await client.end()
        assert (await serving.get("/healthz")).status_code == 200


async def test_a_session_that_began_with_a_history_from_elsewhere_has_it_after_a_restart(
    reopen: Reopen,
) -> None:
    history = [ChatMessage("user", "Before?"), ChatMessage("assistant", "Before.")]
    async with Serving(agent := talker(), store=reopen()) as serving:
        served = serving.agents.open(agent, "s_1", history)
        client = await serving.run("First?", session_id=served.session_id)
        await client.end()
    async with Serving(talker(), store=reopen()) as serving:
        again = await serving.run("Second?", session_id="s_1")
        await again.until("done", turn=2)

    said = [m["content"] for m in again.said("model_request")[-1]["body"]["messages"]]
    assert said == ["Before?", "Before.", "First?", "Well.", "Second?"]
    assert again.entries[: len(client.entries)] == client.entries
