"""What every store of executions must do: one suite for all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_lab.application.ports import ExecutionStore
from agent_lab.domain.activity import Activity, ActivityQuery
from agent_lab.domain.execution import Execution, ExecutionQuery, Outcome, ToolUse, begun, ended
from tests.application.helpers_line import STORES


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ExecutionStore]:
    made, behind = STORES[request.param](tmp_path)
    yield made
    if behind is not None:
        await behind.close()


def record(number: int, **fields: object) -> Execution:
    said = {"id": f"e{number}", "ticket": f"t{number}", "agent_name": "a", "kind": "chat"}
    given = {**said, "message": "go", "queued_at": float(number), **fields}
    return Execution(**given)  # type: ignore[arg-type]  # checked at run time


def line(number: int, **fields: object) -> Activity:
    said = {"id": f"n{number}", "at": float(number), "agent_name": "a", "kind": "chat"}
    return Activity(**{**said, "text": "said", **fields})  # type: ignore[arg-type]  # checked at run time


async def ids(store: ExecutionStore, **query: object) -> list[str]:
    return [one.id for one in await store.executions(ExecutionQuery(**query))]  # type: ignore[arg-type]  # checked at run time


async def test_a_record_comes_back_whole(store: ExecutionStore) -> None:
    use = ToolUse(call_id="c", name="look", arguments={"at": ["x", 1, None]}, kind="result")
    outcome = Outcome(status="completed", response="ü", tool_calls=(use,), context_used=3)
    whole = ended(begun(record(1, mcp_key_id="k"), at=2.5, session_id="s"), outcome, at=3.5)
    empty = ended(begun(record(2), at=2.5, session_id="s"), Outcome(status="failed"), at=3.5)
    for one in (record(1), whole, empty):
        store.put_execution(one)
    await store.committed()

    assert await store.execution("e1") == whole
    assert await store.execution("e2") == empty, "null is not []"
    assert await store.execution("e3") is None


async def test_records_are_listed_newest_first_and_filtered(store: ExecutionStore) -> None:
    for number in range(1, 6):
        agent = "b" if number == 3 else "a"
        store.put_execution(
            record(number, agent_name=agent, source="agent" if number > 3 else "user")
        )
    store.put_execution(begun(record(2), at=9.0, session_id="s"))
    await store.committed()

    assert await ids(store) == ["e5", "e4", "e3", "e2", "e1"]
    assert await ids(store, agent_name="a", limit=2) == ["e5", "e4"]
    assert await ids(store, agent_name="a", before="e4") == ["e2", "e1"]
    assert await ids(store, before="e5", limit=2) == ["e4", "e3"]
    assert await ids(store, status="running") == ["e2"]
    assert await ids(store, source="agent", agent_name="a") == ["e5", "e4"]
    assert await ids(store, kind="task") == []
    assert await ids(store, before="nowhere") == []


async def test_what_has_no_end_is_found_oldest_first(store: ExecutionStore) -> None:
    for number in (1, 2, 3):
        store.put_execution(record(number))
    store.put_execution(ended(record(2), Outcome(status="cancelled"), at=4.0))
    store.put_execution(begun(record(3), at=4.0, session_id="s"))
    await store.committed()

    assert [one.id for one in await store.unfinished()] == ["e1", "e3"]


async def test_a_key_finds_its_newest_record_of_this_agent_and_kind(store: ExecutionStore) -> None:
    store.put_execution(record(1, idempotency_key="k"))
    store.put_execution(record(2, idempotency_key="k", body_digest="d"))
    store.put_execution(record(3, idempotency_key="k", kind="task"))
    await store.committed()

    found = await store.by_key("a", "chat", "k")
    assert found == record(2, idempotency_key="k", body_digest="d")
    assert await store.by_key("b", "chat", "k") is None
    assert await store.by_key("a", "chat", "l") is None


async def test_the_timeline_is_listed_newest_first_and_filtered(store: ExecutionStore) -> None:
    whole = line(1, facts={"n": [1, None]}, source="mcp", mcp_key_name="laptop", status="x")
    for one in (whole, line(2, kind="clear"), line(3, agent_name="b"), line(4)):
        store.put_activity(one)
    await store.committed()

    async def found(**query: object) -> list[str]:
        given = ActivityQuery(**query)  # type: ignore[arg-type]  # checked at run time
        return [one.id for one in await store.activity(given)]

    assert await found() == ["n4", "n3", "n2", "n1"]
    assert await found(agent_name="a", limit=2) == ["n4", "n2"]
    assert await found(kinds=frozenset({"clear"})) == ["n2"]
    assert await found(before="n2") == ["n1"]
    assert (await store.activity(ActivityQuery(before="n2")))[0] == whole
