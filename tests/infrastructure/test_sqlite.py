"""The store's file: rights, lock, versions, and what happens when the disk does not play along."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from agent_lab.domain.errors import StorageError
from agent_lab.domain.records import Record, Row
from agent_lab.infrastructure import sqlite_file
from agent_lab.infrastructure.sqlite import SqliteStore
from agent_lab.infrastructure.sqlite_file import beside, connect, prepare
from agent_lab.infrastructure.sqlite_schema import MIGRATIONS, migrate, version_of

BODY = b'{"said":"' + b"hello " * 20 + b'"}'
BOUND = 5.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "lab.db"


@asynccontextmanager
async def opened(path: Path, **options: Any) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, **{"pause": 0.02, "patience": 0.1, **options})
    try:
        async with asyncio.timeout(BOUND):
            yield store
    finally:
        await store.close()


def row(seq: int) -> Row:
    return Row("s_1", seq, float(seq), "queue", BODY)


async def seqs(store: SqliteStore) -> list[int]:
    return [found.seq for found in await store.rows("s_1")]


def refused(path: Path) -> StorageError:
    """Why this file cannot be opened."""
    with pytest.raises(StorageError) as caught:
        SqliteStore(path)
    assert str(path) in str(caught.value)
    assert caught.value.hint
    return caught.value


# -- rights and place ----------------------------------------------------------------------------


@pytest.mark.fault("T20")
async def test_all_files_are_for_their_owner_alone_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        async with opened(path) as store:
            await store.write([row(1)])
            modes = {name.name: name.stat().st_mode & 0o777 for name in path.parent.iterdir()}
    finally:
        os.umask(before)

    names = {"lab.db", "lab.db-wal", "lab.db-shm", "lab.db.lock"}
    assert modes == dict.fromkeys(names, 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_link_and_a_folder_of_everybody_are_refused(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(0o700)
    path.symlink_to(tmp_path / "elsewhere")
    linked = refused(path)
    path.unlink()
    path.parent.chmod(0o777)

    assert (linked.code, refused(path).code) == ("storage_unsafe", "storage_unsafe")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.fault("S13")
async def test_a_second_server_is_refused_and_told_by_whom(path: Path) -> None:
    async with opened(path):
        second = refused(path)
    async with opened(path) as again:
        await again.write([row(1)])

    assert second.code == "storage_locked"
    assert f"process {os.getpid()}" in str(second)


def _open_as_nobody(path: str, said: Any) -> None:
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        SqliteStore(Path(path))
    except StorageError as error:
        said.send(error.code)


def forked(target: Callable[..., None], *args: Any) -> None:
    """Run it in a process of its own, to the end."""
    child = multiprocessing.get_context("fork").Process(target=target, args=args)
    child.start()
    child.join(BOUND)
    assert child.exitcode is not None


@pytest.mark.fault("S08")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_that_cannot_be_written_is_named_at_the_start(*, is_there: bool) -> None:
    with tempfile.TemporaryDirectory() as parent:
        path = Path(parent, "locked", "lab.db")
        path.parent.mkdir()
        if is_there:
            prepare(path)
        for name in (path.parent, path.parent.parent):
            name.chmod(0o555)
        hears, says = multiprocessing.Pipe(duplex=False)
        forked(_open_as_nobody, str(path), says)
        path.parent.chmod(0o755)
        path.parent.parent.chmod(0o755)

        assert hears.poll(BOUND)
        assert hears.recv() in ("storage_readonly", "storage_unsafe" if is_there else None)


# -- files that are none -------------------------------------------------------------------------


def _text(path: Path) -> None:
    path.write_text("these are my notes, and no database at all; keep them " * 3)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def _flip(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[4096:4112] = bytes(16)  # the head of the second page
    path.write_bytes(whole)


def _other(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE notes (text)")


def _foreign_log(path: Path) -> None:
    """The log of a larger store, which SQLite would write into this one."""
    other = path.with_name("other.db")
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE notes (text)")
        connection.executemany("INSERT INTO notes VALUES (?)", [("x" * 900,)] * 20)
        connection.commit()
        shutil.copyfile(beside(other, "-wal"), beside(path, "-wal"))


@pytest.mark.fault("S04")
@pytest.mark.fault("S05")
@pytest.mark.parametrize("spoil", [_text, _empty, _cut, _flip, _other, _foreign_log])
async def test_a_file_that_is_no_store_is_refused_and_stays_as_it_is(
    path: Path, spoil: Callable[[Path], None]
) -> None:
    async with opened(path) as store:
        await store.write([row(seq) for seq in range(1, 100)])
    spoil(path)
    before = path.read_bytes()

    fault = refused(path)

    assert fault.code == "storage_corrupt"
    assert path.read_bytes() == before


@pytest.mark.fault("S04")
def test_a_folder_in_its_place_is_refused(path: Path) -> None:
    path.mkdir(parents=True)

    assert refused(path).code == "storage_corrupt"


@pytest.mark.fault("S05")
async def test_without_its_log_a_store_opens_with_what_was_in_the_file(path: Path) -> None:
    async with opened(path) as store:
        await store.write([row(1)])
    beside(path, "-wal").unlink(missing_ok=True)

    async with opened(path) as again:
        assert await seqs(again) == [1]


@pytest.mark.fault("S05")
def test_shared_memory_that_cannot_be_had_is_named(path: Path) -> None:
    prepare_folder(path)
    beside(path, "-shm").symlink_to(path.parent / "nowhere")

    assert refused(path).code == "storage_readonly"


@pytest.mark.fault("T22")
async def test_a_bit_that_flipped_in_a_text_is_noticed_when_it_is_read(path: Path) -> None:
    async with opened(path) as store:
        await store.write([row(1), Record("task", "t_1", "a", "queued", 1.0, BODY)])
    path.write_bytes(path.read_bytes().replace(b"hello hello", b"hellp hello"))

    async with opened(path) as store:
        for read in (store.rows("s_1"), store.record("task", "t_1")):
            with pytest.raises(StorageError, match="checksum") as caught:
                await read
            assert caught.value.code == "storage_corrupt"


@pytest.mark.fault("T22")
@pytest.mark.scenario("S19")
async def test_a_record_that_is_spoilt_spoils_no_list_and_is_there_by_its_id(path: Path) -> None:
    good = Record("task", "t_2", "a", "queued", 2.0, b'"well"')
    async with opened(path) as store:
        await store.write([Record("task", "t_1", "a", "queued", 1.0, BODY), good])
    path.write_bytes(path.read_bytes().replace(b"hello hello", b"hellp hello"))

    async with opened(path) as store:
        found = await store.records("task", states=["queued"])

    assert found == [good, Record("task", "t_1", "a", "queued", 1.0, b"")]


# -- versions ------------------------------------------------------------------------------------


def prepare_folder(path: Path) -> None:
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    prepare(path)


@pytest.mark.fault("S06")
def test_a_newer_file_is_refused_and_not_written(path: Path) -> None:
    prepare_folder(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()

    fault = refused(path)

    assert fault.code == "storage_newer"
    assert path.read_bytes() == before


LATER = (*MIGRATIONS, ("ALTER TABLE taken ADD at REAL", "CREATE INDEX later ON taken (at)"))


@pytest.mark.fault("S06")
async def test_an_older_file_becomes_a_newer_one_and_the_older_is_kept(path: Path) -> None:
    async with opened(path) as store:
        await store.write([row(1)])

    prepare(path, LATER)

    kept = beside(path, ".v1")
    with closing(sqlite3.connect(path)) as new, closing(sqlite3.connect(kept)) as old:
        assert (version_of(new), version_of(old)) == (2, 1)
        for connection in (new, old):
            assert connection.execute("SELECT count(*) FROM entries").fetchone() == (1,)
    assert kept.stat().st_mode & 0o777 == 0o600


def _die_at(path: str, statement: int) -> None:
    """Migrate, and be killed before this statement."""
    connection = connect(Path(path))
    seen = 0

    def traced(_: str) -> None:
        nonlocal seen
        seen += 1
        if seen > statement:
            os.kill(os.getpid(), signal.SIGKILL)

    connection.set_trace_callback(traced)
    migrate(connection, LATER)


@pytest.mark.fault("S07")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_killed_at_any_statement_of_a_migration_a_file_is_old_or_new(path: Path) -> None:
    prepare_folder(path)
    old = path.read_bytes()
    versions: list[int] = []
    for statement in range(8):
        for name in path.parent.iterdir():
            name.unlink()
        path.write_bytes(old)
        forked(_die_at, str(path), statement)
        with closing(sqlite3.connect(path)) as connection:
            columns = len(connection.execute("PRAGMA table_info(taken)").fetchall())
            versions.append(version_of(connection))
            assert columns == (5 if versions[-1] == 2 else 4)

    assert sorted(versions) == versions
    assert set(versions) == {1, 2}


@pytest.mark.fault("S17")
def test_where_there_is_no_shared_memory_the_older_journal_is_taken_and_said(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prepare_folder(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")

    # a VFS that locks by files beside it, as some network file systems must, has no shared memory
    where: Any = f"file:{path}?vfs=unix-dotfile"
    with pytest.MonkeyPatch.context() as patch:
        real = sqlite3.connect
        patch.setattr(
            sqlite_file.sqlite3,
            "connect",
            lambda _path, **options: real(where, uri=True, **options),
        )
        with closing(connect(path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert "has no WAL" in caplog.text


# -- the disk does not play along ----------------------------------------------------------------


@pytest.mark.fault("S01")
@pytest.mark.fault("T22")
async def test_a_full_disk_is_named_at_once_and_what_waited_is_stored_when_there_is_room(
    path: Path,
) -> None:
    async with opened(path) as store:
        await store.sure(store.write([row(1)]))
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        large = store.write([row(seq) for seq in range(2, 200)])

        with pytest.raises(StorageError) as caught:
            await store.sure(large)
        with pytest.raises(StorageError):  # while it lasts, at once
            await store.sure(store.write([row(200)]))
        assert (caught.value.code, await seqs(store)) == ("storage_full", [1])

        store._connection.execute("PRAGMA max_page_count = 1000000")
        await large
        await store.sure(store.write([row(201)]))
        assert store.fault is None
        assert await seqs(store) == list(range(1, 202))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own with 300 KiB; only root may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k,mode=0700", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a disk; max_page_count shows the same above")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.fault("S01")
@pytest.mark.fault("S02")
async def test_on_a_disk_that_really_is_full_every_row_that_was_acknowledged_stays(
    small_disk: Path,
) -> None:
    sure = 0
    async with opened(small_disk / "lab.db") as store:
        with suppress(StorageError):
            while True:
                await store.sure(store.write([row(sure + 1)]))
                sure += 1
        fault = store.fault
    async with opened(small_disk / "lab.db") as again:
        kept = await seqs(again)

    assert fault is not None
    assert fault.code == "storage_full"
    assert sure >= 30
    assert kept[:sure] == list(range(1, sure + 1))


@pytest.mark.fault("S03")
async def test_a_lock_of_another_program_is_named_and_never_stops_the_loop(path: Path) -> None:
    async with opened(path) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            written = store.write([row(1)])
            ticks = 0
            waiting = asyncio.ensure_future(store.sure(written))
            while not waiting.done():
                ticks += 1
                await asyncio.sleep(0.005)
            fault = waiting.exception()
            other.execute("COMMIT")
        await written

        assert isinstance(fault, StorageError)
        assert fault.code == "storage_busy"
        assert ticks > 5
        assert await seqs(store) == [1]


@pytest.mark.fault("S11")
async def test_whatever_statement_fails_nothing_is_half_stored_and_nothing_is_lost(
    path: Path,
) -> None:
    faults = 0
    async with opened(path, pause=0.001) as store:
        for step in range(80):
            left = step

            def interrupt() -> bool:
                nonlocal left, faults
                left -= 1
                faults += left == 0
                return left == 0

            store._connection.set_progress_handler(interrupt, 1)
            first = step * 10 + 1
            await store.write([row(first), row(first + 1)])
        found = await seqs(store)

    assert faults > 30
    assert found == [seq for step in range(80) for seq in (step * 10 + 1, step * 10 + 2)]


@pytest.mark.fault("S12")
@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_deleted_or_replaced_while_it_is_open_is_noticed(
    path: Path, *, replaced: bool
) -> None:
    async with opened(path) as store:
        await store.write([row(1)])
        path.unlink()
        if replaced:
            path.write_bytes(b"")

        with pytest.raises(StorageError) as caught:
            await store.sure(store.write([row(2)]))

    assert caught.value.code == "storage_gone"


@pytest.mark.fault("S12")
async def test_it_is_noticed_when_nobody_writes_too(path: Path) -> None:
    async with opened(path) as store:
        await store.write([row(1)])
        path.unlink()
        with pytest.raises(StorageError) as caught:
            await store.sure(asyncio.get_running_loop().create_future())

        assert caught.value.code == "storage_gone"


@pytest.mark.fault("S16")
async def test_a_reader_that_holds_an_old_state_is_said_when_the_log_grows(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_lab.infrastructure.sqlite_writer.LARGE", 1 << 18)
    async with opened(path) as store:
        await store.write([row(1)])
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM entries").fetchone()
            for first in range(2, 30_000, 3000):
                await store.write([row(seq) for seq in range(first, first + 3000)])
            await store.write([row(2)])

    assert [record.message for record in caplog.records if "reader holds" in record.message]


@pytest.mark.fault("S10")
async def test_after_a_power_cut_at_any_byte_what_was_acknowledged_is_there(path: Path) -> None:
    """The log as a disk may hold it: all that was synced, and of the rest any part, or noise."""
    chance = random.Random(10)
    log = beside(path, "-wal")
    states: list[tuple[int, int]] = []
    async with opened(path) as store:
        for seq in range(1, 31):
            await store.sure(store.write([row(seq)]))
            states.append((seq, log.stat().st_size))
        whole, file = log.read_bytes(), path.read_bytes()
    for acknowledged, synced in states:
        cut = path.parent / f"cut-{acknowledged}" / "lab.db"
        cut.parent.mkdir()
        cut.write_bytes(file)
        rest = bytearray(whole[synced : chance.randint(synced, len(whole))])
        for _ in range(min(len(rest), 20)):
            rest[chance.randrange(len(rest))] ^= 0xFF
        beside(cut, "-wal").write_bytes(whole[:synced] + rest)
        async with opened(cut) as store:
            found = await seqs(store)
        assert found[:acknowledged] == list(range(1, acknowledged + 1))


@pytest.mark.fault("S14")
async def test_lists_are_quick_in_a_store_of_many_records_and_it_opens_at_once(
    path: Path,
) -> None:
    prepare_folder(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) "
            "INSERT INTO records SELECT 'execution', 'e' || i, 'a' || (i % 7), "
            "CASE i % 1000 WHEN 0 THEN 'queued' ELSE 'completed' END, i, x'7b7d', 0 FROM n"
        )
        plans = [
            connection.execute(
                f"EXPLAIN QUERY PLAN SELECT * FROM records WHERE kind = 'execution' {where} "
                "ORDER BY at DESC, id DESC LIMIT 50"
            ).fetchall()
            for where in ("", "AND agent = 'a1'", "AND state IN ('queued')", "AND at < 5.0")
        ]

    begun = time.perf_counter()
    SqliteStore(path)._lock.release()
    took = time.perf_counter() - begun

    assert took < 2
    assert not any("SCAN" in str(plan) or "TEMP B-TREE" in str(plan) for plan in plans)
