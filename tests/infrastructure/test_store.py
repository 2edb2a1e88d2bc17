"""What every Store does, shown of the one in memory and the one on a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_lab.application.ports import Store
from agent_lab.domain.errors import StorageError
from agent_lab.domain.records import MAX_BODY, Record, Removed, Row, Taken
from agent_lab.infrastructure.sqlite import SqliteStore
from agent_lab.infrastructure.store_memory import MemoryStore

BODY = b'{"said":"hello"}'


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = (
        MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store/lab.db")
    )
    yield made
    await made.close()


def record(name: str, at: float = 1.0, *, agent: str = "a", state: str = "queued") -> Record:
    return Record("execution", name, agent, state, at, BODY)


def row(seq: int, session_id: str = "s_1") -> Row:
    return Row(session_id, seq, float(seq), "queue", BODY)


async def test_a_record_comes_back_as_it_was_written(store: Store) -> None:
    await store.write([record("e_1")])

    assert await store.record("execution", "e_1") == record("e_1")
    assert await store.record("execution", "e_2") is None
    assert await store.record("task", "e_1") is None


async def test_a_record_that_is_written_again_takes_the_place_of_the_older_one(
    store: Store,
) -> None:
    await store.write([record("e_1"), record("e_1", state="running")])

    assert await store.records("execution") == [record("e_1", state="running")]


async def test_a_record_that_was_removed_is_gone(store: Store) -> None:
    await store.write([record("e_1"), record("e_2")])

    await store.write([Removed("execution", "e_1")])

    assert await store.records("execution") == [record("e_2")]


async def test_records_are_listed_newest_first_by_agent_state_and_time(store: Store) -> None:
    one, two = record("e_1", 1.0), record("e_2", 2.0, state="running")
    three, other = record("e_3", 3.0, state="running"), record("e_4", 4.0, agent="b")
    await store.write([two, other, one, three])

    assert await store.records("execution") == [other, three, two, one]
    assert await store.records("execution", limit=2) == [other, three]
    assert await store.records("execution", before=(3.0, "")) == [two, one]
    assert await store.records("execution", before=(3.0, "e_3"), limit=1) == [two]
    assert await store.records("execution", agent="a", before=(3.0, "e_9")) == [three, two, one]
    assert await store.records("execution", agent="a") == [three, two, one]
    assert await store.records("execution", agent="a", states=["running"]) == [three, two]
    assert await store.records("execution", states=("running", "queued"), limit=1) == [other]


async def test_rows_come_back_in_order_and_in_pieces(store: Store) -> None:
    await store.write([row(2), row(3), row(1), row(1, "s_2")])

    assert await store.rows("s_1") == [row(1), row(2), row(3)]
    assert await store.rows("s_1", 1, 1) == [row(2)]
    assert await store.rows("s_1", 1, up_to=2) == [row(2)]
    assert await store.rows("s_3") == []


async def test_a_message_id_belongs_to_whoever_took_it_first(store: Store) -> None:
    await store.write([Taken("a", "m_1", "s_1", 4), Taken("a", "m_1", "s_2", 9)])

    assert await store.taken("a", "m_1") == Taken("a", "m_1", "s_1", 4)
    assert await store.taken("b", "m_1") is None


async def test_changes_are_stored_in_the_order_they_were_written(store: Store) -> None:
    writes = [store.write([record("e_1", float(number))]) for number in range(200)]

    await asyncio.gather(*map(store.sure, writes))

    assert await store.records("execution") == [record("e_1", 199.0)]


@pytest.mark.fault("S15")
async def test_a_body_that_is_too_long_is_refused_and_the_others_are_stored(store: Store) -> None:
    with pytest.raises(StorageError) as refused:
        store.write([Record("task", "t_1", "a", "queued", 1.0, bytes(MAX_BODY + 1))])

    await store.write([record("e_1")])
    assert refused.value.code == "storage_too_large"
    assert await store.records("execution") == [record("e_1")]


@pytest.mark.fault("S15")
@pytest.mark.fault("T24")
async def test_half_a_surrogate_pair_and_nul_in_an_id_reach_no_disk_as_poison(
    store: Store,
) -> None:
    await store.write([record("e_\ud800"), record("e_\0"), record("é")])

    assert [found.id for found in await store.records("execution")] == ["é", "e_?", "e_\0"]


async def test_nothing_can_be_written_to_a_closed_store(store: Store) -> None:
    await store.close()
    await store.close()

    with pytest.raises(StorageError, match="closed"):
        store.write([record("e_1")])
