"""The store's file: who may read it, who has it, whether it is whole, and what its faults mean."""

import logging
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from agent_lab.domain.errors import StorageCode, StorageError
from agent_lab.infrastructure.sqlite_schema import MIGRATIONS, Migration, migrate, version_of

log = logging.getLogger("agent_lab")

HEADER = b"SQLite format 3\0"
EXAMINED = 64 << 20
"""Bytes of the largest file that is looked through before it is used."""

_CODES: dict[str, tuple[StorageCode, str]] = {
    "SQLITE_FULL": ("storage_full", "make room on the disk; it is tried again by itself"),
    "SQLITE_BUSY": ("storage_busy", "another program holds the file; end it, it is tried again"),
    "SQLITE_LOCKED": ("storage_busy", "another program holds the file; end it, it is tried again"),
    "SQLITE_READONLY": ("storage_readonly", "give the user of this process the right to write"),
    "SQLITE_CANTOPEN": ("storage_readonly", "look at the rights of the file and of its folder"),
    "SQLITE_PERM": ("storage_readonly", "give the user of this process the right to write"),
    "SQLITE_CORRUPT": ("storage_corrupt", "move the file aside, or restore it from a backup"),
    "SQLITE_NOTADB": ("storage_corrupt", "move the file aside, or restore it from a backup"),
}


def named(error: sqlite3.Error | OSError, path: Path) -> StorageError:
    """The fault as a StorageError."""
    if isinstance(error, OSError):
        code: StorageCode = "storage_full" if error.errno == 28 else "storage_readonly"
        said, hint = error.strerror or str(error), "look at the rights of the file and its folder"
    else:
        name = getattr(error, "sqlite_errorname", "") or ""
        kind = "_".join(name.split("_")[:2])
        code, hint = _CODES.get(kind, ("storage_failed", "see the log; it is tried again"))
        said = f"{error} ({name})" if name else str(error)
    return StorageError(code, f"the store {path} cannot be used: {said}", hint)


def prepare(path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Make the file, or see that it can be used and bring it to the newest version.

    Have its Lock. What is there is not changed when it cannot be used. Raises StorageError.
    """
    try:
        if not path.exists():
            _create(path, migrations)
        else:
            _check_file(path, len(migrations))
            _examine(path)
            _upgrade(path, migrations)
        path.chmod(0o600)  # SQLite gives -wal and -shm the rights of the file (T20)
    except (sqlite3.Error, OSError) as error:
        raise named(error, path) from error


def beside(path: Path, ending: str) -> Path:
    """The file of that name with this ending."""
    return path.with_name(path.name + ending)


def check_place(path: Path) -> None:
    """See that the file may lie there, and make its folder; raises StorageError."""
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
    except OSError as error:
        raise named(error, path) from error
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise _unsafe(path, f"everybody may write to its folder {folder}", "chmod o-w it")
    if path.is_symlink():
        raise _unsafe(path, "it is a symbolic link", "name the file itself")
    if path.is_dir():
        raise _corrupt(path, "it is a folder", "name a file in it, such as lab.db")
    if path.exists() and path.stat().st_uid != os.geteuid():
        raise _unsafe(path, "it belongs to another user", "name another file")


def _create(path: Path, migrations: Sequence[Migration]) -> None:
    """Made whole beside it and then moved there, so that there never is half a store."""
    made = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        with closing(connect(made / path.name)) as connection:
            migrate(connection, migrations)
        (made / path.name).chmod(0o600)
        (made / path.name).replace(path)
        _sync(path.parent)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _check_file(path: Path, newest: int) -> None:
    """Look at the header before SQLite does, which might write."""
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(HEADER):
        raise _corrupt(path, "it is no SQLite database", "name another file, or move it aside")
    version = int.from_bytes(header[60:64], "big")
    if version > newest:
        raise _newer(path, version, newest)


def _examine(path: Path) -> None:
    """After an unclean end, or if it is small, look through a copy: the original stays as it is.

    A log that belongs to another file would be written into this one when it is closed.
    """
    files = [name for name in (path, beside(path, "-wal")) if name.exists()]
    if sum(name.stat().st_size for name in files) > EXAMINED:
        return
    copy = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        with suppress(OSError):  # no room for a copy
            for name in files:
                shutil.copyfile(name, copy / name.name)
        if any(not (copy / name.name).exists() for name in files):
            return
        with closing(sqlite3.connect(copy / path.name)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if found != ("ok",):
            raise _corrupt(path, f"SQLite finds: {found[0]}", "restore it from a backup")
        if not {"records", "entries", "taken"} <= tables:
            raise _corrupt(path, "its tables are not a store's", "name another file")
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _upgrade(path: Path, migrations: Sequence[Migration]) -> None:
    with closing(connect(path)) as connection:
        version = version_of(connection)
        if version > len(migrations):
            raise _newer(path, version, len(migrations))
        if version == len(migrations):
            return
        kept = beside(path, f".v{version}")
        with closing(sqlite3.connect(kept)) as backup:
            kept.chmod(0o600)
            connection.backup(backup)
        migrate(connection, migrations)


def connect(path: Path, *, patience: float = 2.0) -> sqlite3.Connection:
    """A connection that the store may use; only the writer's writes.

    `patience`: seconds that it waits for another program's lock. Where shared memory cannot be
    had, as on a network file system, SQLite keeps its older journal, which is as safe and slower.
    """
    connection = sqlite3.connect(
        path, timeout=patience, isolation_level=None, check_same_thread=False
    )
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # now, not later
    except sqlite3.Error:
        connection.close()
        raise
    if mode != "wal":
        log.warning("the store %s has no WAL, but journal mode %r: slower, as safe", path, mode)
    return connection


def _sync(folder: Path) -> None:
    """A new name survives a power cut once its folder is synced."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- who has it ----------------------------------------------------------------------------------


class Lock:
    """One server a file: held for as long as the store is open, and it says by whom.

    Its file is left where it is when it is let go of, or two could have it.
    """

    def __init__(self, path: Path) -> None:
        """Take it; raises StorageError when another process has it."""
        import fcntl

        self._path = beside(path, ".lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._handle = os.open(self._path, flags, 0o600)
        except OSError as error:
            raise named(error, path) from error
        held = os.read(self._handle, 20)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise StorageError(
                "storage_locked",
                f"the store {path} is in use by process {held.decode(errors='replace') or '?'}",
                "stop that server, or name another file with --store",
            ) from None
        with suppress(OSError):  # a full disk does not matter here
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let others have it."""
        os.close(self._handle)


# -- refusals ------------------------------------------------------------------------------------


def _unsafe(path: Path, why: str, hint: str) -> StorageError:
    return StorageError("storage_unsafe", f"the store {path} is not used: {why}", hint)


def _corrupt(path: Path, why: str, hint: str) -> StorageError:
    return StorageError("storage_corrupt", f"the store {path} is not used: {why}", hint)


def _newer(path: Path, version: int, newest: int) -> StorageError:
    return StorageError(
        "storage_newer",
        f"the store {path} has version {version}, and this agent_lab knows {newest}",
        "use the agent_lab that wrote it, or name another file",
    )
