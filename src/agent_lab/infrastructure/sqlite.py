"""The Store on one SQLite file: a thread that writes, a thread that reads, and never the loop."""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from agent_lab.domain.errors import StorageError
from agent_lab.domain.records import Change, Record, RecordKind, Row, Taken, checked
from agent_lab.infrastructure.sqlite_file import Lock, check_place, connect, named, prepare
from agent_lab.infrastructure.sqlite_schema import (
    RECORDS,
    ROWS,
    TAKEN,
    listed_record,
    record_from,
    row_from,
)
from agent_lab.infrastructure.sqlite_writer import Batch, Writer
from agent_lab.infrastructure.store_memory import closed

T = TypeVar("T")
_MOST = 1 << 62


class SqliteStore:
    """See Store. Files are 0600; one process has them at a time; commits are synced.

    Everything but `write` and `close` may be awaited by many at once. It lives on the loop that
    writes first.
    """

    def __init__(self, path: Path, *, patience: float = 2.0, pause: float = 0.5) -> None:
        """Open the file, or make it; raises StorageError, and then nothing was changed.

        `patience`: seconds that a lock of another program is waited for; `pause`: seconds between
        two tries while the store fails.
        """
        check_place(path)
        self._path = path
        self._lock = Lock(path)
        try:
            prepare(path)
            self._connection = connect(path, patience=patience)
            self._reading = connect(path, patience=patience)
        except (sqlite3.Error, OSError) as error:
            self._lock.release()
            raise named(error, path) from error
        except StorageError:
            self._lock.release()
            raise
        self.fault: StorageError | None = None
        self._faulted: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store reads")
        self._writer = Writer(path, self._connection, self, pause=pause)
        self._writer.start()
        self._closed = False

    # -- writing ---------------------------------------------------------------------------------

    def write(self, changes: Sequence[Change]) -> "asyncio.Future[None]":
        """Have these stored together; the future is done once they are committed."""
        if self._closed:
            raise closed()
        loop = self._loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._writer.put(Batch([checked(change) for change in changes], done))
        return done

    async def sure(self, written: "asyncio.Future[None]") -> None:
        """Wait until this is committed; raises the fault that stands in the way."""
        if not written.done():
            if self.fault is not None:
                raise self.fault
            fault: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._faulted.add(fault)
            try:
                await asyncio.wait({written, fault}, return_when="FIRST_COMPLETED")
            finally:
                self._faulted.discard(fault)
            if not written.done():
                await fault
        await written

    # -- what the writer tells, from its thread --------------------------------------------------

    def stored(self, batches: Sequence[Batch]) -> None:
        """These are committed."""
        self._on_loop(self._tell_stored, list(batches))

    def refused(self, batches: Sequence[Batch], error: StorageError) -> None:
        """These never will be."""
        self._on_loop(self._tell, batches, error)

    def failed(self, error: StorageError) -> None:
        """Nothing can be stored; it is tried again."""
        self._on_loop(self._tell_failed, error)

    def _tell_stored(self, batches: Sequence[Batch]) -> None:
        self.fault = None
        self._tell(batches, None)

    def _tell(self, batches: Sequence[Batch], error: StorageError | None) -> None:
        for batch in batches:
            _finish(batch.done, error)

    def _tell_failed(self, error: StorageError) -> None:
        self.fault = error
        for waiter in self._faulted:
            _finish(waiter, error)

    def _on_loop(self, tell: Callable[..., object], *said: object) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it is closed: nobody is left to tell
                loop.call_soon_threadsafe(tell, *said)

    # -- reading ---------------------------------------------------------------------------------

    async def record(self, kind: RecordKind, record_id: str) -> Record | None:
        """The record of this id."""
        found = await self._read(RECORDS + "kind = ? AND id = ?", (kind, record_id), record_from)
        return found[0] if found else None

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
        wanted = "kind = ?"
        given: list[str | float] = [kind, *states]
        if states:
            wanted += f" AND state IN ({', '.join('?' * len(states))})"
        if agent is not None:
            wanted += " AND agent = ?"
            given.append(agent)
        if before is not None:
            wanted += " AND (at, id) < (?, ?)"
            given += before
        order = " ORDER BY at DESC, id DESC LIMIT ?"
        return await self._read(RECORDS + wanted + order, (*given, limit), listed_record)

    async def rows(
        self, epoch: str, after: int = 0, limit: int | None = None, *, up_to: int | None = None
    ) -> list[Row]:
        """Entries of this journal behind `after`, oldest first."""
        last = _MOST if up_to is None else up_to
        most = -1 if limit is None else limit
        return await self._read(ROWS, (epoch, after, last, most), row_from)

    async def taken(self, agent: str, message_id: str) -> Taken | None:
        """Where this message id of the agent was accepted."""
        found = await self._read(TAKEN, (agent, message_id), lambda line: Taken(*line))
        return found[0] if found else None

    async def _read(
        self, query: str, given: Sequence[Any], make: Callable[[tuple[Any, ...]], T]
    ) -> list[T]:
        if self._closed:
            raise closed()

        def read() -> list[T]:
            try:
                return [make(line) for line in self._reading.execute(query, given)]
            except sqlite3.Error as error:
                raise named(error, self._path) from error

        return await asyncio.get_running_loop().run_in_executor(self._reader, read)

    # -- closing ---------------------------------------------------------------------------------

    async def close(self) -> None:
        """Store what waits, unless a fault stands in the way, and let go of the file."""
        if self._closed:
            return
        self._closed = True
        self._writer.stop()
        await asyncio.get_running_loop().run_in_executor(self._reader, self._end)
        self._reader.shutdown(wait=False)

    def _end(self) -> None:
        self._writer.join()
        self._reading.close()
        self._lock.release()


def _finish(waiter: "asyncio.Future[None]", error: StorageError | None) -> None:
    if waiter.done():
        return
    if error is None:
        waiter.set_result(None)
        return
    waiter.set_exception(error)
    waiter.exception()  # who forgot it is not told again when it is collected
