"""Server-sent events out of a provider's bytes, whatever pieces they come in.

Lines end at CR, LF or CRLF and nowhere else: U+2028 and U+0085 are legal inside JSON and cut a
line of `httpx` in two (T26). Bytes that are no UTF-8 and events without an end are refused, not
guessed at. WHATWG HTML, "Server-sent events", 9.2.5 and 9.2.6.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from agent_lab.domain.errors import ModelError

EVENT_SIZE = 8 << 20
"""Bytes of one event; a longer one is refused as `provider_too_large`."""

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class ServerEvent(NamedTuple):
    """One event: its `event` field, empty if it had none, and its `data` lines joined.

    `is_whole` is false for what the end of the stream left open: it may be half an event.
    """

    name: str
    data: str
    is_whole: bool = True


class EventSplitter:
    """Takes bytes, gives the events that are whole. Comments and empty events are left out."""

    __slots__ = ("_begun", "_data", "_held", "_name", "_size")

    def __init__(self) -> None:
        self._held = bytearray()  # the last line, as far as it came
        self._name = ""
        self._data: list[str] = []
        self._size = 0
        self._begun = False

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """The events that end in this piece; raises ModelError."""
        held = self._held
        held += piece
        if not self._begun:
            if len(held) < len(_BOM) and _BOM.startswith(held):
                return
            self._begun = True
            if held.startswith(_BOM):
                del held[: len(_BOM)]
        start = 0
        for found in _LINE_END.finditer(held, max(0, len(held) - len(piece) - 1)):
            if found.end() == len(held) and found[0] == b"\r":
                break  # its LF may still come
            line = bytes(held[start : found.start()])
            start = found.end()
            if line:
                self._take(line)
            elif event := self._dispatch():
                yield event
        if start:
            del held[:start]
        if len(held) + self._size > EVENT_SIZE:
            raise _too_large()

    def flush(self) -> ServerEvent | None:
        """The event that the end of the stream left open, if there is one."""
        if line := bytes(self._held).rstrip(b"\r"):
            self._take(line)
        self._held.clear()
        event = self._dispatch()
        return event and event._replace(is_whole=False)

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name not in (b"data", b"event"):
            return
        try:
            text = value.removeprefix(b" ").decode()
        except UnicodeDecodeError as error:
            raise ModelError(
                f"the provider's stream is no UTF-8: {error}",
                code="provider_bad_stream",
                hint="look at what stands between you and the provider",
                may_pass=True,
            ) from error
        if name == b"event":
            self._name = text
            return
        self._data.append(text)
        self._size += len(line) + 1

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data, self._size = "", [], 0
        return ServerEvent(name, "\n".join(data)) if data else None


def _too_large() -> ModelError:
    return ModelError(
        f"one event of the provider's stream is longer than {EVENT_SIZE} bytes",
        code="provider_too_large",
        hint="look at what stands between you and the provider",
    )
