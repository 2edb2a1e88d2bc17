"""A Store that forgets with its process: for `--store memory`, simulations and tests."""

import asyncio
from collections.abc import Collection, Sequence

from agent_lab.domain.errors import StorageError
from agent_lab.domain.records import Change, Record, RecordKind, Removed, Row, Taken, checked


class MemoryStore:
    """Keeps everything in dicts. What is written is stored at once."""

    def __init__(self) -> None:
        self.fault: StorageError | None = None
        self._records: dict[tuple[str, str], Record] = {}
        self._rows: dict[str, dict[int, Row]] = {}
        self._taken: dict[tuple[str, str], Taken] = {}
        self._closed = False

    def write(self, changes: Sequence[Change]) -> "asyncio.Future[None]":
        """Store them now."""
        if self._closed:
            raise closed()
        for change in map(checked, changes):
            self._apply(change)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def _apply(self, change: Change) -> None:
        match change:
            case Record():
                self._records[change.kind, change.id] = change
            case Removed():
                self._records.pop((change.kind, change.id), None)
            case Row():
                self._rows.setdefault(change.epoch, {})[change.seq] = change
            case Taken():
                self._taken.setdefault((change.agent, change.message_id), change)

    async def sure(self, written: "asyncio.Future[None]") -> None:
        """It is."""
        await written

    async def record(self, kind: RecordKind, record_id: str) -> Record | None:
        """The record of this id."""
        return self._records.get((kind, record_id))

    async def records(
        self,
        kind: RecordKind,
        *,
        agent: str | None = None,
        states: Collection[str] = (),
        before: tuple[float, str] | None = None,
        limit: int = 100,
    ) -> list[Record]:
        """Records newest first, and by id among those of one time."""
        found = [
            record
            for record in self._records.values()
            if record.kind == kind
            and (agent is None or record.agent == agent)
            and (not states or record.state in states)
            and (before is None or (record.at, record.id) < before)
        ]
        return sorted(found, key=lambda record: (record.at, record.id), reverse=True)[:limit]

    async def rows(
        self, epoch: str, after: int = 0, limit: int | None = None, *, up_to: int | None = None
    ) -> list[Row]:
        """Entries of this journal behind `after`, oldest first."""
        rows = self._rows.get(epoch, {})
        last = max(rows, default=0) if up_to is None else up_to
        return [rows[seq] for seq in sorted(rows) if after < seq <= last][:limit]

    async def taken(self, agent: str, message_id: str) -> Taken | None:
        """Where this message id of the agent was accepted."""
        return self._taken.get((agent, message_id))

    async def close(self) -> None:
        """Take nothing more."""
        self._closed = True


def closed() -> StorageError:
    """What is told to who writes to a store that is closed."""
    return StorageError(
        "storage_closed", "the store is closed", "the server stops; come back later"
    )
