"""Each scenario of data/scenarios.json, live on a virtual clock: the wire history is right."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from agent_lab import Agent, ChatMessage, Limits, tool
from agent_lab.testing import ScriptedModel, assert_provider_valid, call, fail, reply, simulate
from tests.application.data.story import Stage, stage

SCENARIOS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "scenarios.json").read_text(encoding="utf-8")
)["scenarios"]
OUTPUT = "the tool's output"
LONG_AFTER = 60.0
DONE = {"role": "assistant", "content": "done"}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[said["id"] for said in SCENARIOS])
def test_wire_history_is_what_openai_chat_expects(scenario: dict[str, Any]) -> None:
    session = simulate(Play(scenario).run)

    expected = filled_in(scenario)
    if scenario["request_ready"]:
        assert session.requests[-1] == expected
    answered = scenario["request_ready"] and not session.said("error")
    assert session.wire == ([*expected, DONE] if answered else expected)
    assert_provider_valid(session.wire, "openai_chat")


class Play:
    """One scenario: its script, and what arrives when."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self.scenario = scenario
        self.replies = [as_reply(said) for said in scenario["script"]["model"]]
        self.saved: list[ChatMessage] = []
        self.viewer: asyncio.Task[None] | None = None
        self.seen: list[int] = []

    async def run(self) -> Stage:
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            self.stack = stack
            self.on = await stack.enter_async_context(stage(self.agent(self.replies)))
            self.reconnect()
            self.on.say("text u1", "u1")
            for arrival in self.scenario["arrivals"]:
                await asyncio.sleep(arrival["t"] - loop.time())
                await self.arrive(arrival)
            await self.on.settled()
            await asyncio.sleep(LONG_AFTER)
        if self.viewer is not None:
            await self.viewer
            assert self.seen == [entry.seq for entry in self.on.entries]
        return self.on

    def agent(self, replies: list[Any]) -> Agent:
        script = self.scenario["script"]
        limits = [spec["limit"] for spec in script["tools"].values() if "limit" in spec]
        chosen = Limits(
            tool_timeout=limits[0] if limits else 60, window=3 if "window" in script else None
        )
        tools = [weather(script)]
        return Agent("scenario", model=ScriptedModel(replies), tools=tools, limits=chosen)

    async def arrive(self, arrival: dict[str, Any]) -> None:
        match arrival["kind"]:
            case "user":
                mode = "interrupt" if self.scenario["policy"] == "interrupt" else "steer"
                said = arrival["id"]
                message = ChatMessage("user", f"text {said}", message_id=said, mode=mode)
                if self.on.entries:
                    await self.on.runtime.session.queues.input.put(message)
                else:  # resumed: nothing runs before start()
                    self.on.runtime.start(message)
            case "tool_result":
                late = ChatMessage("tool", "late", tool_call_id=arrival["for"])
                await self.on.runtime.session.queues.input.put(late)
            case "cancel":
                self.on.runtime.cancel()
            case "disconnect":
                await self.disconnect()
            case "reconnect":
                self.reconnect()
            case "crash":
                self.saved = self.on.runtime.history
                await self.disconnect()
            case "resume":
                resumed = stage(self.agent([]), history=self.saved)
                self.on = await self.stack.enter_async_context(resumed)
            case kind:
                raise AssertionError(kind)

    async def disconnect(self) -> None:
        assert self.viewer is not None
        self.viewer.cancel()
        await asyncio.wait([self.viewer])
        self.viewer = None
        if self.scenario["policy"] == "cancel_on_disconnect":
            self.on.runtime.cancel()

    def reconnect(self) -> None:
        async def view() -> None:
            async for batch in self.on.runtime.follow(self.seen[-1] if self.seen else 0):
                assert isinstance(batch, list)
                self.seen += [entry.seq for entry in batch]

        self.viewer = asyncio.get_running_loop().create_task(view())


def as_reply(said: dict[str, Any]) -> Any:
    if "http" in said:
        return fail(f"http_{said['http']}", may_pass=True)
    calls = [
        call(made["name"], made["id"], _raw=made.get("raw_args"), **made.get("args", {}))
        for made in said.get("calls", ())
    ]
    if "cut_at" in said:  # more would have come a moment after the cut
        return reply(deltas=[said["text"], "warm."], delta_delay=said["cut_at"] * 0.75)
    deltas: Any = [tuple(delta) for delta in said["deltas"]] if "deltas" in said else None
    return reply(
        said.get("text"),
        calls=calls,
        finish=said["finish"],
        deltas=deltas,
        cut_after=1 if said.get("dropped") else None,
    )


def weather(script: dict[str, Any]) -> Callable[..., Any]:
    """The one tool; how long a call takes and what it comes to goes by its town."""
    by_town = {
        made["args"]["city"]: script["tools"].get(made["id"])
        for said in script["model"]
        for made in said.get("calls", ())
        if "city" in made.get("args", {})
    }

    @tool
    async def get_weather(city: str) -> str:
        """The weather in a town."""
        spec = by_town[city]
        assert spec is not None, f"the call for {city} was to run no tool"
        await asyncio.sleep(spec["latency"])
        if "error" in spec:
            raise ValueError(spec["error"])
        return spec.get("output", OUTPUT)

    return get_weather


def filled_in(scenario: dict[str, Any]) -> list[dict[str, Any]]:
    """expected_wire, with what the file leaves open."""
    made = {
        call["id"]: call for said in scenario["script"]["model"] for call in said.get("calls", ())
    }
    wire = json.loads(json.dumps(scenario["expected_wire"]["openai_chat"]))
    for message in wire:
        if message["role"] == "tool":
            call_id = message["tool_call_id"].removesuffix("-2")
            spec = scenario["script"]["tools"].get(call_id, {})
            for gap, filling in (
                (OUTPUT, spec.get("output", OUTPUT)),
                ("<exception text>", spec.get("error", "")),
                ("<limit>", str(spec.get("limit"))),
                ("<raw>", made.get(call_id, {}).get("raw_args", "")),
                ("<name>", made.get(call_id, {}).get("name", "")),
            ):
                message["content"] = message["content"].replace(gap, filling)
        elif message["content"] == "...":
            message["content"] = "done"
    return wire
