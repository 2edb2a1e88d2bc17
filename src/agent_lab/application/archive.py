"""Sessions that are stored: taking them up again where they were, and reading what memory let go.

A session is taken up with its number of entries, its turns and its epoch, so a viewer from before
goes on behind the last entry it has.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import msgspec

from agent_lab.application.journal import Entry, Gap
from agent_lab.application.logs import log
from agent_lab.application.ports import Outside, Store
from agent_lab.application.recorder import Recorder
from agent_lab.application.runtime import Runtime
from agent_lab.application.served import ServedSession
from agent_lab.application.session import Session
from agent_lab.domain.errors import StorageError
from agent_lab.domain.inbox import digest_of
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import AnyPayload
from agent_lab.domain.records import (
    Prelude,
    Record,
    Removed,
    Requested,
    Row,
    SessionBody,
    Stored,
    beginning_of,
    read,
)
from agent_lab.domain.recovery import Recovered, recover
from agent_lab.domain.redaction import SECRETS

LISTED = 200
"""Stored sessions that a list shows, newest first."""


class Dormant(msgspec.Struct, frozen=True):
    """A stored session that is not in memory; `at` is wall time of its newest entry."""

    session_id: str
    agent: str
    at: float
    body: SessionBody


class Saved(msgspec.Struct):
    """What the store has of a session, read and understood."""

    dormant: Dormant
    rows: list[tuple[Row, Stored]]
    preludes: Mapping[str, Prelude]
    recovered: Recovered
    ends: list[AnyPayload]


class Archive:
    """The stored sessions of one process; closing it closes the store."""

    def __init__(self, store: Store, outside: Outside) -> None:
        self.store = store
        self._outside = outside

    def record(self, served: ServedSession) -> Recorder:
        """Store this session from now on."""
        session = served.runtime.session
        recorder = Recorder(
            session,
            self.store,
            epoch=served.epoch,
            started_at=served.started_at,
            offset=served.offset,
        )
        recorder.title = served.title
        recorder.created, recorder.ids_of = served.created, served.ids_of
        served.recorder = recorder
        return recorder

    def forget(self, served: ServedSession) -> None:
        """Its id begins anew: what ends now is no part of any story."""
        if served.recorder is not None:
            served.recorder.stop()
        with suppress(StorageError):  # the store is closed
            self.store.write([Removed("session", served.session_id)])

    # -- what there is ---------------------------------------------------------------------------

    async def dormant(self, agents: Collection[str], live: Collection[str]) -> list[Dormant]:
        """The newest stored sessions with these agents, without those that live."""
        found = await self.store.records("session", limit=LISTED)
        mine = [one for one in found if one.agent in agents and one.id not in live]
        listed = [one for one in map(_listed, mine) if one is not None]
        return [one for one in listed if one.body.last_seq or one.body.created]

    async def unfinished(self) -> list[str]:
        """Ids of the sessions that a process before this one left at work, oldest first."""
        found = await self.store.records("session", states=["running"], limit=10_000)
        return [record.id for record in reversed(found)]

    async def session_of(self, agent: str, message_id: str) -> str | None:
        """Id of the session in which the agent accepted this message."""
        taken = await self.store.taken(agent, SECRETS.hide(message_id))
        return taken.session_id if taken is not None else None

    # -- taking up -------------------------------------------------------------------------------

    async def load(self, session_id: str) -> Saved | None:
        """What there is of this session; raises StorageError when it cannot be read."""
        record = await self.store.record("session", session_id)
        if record is None:
            return None
        dormant = _dormant(record)
        rows = await self.store.rows(dormant.body.epoch, up_to=dormant.body.last_seq)
        began = await self.store.record("prelude", beginning_of(dormant.body.epoch))
        preludes = await self._preludes(rows)
        return await asyncio.to_thread(_understood, dormant, rows, preludes, began)

    def take_up(self, saved: Saved, runtime: Runtime) -> ServedSession:
        """The session, going on where it was: `runtime` was opened with its history.

        What a crash left open is closed on record; messages that waited are there again, and
        `wake` has them answered.
        """
        body = saved.dormant.body
        served = ServedSession(runtime, self._outside, epoch=body.epoch, started_at=body.started_at)
        served.title = body.title
        served.created, served.gone = body.created, body.gone
        session, recovered = runtime.session, saved.recovered
        conversation = session.conversation
        conversation.turn, conversation.call = recovered.turn, recovered.call
        conversation.answers = recovered.answers
        conversation.calls.permissions = recovered.permissions
        known = {key: digest_of(said) for key, (_, said) in recovered.accepted.items()}
        conversation.inbox.restore(known, recovered.waiting.values())
        session.journal.resume(_newest(saved, session, served.offset), body.last_seq)
        self.record(served).failed = body.failed
        session.decide(saved.ends)
        return served

    # -- reading ---------------------------------------------------------------------------------

    async def read(self, served: ServedSession, gap: Gap, limit: int) -> list[Entry]:
        """Entries that memory let go of, from the first that is missing."""
        rows = await self.store.rows(served.epoch, gap.first - 1, limit, up_to=gap.last)
        preludes = await self._preludes(rows)
        session = served.runtime.session
        history = session.conversation.history
        return [
            _entry(row, _payload(row), preludes, history, session.session_id, served.offset)
            for row in rows
        ]

    async def past(self, session_id: str, epoch: str) -> list[Entry] | None:
        """All entries of this journal, with wall times; None if there are none."""
        rows = await self.store.rows(epoch)
        if not rows:
            return None
        began = await self.store.record("prelude", beginning_of(epoch))
        preludes = await self._preludes(rows)
        return await asyncio.to_thread(_told, session_id, rows, preludes, began)

    async def _preludes(self, rows: Sequence[Row]) -> dict[str, Prelude]:
        asked = (_payload(row) for row in rows if row.type == "model_request")
        preludes: dict[str, Prelude] = {}
        for key in {said.prelude for said in asked if isinstance(said, Requested)}:
            record = await self.store.record("prelude", key)
            if record is not None:
                preludes[key] = msgspec.json.decode(record.body, type=Prelude)
        return preludes


def _listed(record: Record) -> Dormant | None:
    try:
        return _dormant(record)
    except msgspec.MsgspecError:
        log.exception("session %s cannot be read", record.id)
        return None


def _dormant(record: Record) -> Dormant:
    body = msgspec.json.decode(record.body, type=SessionBody)
    return Dormant(record.id, record.agent, record.at, body)


def _understood(
    dormant: Dormant, rows: list[Row], preludes: dict[str, Prelude], began: Record | None
) -> Saved:
    """Long sessions take a while: this runs in a thread."""
    payloads = [(row, _payload(row)) for row in rows]
    history = msgspec.json.decode(began.body, type=list[ChatMessage]) if began else ()
    story = ((row.seq, payload) for row, payload in payloads)
    recovered, ends = recover(story, last_seq=dormant.body.last_seq, history=history)
    return Saved(dormant, payloads, preludes, recovered, ends)


def _told(
    session_id: str, rows: list[Row], preludes: dict[str, Prelude], began: Record | None
) -> list[Entry]:
    """As _understood, for who only reads."""
    payloads = [(row, _payload(row)) for row in rows]
    history = msgspec.json.decode(began.body, type=list[ChatMessage]) if began else ()
    story = ((row.seq, payload) for row, payload in payloads)
    recovered, _ = recover(story, last_seq=rows[-1].seq, history=history)
    return [
        _entry(row, payload, preludes, recovered.history, session_id, 0.0)
        for row, payload in payloads
    ]


def _payload(row: Row) -> Stored:
    try:
        return read(row.body)
    except msgspec.MsgspecError as error:
        raise StorageError(
            "storage_corrupt",
            f"entry {row.seq} of {row.epoch!r} cannot be read: {error}",
            "it was written by another version; use the agent_lab that wrote it",
        ) from error


def _newest(saved: Saved, session: Session, offset: float) -> list[Entry]:
    """As many of the newest entries as the journal keeps, oldest first."""
    room, history = session.limits.journal_bytes // 2, session.conversation.history
    entries: list[Entry] = []
    for row, payload in reversed(saved.rows[-session.limits.journal_entries // 2 :]):
        room -= len(row.body)
        if room < 0:
            break
        entries.append(_entry(row, payload, saved.preludes, history, session.session_id, offset))
    return entries[::-1]


def _entry(
    row: Row,
    payload: Stored,
    preludes: Mapping[str, Prelude],
    history: list[ChatMessage],
    session_id: str,
    offset: float,
) -> Entry:
    if isinstance(payload, Requested):
        prelude = preludes.get(payload.prelude, Prelude(None, ()))
        payload = payload.whole(session_id, prelude, history)
    return Entry(row.seq, row.at - offset, payload)
