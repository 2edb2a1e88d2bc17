"""Call ids and names on the wire: no id used twice, and only such as the provider takes."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from agent_lab.domain.messages import ChatMessage, ToolCall

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch
_BAD_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


class CallIds:
    """Gives each call its id on the wire, and each reply that of its call.

    Some servers number calls anew each turn; a repeat is renamed (`call_0`, `call_0-2`) on the
    wire only. Replies pair with the calls of the last assistant message that made any.
    """

    __slots__ = ("_calls", "_fit", "_used", "_wire")

    def __init__(self, fit: Callable[[str], str]) -> None:
        self._fit = fit
        self._used: set[str] = set()
        self._calls: dict[str, ToolCall] = {}
        self._wire: dict[str, str] = {}

    def open_round(self, calls: Iterable[ToolCall]) -> list[tuple[str, ToolCall]]:
        """The calls of a message with their ids on the wire, in their order."""
        named = [(self._fresh(call.id), call) for call in calls]
        self._calls, self._wire = {}, {}
        for wire_id, call in named:
            self._calls.setdefault(call.id, call)
            self._wire.setdefault(call.id, wire_id)
        return named

    def in_call_order(self, replies: Sequence[ChatMessage]) -> list[tuple[str, ChatMessage]]:
        """Replies with the ids they name; those to no call of the round come last, as they are."""
        places = {call: place for place, call in enumerate(self._calls)}
        ordered = sorted(replies, key=lambda r: places.get(r.tool_call_id or "", len(places)))
        return [(self._of_reply(reply.tool_call_id or ""), reply) for reply in ordered]

    def name_of(self, reply: ChatMessage) -> str:
        """The function that a reply answers."""
        call = self._calls.get(reply.tool_call_id or "")
        return wire_name((call.name if call else reply.name) or "")

    def _of_reply(self, call_id: str) -> str:
        return self._wire.get(call_id) or self._fit(call_id)

    def _fresh(self, call_id: str) -> str:
        stem = self._fit(call_id)
        name, count = stem, 1
        while name in self._used:
            count += 1
            name = f"{stem}-{count}"
        self._used.add(name)
        return name


def runs(messages: Sequence[ChatMessage]) -> Iterator[tuple[int, bool, list[ChatMessage]]]:
    """Tool replies in a row, and what stands between them; each with its place."""
    place = 0
    for is_reply, group in groupby(messages, lambda message: message.role == "tool"):
        run = list(group)
        yield place, is_reply, run
        place += len(run)


def wire_name(name: str) -> str:
    """A call's name as every provider takes it.

    A made-up one (`functions.wait`, an empty one) would be refused in every later request ("string
    does not match pattern '^[a-zA-Z0-9_-]+$'", mcp-use/mcp-use#90; "string too long",
    ravitemer/mcphub.nvim#243).
    """
    if _NAME(name):
        return name
    return _BAD_CHARACTER.sub("_", name)[:64] or "unnamed"


def failed(reply: ChatMessage) -> bool:
    """Whether a reply tells of a failure: the tool's own, or that it has no result."""
    return reply.is_error or reply.kind != "result"
