"""One model answer's tool calls and their replies, and what a closed call says."""

from collections.abc import Iterable
from typing import Any

import msgspec

from agent_lab.domain.messages import ChatMessage, Reply, ReplyKind, ToolCall, clean
from agent_lab.domain.payloads import ToolCalled

WHOLE = ("stop", "tool_calls", None)
"""Finish reasons after which calls run; after any other, a provider's own word too, none does."""


class Round:
    """The calls of one answer, by id in the order the model made them."""

    __slots__ = ("calls", "number", "replied", "step", "turn", "undispatched")

    def __init__(self, number: int, turn: int, step: int) -> None:
        self.number = number
        self.turn = turn
        self.step = step
        self.calls: dict[str, ToolCall] = {}
        self.replied: dict[str, ChatMessage] = {}
        """Replies by the call's id, in whatever order they came."""
        self.undispatched: dict[str, ToolCalled] = {}
        """Calls that are not on `events` yet."""

    @property
    def open(self) -> tuple[str, ...]:
        """Ids of the calls without a reply, in call order."""
        replied = self.replied
        if not replied:
            return tuple(self.calls)
        return tuple(call_id for call_id in self.calls if call_id not in replied)

    def completed(self, reply: ChatMessage) -> ChatMessage:
        """The reply as it stands in the history: with its call's name and round, and clean."""
        said = reply.content or ""
        if reply.round == self.number and reply.name and said.isascii():
            return reply
        return ChatMessage(
            "tool",
            clean(said),
            tool_call_id=reply.tool_call_id,
            name=self.calls[reply.tool_call_id or ""].name,
            kind=reply.kind,
            is_error=reply.is_error,
            round=self.number,
        )

    def replies(self) -> list[ChatMessage]:
        """The replies there are, in call order."""
        replied = self.replied  # in C: a comprehension is a call more, each turn
        return list(map(replied.__getitem__, filter(replied.__contains__, self.calls)))


def closing_reply(
    call: ToolCall, kind: ReplyKind, number: int | None, *, detail: str = ""
) -> ChatMessage:
    """The reply that closes a call nobody answered; the texts are one table."""
    return ChatMessage(
        "tool",
        closing_text(call.name, kind, detail),
        tool_call_id=call.id,
        name=call.name,
        kind=kind,
        is_error=True,
        round=number,
    )


def closing_text(name: str, kind: ReplyKind, detail: str = "") -> str:
    """What the model reads instead of a result."""
    match kind:
        case "timeout":
            return f"Error: timed out after {detail} s"
        case "cancelled":
            return "Error: cancelled by the user"
        case "lost":
            return "Error: no result (the process stopped while the tool ran)"
        case "unknown_tool":
            return f"Error: unknown tool {name}"
        case "bad_arguments":
            return f"Error: the arguments were not valid JSON: {detail}"
        case "truncated":
            return "Error: the call was cut off by the output limit; send it again in full"
        case "error" | "result":
            return f"Error: {detail}"


def parse_calls(
    reply: Reply, number: int, known: Iterable[str]
) -> tuple[tuple[ToolCall, ...], list[ChatMessage]]:
    """An answer's calls as they will stand in the history, and replies to those that cannot run.

    Ids are made unique in the answer, arguments are objects.
    """
    calls: list[ToolCall] = []
    closed: list[ChatMessage] = []
    seen: set[str] = set()
    cut = reply.finish_reason not in WHOLE
    for index, said in enumerate(reply.tool_calls):
        call_id = clean(said.id) or f"call_{number}_{index}"
        if call_id in seen:
            call_id = _unique(call_id, seen)
        seen.add(call_id)
        call, bad = _with_arguments(said, call_id)
        calls.append(call)
        if cut:
            closed.append(closing_reply(call, "truncated", number))
        elif call.name not in known:
            closed.append(closing_reply(call, "unknown_tool", number))
        elif bad is not None:
            closed.append(closing_reply(call, "bad_arguments", number, detail=bad))
    return tuple(calls), closed


def _unique(call_id: str, seen: set[str]) -> str:
    name, count = call_id, 1
    while name in seen:
        count += 1
        name = f"{call_id}-{count}"
    return name


_decode = msgspec.json.Decoder(dict[str, Any]).decode


def _with_arguments(said: ToolCall, call_id: str) -> tuple[ToolCall, str | None]:
    """The call with its raw text read, and the raw text if it is no JSON object.

    Blank text and `null` mean no arguments, as providers send them for tools without parameters.
    Of a key that comes twice the last value counts.
    """
    raw, name = said.raw, clean(said.name)
    try:
        if raw is None:  # made in Python: what is no JSON could neither be sent nor be written down
            msgspec.json.encode(said.arguments)
            return ToolCall(call_id, name, said.arguments), None
        return ToolCall(call_id, name, _decode(raw), raw), None
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError, ValueError) as error:
        bad = str(error) if raw is None else raw
        return ToolCall(call_id, name), clean(bad) if bad.strip() not in ("", "null") else None
