"""The same arrivals through the WebSocket, `input.put` and Conversation give the same history."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from agent_lab import Agent, ChatMessage, DebugRuntime, Limits, ToolCall
from agent_lab.domain.actions import AwaitInput, AwaitReplies, CallModel, EndTurn, RunTools
from agent_lab.domain.conversation import Conversation
from agent_lab.domain.dialects.openai_chat import render
from agent_lab.domain.errors import MessageRejected
from agent_lab.domain.messages import Mode, Reply
from agent_lab.testing import ScriptedModel, call, reply
from tests.presentation.helpers_server import Doors, Frame, Serving

CALLS = ("c1", "c2", "c3")
MODES: tuple[Mode, ...] = ("steer", "steer", "follow_up", "reject")
FIRST: Frame = {"type": "user_message", "content": "Look", "message_id": "m0", "mode": "steer"}


def arrivals(seed: int) -> list[Frame]:
    """What a client says while three tools run; one call at least stays open all the time."""
    chance = random.Random(seed)
    frames: list[Frame] = []
    for number in range(1, 12):
        old = f"m{chance.randrange(number + 1)}"
        content = f"say {number}" if chance.random() < 0.9 else " "
        said = {"type": "user_message", "content": content, "mode": chance.choice(MODES)}
        frames += chance.choices(
            [
                {**said, "message_id": f"m{number}"},
                {**said, "message_id": old},
                {"type": "withdraw", "message_id": old},
                {"type": "edit", "message_id": old, "content": f"edit {number}"},
                {"type": "cancel_tool", "call_id": chance.choice(CALLS[1:])},
            ],
            weights=[10, 1, 2, 2, 1],
        )
    return frames


def looker(doors: Doors) -> Agent:
    calls = [call("look", key, place=key) for key in CALLS]
    model = ScriptedModel([reply("Hm.", calls=calls), "So."], repeat_last=True)
    return Agent("looker", model=model, tools=[doors.look])


def message(frame: Frame) -> ChatMessage:
    return ChatMessage("user", frame["content"], mode=frame["mode"], message_id=frame["message_id"])


# -- three ways in -------------------------------------------------------------------------------


async def by_socket(frames: Sequence[Frame]) -> list[Any]:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        client = await serving.run(FIRST["content"], message_id=FIRST["message_id"])
        await client.until("tool_started", call_id="c3")
        for frame in frames:
            await client.send(frame)
        await client.send({"type": "withdraw", "message_id": "nothing"})
        await client.until("error", message=NOTHING)
        doors.door.set()
        await client.end()
        return render(serving.agents.session(client.session_id).runtime.history)


NOTHING = "message 'nothing' does not wait: it was delivered or withdrawn, or never accepted"


async def by_input(frames: Sequence[Frame]) -> list[Any]:
    doors = Doors()
    async with DebugRuntime(looker(doors)) as runtime, asyncio.timeout(5):
        queues = runtime.start(message(FIRST))
        await doors.inside()
        for frame in frames:
            match frame["type"]:
                case "user_message":
                    with suppress(MessageRejected):
                        await queues.input.put(message(frame))
                case "withdraw":
                    runtime.withdraw(frame["message_id"])
                case "edit":
                    runtime.edit(frame["message_id"], frame["content"])
                case _:
                    runtime.cancel_tool(frame["call_id"])
        doors.door.set()
        while getattr(await queues.output.get(), "pending", 1):
            pass
        return render(runtime.history)


def by_conversation(frames: Sequence[Frame]) -> list[Any]:
    calls = tuple(ToolCall(key, "look", {"place": key}, f'{{"place": "{key}"}}') for key in CALLS)
    talk, pending = Conversation({"look"}, Limits()), list(frames)
    _arrive(talk, FIRST)
    while True:
        match talk.next_action():
            case CallModel():
                talk.begin_call()
                answer = Reply("Hm.", calls) if talk.call == 1 else Reply("So.")
                talk.hear(talk.call, answer)
                talk.answered(talk.call)
            case RunTools(calls=due):
                talk.calls.dispatched(due[0])
            case AwaitReplies(open=waiting):
                for frame in pending:
                    _arrive(talk, frame)
                pending.clear()
                for key in waiting:
                    said = ChatMessage("tool", f"seen {key}", tool_call_id=key, name="look")
                    talk.receive(said)
            case EndTurn():
                talk.end_turn()
            case AwaitInput():
                return render(talk.history)


def _arrive(talk: Conversation, frame: Frame) -> None:
    match frame["type"]:
        case "user_message":
            talk.accept(message(frame))
            talk.receive(message(frame))
        case "withdraw":
            talk.withdraw(frame["message_id"])
        case "edit":
            talk.edit(frame["message_id"], frame["content"], hop=None, why="")
        case _:
            talk.close_call(talk.calls.round, frame["call_id"], "cancelled")


@pytest.mark.parametrize("seed", range(6))
async def test_the_same_arrivals_give_the_same_history_whichever_way_they_come(seed: int) -> None:
    frames = arrivals(seed)

    expected = by_conversation(frames)
    assert await by_socket(frames) == expected
    assert await by_input(frames) == expected
