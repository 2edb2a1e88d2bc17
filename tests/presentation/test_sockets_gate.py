"""What a socket sends passes the gate like any other put: accepted at once, there when it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent_lab.application.gate import Parked
from agent_lab.testing import HandGate
from tests.presentation.helpers_server import BOUND, Client, Frame, Serving, talker


@asynccontextmanager
async def gated(*patterns: str) -> AsyncGenerator[tuple[Serving, Client, HandGate]]:
    """A session that answered once, and the gate that its next hops pass."""
    async with Serving(talker()) as serving:
        client = await serving.run("Hello")
        await client.end()
        session = serving.agents.session(client.session_id).runtime.session
        session.gate = gate = HandGate(*patterns)
        gate.bind(session)
        yield serving, client, gate


async def parked(gate: HandGate) -> Parked:
    async with asyncio.timeout(BOUND):
        return await gate.arrival()


def message(key: str, content: str = "And Rome?", mode: str = "steer") -> Frame:
    return {"type": "user_message", "content": content, "message_id": key, "mode": mode}


async def test_it_is_accepted_at_once_and_put_when_it_is_released() -> None:
    async with gated("put input") as (_, client, gate):
        await client.send(message("m2"))
        paused = await client.until("paused")

        assert (paused["hop"], paused["queue"], paused["item"]) == ("put", "input", "m2")
        assert [f["message_id"] for f in client.said("accepted")][1:] == ["m2"]
        gate.release(paused["seq"])
        await client.end()
        order = [f["type"] for f in client.entries if f["seq"] >= paused["seq"] - 1]
        assert order[:6] == ["accepted", "paused", "resumed", "queue", "queue", "delivered"]


async def test_a_cancel_does_not_wait_behind_it() -> None:
    async with gated("put input") as (_, client, _):
        await client.send(message("m2"))
        await client.until("paused")
        await client.send({"type": "cancel", "drop_waiting": True})
        await client.until("cancelled", "withdrawn")


async def test_edited_at_the_gate_the_model_is_told_the_new_text() -> None:
    async with gated("put input") as (serving, client, gate):
        await client.send(message("m2"))
        gate.edit((await parked(gate)).number, "And Bergen?")
        await client.end()

        history = serving.agents.session(client.session_id).runtime.history
        assert [m.content for m in history if m.role == "user"] == ["Hello", "And Bergen?"]


async def test_dropped_it_is_withdrawn_and_the_session_goes_on() -> None:
    async with gated("put input") as (serving, client, gate):
        await client.send(message("m2"))
        gate.drop((await parked(gate)).number)
        withdrawn = await client.until("withdrawn")
        gate.hold_at()
        await client.send(message("m3"))
        await client.end()

        assert (withdrawn["message_id"], withdrawn["reason"]) == ("m2", "dropped")
        history = serving.agents.session(client.session_id).runtime.history
        assert len([m for m in history if m.role == "user"]) == 2


async def test_two_are_delivered_in_the_order_in_which_they_were_let_through() -> None:
    async with gated("put input") as (_, client, gate):
        await client.send(message("m2", "first", "follow_up"))
        await client.send(message("m3", "second", "follow_up"))
        first = await client.until("paused", item="m2")
        second = await client.until("paused", item="m3")
        gate.release(second["seq"])
        await client.until("queue", op="put", item="m3")
        gate.release(first["seq"])
        await client.until("queue", op="put", item="m2")
        await client.end()

        assert [f["item"] for f in client.said("queue") if f["op"] == "take"][1:] == ["m3", "m2"]


async def test_the_same_id_again_is_a_repeat_and_stands_there_once() -> None:
    async with gated("put input") as (_, client, gate):
        await client.send(message("m2"))
        paused = await client.until("paused")
        await client.send(message("m2"))
        again = await client.until("accepted", message_id="m2")

        assert again["repeat_of"] == paused["seq"] - 1
        assert len(gate.parked) == 1


async def test_a_server_that_stops_gives_it_its_end() -> None:
    async with gated("put input") as (serving, client, gate):
        await client.send(message("m2"))
        await client.until("paused")
        session = serving.agents.session(client.session_id)
        await serving.stop()

        ends = [e.payload for e in session.runtime.session.journal.read(0)[1]]
        assert [p.type for p in ends if getattr(p, "message_id", None) == "m2"] == [
            "accepted",
            "withdrawn",
        ]
        assert not gate.parked
