"""Journal entries as JSON lines: each encoded once, when the first reader asks.

A `model_request` is rendered then too. The history only grows, so each message is written once and
a body is those pieces joined; what is too long for a frame is cut to its last messages and says so.
"""

from datetime import UTC, datetime

import msgspec

from agent_lab.application.journal import Entry
from agent_lab.domain.dialects import body_with
from agent_lab.domain.dialects.openai_chat import Writer
from agent_lab.domain.messages import ChatMessage, ModelRequest
from agent_lab.domain.payloads import ModelRequested

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
        self._session = _encode(session_id).decode()
        self._offset = offset
        self._writer = Writer()
        self._pieces: list[bytes] = []
        self._sizes: list[int] = [0]
        self._last: tuple[int, str] = (0, "")
        self._second = (-1, "")

    def encode(self, entry: Entry) -> str:
        """The entry as one JSON object: `seq`, `session_id`, `at`, then its payload."""
        if entry.encoded is not None:
            return entry.encoded
        if isinstance(entry.payload, ModelRequested):
            return self._request(entry, entry.payload)
        payload = _encode(entry.payload).decode()
        entry.encoded = text = f"{self._head(entry)},{payload[1:]}"
        return text

    def whole_body(self, request: ModelRequest) -> bytes:
        """The whole request body of a `model_request`, however long."""
        return self._body(request, request.start)

    def _head(self, entry: Entry) -> str:
        wall = entry.at + self._offset
        second = int(wall)
        if self._second[0] != second:
            said = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second = (second, said)
        milliseconds = int((wall - second) * 1000)
        at = f"{self._second[1]}.{milliseconds:03d}Z"
        return f'{{"seq":{entry.seq},"session_id":{self._session},"at":"{at}"'

    def _request(self, entry: Entry, payload: ModelRequested) -> str:
        """Not kept with the entry, which would cost the square of the history; the newest is."""
        if self._last[0] == entry.seq:
            return self._last[1]
        request = payload.request
        self._write(request.messages, request.stop)
        start, omitted = request.start, 0
        if self._sizes[request.stop] - self._sizes[start] > BODY_LIMIT:
            start = max(start, request.stop - SHOWN)
            omitted = start - request.start
        body = self._body(request, start)
        cut = f',"omitted":{omitted}' if omitted else ""
        text = (
            f'{self._head(entry)},"type":"model_request","turn":{payload.turn},"step":{payload.step},'
            f'"dialect":{_text(request.dialect)},"model":{_text(request.model)}{cut},'
            f'"body":{body.decode()}}}'
        )
        self._last = (entry.seq, text)
        return text

    def _body(self, request: ModelRequest, start: int) -> bytes:
        self._write(request.messages, request.stop)
        around = body_with(request, [])
        system = [_encode(message) for message in around.pop("messages")]
        messages = b",".join(system + self._pieces[start : request.stop])
        return _encode(around)[:-1] + b',"messages":[' + messages + b"]}"

    def _write(self, history: list[ChatMessage], stop: int) -> None:
        """Write the messages that are new."""
        pieces, sizes = self._pieces, self._sizes
        for message in history[len(pieces) : stop]:
            piece = _encode(self._writer.write(message))
            pieces.append(piece)
            sizes.append(sizes[-1] + len(piece) + 1)


def _text(said: str) -> str:
    return _encode(said).decode()
