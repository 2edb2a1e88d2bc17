"""A run frame into `chat:NAME` stands in line like everybody, and its socket is told where."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import permutations

import pytest

from tests.presentation.helpers_server import ENDS, Client, talker
from tests.presentation.test_api_line import Line, lined


async def run(a: Line, content: str, **fields: object) -> Client:
    return await a.serving.run(content, session_id="chat:a", **fields)


async def test_a_run_into_the_conversation_takes_the_slot() -> None:
    async with lined() as a:
        client = await run(a, "one", agent="a", message_id="m1")
        started = await client.until("execution_started")
        record = (await a.get(f"executions/{started['execution_id']}")).json()
        busy = await a.post("chat", {"message": "two", "wait": False})
        a.model.open("one")
        await client.end()

        assert busy.status_code == 429
        assert (record["triggered_by"], record["message_id"]) == ("ws", "m1")
        assert started["epoch"] == client.frames[0]["epoch"]
        assert [frame["message_id"] for frame in client.said("accepted")] == ["m1"]


@pytest.mark.scenario("S14")
async def test_a_socket_is_told_its_position_and_leaves_the_line_when_it_goes() -> None:
    async with lined() as a:
        await a.running()
        first, second = await run(a, "two"), await run(a, "three")
        assert (await first.until("queued"))["position"] == 1
        assert (await second.until("queued"))["position"] == 2
        first.cut()
        assert (await second.until("queued", position=1))["position"] == 1
        a.model.open("one")
        a.model.open("three")
        await second.until("execution_started")
        await second.until("done", turn=2)

        assert a.model.asked == ["one", "three"]


async def test_a_socket_is_told_that_its_run_was_sent_away_and_that_the_line_is_full() -> None:
    async with lined(waiting=1) as a:
        await a.running()
        first = await run(a, "two")
        await first.until("queued")
        second = await run(a, "three")
        refused = await second.until("error")
        await a.post("queue/clear")
        ended = await first.until("execution_ended")

        assert (refused["code"], refused["retry_after"]) == ("capacity", 30)
        assert (ended["status"], ended["code"]) == ("cancelled", "cleared")


@pytest.mark.scenario("S54")
@pytest.mark.fault("C26")
async def test_a_run_that_is_sent_again_after_a_cut_is_asked_once() -> None:
    async with lined() as a:
        await a.running()
        first = await run(a, "two", message_id="m2")
        await first.until("queued")
        again = await run(a, "two", message_id="m2")
        await again.until("queued")
        first.cut()
        a.model.open("one")
        a.model.open("two")
        await again.until("delivered", message_id="m2")
        await again.until("done", turn=2)
        third = await run(a, "two", message_id="m2")
        await third.until("done", turn=2)

        assert a.model.asked == ["one", "two"]


async def test_a_run_for_another_agent_is_a_mismatch() -> None:
    async with lined(talker("b")) as a:
        client = await run(a, "one", agent="b")
        refused = await client.until("error")

        assert refused["code"] == "session_mismatch"
        assert a.model.asked == []


async def test_who_watches_is_told_how_many_run_and_wait() -> None:
    async with lined() as a:
        watching = await a.serving.connect({"type": "watch"})
        await watching.until("watching")
        await a.running()
        await a.post("chat", {"message": "two", "async_mode": True})
        told = {"name": "a", "is_busy": True, "running": 1, "queue_length": 1}
        while (await watching.until("changed"))["agents"] != [told]:
            pass
        await a.post("queue/clear")
        told["queue_length"] = 0
        while (await watching.until("changed"))["agents"] != [told]:
            pass


@pytest.mark.fault("C29")
@pytest.mark.parametrize("order", [*permutations(("cancel", "terminate", "goodbye"))])
async def test_cancel_terminate_and_goodbye_in_one_breath_end_it_once(
    order: Sequence[str],
) -> None:
    async with lined() as a:
        client = await run(a, "one")
        started = await client.until("execution_started")
        await client.until("model_request")
        record = f"executions/{started['execution_id']}"

        async def goodbye() -> None:
            client.cut()

        deeds: dict[str, Callable[[], Awaitable[object]]] = {
            "cancel": lambda: client.send({"type": "cancel", "turn": 1}),
            "terminate": lambda: a.post(f"{record}/terminate"),
            "goodbye": goodbye,
        }
        await asyncio.gather(*(deeds[name]() for name in order), return_exceptions=True)
        ended = (await a.get(record)).json()
        while ended["status"] == "running":
            ended = (await a.get(record)).json()
        later = await a.serving.attach(client.session_id)
        await later.end()
        log = (await a.get(f"{record}/log")).json()

        assert ended["status"] == "cancelled"
        ends = [entry for entry in log["entries"] if entry["type"] in ENDS]
        assert [entry["type"] for entry in ends] == ["cancelled"]
        assert later.said(*ENDS) == ends
        assert (await a.serving.get("/api/check")).json()["problems"] == []
