"""The story of a session: numbered entries, kept, and read by any number of cursors.

A log, not a work queue: every reader sees every entry. Nothing is encoded before somebody reads
it, and then once. Appending never waits, so a slow reader costs the agent nothing; what memory
has let go of is told to the reader as a `Gap`.
"""

from asyncio import AbstractEventLoop, Future
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from agent_lab.domain.payloads import Accepted, AnyPayload, Assistant, LateReply, Text, ToolReplied

_OVERHEAD = 400
"""Rough bytes of an entry without its text."""
_CHECK = 64
"""Appends between two looks at the caps."""


class Entry(msgspec.Struct, gc=False):
    """One line: `seq` from 1 without gaps, `at` in seconds on the loop's clock.

    `encoded` is the entry as JSON once a reader asked for it; only its encoder sets it.
    """

    seq: int
    at: float
    payload: AnyPayload
    encoded: str | None = None


class Gap(msgspec.Struct, frozen=True):
    """Entries `first` to `last` are no longer kept."""

    first: int
    last: int


class Journal:
    """Entries of one session, the newest `entries` or `size` bytes of them."""

    def __init__(self, loop: AbstractEventLoop, *, entries: int, size: int) -> None:
        self._loop = loop
        self._now = loop.time
        self._entries: list[Entry] = []
        self._first = 1
        self._max_entries = entries
        self._max_size = size
        self._size = 0
        self._weighed = 0
        self._next_trim = _CHECK
        self._waiters: list[Future[None]] = []
        self._ended: Callable[[], BaseException | None] | None = None

    @property
    def last_seq(self) -> int:
        """Number of the newest entry; 0 when there is none."""
        return self._first + len(self._entries) - 1

    def append(self, payload: AnyPayload) -> int:
        """Write an entry now and give its number; never waits."""
        entries = self._entries
        seq = self._first + len(entries)
        entries.append(Entry(seq, self._now(), payload))
        if self._waiters:
            self._wake()
        if seq >= self._next_trim:
            self._trim()
        return seq

    def extend(self, payloads: Sequence[AnyPayload]) -> None:
        """Write entries for what was decided at one moment; never waits."""
        entries, at = self._entries, self._now()
        seq = self._first + len(entries)
        for payload in payloads:
            entries.append(Entry(seq, at, payload))
            seq += 1
        if self._waiters:
            self._wake()
        if seq > self._next_trim:
            self._trim()

    def read(self, after: int = 0, limit: int | None = None) -> tuple[Gap | None, Sequence[Entry]]:
        """Kept entries after `after`, at most `limit`, and what is missing before them."""
        start = max(after + 1 - self._first, 0)
        stop = None if limit is None else start + limit
        missing = self._first > after + 1
        gap = Gap(after + 1, self._first - 1) if missing else None
        return gap, self._entries[start:stop]

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
                waiter = self._loop.create_future()  # one each: a reader's cancel is its own
                self._waiters.append(waiter)
                try:
                    await waiter
                finally:
                    if not waiter.done() or waiter.cancelled():
                        self._forget(waiter)

    def end(self, error: Callable[[], BaseException | None]) -> None:
        """Nothing more will be written; `error` makes what each reader is to be told, or None."""
        self._ended = error
        self._wake()

    def _forget(self, waiter: Future[None]) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _trim(self) -> None:
        entries = self._entries
        self._size += _weight(entries[self._weighed :])
        drop = max(len(entries) - self._max_entries, 0)
        self._size -= _weight(entries[:drop])
        while self._size > self._max_size and drop < len(entries) - 1:
            self._size -= _weight(entries[drop : drop + 1])
            drop += 1
        if drop:
            del entries[:drop]
            self._first += drop
        self._weighed = len(entries)
        self._next_trim = self.last_seq + _CHECK


def _weight(entries: Sequence[Entry]) -> int:
    """Rough bytes of these entries: their long texts, and the same for everything else."""
    size = _OVERHEAD * len(entries)
    for entry in entries:
        payload = entry.payload
        if type(payload) in _LONG:
            size += len(payload.text if type(payload) is Text else payload.content or "")  # type: ignore[union-attr]  # _LONG
    return size


_LONG = {ToolReplied, LateReply, Assistant, Accepted, Text}
