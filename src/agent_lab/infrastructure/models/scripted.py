"""A model that says what its script says: for tests, demos and bug reports."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from agent_lab.domain.errors import ModelError, ScriptExhausted
from agent_lab.domain.messages import (
    CallDelta,
    Finish,
    FinishReason,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCall,
    Usage,
)
from agent_lab.domain.thinking import Thinking


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call of a script: `arguments`, or `raw` for text that need not be JSON."""

    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None
    id: str | None = None


class ScriptedError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault instead of an answer, or after its first events."""

    code: str = "model_error"
    message: str = "the script says so"
    hint: str = ""
    may_pass: bool = False


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model call of a script. Times are seconds.

    `deltas` streams: strings are text, pairs `[index, text]` are pieces of calls (the first piece
    of an index is its id, the rest its arguments). `cut_after` ends the stream without a last
    event after that many events; `error` fails it there, or at once. `thinking` comes first; in a
    file each is an object whose `type` says which (domain/thinking.py).
    """

    text: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    finish: FinishReason | None = None
    delay: float = 0.0
    deltas: tuple[str | tuple[int, str], ...] | None = None
    delta_delay: float = 0.0
    cut_after: int | None = None
    error: ScriptedError | None = None
    usage: Usage | None = None
    thinking: tuple[Thinking, ...] = ()


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file format: `{"replies": [{"text": "Hello"}], "repeat_last": false}`."""

    replies: tuple[ScriptedReply, ...]
    repeat_last: bool = False
    name: str = "scripted"


class ScriptedModel:
    """Answers the n-th model call of a session with the n-th reply.

    It keeps nothing of its own, so one object serves many sessions at once. A retry is a call
    too. Past the last reply: `error script_exhausted`, unless `repeat_last`.
    """

    dialect: Literal["openai_chat"] = "openai_chat"

    def __init__(
        self,
        replies: Sequence[ScriptedReply | str],
        *,
        repeat_last: bool = False,
        name: str = "scripted",
    ) -> None:
        self.name = name
        self._replies = [
            ScriptedReply(text=said) if isinstance(said, str) else said for said in replies
        ]
        self._repeat_last = repeat_last
        for number, said in enumerate(self._replies):
            if fault := _fault(said):
                raise _unreadable(f"replies[{number}]: {fault}")

    @classmethod
    def from_file(cls, path: str | Path) -> "ScriptedModel":
        """Read a script; raises ModelError naming the file and the place at fault."""
        try:
            script = msgspec.json.decode(Path(path).read_bytes(), type=Script)
            return cls(script.replies, repeat_last=script.repeat_last, name=script.name)
        except (OSError, msgspec.MsgspecError, ModelError) as error:
            raise _unreadable(f"{str(Path(path).absolute())!r}: {error}") from error

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The script's next answer."""
        index = request.call - 1
        if index >= len(self._replies):
            if not (self._repeat_last and self._replies):
                raise ScriptExhausted(len(self._replies))
            index = len(self._replies) - 1
        async for event in play(self._replies[index]):
            yield event


async def play(said: ScriptedReply) -> AsyncGenerator[ModelEvent, None]:
    """One scripted reply as a model gives it: delay, pieces, cut or fault."""
    if said.delay:
        await asyncio.sleep(said.delay)
    if said.deltas is None and said.cut_after is None and said.error is None:
        calls = tuple(map(_call, said.calls))
        yield Reply(said.text, calls, said.finish, said.usage, said.thinking)
        return
    events = [*said.thinking, *_pieces(said)]
    if said.cut_after is not None:
        events = events[: said.cut_after]
    elif said.error is None:
        finish = said.finish or ("tool_calls" if said.calls else "stop")
        events = [*events, Finish(finish, said.usage)]
    for event in events:
        if said.delta_delay:
            await asyncio.sleep(said.delta_delay)
        yield event
    if said.error is not None:
        error = said.error
        raise ModelError(error.message, code=error.code, hint=error.hint, may_pass=error.may_pass)


def _fault(said: ScriptedReply) -> str | None:
    """What is wrong with a reply that reads well."""
    named = [delta[0] for delta in said.deltas or () if not isinstance(delta, str)]
    beyond = [index for index in named if not 0 <= index < len(said.calls)]
    if beyond:
        return f"deltas name call {beyond[0]}, and the reply makes {len(said.calls)}"
    return None


def _unreadable(what: str) -> ModelError:
    return ModelError(
        f"the script cannot be read: {what}",
        code="script_unreadable",
        hint='a script is {"replies": [{"text": "Hello"}]}',
    )


def _call(said: ScriptedCall) -> ToolCall:
    raw = said.raw if said.raw is not None else _json(said.arguments)
    return ToolCall(said.id or "", said.name, said.arguments, raw)


def _json(arguments: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(arguments), indent=0).decode()


def _pieces(said: ScriptedReply) -> list[ModelEvent]:
    if said.deltas is None:
        text: list[ModelEvent] = [TextDelta(said.text)] if said.text else []
        calls = [_call(call) for call in said.calls]
        return text + [
            CallDelta(index, call.id, call.name, call.raw or "") for index, call in enumerate(calls)
        ]
    events: list[ModelEvent] = []
    begun: set[int] = set()
    for delta in said.deltas:
        if isinstance(delta, str):
            events.append(TextDelta(delta))
            continue
        index, text_ = delta
        if index in begun:
            events.append(CallDelta(index, arguments=text_))
        else:
            begun.add(index)
            events.append(CallDelta(index, text_, said.calls[index].name))
    for index, call in enumerate(map(_call, said.calls)):
        if index not in begun:
            events.append(CallDelta(index, call.id, call.name, call.raw or ""))
    return events
