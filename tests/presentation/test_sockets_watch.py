"""A socket that watches all agents and sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_lab.presentation.downstream import SocketLimits
from agent_lab.testing import ScriptedModel, reply
from tests.presentation.helpers_server import BOUND, Client, Doors, Frame, Serving, looker, talker

WATCH = {"type": "watch"}


async def until_state(client: Client, session_id: str, state: str) -> Frame:
    """The session as the first frame shows it in this state."""
    while True:
        frame = await client.until("watching", "changed")
        for session in frame["sessions"]:
            found = session["session_id"], session["state"]
            if found == (session_id, state) and session["turn"]:  # 0: accepted, and not begun
                return {**session, "agents": frame["agents"]}


async def test_a_watcher_sees_sessions_begin_run_and_rest() -> None:
    doors = Doors()
    async with Serving(looker(doors), talker()) as serving:
        watcher = await serving.connect(WATCH)
        first = await watcher.until("watching")
        run = await serving.run("Look", agent="looker")
        await doors.inside()
        running = await until_state(watcher, (await run.until("session"))["session_id"], "running")
        doors.door.set()
        last = await run.end()
        idle = await until_state(watcher, run.session_id, "idle")

    assert first["sessions"] == []
    assert first["agents"] == [
        {"name": "looker", "is_busy": False, "running": 0, "queue_length": 0},
        {"name": "talker", "is_busy": False, "running": 0, "queue_length": 0},
    ]
    assert running["title"] == "Look"
    assert idle["turn"] == 1
    assert running["agents"] == [
        {"name": "looker", "is_busy": True, "running": 0, "queue_length": 0}
    ]
    assert idle["agents"] == [{"name": "looker", "is_busy": False, "running": 0, "queue_length": 0}]
    assert idle["last_seq"] == last["seq"]


async def test_who_comes_late_sees_what_there_is_and_what_goes() -> None:
    async with Serving(talker(), idle=1) as serving:
        old = await serving.run()
        await old.end()
        await old.close()
        async with asyncio.timeout(BOUND):
            await serving.app.sockets.all_left()
        watcher = await serving.connect(WATCH)
        seen = await watcher.until("watching")
        new = await serving.run()
        await new.end()
        await serving.run()
        gone = await watcher.until("changed")
        while not gone["gone"]:
            gone = await watcher.until("changed")

    assert [session["session_id"] for session in seen["sessions"]] == [old.session_id]
    assert gone["gone"] == [old.session_id]


@pytest.mark.scenario("S49")
async def test_a_slow_watcher_is_told_the_present_and_not_each_step() -> None:
    limits = SocketLimits(watch_interval=0.01)
    deltas: list[str | tuple[int, str]] = ["x"] * 3000
    story = reply(deltas=deltas)
    agent = talker()
    agent.model = ScriptedModel([story], repeat_last=True)
    async with Serving(agent, limits=limits) as serving:
        watcher = await serving.connect(WATCH)
        await watcher.until("watching")
        run = await serving.run()
        await run.end()
        last = await until_state(watcher, run.session_id, "idle")

    assert last["last_seq"] == len(run.entries)
    assert len(watcher.frames) < 200


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"type": "user_message", "content": "x"}, "already_attached"),
        ({"type": "run", "content": "x"}, "already_attached"),
        (WATCH, "already_attached"),
        ({"type": "watch", "agent": "x"}, "bad_message"),
        ("{", "bad_json"),
    ],
)
async def test_a_watcher_only_watches(frame: Any, code: str) -> None:
    async with Serving(talker()) as serving:
        watcher = await serving.connect(WATCH, frame)
        refused = await watcher.until("error")
        run = await serving.run()
        await run.end()
        await until_state(watcher, run.session_id, "idle")

    assert refused["code"] == code


async def test_a_session_does_not_watch() -> None:
    async with Serving(talker()) as serving:
        client = await serving.run()
        await client.send(WATCH)

        assert (await client.until("error"))["code"] == "already_attached"


async def test_a_watcher_is_closed_with_1001_when_the_server_stops() -> None:
    async with Serving(talker()) as serving:
        watcher = await serving.connect(WATCH)
        await watcher.until("watching")
        await serving.stop()

        assert await watcher.closed() == 1001
