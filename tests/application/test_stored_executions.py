"""Executions in a Store: found again, in line again, and one that cannot be read is buried."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from agent_lab.application.ports import Store
from agent_lab.application.stored_executions import StoredExecutions
from agent_lab.domain.activity import Activity, ActivityQuery
from agent_lab.domain.execution import Broken, Execution, ExecutionQuery, Status
from agent_lab.domain.records import Record
from agent_lab.infrastructure.sqlite import SqliteStore
from agent_lab.infrastructure.store_memory import MemoryStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = (
        MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store/lab.db")
    )
    yield made
    await made.close()


def execution(number: int, status: Status = "queued", *, key: str | None = None) -> Execution:
    return Execution(
        id=f"e_{number}",
        ticket=f"t_{number}",
        agent_name="a" if number % 2 else "b",
        kind="task",
        message="go",
        queued_at=float(number),
        status=status,
        idempotency_key=key,
    )


async def test_records_are_found_by_id_key_and_filter_newest_first(store: Store) -> None:
    kept = StoredExecutions(store)
    one, two, three = execution(1), execution(2, "running", key="k"), execution(3)
    for made in (one, two, three, execution(1, "completed")):
        kept.put_execution(made)
    await kept.committed()

    assert await kept.execution("e_1") == execution(1, "completed")
    assert await kept.execution("e_9") is None
    assert await kept.by_key("b", "task", "k") == two
    assert await kept.by_key("a", "task", "k") is None
    assert await kept.executions(ExecutionQuery()) == [three, two, execution(1, "completed")]
    assert await kept.executions(ExecutionQuery(agent_name="a", limit=1)) == [three]
    assert await kept.executions(ExecutionQuery(before="e_3", limit=1)) == [two]
    assert await kept.executions(ExecutionQuery(status="running")) == [two]


@pytest.mark.scenario("S18")
@pytest.mark.scenario("S19")
async def test_what_has_no_end_is_found_in_its_order_and_what_cannot_be_read_by_its_id(
    store: Store,
) -> None:
    kept = StoredExecutions(store)
    for made in (execution(1), execution(2, "running"), execution(3, "completed"), execution(5)):
        kept.put_execution(made)
    await store.write([Record("execution", "e_4", "a", "queued", 4.0, b'{"half":')])

    found = await kept.unfinished()

    assert [one.id for one in found] == ["e_1", "e_2", "e_4", "e_5"]
    assert isinstance(found[2], Broken)
    assert found[2].agent_name == "a"


async def test_the_timeline_is_read_by_kind_and_from_a_line_on(store: Store) -> None:
    kept = StoredExecutions(store)
    lines = [
        Activity(id=f"l_{n}", at=float(n), agent_name="a", kind=kind, text="it was")
        for n, kind in enumerate(("chat", "clear", "chat"), 1)
    ]
    for line in lines:
        kept.put_activity(line)
    await kept.committed()

    assert await kept.activity(ActivityQuery()) == lines[::-1]
    assert await kept.activity(ActivityQuery(kinds=frozenset(["clear"]))) == [lines[1]]
    assert await kept.activity(ActivityQuery(before="l_3", limit=1)) == [lines[1]]


async def test_more_than_a_page_is_read_to_its_end(store: Store) -> None:
    kept = StoredExecutions(store)
    for number in range(450):
        kept.put_execution(execution(number))
    await kept.committed()

    assert len(await kept.unfinished()) == 450


async def test_any_number_of_one_moment_are_read_page_by_page(store: Store) -> None:
    kept = StoredExecutions(store)
    made = [msgspec.structs.replace(execution(number), queued_at=5.0) for number in range(450)]
    for one in made:
        kept.put_execution(one)
    await kept.committed()
    found, before = list[Execution](), None
    while page := await kept.executions(ExecutionQuery(before=before, limit=130)):
        found += page
        before = page[-1].id

    assert len(found) == 450
    assert {one.id for one in found} == {one.id for one in made}
    assert len(await kept.unfinished()) == 450
