"""What memory lets go of, and what it keeps however full it is."""

from __future__ import annotations

import pytest

from agent_lab.domain.execution import Execution, Outcome, begun, ended
from agent_lab.infrastructure.line_memory import MemoryExecutions


def record(number: int, message: str = "go") -> Execution:
    return Execution(
        id=f"e{number}", ticket=f"t{number}", agent_name="a", kind="chat", message=message,
        queued_at=float(number), idempotency_key=f"k{number}",
    )  # fmt: skip


def over(execution: Execution, *, response: str = "", by_watchdog: bool = False) -> Execution:
    status = "timeout" if by_watchdog else "completed"
    outcome = Outcome(status=status, response=response, by_watchdog=by_watchdog)
    return ended(begun(execution, at=5.0, session_id="s"), outcome, at=6.0)


@pytest.mark.fault("I8")
@pytest.mark.parametrize(("kept", "size"), [(3, 1000), (100, 30)])
async def test_the_oldest_with_an_end_go_and_those_without_stay(kept: int, size: int) -> None:
    store = MemoryExecutions(kept=kept, size=size)
    store.put_execution(record(0, "waits" * 10))
    for number in range(1, 6):
        store.put_execution(record(number, "x" * 5))
        store.put_execution(over(record(number, "x" * 5), response="y" * 5))

    found = [await store.execution(f"e{number}") is not None for number in range(6)]
    assert found == [True, False, False, True, True, True]
    assert await store.by_key("a", "chat", "k1") is None
    assert await store.by_key("a", "chat", "k5") is not None


async def test_a_corrected_record_counts_once() -> None:
    store = MemoryExecutions(kept=100, size=20)
    late = over(record(1, "x" * 5), by_watchdog=True)
    store.put_execution(late)
    for _ in range(5):
        store.put_execution(ended(late, Outcome(status="completed", response="y" * 5), at=7.0))

    assert await store.execution("e1") is not None
