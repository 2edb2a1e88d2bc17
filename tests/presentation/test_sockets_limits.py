"""`/ws` when clients are too many or too fast."""

from __future__ import annotations

import asyncio
import time

import pytest
from websockets.exceptions import InvalidStatus

from agent_lab.presentation.downstream import SocketLimits
from tests.presentation.helpers_server import BOUND, Client, Doors, Serving, looker, talker


def message(number: int) -> dict[str, str]:
    return {"type": "user_message", "content": "And?", "message_id": f"x{number}"}


async def all_gone(serving: Serving, *clients: Client) -> None:
    for client in clients:
        await client.close()
    async with asyncio.timeout(BOUND):
        await serving.app.sockets.all_left()


@pytest.mark.fault("C07")
@pytest.mark.fault("SEC-24")
async def test_messages_that_come_too_fast_are_refused_by_name_and_the_socket_is_kept() -> None:
    doors = Doors()
    limits = SocketLimits(messages=0.001, message_burst=20)
    async with Serving(looker(doors), limits=limits) as serving:
        client = await serving.run("Look")
        await doors.inside()
        for number in range(50):
            await client.send(message(number))
        refused = [await client.until("error") for _ in range(30)]
        await client.send({"type": "cancel", "drop_waiting": True})
        end = await client.end()
        accepted = client.said("accepted")

    assert {frame["code"] for frame in refused} == {"rate_limited"}
    assert [frame["message_id"] for frame in refused] == [f"x{n}" for n in range(20, 50)]
    assert all(frame["retry_after"] > 0 for frame in refused)
    assert len(accepted) == 21
    assert end["type"] == "cancelled"


@pytest.mark.fault("C07")
@pytest.mark.fault("SEC-24")
async def test_a_flood_of_frames_is_closed_with_1008_and_others_go_on() -> None:
    doors = Doors()
    limits = SocketLimits(frames=1, frame_burst=100, answers=10_000)
    async with Serving(looker(doors), talker(), limits=limits) as serving:
        flood = await serving.run("Look", agent="looker")
        await doors.inside()
        for number in range(300):
            await flood.send(message(number))
        code, began = await flood.closed(), time.monotonic()
        other = await serving.run(agent="talker")
        end = await other.end()
        session = serving.agents.session(flood.session_id)

        assert (code, end["type"]) == (1008, "done")
        assert time.monotonic() - began < 2
        assert session.state == "running"
        assert len(session.runtime.session.conversation.inbox) <= 100


@pytest.mark.fault("SEC-24")
async def test_two_hundred_messages_a_second_keep_the_socket_and_others_fast() -> None:
    doors = Doors()
    async with Serving(looker(doors), talker()) as serving:
        busy = await serving.run("Look", agent="looker")
        await doors.inside()
        slowest = 0.0
        for number in range(400):
            await busy.send(message(number))
            if number % 100 == 50:
                began = time.monotonic()
                other = await serving.run(agent="talker")
                await other.end()
                slowest = max(slowest, time.monotonic() - began)
        await busy.send({"type": "cancel", "drop_waiting": True})
        end = await busy.end()

    codes = {frame.get("code") for frame in busy.frames if frame["type"] in ("error", "rejected")}
    assert end["type"] == "cancelled"
    assert codes == {"rate_limited", "queue_full"} or codes == {"rate_limited"}
    assert slowest < 2


@pytest.mark.fault("SEC-25")
async def test_one_socket_more_than_there_may_be_is_refused_before_the_101() -> None:
    async with Serving(talker(), limits=SocketLimits(sockets=3)) as serving:
        clients = [await serving.run() for _ in range(3)]
        with pytest.raises(InvalidStatus) as refused:
            await serving.connect()
        await all_gone(serving, *clients)
        again = await serving.run()
        await again.end()

    response = refused.value.response
    assert response.status_code == 503
    assert response.headers["X-Agent-Lab-Error-Code"] == "too_many_sockets"
    assert response.headers["Retry-After"] == "5"
    assert SocketLimits().sockets == 64


@pytest.mark.fault("SEC-25")
async def test_one_viewer_more_than_a_session_may_have_is_closed_with_1013() -> None:
    async with Serving(talker(), limits=SocketLimits(viewers=2)) as serving:
        one = await serving.run(message_id="m1")
        await one.end()
        two = await serving.attach(one.session_id)
        await two.end()
        three = await serving.attach(one.session_id)
        four = await serving.run(session_id=one.session_id, message_id="m2")
        five = await serving.run(message_id="m1")
        codes = [await client.closed() for client in (three, four, five)]
        await all_gone(serving, one, two)
        six = await serving.attach(one.session_id)
        await six.end()

    assert codes == [1013] * 3
    assert [c.frames[0]["code"] for c in (three, four, five)] == ["too_many_viewers"] * 3
    assert len(six.said("accepted")) == 1
    assert SocketLimits().viewers == 8
