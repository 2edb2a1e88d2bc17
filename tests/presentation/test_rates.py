"""How often is too often."""

from __future__ import annotations

from agent_lab.presentation.rates import Rate


def test_a_burst_and_then_so_many_a_second() -> None:
    now = [0.0]
    rate = Rate(10, 3, lambda: now[0])

    assert [rate.take() for _ in range(4)] == [0, 0, 0, 0.1]
    now[0] = 0.25
    assert [rate.take() for _ in range(2)] == [0, 0]
    assert rate.take() > 0
    now[0] = 100
    assert [rate.take() > 0 for _ in range(4)] == [False, False, False, True]
