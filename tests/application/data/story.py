"""What must hold of every journal and every history, told independently of the code under test."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agent_lab import DebugRuntime, tool
from agent_lab.application.journal import Entry
from agent_lab.domain.dialects import openai_chat
from agent_lab.domain.errors import QueueClosed
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import AnyPayload, Delivered, ModelRequested
from agent_lab.testing import open_runtime

ENDS = ("done", "error", "cancelled")


# -- tools ---------------------------------------------------------------------------------------


@tool
async def wait(seconds: float, then: str = "done") -> str:
    """Answers after some seconds."""
    await asyncio.sleep(seconds)
    return then


@tool
async def never() -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return "never said"


@tool
async def broken() -> str:
    """Raises."""
    raise ValueError("no such town")


TOOLS = [wait, never, broken]


# -- a session with somebody at its output -------------------------------------------------------


class Stage:
    """An open runtime whose output is taken as it comes."""

    def __init__(self, runtime: DebugRuntime) -> None:
        self.runtime = runtime
        self.taken: list[AnyPayload] = []
        self.checks = True

    @property
    def entries(self) -> Sequence[Entry]:
        return self.runtime.session.journal.read()[1]

    def said(self, *types: str) -> list[Any]:
        """Payloads in the order they were decided; of these types, if any are named."""
        payloads = [entry.payload for entry in self.entries]
        return [payload for payload in payloads if not types or payload.type in types]

    @property
    def story(self) -> list[tuple[str, ...]]:
        """The history in short: who said what, and which calls were made and answered how."""
        return [tuple(_short(message)) for message in self.runtime.history]

    @property
    def wire(self) -> list[dict[str, Any]]:
        """What the provider may see."""
        history = openai_chat.render(self.runtime.history)
        return history[self.runtime.session.conversation.start :]

    @property
    def requests(self) -> list[list[dict[str, Any]]]:
        """The messages of every request, as they would go on the wire."""
        return [asked.as_dict()["body"]["messages"] for asked in self.said("model_request")]

    def say(self, text: str, message_id: str | None = None, **how: Any) -> None:
        """A user message, by start() so that the first one starts the session."""
        self.runtime.start(ChatMessage("user", text, message_id=message_id, **how))

    async def until(self, kind: str, *, count: int = 1) -> None:
        """Wait until this many payloads of this type were decided."""
        await self._follow(lambda: len(self.said(kind)) >= count)

    async def settled(self) -> None:
        """Wait until no turn runs, no message waits and nothing lies in `input`."""
        session = self.runtime.session
        await self._follow(lambda: session.is_idle and not session.queues.input.qsize())

    async def closed(self) -> None:
        """Wait until the session is closed."""
        async for _ in self.runtime.follow():
            pass

    async def _follow(self, ready: Any) -> None:
        if not ready():
            async for _ in self.runtime.follow(self.runtime.session.journal.last_seq):
                if ready():
                    return
            raise AssertionError("the session closed before it came")

    async def drain(self) -> None:
        output = self.runtime.session.queues.output
        while True:
            try:
                self.taken.append(await output.get())
            except QueueClosed:
                return


@asynccontextmanager
async def stage(*args: Any, **given: Any) -> AsyncGenerator[Stage, None]:
    """As open_runtime, with a taker at `output`; on the way out every rule here is checked."""
    async with open_runtime(*args, **given) as runtime:
        scene = Stage(runtime)
        taker = asyncio.get_running_loop().create_task(scene.drain())
        yield scene
    await taker
    if not scene.checks:
        return
    payloads = [entry.payload for entry in scene.entries]
    assert [entry.seq for entry in scene.entries] == list(range(1, len(payloads) + 1))
    assert scene.taken == [payload for payload in payloads if payload.on_output]
    assert list(story_faults(payloads)) == []
    assert list(openai_faults(openai_chat.render(runtime.history))) == []


def _short(message: ChatMessage) -> Iterator[str]:
    yield message.role
    if message.role == "tool":
        yield message.tool_call_id or ""
        yield message.kind
    elif message.tool_calls:
        yield from (call.id for call in message.tool_calls)
    else:
        yield message.content or ""


# -- what a provider refuses ---------------------------------------------------------------------


def openai_faults(wire: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The rules of OpenAI Chat, without a look at how the history was made."""
    open_calls: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(wire):
        role, calls = message["role"], message.get("tool_calls")
        if role == "tool":
            if message["tool_call_id"] not in open_calls:
                yield f"{index}: a reply to no open call, {message['tool_call_id']!r}"
            else:
                open_calls.remove(message["tool_call_id"])
            if not isinstance(message["content"], str):
                yield f"{index}: a reply without text"
            continue
        if open_calls:
            yield f"{index}: {role} while {open_calls} are open"
            open_calls = []
        if calls is not None:
            open_calls = [call["id"] for call in calls]
            if not calls:
                yield f"{index}: no calls"
            if len(set(open_calls)) < len(open_calls) or seen & set(open_calls):
                yield f"{index}: a call id comes twice"
            seen.update(open_calls)
        elif not (message["content"] or "").strip():
            yield f"{index}: {role} says nothing"
    if open_calls:
        yield f"{open_calls} are open at the end"


# -- what a journal must tell --------------------------------------------------------------------


def story_faults(payloads: Sequence[AnyPayload]) -> Iterator[str]:
    """Faults of a whole session's story, from its first entry to its close."""
    yield from _receipts(payloads)
    yield from _turns(payloads)
    yield from _calls(payloads)
    yield from _requests(payloads)


def _receipts(payloads: Sequence[Any]) -> Iterator[str]:
    stories: dict[str, list[str]] = {}
    waiting: set[str] = set()
    for index, said in enumerate(payloads):
        match said.type:
            case "accepted":
                stories.setdefault(said.message_id, []).append("accepted")
                waiting.add(said.message_id)
            case "held":
                stories[said.message_id].append("held")
                if payloads[index - 1].type != "accepted":
                    yield f"{said.message_id} held, but not at once"
            case "delivered" | "withdrawn":
                stories[said.message_id].append("gone")
                waiting.remove(said.message_id)
            case "done" | "error" | "cancelled" if said.pending != len(waiting):
                yield f"turn {said.turn} ends with {said.pending} pending, {len(waiting)} wait"
    for message_id, story in stories.items():
        if story not in (["accepted", "gone"], ["accepted", "held", "gone"]):
            yield f"{message_id}: {story}"


def _turns(payloads: Sequence[Any]) -> Iterator[str]:
    ended = 0
    for said in payloads:
        if said.turn is not None and said.type != "late_reply" and said.turn != ended + 1:
            yield f"{said.type} of turn {said.turn} when {ended} have ended"
        if said.type in ENDS:
            ended += 1
    if payloads and payloads[-1].turn is not None and payloads[-1].type not in ENDS:
        yield "the last turn has no end"


def _calls(payloads: Sequence[Any]) -> Iterator[str]:
    counts: dict[str, Counter[tuple[Any, ...]]] = {
        "tool_call": Counter(),
        "tool_started": Counter(),
        "tool_reply": Counter(),
    }
    for said in payloads:
        if said.type not in counts:
            continue
        key = (said.turn, said.step, said.call_id)
        counts[said.type][key] += 1
        if said.type == "tool_started" and counts["tool_reply"][key]:
            yield f"{key} starts after its reply"
        if counts[said.type][key] > counts["tool_call"][key]:
            yield f"{key}: {said.type} too often"
    if counts["tool_call"] != counts["tool_reply"]:
        yield f"calls {counts['tool_call']} but replies {counts['tool_reply']}"


def _requests(payloads: Sequence[Any]) -> Iterator[str]:
    due: list[Delivered] = []
    for said in payloads:
        if isinstance(said, Delivered):
            due.append(said)
        elif isinstance(said, ModelRequested):
            request = said.request
            for told in due:
                there = request.messages[told.position]
                if told.position >= request.stop or there.message_id != told.message_id:
                    yield f"{told.message_id} is not at {told.position} of the next request"
            due = []
            sent = openai_chat.render(request.messages[: request.stop])[request.start :]
            yield from openai_faults(sent)
    if due:
        yield f"{due} went with no request"
