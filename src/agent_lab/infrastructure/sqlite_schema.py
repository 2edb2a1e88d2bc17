"""The tables, how an older file becomes a newer one, and the statements that fill and read them.

A body has a CRC beside it: SQLite's own check does not see a bit that flips inside a text (T22).
"""

import logging
import sqlite3
from collections.abc import Sequence
from zlib import crc32

from agent_lab.domain.errors import StorageError
from agent_lab.domain.records import Change, Record, Removed, Row, Taken

log = logging.getLogger("agent_lab")
Migration = Sequence[str]

MIGRATIONS: Sequence[Migration] = (
    (
        (
            "CREATE TABLE records (kind TEXT NOT NULL, id TEXT NOT NULL, agent TEXT NOT NULL, "
            "state TEXT NOT NULL, at REAL NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL, "
            "PRIMARY KEY (kind, id)) WITHOUT ROWID"
        ),
        "CREATE INDEX records_at ON records (kind, at, id)",
        "CREATE INDEX records_of_agent ON records (kind, agent, at, id)",
        "CREATE INDEX records_in_state ON records (kind, state, at, id)",
        (
            "CREATE TABLE entries (epoch TEXT NOT NULL, seq INTEGER NOT NULL, "
            "at REAL NOT NULL, type TEXT NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL, "
            "PRIMARY KEY (epoch, seq)) WITHOUT ROWID"
        ),
        (
            "CREATE TABLE taken (agent TEXT NOT NULL, message_id TEXT NOT NULL, "
            "session_id TEXT NOT NULL, seq INTEGER NOT NULL, "
            "PRIMARY KEY (agent, message_id)) WITHOUT ROWID"
        ),
    ),
)
"""Migration number n makes version n of version n-1, and none is ever changed."""


def version_of(connection: sqlite3.Connection) -> int:
    """The file's version; 0 for an empty one."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the file to the newest version, in one transaction: all of it or nothing."""
    version = version_of(connection)
    if version >= len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in migrations[version:]:
            for statement in migration:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def apply(connection: sqlite3.Connection, change: Change) -> None:
    """Carry out one change, within whatever transaction is open."""
    match change:
        case Row():
            connection.execute(
                "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)",
                (
                    change.epoch,
                    change.seq,
                    change.at,
                    change.type,
                    change.body,
                    _crc(change.epoch, change.seq, change.body),
                ),
            )
        case Record():
            connection.execute(
                "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    change.kind,
                    change.id,
                    change.agent,
                    change.state,
                    change.at,
                    change.body,
                    _crc(change.kind, change.id, change.body),
                ),
            )
        case Taken():
            connection.execute(
                "INSERT OR IGNORE INTO taken VALUES (?, ?, ?, ?)",
                (change.agent, change.message_id, change.session_id, change.seq),
            )
        case Removed():
            connection.execute(
                "DELETE FROM records WHERE kind = ? AND id = ?", (change.kind, change.id)
            )


RECORDS = "SELECT kind, id, agent, state, at, body, crc FROM records WHERE "
ROWS = (
    "SELECT epoch, seq, at, type, body, crc FROM entries "
    "WHERE epoch = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
)
TAKEN = "SELECT agent, message_id, session_id, seq FROM taken WHERE agent = ? AND message_id = ?"


def record_from(found: tuple[object, ...]) -> Record:
    """The record of a line of RECORDS; raises StorageError if its body is not what was written."""
    *fields, crc = found
    record = Record(*fields)  # type: ignore[arg-type]  # what apply() wrote
    if _crc(record.kind, record.id, record.body) != crc:
        raise _spoilt(f"{record.kind} {record.id!r}")
    return record


def listed_record(found: tuple[object, ...]) -> Record:
    """As record_from, but one that is spoilt comes with an empty body, which is no JSON."""
    try:
        return record_from(found)
    except StorageError as error:
        log.error("%s; %s", error, error.hint)  # noqa: TRY400 - it says all there is
        *fields, _, _ = found
        return Record(*fields, b"")  # type: ignore[arg-type]  # what apply() wrote


def row_from(found: tuple[object, ...]) -> Row:
    """The row of a line of ROWS; raises StorageError as record_from does."""
    *fields, crc = found
    row = Row(*fields)  # type: ignore[arg-type]  # what apply() wrote
    if _crc(row.epoch, row.seq, row.body) != crc:
        raise _spoilt(f"entry {row.seq} of {row.epoch!r}")
    return row


def _crc(first: str, second: str | int, body: bytes) -> int:
    return crc32(body, crc32(f"{first} {second}".encode()))


def _spoilt(what: str) -> StorageError:
    return StorageError(
        "storage_corrupt",
        f"{what} is not what was stored: its checksum is wrong",
        "the disk or another program changed the file; restore it from a backup",
    )
