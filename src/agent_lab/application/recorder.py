"""A session's way into the store: a cursor on its journal, and whoever must wait for the disk.

The session knows nothing of it. What a viewer is told is stored, and before the model hears a
message it is stored that it was delivered: so nothing that was shown is lost, and nothing runs
twice.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial

from agent_lab.application.heard import Heard
from agent_lab.application.journal import Entry, Gap, Journal
from agent_lab.application.logs import log
from agent_lab.application.ports import Store
from agent_lab.application.session import Session
from agent_lab.domain.errors import RuntimeFailed, StorageError
from agent_lab.domain.messages import ModelRequest
from agent_lab.domain.payloads import (
    Accepted,
    AnyPayload,
    End,
    ModelRequested,
    ModelResponded,
    Retrying,
    TurnFailed,
)
from agent_lab.domain.raw_events import RawEvents, from_store, raw_id, to_store
from agent_lab.domain.records import (
    Change,
    Created,
    Record,
    Row,
    SessionBody,
    Taken,
    beginning_of,
    encode,
    prelude_of,
    write,
)
from agent_lab.domain.redaction import SECRETS

UNSTORED = 5_000
"""Entries that a run may be ahead of a store that fails, before it is stopped."""
UNSTORED_SIZE = 32 << 20
"""The same in bytes."""
Told = Sequence[Entry] | Gap | StorageError


class Recorder:
    """Stores one session's entries as they are written; `stored` is the last that is committed."""

    def __init__(
        self, session: Session, store: Store, *, epoch: str, started_at: float, offset: float
    ) -> None:
        """Begin behind the newest entry; see ServedSession for the rest."""
        self.session = session
        self.title: str | None = None
        self.created: Created | None = None
        self.gone: str | None = None
        self.ids_of = session.agent.name
        self.failed = False
        self._store = store
        self._epoch = epoch
        self._started_at = started_at
        self._offset = offset
        self._seen = self.stored = session.journal.last_seq
        self._size = 0
        self._preludes: set[str] = set()
        self._begun = 0
        self._asked: ModelRequest | None = None
        self._began = len(session.conversation.history)
        self._waiters: set[asyncio.Future[None]] = set()
        self._stopped = False
        session.model = Heard(session.model, self, self._began)

    @property
    def is_behind(self) -> bool:
        """Whether there are entries that are not stored."""
        return self.stored < self._journal.last_seq

    @property
    def told(self) -> int:
        """The newest entry that may be told; all of them once nothing more is stored."""
        return self._journal.last_seq if self._stopped else self.stored

    @property
    def _journal(self) -> Journal:
        return self.session.journal

    # -- into the store --------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the journal until the session ends, or `stop`."""
        try:
            async for _ in self._journal.follow(self._seen):
                self._take()
        except RuntimeFailed:
            self._take()

    def stop(self) -> None:
        """Store what there is and nothing more: what ends now ends because the process does."""
        self._take()
        self._stopped = True

    def _take(self) -> None:
        """Give the store what was written since."""
        if self._stopped:
            return
        try:
            self._give()
        except StorageError as error:  # the store is closed, or an entry is too large for it
            log.warning("session %s is stored no further: %s", self.session.session_id, error)
            self._stopped = True
            self._wake()

    def _give(self) -> None:
        gap, entries = self._journal.read(self._seen)
        if gap is not None:
            log.error(
                "session %s: entries %d to %d were let go of before they were stored",
                *(self.session.session_id, gap.first, gap.last),
            )
        if entries and self._is_to_come(entries[-1].payload):
            entries = entries[:-1]
        if not entries:
            return
        changes: list[Change] = [] if self._seen else self._beginning()
        for entry in entries:
            changes += self._changes(entry)
        changes.append(self._record(entries[-1].seq, self._wall(entries[-1])))
        size = sum(len(change.body) for change in changes if isinstance(change, Row))
        self._seen = entries[-1].seq
        self._size += size
        written = self._store.write(changes)
        written.add_done_callback(partial(self._advance, self._seen, size))

    def _beginning(self) -> list[Change]:
        """The history that the session was opened with: it is in no entry."""
        history = self.session.conversation.history
        began = history[: self._began]
        name, key = self.session.agent.name, beginning_of(self._epoch)
        return [Record("prelude", key, name, "", self._started_at, encode(began))] if began else []

    def _is_to_come(self, payload: AnyPayload) -> bool:
        """Whether it is a request that the model has not begun to send: it is not whole yet."""
        return isinstance(payload, ModelRequested) and payload.request.call > self._begun

    def _changes(self, entry: Entry) -> list[Change]:
        session_id, payload = self.session.session_id, entry.payload
        at = self._wall(entry)
        row = Row(self._epoch, entry.seq, at, payload.type, write(payload))
        if isinstance(payload, Accepted):
            self.title = self.title or payload.content
            taken = Taken(self.ids_of, SECRETS.hide(payload.message_id), session_id, entry.seq)
            return [row, taken]
        if isinstance(payload, End):
            self.failed = isinstance(payload, TurnFailed)
        if isinstance(payload, ModelRequested):
            self._asked = payload.request
            key, body = prelude_of(payload.request)
            if key not in self._preludes:
                self._preludes.add(key)
                name = self.session.agent.name
                return [row, Record("prelude", key, name, "", at, body)]
        if isinstance(payload, ModelResponded | Retrying | TurnFailed):
            return [row, *self._raw(entry.seq, at)]
        return [row]

    def _raw(self, seq: int, at: float) -> list[Change]:
        """What the provider sent before this entry, if it sent anything."""
        wire = self._asked.wire if self._asked is not None else None
        if wire is None or not wire.raw.events:
            return []
        name, key = self.session.agent.name, raw_id(self._epoch, seq)
        return [Record("raw", key, name, "", at, to_store(wire.raw))]

    async def raw(self, seq: int) -> RawEvents:
        """What the provider sent before this entry, as stored; raises StorageError."""
        record = await self._store.record("raw", raw_id(self._epoch, seq))
        return RawEvents() if record is None else from_store(record.body)

    def note(self) -> "asyncio.Future[None]":
        """Store what is known of the session beside its entries; raises StorageError.

        Done when that is committed.
        """
        self._take()
        _, newest = self._journal.read(self._seen - 1, 1)
        at = self._wall(newest[0]) if newest and self._seen else self._started_at
        return self._store.write([self._record(self._seen, at)])

    def _record(self, last_seq: int, at: float) -> Record:
        session = self.session
        body = SessionBody(
            epoch=self._epoch,
            started_at=self._started_at,
            title=self.title and self.title[:1000],
            turn=session.conversation.turn,
            last_seq=last_seq,
            created=self.created,
            failed=self.failed,
            gone=self.gone,
        )
        state = "idle" if session.is_idle else "running"
        name = session.agent.name
        return Record("session", session.session_id, name, state, at, encode(body))

    def _wall(self, entry: Entry) -> float:
        """Wall time, in the middle of its millisecond: another offset gives the same one."""
        return (int((entry.at + self._offset) * 1000) + 0.5) / 1000

    def _advance(self, seq: int, size: int, written: "asyncio.Future[None]") -> None:
        self._size -= size
        if written.cancelled() or written.exception() is not None:
            return
        self.stored = seq
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- who waits for it ------------------------------------------------------------------------

    async def reached(self, seq: int) -> None:
        """Wait until this entry is stored; raises the StorageError that stands in the way."""
        while self.stored < seq and not self._stopped:
            await self._store.sure(self._next())

    def _next(self) -> "asyncio.Future[None]":
        """Done when more is stored."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        return waiter

    async def follow(self, after: int = 0) -> AsyncIterator[Told]:
        """As Journal.follow, but only what is stored; a fault of the store once, when it begins."""
        async for found in self._journal.follow(after):
            if not isinstance(found, Gap):
                last, is_told = found[-1].seq, False
                while self.stored < last and not self._stopped:
                    try:
                        await (self._next() if is_told else self.reached(last))
                    except StorageError as fault:
                        is_told = True
                        yield fault
            yield found

    async def ready(self, request: ModelRequest, *, has_news: bool) -> None:
        """Before the model is asked: raises StorageError when it may not be.

        With a message that it has not heard, once that is stored as delivered; else unless a store
        that fails is too far behind. Then the request is stored, with what the model makes of it
        before it first waits.
        """
        try:
            if has_news:
                _, entries = self._journal.read(self._seen)
                asked = (e.seq for e in entries if getattr(e.payload, "request", None) is request)
                await self.reached(next(asked, self._journal.last_seq + 1) - 1)
            elif self._store.fault is not None:
                behind = self._journal.last_seq - self.stored
                if behind > UNSTORED or self._size > UNSTORED_SIZE:
                    raise self._store.fault
        finally:
            self._begun = request.call
            self.session.loop.call_soon(self._take)
