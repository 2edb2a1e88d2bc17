"""Executions, their keys and the timeline in a Store: they outlive the process."""

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import TypeVar

import msgspec

from agent_lab.application.logs import log
from agent_lab.application.ports import Store
from agent_lab.domain.activity import Activity, ActivityQuery
from agent_lab.domain.errors import StorageError
from agent_lab.domain.execution import Broken, Execution, ExecutionQuery
from agent_lab.domain.records import Change, Record, RecordKind, encode
from agent_lab.domain.redaction import SECRETS

_PAGE = 200
"""Records that are read at a time."""
_Kept = TypeVar("_Kept", Execution, Activity)


class StoredExecutions:
    """See ExecutionStore. Newest first is by time, and by id among those of one time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: asyncio.Future[None] | None = None
        self._refused: StorageError | None = None

    def put_execution(self, execution: Execution) -> None:
        """Write the record, and what its idempotency key stands for."""
        name, at = execution.agent_name, execution.queued_at
        changes: list[Change] = [
            Record("execution", execution.id, name, execution.status, at, encode(execution))
        ]
        if (key := execution.idempotency_key) is not None:
            body = encode(execution.id)
            changes.append(Record("key", _key(name, execution.kind, key), name, "", at, body))
        self._put(changes)

    def put_activity(self, activity: Activity) -> None:
        """Add a line to the timeline."""
        at, body = activity.at, encode(activity)
        self._put([Record("activity", activity.id, activity.agent_name, activity.kind, at, body)])

    def _put(self, changes: list[Change]) -> None:
        try:
            self._last = self._store.write(changes)
        except StorageError as error:
            log.warning("a record was not stored: %s", error)
            self._refused = error

    async def committed(self) -> None:
        """Return when all that was put is durable; raises StorageError if it cannot be."""
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused
        if self._last is not None:
            await self._store.sure(self._last)

    # -- reading ---------------------------------------------------------------------------------

    async def execution(self, execution_id: str) -> Execution | None:
        """The record with this id."""
        record = await self._store.record("execution", execution_id)
        return _read(record, Execution) if record is not None else None

    async def executions(self, query: ExecutionQuery) -> list[Execution]:
        """Records, newest first."""
        states = () if query.status is None else (query.status,)
        found: list[Execution] = []
        async for record in self._newest("execution", query.agent_name, states, query.before):
            one = _read(record, Execution)
            if one is not None and query.fits(one):
                found.append(one)
                if len(found) >= query.limit:
                    break
        return found

    async def by_key(self, agent_name: str, kind: str, key: str) -> Execution | None:
        """The newest record of this agent and kind that carries this idempotency key."""
        record = await self._store.record("key", _key(agent_name, kind, key))
        if record is None:
            return None
        return await self.execution(msgspec.json.decode(record.body, type=str))

    async def unfinished(self) -> list[Execution | Broken]:
        """Every record that has no end, oldest first."""
        left = [record async for record in self._newest("execution", None, ("queued", "running"))]
        return [_read(one, Execution) or _broken(one) for one in reversed(left)]

    async def activity(self, query: ActivityQuery) -> list[Activity]:
        """Lines of the timeline, newest first."""
        kinds = query.kinds or ()
        found: list[Activity] = []
        async for record in self._newest("activity", query.agent_name, kinds, query.before):
            line = _read(record, Activity)
            if line is not None and query.fits(line):
                found.append(line)
                if len(found) >= query.limit:
                    break
        return found

    async def _newest(
        self,
        kind: RecordKind,
        agent: str | None,
        states: Collection[str],
        before: str | None = None,
    ) -> AsyncIterator[Record]:
        """Records newest first, behind the one with the id `before`; none if there is none."""
        last: tuple[float, str] | None = None
        if before is not None:
            marker = await self._store.record(kind, before)
            if marker is None:
                return
            last = marker.at, marker.id
        while True:
            page = await self._store.records(
                kind, agent=agent, states=states, before=last, limit=_PAGE
            )
            for record in page:
                yield record
            if len(page) < _PAGE:
                return
            last = page[-1].at, page[-1].id


def _key(agent: str, kind: str, key: str) -> str:
    return f"{agent} {kind} {SECRETS.hide(key)}"


def _read(record: Record, kind: type[_Kept]) -> _Kept | None:
    """What the record says; None when it cannot be read, which the store has logged or will."""
    try:
        return msgspec.json.decode(record.body, type=kind)
    except msgspec.MsgspecError as error:
        log.warning("%s %s cannot be read: %s", record.kind, record.id, error)
        return None


def _broken(record: Record) -> Broken:
    return Broken(record.id, record.agent, "its stored record cannot be read")
