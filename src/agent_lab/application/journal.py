"""The story of a session: numbered entries, kept, and read by any number of cursors.

A log, not a work queue: every reader sees every entry. Nothing is encoded before somebody reads
it, and then once. Appending never waits, so a slow reader costs the agent nothing; what memory
has let go of is told to the reader as a `Gap`.
"""

from asyncio import Future, get_running_loop
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal

import msgspec

from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import (
    Accepted,
    AnyPayload,
    Assistant,
    Edited,
    Imported,
    LateReply,
    PermissionResolved,
    QueueOp,
    Text,
    ToolCalled,
    ToolReplied,
)

_OVERHEAD = 400
"""Rough bytes of an entry without its text."""
_NEWEST = 16
"""Entries that stay however long they are."""


HandOff = tuple[
    Literal["input", "events"],
    Literal["put", "take"],
    ChatMessage | ToolCalled,
    int,
    tuple[int | None, int | None],
]
"""A put or a take as it is first written down: queue, op, item, depth, turn and step."""


class Entry(msgspec.Struct, gc=False):
    """One line: `seq` from 1 without gaps, `at` in seconds on the loop's clock, and what was said.

    `encoded` is the entry as JSON once a reader asked for it; only its encoder sets it.
    """

    seq: int
    at: float
    said: AnyPayload | HandOff
    encoded: str | None = None

    @property
    def payload(self) -> AnyPayload:
        """What was said; of a put or a take it is made now."""
        said = self.said
        if isinstance(said, tuple):
            queue, op, item, depth, (turn, step) = said
            item_ = item_id(item)
            said = QueueOp(turn=turn, step=step, queue=queue, op=op, item=item_, depth=depth)
            self.said = said
        return said


class Gap(msgspec.Struct, frozen=True):
    """Entries `first` to `last` are no longer kept."""

    first: int
    last: int


_Line = Entry | HandOff | AnyPayload


class Journal:
    """Entries of one session, the newest `entries` or `size` bytes of them.

    Writing appends a line and its time; the entry is made of them when somebody reads, which most
    lines of most sessions never see.
    """

    def __init__(self, now: Callable[[], float], *, entries: int, size: int) -> None:
        """`now` is the loop's clock."""
        self._now = now
        self._lines: list[_Line] = []
        self._times: list[float] = []
        self._first = 1
        self._max_lines = entries
        self._max_size = size
        self._text = 0
        self._most = self._bound()
        self._waiters: list[Future[None]] = []
        self._ended: Callable[[], BaseException | None] | None = None

    @property
    def last_seq(self) -> int:
        """Number of the newest entry; 0 when there is none."""
        return self._first + len(self._lines) - 1

    def resume(self, entries: Sequence[Entry], last: int) -> None:
        """Take up a stored journal: these are its newest entries, `last` is the last one."""
        self._lines += entries
        self._times += [entry.at for entry in entries]
        self._first = last - len(entries) + 1
        self._text = sum(map(_text_of, entries))
        self._most = self._bound()

    def append(self, payload: AnyPayload) -> None:
        """Write an entry; never waits. Nothing after end()."""
        if self._ended is None:
            self._lines.append(payload)
            self._times.append(self._now())
            if type(payload) in _LONG:
                self._weigh(payload)
            if self._waiters:
                self._wake()
            if len(self._lines) > self._most:
                self._trim()

    def extend(self, payloads: Sequence[AnyPayload]) -> None:
        """Write entries for what was decided at one moment; never waits. Nothing after end()."""
        if self._ended is not None:
            return
        self._lines += payloads
        self._times += (self._now(),) * len(payloads)
        for payload in payloads:
            if type(payload) in _LONG:
                self._weigh(payload)
        if self._waiters:
            self._wake()
        if len(self._lines) > self._most:
            self._trim()

    def hand_off(self, line: HandOff) -> None:
        """Write down a put or a take; what is over the bound goes with the next decision."""
        if self._ended is None:
            self._lines.append(line)
            self._times.append(self._now())
            if self._waiters:
                self._wake()

    def read(self, after: int = 0, limit: int | None = None) -> tuple[Gap | None, Sequence[Entry]]:
        """Kept entries after `after`, at most `limit`, and what is missing before them."""
        first, lines = self._first, self._lines
        gap = Gap(after + 1, first - 1) if first > after + 1 else None
        start = max(after + 1 - first, 0)
        stop = len(lines) if limit is None else min(start + limit, len(lines))
        if start >= stop:
            return gap, ()
        numbers = range(first + start, first + stop)
        lines[start:stop] = found = [  # the first reader makes the entry
            line if isinstance(line, Entry) else Entry(seq, at, line)
            for seq, at, line in zip(
                numbers, self._times[start:stop], lines[start:stop], strict=True
            )
        ]
        return gap, found

    async def follow(self, after: int = 0) -> AsyncIterator[Sequence[Entry] | Gap]:
        """Entries after `after` in batches, as they come, until the session closes.

        A reader that memory has overtaken gets a `Gap` and goes on behind it. Cancelling a reader
        disturbs no other. Ends when the session is closed and all is read; raises `RuntimeFailed`
        if the session fell over.
        """
        while True:
            gap, batch = self.read(after)
            if gap is not None:
                after = gap.last
                yield gap
            elif batch:
                after = batch[-1].seq
                yield batch
            elif self._ended is not None:
                if error := self._ended():
                    raise error
                return
            else:
                waiter = self.news()
                try:
                    await waiter
                finally:
                    if not waiter.done() or waiter.cancelled():
                        self.forget(waiter)

    def news(self) -> Future[None]:
        """Done when something more is written, or the journal ends; `forget` it if you leave.

        One for each reader: a reader's cancel is its own.
        """
        waiter = get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def forget(self, waiter: Future[None]) -> None:
        """Nobody waits for this any more."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    @property
    def waiters(self) -> int:
        """How many wait for news."""
        return len(self._waiters)

    @property
    def failure(self) -> BaseException | None:
        """What felled the session that ended; None for one that lives or was closed."""
        return self._ended() if self._ended is not None else None

    def end(self, error: Callable[[], BaseException | None]) -> None:
        """Nothing more will be written; `error` makes what each reader is to be told, or None."""
        self._ended = error
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _weigh(self, payload: AnyPayload) -> None:
        """Count the text of what was just written: the longer it is, the fewer lines are kept."""
        self._text += _LONG[type(payload)](payload)
        most = (self._max_size - self._text) // _OVERHEAD
        if most < self._most:
            self._most = most

    def _bound(self) -> int:
        """How many lines may be kept, with so much text in them."""
        return min(self._max_lines, (self._max_size - self._text) // _OVERHEAD)

    def _trim(self) -> None:
        """Let the oldest go, a sixteenth more than must be, so as not to do it often.

        The newest few stay, however long they are: their texts are the conversation's too.
        """
        lines = self._lines
        most, size = self._max_lines, self._max_size
        excess = self._text + _OVERHEAD * len(lines) - size + size // 16
        drop = len(lines) - most + most // 16 if len(lines) > most else 0
        for index, line in enumerate(lines[: max(len(lines) - _NEWEST, 0)]):
            if index >= drop and excess <= 0:
                break
            text = _text_of(line)
            self._text -= text
            excess -= text + _OVERHEAD
            drop = max(drop, index + 1)
        drop = min(drop, max(len(lines) - _NEWEST, 0))
        del lines[:drop], self._times[:drop]
        self._first += drop
        self._most = self._bound()


def item_id(item: ChatMessage | ToolCalled) -> str:
    """The id by which entries name what crosses a queue."""
    if isinstance(item, ToolCalled):
        return item.call_id
    return (item.message_id if item.role == "user" else item.tool_call_id) or ""


def _text_of(line: _Line) -> int:
    """Characters of what may be long in a line."""
    payload = line.said if type(line) is Entry else line
    measure = _LONG.get(type(payload))
    return measure(payload) if measure is not None else 0


def _content(payload: Any) -> int:
    return len(payload.content)


def _answer(payload: Assistant) -> int:
    text = len(payload.content or "")
    for call in payload.tool_calls:
        text += len(call.raw or "")
    for thought in payload.thinking:
        text += len(str(thought))
    return text


_LONG: dict[type, Callable[[Any], int]] = {
    Assistant: _answer,
    ToolReplied: _content,
    LateReply: _content,
    Accepted: _content,
    Text: lambda payload: len(payload.text),
    Edited: lambda payload: len(str(payload.before)) + len(str(payload.after)),
    PermissionResolved: lambda payload: len(str(payload.arguments)),
    Imported: lambda payload: len(str(payload.message)),
}
"""How long the text is in a payload that may be long."""
