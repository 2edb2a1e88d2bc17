"""Journal entries as JSON lines: each encoded once, when the first reader asks.

A `model_request` is rendered then too. The history only grows, so each message is written once and
a body is a piece of what was written; what is too long for a frame is cut to its last messages, and
`omitted` says how many are not shown.
"""

from datetime import UTC, datetime

import msgspec
from msgspec import structs

from agent_lab.application.journal import Entry, HandOff, item_id
from agent_lab.domain.dialects import OWN_BODY, body_with, render_body
from agent_lab.domain.dialects.openai_chat import Writer
from agent_lab.domain.messages import ChatMessage, ModelRequest
from agent_lab.domain.payloads import ModelRequested, ToolCalled
from agent_lab.domain.redaction import SECRETS

BODY_LIMIT = 256 << 10
"""Bytes of messages that a frame carries whole (contract, "Entries and the WebSocket")."""
SHOWN = 64
"""Messages that a longer one is cut to."""

_encode = msgspec.json.Encoder().encode


class Encoder:
    """Writes the entries of one session; share it between all readers of that session.

    `offset` is wall time less loop time, in seconds, taken once: the loop's clock does the rest.
    """

    def __init__(self, session_id: str, offset: float) -> None:
        self._session = f',"session_id":{_text(session_id)},"at":"'
        self._offset = offset
        self._writer = Writer()
        self._written = bytearray()  # every message so far, each with a comma behind it
        self._ends = [0]  # where message n begins in it
        self._last: tuple[int, str] = (0, "")
        self._second: int = -1
        self._stamp: int = -1
        self._until = ""
        self._asked: tuple[object, ...] | None = None
        self._said = ("", "", "")
        self._head = ""
        self._where: tuple[int | None, int | None] | None = None
        self._at = ""
        self._item: ChatMessage | ToolCalled | None = None
        self._id = ""

    def encode(self, entry: Entry) -> str:
        """The entry as one JSON object: `seq`, `session_id`, `at`, then its payload."""
        if entry.encoded is not None:
            return entry.encoded
        payload = entry.said
        if type(payload) is ModelRequested:
            return self._request(entry, payload)
        stamp = int((entry.at + self._offset) * 1000)
        if stamp != self._stamp:
            self._new_head(stamp)
        said = self._hand_off(payload) if type(payload) is tuple else _encode(payload).decode()
        if SECRETS.forms and SECRETS.are_in(said):
            said = _hidden(said)
        entry.encoded = text = f'{{"seq":{entry.seq}{self._head},{said[1:]}'
        return text

    def whole_body(self, request: ModelRequest) -> str:
        """The whole request body of a `model_request`, however long."""
        return self._body(request, request.start)

    def _new_head(self, stamp: int) -> None:
        """Session and time, which all entries of one millisecond share."""
        second, milliseconds = divmod(stamp, 1000)
        if second != self._second:
            self._second = second
            self._until = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        self._stamp = stamp
        self._head = f'{self._session}{self._until}.{milliseconds:03d}Z"'

    def _hand_off(self, said: HandOff) -> str:
        """A `queue` payload, without making one; a put and its take mostly follow each other."""
        queue, op, item, depth, where = said
        if where is not self._where:
            self._where, (turn, step) = where, where
            self._at = f'"turn":{_number(turn)},"step":{_number(step)}'
        if item is not self._item:
            self._item, self._id = item, _text(item_id(item))
        return (
            f'{{"type":"queue",{self._at},"queue":"{queue}","op":"{op}",'
            f'"item":{self._id},"depth":{depth}}}'
        )

    def _request(self, entry: Entry, payload: ModelRequested) -> str:
        """Not kept with the entry, which would cost the square of the history; the newest is."""
        if self._last[0] == entry.seq:
            return self._last[1]
        request = payload.request
        self._write(request)
        start, omitted = request.start, 0
        if self._ends[request.stop] - self._ends[start] > BODY_LIMIT:
            start = max(start, request.stop - SHOWN)
            omitted = start - request.start
        stamp = int((entry.at + self._offset) * 1000)
        if stamp != self._stamp:
            self._new_head(stamp)
        proof = f'"sha256":{_text(request.wire.sha256)},' if request.wire else ""
        body = self._body(
            request,
            start,
            f'{{"seq":{entry.seq}{self._head},"type":"model_request","turn":{payload.turn},'
            f'"step":{payload.step},{proof}"omitted":{omitted}',
        )
        self._last = (entry.seq, body)
        return body

    def _body(self, request: ModelRequest, start: int, entry: str = "") -> str:
        """The body alone, or the entry that has it; long, so that it is put together once."""
        if request.dialect in OWN_BODY:
            body = hidden_text(render_body(structs.replace(request, start=start)))
            return f'{entry},{_named(request)},"body":{body}}}' if entry else body
        self._write(request)
        named, before, system = self._around(request)
        begin, end = self._ends[start], self._ends[request.stop]
        messages = str(memoryview(self._written)[begin : max(begin, end - 1)], "utf-8")
        comma = "," if system and messages else ""
        if not entry:
            return f'{before},"messages":[{system}{comma}{messages}]}}'
        return f'{entry},{named},"body":{before},"messages":[{system}{comma}{messages}]}}}}'

    def _around(self, request: ModelRequest) -> tuple[str, str, str]:
        """Dialect and model, what stands before the messages, and the system message.

        They are nearly always those of the last request.
        """
        options = request.wire.options if request.wire else None
        asked = (request.model, request.instructions, request.tools, options, SECRETS.forms)
        if asked != self._asked:
            around = body_with(request, [])
            first = around.pop("messages")
            system = hidden_text(first[0]) if first else ""
            self._said = _named(request), hidden_text(around)[:-1], system
            self._asked = asked
        return self._said

    def _write(self, request: ModelRequest) -> None:
        """Write the messages that are new."""
        written, ends = self._written, self._ends
        for message in request.messages[len(ends) - 1 : request.stop]:
            said = self._writer.write(message)
            written += hidden_text(said).encode() if SECRETS.forms else _encode(said)
            written += b","
            ends.append(len(written))


def hidden_text(said: object) -> str:
    """As JSON, without the secrets of this process."""
    text = _text(said)
    return _text(SECRETS.hide_in(msgspec.json.decode(text))) if SECRETS.are_in(text) else text


def _hidden(payload: str) -> str:
    """A payload without secrets; what it is and where it belongs stays readable."""
    said = msgspec.json.decode(payload)
    kept = {name: said[name] for name in ("type", "turn", "step")}
    return _text({**SECRETS.hide_in(said), **kept})


def _named(request: ModelRequest) -> str:
    return f'"dialect":{_text(request.dialect)},"model":{_text(request.model)}'


def _number(number: int | None) -> str:
    return "null" if number is None else str(number)


def _text(said: object) -> str:
    return _encode(said).decode()
