"""`/ws` when clients are slow, rude, late or gone."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from agent_lab import Agent, Limits
from agent_lab.presentation.downstream import SocketLimits
from agent_lab.presentation.guard import SUBPROTOCOL
from agent_lab.testing import ScriptedModel, call, reply
from tests.presentation.helpers_server import Doors, Frame, Serving, looker, seqs, talker

MESSAGE = {"type": "user_message", "content": "And Rome?", "message_id": "m2"}


# -- frames that are not obeyed ------------------------------------------------------------------


@pytest.mark.fault("C09")
@pytest.mark.scenario("S52")
async def test_a_bad_frame_gets_its_answer_and_the_session_lives_on() -> None:
    async with Serving(talker()) as serving:
        one = await serving.run()
        await one.end()
        two = await serving.attach(one.session_id)
        for bad in ("{", '{"type":"shout"}', '{"type":"pause"}', "[" * 100_000):
            await one.send(bad)
        answers = [await one.until("error") for _ in range(4)]
        await one.send(MESSAGE)
        await one.end()
        await two.until("delivered", message_id="m2")

        assert [answer["code"] for answer in answers] == [
            "bad_json",
            "bad_message",
            "not_yet",
            "too_deep",
        ]
        assert all(answer["scope"] == "frame" and "seq" not in answer for answer in answers)
        assert [frame for frame in two.frames if frame["type"] == "error"] == []


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"type": "cancel", "turn": 7}, "not_running"),
        ({"type": "cancel"}, "not_running"),
        ({"type": "cancel_tool", "call_id": "c9"}, "not_running"),
        ({"type": "withdraw", "message_id": "m9"}, "not_waiting"),
        ({"type": "edit", "message_id": "m9", "content": "x"}, "not_waiting"),
        ({"type": "edit", "message_id": "m9", "content": " "}, "empty"),
        ({"type": "run", "content": "x"}, "already_attached"),
        ({"type": "attach", "session_id": "x"}, "already_attached"),
    ],
)
async def test_what_cannot_be_done_is_said_to_who_asked(
    frame: dict[str, object], code: str
) -> None:
    async with Serving(talker()) as serving:
        client = await serving.run()
        await client.end()
        await client.send(frame)

        assert (await client.until("error"))["code"] == code
        assert serving.agents.session(client.session_id).last_seq == len(client.entries)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"type": "run", "content": "x", "agent": "nobody"}, "unknown_agent"),
        ({"type": "run", "content": "x"}, "unknown_agent"),
        ({"type": "run", "content": "x", "session_id": "nowhere"}, "unknown_session"),
        ({"type": "attach", "session_id": "nowhere"}, "unknown_session"),
        (MESSAGE, "not_attached"),
        ("{", "bad_json"),
    ],
)
async def test_after_a_bad_first_frame_another_may_come(
    frame: dict[str, object] | str, code: str
) -> None:
    async with Serving(talker("a"), talker("b")) as serving:
        client = await serving.connect(frame)
        assert (await client.until("error"))["code"] == code
        await client.send({"type": "run", "agent": "a", "content": "Hello"})

        assert (await client.end())["type"] == "done"


async def test_a_session_is_not_given_to_another_agent() -> None:
    async with Serving(talker("a"), talker("b")) as serving:
        one = await serving.run(agent="a")
        await one.end()
        two = await serving.run(agent="b", session_id=one.session_id)

        assert (await two.until("error"))["code"] == "session_mismatch"


async def test_a_model_that_cannot_be_had_is_named() -> None:
    async with Serving(Agent("a", model="scripted:/nowhere.json")) as serving:
        client = await serving.run()

        assert (await client.until("error"))["code"] == "bad_model"


@pytest.mark.fault("C25")
async def test_attach_behind_the_last_entry_is_told_where_that_is() -> None:
    async with Serving(talker()) as serving:
        one = await serving.run()
        await one.end()
        last = len(one.entries)
        two = await serving.attach(one.session_id, last + 1)
        gone = await two.until("error")
        await two.send({"type": "attach", "session_id": one.session_id, "after": last - 1})
        await two.end()

        assert (gone["code"], gone["last_seq"]) == ("resume_gone", last)
        assert two.entries == one.entries[-1:]


async def test_numbers_of_another_epoch_begin_the_story_anew() -> None:
    async with Serving(talker()) as serving:
        one = await serving.run()
        await one.end()
        two = await serving.attach(one.session_id, 99, epoch="before the restart")
        await two.end()

        assert two.entries == one.entries


async def test_a_run_into_a_closed_session_is_told_so() -> None:
    async with Serving(talker()) as serving:
        one = await serving.run()
        await one.end()
        await serving.agents.session(one.session_id).runtime.close()
        two = await serving.run(session_id=one.session_id)
        closed = await two.until("error")
        await one.send(MESSAGE)

        assert closed["code"] == (await one.until("error"))["code"] == "session_closed"
        three = await serving.attach(one.session_id)
        assert (await three.until("session"))["state"] == "closed"
        await three.end()
        assert three.entries == one.entries


# -- rejected, withdrawn, edited -----------------------------------------------------------------


@pytest.mark.fault("C08")
async def test_a_full_line_rejects_on_record_and_the_socket_lives() -> None:
    doors = Doors()
    async with Serving(looker(doors, limits=Limits(waiting=1))) as serving:
        one = await serving.run("Look")
        await doors.inside()
        await one.send(MESSAGE)
        await one.send({**MESSAGE, "message_id": "m3"})
        rejected = await one.until("rejected")
        two = await serving.run("More", session_id=one.session_id, message_id="m4")
        await two.until("rejected", message_id="m4")
        doors.door.set()
        await one.end()
        await two.end()

        assert (rejected["message_id"], rejected["code"]) == ("m3", "queue_full")
        assert rejected["retry_after"] > 0
        assert one.entries == two.entries


async def test_a_waiting_message_can_be_edited_and_another_withdrawn() -> None:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        client = await serving.run("Look")
        await doors.inside()
        await client.send(MESSAGE)
        await client.send({**MESSAGE, "message_id": "m3"})
        await client.send({"type": "edit", "message_id": "m2", "content": "And Bergen?"})
        await client.send({"type": "withdraw", "message_id": "m3"})
        await client.until("withdrawn", message_id="m3")
        doors.door.set()
        await client.end()

        said = [m["content"] for m in client.said("model_request")[-1]["body"]["messages"]]
        assert said[-1] == "And Bergen?"
        assert client.said("edited")[0]["after"] == "And Bergen?"


async def test_one_tool_call_can_be_cancelled() -> None:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        client = await serving.run("Look")
        await doors.inside()
        await client.send({"type": "cancel_tool", "call_id": "c1"})
        end = await client.end()

        assert end["type"] == "done"
        assert client.said("tool_reply")[0]["kind"] == "cancelled"


@pytest.mark.fault("C26")
@pytest.mark.fault("C27")
async def test_a_run_whose_receipt_was_lost_is_sent_again_and_runs_once() -> None:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        lost = await serving.run("Look", message_id="m1")
        await doors.inside()
        lost.cut()
        again = await serving.run("Look", message_id="m1")
        doors.door.set()
        await again.end()

        assert len(again.said("accepted")) == len(again.said("tool_call")) == 1
        assert seqs(again.entries) == list(range(1, len(again.entries) + 1))


async def test_an_id_of_another_session_is_rejected_where_it_was_sent() -> None:
    async with Serving(talker()) as serving:
        one = await serving.run(message_id="m1")
        two = await serving.run(message_id="m2")
        await one.end()
        await two.end()
        await two.send({"type": "user_message", "content": "other", "message_id": "m1"})
        rejected = await two.until("rejected")

        assert (rejected["code"], rejected["session_id"]) == ("id_reused", two.session_id)


async def test_a_message_that_another_session_has_gets_its_receipt_from_there() -> None:
    async with Serving(talker()) as serving:
        one = await serving.run(message_id="m1")
        two = await serving.run(message_id="m2")
        await one.end()
        await two.end()
        await two.send({"type": "user_message", "content": "go", "message_id": "m1"})
        receipt = await two.until("accepted")
        while "repeat_of" not in receipt:
            receipt = await two.until("accepted")

        assert (receipt["repeat_of"], receipt["session_id"]) == (1, one.session_id)


# -- how a socket ends ---------------------------------------------------------------------------


@pytest.mark.fault("C12")
@pytest.mark.fault("SEC-23")
@pytest.mark.fault("T8")
async def test_a_binary_frame_closes_with_1003() -> None:
    async with Serving(talker()) as serving:
        first = await serving.connect(b"{}")
        later = await serving.run()
        await later.until("session")
        await later.send(b"{}")

        assert (await first.closed(), await later.closed()) == (1003, 1003)


@pytest.mark.fault("C11")
@pytest.mark.fault("SEC-22")
async def test_a_frame_over_a_mebibyte_closes_with_1009() -> None:
    async with Serving(talker()) as serving:
        client = await serving.run()
        await client.until("session")
        await client.send('"' + "x" * (1 << 20) + '"')

        assert await client.closed() == 1009


@pytest.mark.fault("C21")
async def test_who_says_nothing_is_sent_away() -> None:
    async with Serving(talker(), limits=SocketLimits(first_frame=0.05)) as serving:
        client = await serving.connect()

        assert await client.closed() == 1008
        assert client.frames[0]["code"] == "first_frame_missing"


async def test_the_subprotocol_is_answered_and_the_token_is_not() -> None:
    async with Serving(talker()) as serving:
        client = await serving.connect()

        assert client.connection.subprotocol == SUBPROTOCOL


@pytest.mark.fault("T11")
async def test_when_the_server_stops_every_socket_is_closed_with_1001() -> None:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        silent = await serving.connect()
        busy = await serving.run("Look")
        await doors.inside()
        await serving.stop()

        assert [await silent.closed(), await busy.closed()] == [1001, 1001]
        assert serving.agents.session(busy.session_id).state == "closed"


@pytest.mark.fault("C02")
@pytest.mark.fault("C06")
@pytest.mark.fault("T9")
async def test_clients_that_vanish_in_the_middle_leave_no_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = asyncio.all_tasks()
    async with Serving(storyteller(400)) as serving:
        clients = [await serving.run() for _ in range(10)]
        for client in clients:
            await client.until("text_delta")
            client.cut()
        last = await serving.attach(clients[0].session_id)
        await last.end()
        await last.close()
        async with asyncio.timeout(5):
            await serving.app.sockets.all_left()

        assert {s.viewers for s in serving.agents.sessions()} == {0}
    assert asyncio.all_tasks() == before
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.scenario("S53")
async def test_upstream_that_ends_in_the_middle_of_the_telling_ends_both() -> None:
    before = asyncio.all_tasks()
    async with Serving(storyteller(400, size=20_000)) as serving:
        client = await serving.run()
        await client.until("text_delta")
        client.connection.transport.pause_reading()
        await client.connection.send(b"binary")
        async with asyncio.timeout(5):
            await serving.app.sockets.all_left()
        client.connection.transport.resume_reading()

        assert await client.closed() == 1003
    assert asyncio.all_tasks() == before


# -- slow readers --------------------------------------------------------------------------------


def storyteller(pieces: int, *, size: int = 10, limits: Limits | None = None) -> Agent:
    """An agent whose answer comes in so many pieces, each an entry."""
    deltas: list[str | tuple[int, str]] = ["x" * size] * pieces
    story = reply(deltas=deltas)
    limits = limits or Limits(text_interval=0, journal_bytes=64 << 20)
    return Agent("storyteller", model=ScriptedModel([story], repeat_last=True), limits=limits)


async def test_only_a_backlog_is_sent_in_arrays_and_nothing_is_lost() -> None:
    async with Serving(storyteller(1000), limits=SocketLimits(backlog=100)) as serving:
        first = await serving.run()
        await first.end()
        late = await serving.attach(first.session_id)
        await late.end()

        assert seqs(late.entries) == list(range(1, 1009))
        assert "".join(text[0] for text in late.texts) == "{" + 29 * "[" + 80 * "{"


@pytest.mark.fault("C04")
@pytest.mark.fault("T10")
async def test_a_reader_that_stands_still_is_closed_and_holds_nobody_back() -> None:
    limits = SocketLimits(progress=0.2)
    async with Serving(storyteller(400, size=50_000), limits=limits) as serving:
        slow = await serving.run()
        await slow.until("session")
        slow.connection.transport.pause_reading()
        other = await serving.attach(slow.session_id)
        await other.end()
        await other.close()
        async with asyncio.timeout(5):
            await serving.app.sockets.all_left()
        slow.connection.transport.resume_reading()

        assert await slow.closed() == 4408
        assert len(slow.entries) < len(other.entries)
        assert serving.agents.session(other.session_id).state == "idle"


async def test_a_cursor_that_memory_has_overtaken_is_told_of_the_gap_and_goes_on() -> None:
    limits = Limits(text_interval=0, journal_entries=100)
    async with Serving(storyteller(1000, limits=limits)) as serving:
        first = await serving.run()
        await first.end()
        late = await serving.attach(first.session_id)
        await late.end()

        gap = next(frame for frame in late.frames if frame["type"] == "gap")
        assert gap == {"type": "gap", "from": 1, "to": late.entries[0]["seq"] - 1, "read_at": None}
        assert seqs(late.entries) == list(range(gap["to"] + 1, 1009))


async def test_who_reads_no_answers_is_sent_away() -> None:
    limits = SocketLimits(answers=10, progress=5)
    async with Serving(storyteller(400, size=50_000), limits=limits) as serving:
        rude = await serving.run()
        rude.connection.transport.pause_reading()
        for _ in range(400):
            await rude.send("{")
        async with asyncio.timeout(5):
            await serving.app.sockets.all_left()
        rude.connection.transport.resume_reading()

        assert await rude.closed() == 1008


async def test_a_cancel_is_not_held_up_by_a_client_that_reads_nothing() -> None:
    doors = Doors()
    script = [reply("x" * 9_000_000, calls=[call("look")])]
    limits = Limits(journal_bytes=64 << 20)
    agent = Agent("a", model=ScriptedModel(script), tools=[doors.look], limits=limits)
    async with Serving(agent) as serving:
        client = await serving.run()
        client.connection.transport.pause_reading()
        await doors.inside()
        await client.send("{")
        await client.send({"type": "cancel"})
        session = serving.agents.sessions()[0]
        async with asyncio.timeout(5):
            async for found in session.runtime.follow():
                assert isinstance(found, list)
                if any(entry.payload.type == "cancelled" for entry in found):
                    break


# -- coming back ---------------------------------------------------------------------------------


@pytest.mark.fault("C24")
@pytest.mark.scenario("S50")
@pytest.mark.parametrize("seed", range(3))
async def test_cut_at_any_frame_and_back_again_nothing_is_missed_and_nothing_doubled(
    seed: int,
) -> None:
    chance = random.Random(seed)
    async with Serving(storyteller(300), limits=SocketLimits(backlog=40)) as serving:
        whole = await serving.run()
        session_id = (await whole.until("session"))["session_id"]
        seen: list[Frame] = []
        while not seen or seen[-1]["type"] != "done":
            client = await serving.attach(session_id, len(seen))
            for _ in range(chance.randrange(1, 40)):
                frame = await client.next()
                if frame["type"] == "done":
                    break
            client.cut()
            seen += client.entries
        await whole.end()

        assert seen == whole.entries


@pytest.mark.fault("C29")
async def test_cancel_and_goodbye_in_one_breath_end_the_turn_once() -> None:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        client = await serving.run("Look")
        await client.until("session")
        await doors.inside()
        for _ in range(3):
            await client.send({"type": "cancel", "turn": 1})
        await client.close()
        again = await serving.attach(client.session_id)
        await again.end()
        await again.send({"type": "cancel", "turn": 1})

        assert (await again.until("error"))["code"] == "not_running"
        assert len(again.said("cancelled", "done", "error")) == 1


@pytest.mark.fault("C28")
async def test_a_cancel_right_behind_the_run_ends_it_before_or_after_it_began() -> None:
    async with Serving(looker(Doors())) as serving:
        client = await serving.connect({"content": "Look"}, {"type": "cancel", "turn": 1})
        end = await client.end()

        assert (end["type"], end["turn"]) == ("cancelled", 1)
