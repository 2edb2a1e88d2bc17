"""The one thread that writes: it commits what has gathered, and tries again what it could not.

A commit costs one wait for the disk, however much is in it (T21), so nothing is timed: while one
commit waits, the next gathers.
"""

import logging
import sqlite3
from asyncio import Future
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import Protocol

import msgspec

from agent_lab.domain.errors import StorageError
from agent_lab.domain.records import Change
from agent_lab.infrastructure.sqlite_file import beside, named
from agent_lab.infrastructure.sqlite_schema import apply

log = logging.getLogger("agent_lab")

_OF_THE_CHANGE = (
    OverflowError,
    UnicodeError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""What is raised of a value that no database takes (S15), not of the disk."""
LARGE = 256 << 20
"""Bytes of a write-ahead log that says: somebody keeps an old state of the file open (S16)."""


class Batch(msgspec.Struct):
    """Changes that are stored together, and the future of who waits: only the owner touches it."""

    changes: Sequence[Change]
    done: Future[None]


class Owner(Protocol):
    """Who is told how the writer fares, from its thread."""

    def failed(self, error: StorageError) -> None:
        """Nothing can be stored; it is tried again."""
        ...

    def stored(self, batches: Sequence[Batch]) -> None:
        """These are committed."""
        ...

    def refused(self, batches: Sequence[Batch], error: StorageError) -> None:
        """These never will be."""
        ...


class Writer(Thread):
    """Writes batches in order, for as long as it runs; `stop()` ends it when all are written."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, owner: Owner, *, pause: float
    ) -> None:
        """`pause`: seconds between two tries, and between two looks at the file."""
        super().__init__(name=f"store {path.name}", daemon=True)
        self._path = path
        self._connection = connection
        self._owner = owner
        self._pause = pause
        self._identity = _identity(path)
        self._waiting: deque[Batch] = deque()
        self._condition = Condition()
        self._stopping = self._failing = self._is_large = False

    def put(self, batch: Batch) -> None:
        """Write it behind the others; never waits for the disk."""
        with self._condition:
            self._waiting.append(batch)
            self._condition.notify()

    def stop(self) -> None:
        """Write what waits, once more if that failed before, and end."""
        with self._condition:
            self._stopping = True
            self._condition.notify()

    def run(self) -> None:
        """The thread."""
        batches: list[Batch] = []
        while True:
            batches += self._gather(wait=not batches)
            last = self._stopping
            try:
                self._look()
                if batches:
                    self._write(batches)
            except (sqlite3.Error, OSError, StorageError) as error:  # of the disk
                self._fail(error)
                if last:
                    break
                self._rest()
                continue
            if batches or self._failing:
                self._failing = False
                self._owner.stored(batches)
                batches = []
            if last and not self._waiting:
                break
        self._end(batches)

    def _gather(self, *, wait: bool) -> list[Batch]:
        with self._condition:
            if wait and not self._waiting and not self._stopping:
                self._condition.wait(self._pause)
            gathered = list(self._waiting)
            self._waiting.clear()
        return gathered

    def _rest(self) -> None:
        with self._condition:
            if not self._stopping:
                self._condition.wait_for(lambda: self._stopping, self._pause)

    def _look(self) -> None:
        """See that the file is still the one that was opened (S12), and how large its log is."""
        try:
            there = _identity(self._path)
        except FileNotFoundError:
            there = None
        if there != self._identity:
            raise StorageError(
                "storage_gone",
                f"the store {self._path} was deleted or replaced while it was open",
                "put it back, or start the server again",
            )
        log_file = beside(self._path, "-wal")
        is_large = log_file.exists() and log_file.stat().st_size > LARGE
        if is_large and not self._is_large:
            log.warning("%s is over %d MiB: a reader holds it open", log_file, LARGE >> 20)
        self._is_large = is_large

    def _write(self, batches: list[Batch]) -> None:
        """One transaction. A change that no database takes is left out, with its batch."""
        try:
            self._commit(batches)
        except _OF_THE_CHANGE:  # find it
            for batch in list(batches):
                try:
                    self._commit([batch])
                except _OF_THE_CHANGE as error:
                    log.exception("the store refuses a change")
                    self._owner.refused([batch], _refused(error))
                    batches.remove(batch)

    def _commit(self, batches: Sequence[Batch]) -> None:
        connection = self._connection
        if connection.in_transaction:  # the last one failed, and perhaps its ROLLBACK too
            connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
        for batch in batches:
            for change in batch.changes:
                apply(connection, change)
        connection.execute("COMMIT")

    def _fail(self, error: sqlite3.Error | OSError | StorageError) -> None:
        fault = error if isinstance(error, StorageError) else named(error, self._path)
        if not self._failing:
            log.error("%s; %s", fault, fault.hint)
        self._failing = True
        self._owner.failed(fault)

    def _end(self, batches: Sequence[Batch]) -> None:
        left = [*batches, *self._gather(wait=False)]
        if left:
            said = "the store was closed before it could write"
            self._owner.refused(left, StorageError("storage_closed", said, "see the log"))
        self._connection.close()


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _refused(error: Exception) -> StorageError:
    return StorageError(
        "storage_failed",
        f"the store refuses a change: {type(error).__name__}: {error}",
        "this is a fault of agent_lab; its log says more",
    )
