"""What tests of the runtime share: a simulated test, a session's story, and OpenAI's rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from functools import wraps
from typing import Any, ParamSpec

from agent_lab import ChatMessage, DebugRuntime
from agent_lab.domain.dialects.openai_chat import render
from agent_lab.domain.payloads import AnyPayload, ModelRequested
from agent_lab.testing import simulate

P = ParamSpec("P")
ENDS = ("done", "error", "cancelled")


def simulated(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test on the simulated loop: its waits cost nothing, and one that never ends is named."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        simulate(lambda: test(*args, **kwargs))

    return run


# -- the story -----------------------------------------------------------------------------------


def said(runtime: DebugRuntime, *types: str) -> list[Any]:
    """The journal's payloads, oldest first; of these types, if any are named."""
    payloads = [entry.payload for entry in runtime.session.journal.read()[1]]
    return [payload for payload in payloads if not types or payload.type in types]


def story(runtime: DebugRuntime, *types: str) -> list[str]:
    """Types of the journal's payloads, of these if any are named."""
    return [payload.type for payload in said(runtime, *types)]


async def until(runtime: DebugRuntime, kind: str, *, count: int = 1) -> Any:
    """Wait until so many payloads of this type are in the journal, and give the last of them."""
    await _when(runtime, lambda: len(said(runtime, kind)) >= count)
    return said(runtime, kind)[-1]


async def settled(runtime: DebugRuntime, *, seconds: float = 5) -> None:
    """Wait until no turn runs and no message waits; more than 5 s only on a virtual clock."""
    await _when(runtime, lambda: runtime.session.is_idle, seconds)


async def _when(runtime: DebugRuntime, ready: Callable[[], bool], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds), aclosing(runtime.follow()) as entries:  # type: ignore[type-var]  # a generator
        async for _ in entries:
            if ready():
                return
    raise AssertionError(f"the session closed before that came; it said {story(runtime)}")


async def take_turn(runtime: DebugRuntime) -> list[AnyPayload]:
    """Take payloads from `output` to the end of a turn that leaves nothing pending."""
    taken: list[AnyPayload] = []
    async with asyncio.timeout(5):
        while True:
            taken.append(payload := await runtime.session.queues.output.get())
            if payload.type in ENDS and not getattr(payload, "pending", 0):
                return taken


async def turn(runtime: DebugRuntime, content: str = "go") -> list[str]:
    """Say something and give the types that came on `output` to the turn's end."""
    runtime.start(content)
    return [payload.type for payload in await take_turn(runtime)]


async def ticks(count: int = 10) -> None:
    """Let the loop go round so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


def briefly(history: Sequence[ChatMessage]) -> list[tuple[str, str | None]]:
    """Role and text of each message; for an answer with calls, their ids."""
    return [
        (message.role, message.content or ",".join(call.id for call in message.tool_calls))
        for message in history
    ]


# -- OpenAI's rules, told once more and on their own ---------------------------------------------


def assert_valid(runtime: DebugRuntime) -> None:
    """No request of the session, and not its history as it stands, would be refused."""
    for asked in said(runtime, "model_request"):
        assert isinstance(asked, ModelRequested)
        assert faults(asked.as_dict()["body"]["messages"]) == []
    assert faults(render(runtime.session.conversation.history)) == []


def faults(messages: Sequence[dict[str, Any]]) -> list[str]:
    """What Chat Completions refuses in these messages: pairing, order, emptiness, shapes."""
    found: list[str] = []
    wanted: list[str] = []  # ids of the last answer's calls that have no reply yet, in order
    used: set[str] = set()
    for index, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "tool":
            if not wanted or message["tool_call_id"] != wanted[0]:
                found.append(f"{index}: reply to {message['tool_call_id']!r}, wanted {wanted}")
            else:
                wanted.pop(0)
            if not isinstance(content, str):
                found.append(f"{index}: a reply without text")
            continue
        if wanted:
            found.append(f"{index}: {role} before the replies to {wanted}")
            wanted = []
        calls = message.get("tool_calls", [])
        if role not in ("system", "user", "assistant"):
            found.append(f"{index}: role {role!r}")
        if not (content or calls):
            found.append(f"{index}: {role} says nothing")
        if "tool_calls" in message and (role != "assistant" or not calls):
            found.append(f"{index}: {role} with tool_calls {calls}")
        for call in calls:
            wanted.append(call["id"])
            if call["id"] in used:
                found.append(f"{index}: id {call['id']!r} used twice")
            used.add(call["id"])
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                found.append(f"{index}: arguments of {call['id']!r} are no object")
    if wanted:
        found.append(f"end: no reply to {wanted}")
    return found
