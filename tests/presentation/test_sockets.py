"""`/ws` over real sockets: run, steer, look on, come back, go."""

from __future__ import annotations

import asyncio

import pytest

from tests.presentation.helpers_server import Doors, Serving, looker, seqs, talker


async def test_a_run_tells_its_story_without_gaps_from_1() -> None:
    async with Serving(talker()) as serving:
        client = await serving.run("Hello", message_id="m1")
        await client.end()

        assert client.frames[0]["type"] == "session"
        assert seqs(client.entries) == list(range(1, len(client.entries) + 1))
        assert [frame["type"] for frame in client.entries] == [
            "accepted",
            "queue",
            "queue",
            "delivered",
            "model_request",
            "model_response",
            "assistant",
            "done",
        ]


async def test_the_session_frame_says_who_answers_and_where_the_story_is() -> None:
    async with Serving(looker(Doors())) as serving:
        client = await serving.run("Look")
        frame = await client.until("session")

        agent = frame["agent"]
        assert {key: agent[key] for key in ("name", "model", "dialect", "instructions")} == {
            "name": "looker",
            "model": "scripted",
            "dialect": "openai_chat",
            "instructions": "Be brief.",
        }
        assert [tool["name"] for tool in agent["tools"]] == ["look"]
        assert agent["tools"][0]["parameters"]["type"] == "object"
        assert agent["limits"]["tool_timeout"] == 30.0
        assert frame["state"] == "running"
        assert frame["last_seq"] == 2
        assert frame["epoch"] == serving.agents.session(client.session_id).epoch


async def test_a_message_during_a_tool_is_held_and_delivered_before_the_next_request() -> None:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        client = await serving.run("Look")
        await doors.inside()
        await client.send({"type": "user_message", "content": "And Rome?", "message_id": "m2"})
        held = await client.until("held", message_id="m2")
        doors.door.set()
        await client.end()

        assert held["blocked_by"] == ["c1"]
        order = [
            frame["type"]
            for frame in client.entries
            if frame["seq"] > held["seq"]
            and frame["type"] in ("tool_reply", "delivered", "model_request")
        ]
        assert order == ["tool_reply", "delivered", "model_request"]
        users = [m["content"] for m in client.said("model_request")[-1]["body"]["messages"]]
        assert users[-1] == "And Rome?"


async def test_attach_behind_any_entry_gives_exactly_the_rest() -> None:
    async with Serving(talker()) as serving:
        first = await serving.run()
        await first.end()
        for after in range(len(first.entries) + 1):
            again = await serving.attach(first.session_id, after)
            await again.until("session")
            if after < len(first.entries):
                await again.end()
            assert again.entries == first.entries[after:]
            await again.close()


@pytest.mark.fault("C22")
async def test_two_tabs_see_the_same_entries_and_both_may_send() -> None:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        one = await serving.run("Look")
        await doors.inside()
        two = await serving.attach((await one.until("session"))["session_id"])
        await one.send({"type": "user_message", "content": "one", "message_id": "m1"})
        await two.send({"type": "user_message", "content": "two", "message_id": "m2"})
        for client in (one, two):
            await client.until("held", message_id="m1")
        doors.door.set()
        await one.end()
        await two.end()

        assert one.entries == two.entries
        assert {"m1", "m2"} < {said["message_id"] for said in one.said("delivered")}


async def test_the_same_run_on_two_sockets_runs_once() -> None:
    async with Serving(talker()) as serving:
        one = await serving.run("Hello", message_id="m1")
        two = await serving.run("Hello", message_id="m1")
        await one.end()
        await two.end()

        assert one.session_id == two.session_id
        assert one.entries == two.entries
        assert len(one.said("accepted")) == 1
        assert len(serving.agents.sessions()) == 1


@pytest.mark.fault("C26")
@pytest.mark.scenario("S54")
async def test_a_message_sent_again_gets_its_receipt_again_and_runs_nothing() -> None:
    async with Serving(talker()) as serving:
        client = await serving.run("Hello", message_id="m1")
        await client.end()
        await client.send({"type": "user_message", "content": "Hello", "message_id": "m1"})
        again = await client.until("accepted")

        first = client.said("accepted")[0]
        assert again == {**{k: v for k, v in first.items() if k != "seq"}, "repeat_of": 1}
        assert serving.agents.session(client.session_id).last_seq == len(client.entries)


async def test_an_id_with_other_content_is_rejected_on_record() -> None:
    async with Serving(talker()) as serving:
        client = await serving.run("Hello", message_id="m1")
        await client.end()
        await client.send({"type": "user_message", "content": "Bye", "message_id": "m1"})
        rejected = await client.until("rejected")
        other = await serving.run("Bye", message_id="m1")
        await other.until("rejected")

        assert rejected["code"] == "id_reused"
        assert other.session_id == client.session_id


@pytest.mark.parametrize("named", [True, False])
async def test_cancel_ends_the_turn(named: bool) -> None:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        client = await serving.run("Look")
        await doors.inside()
        await client.send({"type": "cancel", **({"turn": 1} if named else {})})
        end = await client.end()

        assert (end["type"], end["turn"], end["reason"]) == ("cancelled", 1, "user")
        assert client.said("tool_reply")[0]["kind"] == "cancelled"


@pytest.mark.fault("C01")
async def test_a_tab_that_is_closed_leaves_the_run_going_and_sees_all_later() -> None:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        client = await serving.run("Look")
        await client.until("tool_started")
        await doors.inside()
        await client.connection.close(1001)
        async with asyncio.timeout(5):
            await serving.app.sockets.all_left()
        doors.door.set()
        again = await serving.attach(client.session_id)
        end = await again.end()

        assert end["type"] == "done"
        assert again.entries[: len(client.entries)] == client.entries
        assert [reply["kind"] for reply in again.said("tool_reply")] == ["result"]


@pytest.mark.fault("C02")
async def test_a_client_that_is_cut_leaves_the_run_going() -> None:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        client = await serving.run("Look")
        await client.until("session")
        await doors.inside()
        client.cut()
        async with asyncio.timeout(1):
            await serving.app.sockets.all_left()
        doors.door.set()
        again = await serving.attach(client.session_id)
        end = await again.end()

        assert end["type"] == "done"
        assert again.said("tool_reply")[0]["kind"] == "result"
