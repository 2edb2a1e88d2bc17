"""Token counts, each by its provider's meaning; context and cost of a session."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_lab.domain.messages import Usage
from agent_lab.domain.usage import (
    MOST,
    Meter,
    Prices,
    Spent,
    cached_beside,
    cached_inside,
    cost,
    count,
)


def test_cached_tokens_inside_the_input_are_not_added() -> None:
    assert cached_inside(100, 7, cached=60, reasoning=2) == Usage(100, 7, 60, None, 2, 100)


def test_cached_tokens_beside_the_input_are_added() -> None:
    assert cached_beside(30, 7, read=60, written=10) == Usage(30, 7, 60, 10, None, 100)
    assert cached_beside(30, 7).context_tokens == 30
    assert cached_beside(None, None).context_tokens is None


@pytest.mark.fault("P28")
@pytest.mark.parametrize("said", [None, -1, MOST, 10**30, 1.5, "7", True, [], float("nan")])
def test_what_is_no_count_is_no_number(said: Any) -> None:
    assert count(said) is None
    assert cached_inside(said, said, cached=said, reasoning=said) == Usage()
    assert cached_beside(said, said, read=said, written=said) == Usage()


def test_cost_is_of_each_kind_of_token() -> None:
    prices = Prices(input=2, output=10, cache_read=0.5, cache_write=4)
    beside = cached_beside(1_000_000, 1_000_000, read=1_000_000, written=1_000_000)
    inside = cached_inside(3_000_000, 1_000_000, cached=1_000_000)
    assert cost(beside, prices) == 2 + 10 + 0.5 + 4
    assert cost(inside, prices) == 4 + 10 + 0.5
    assert cost(beside, Prices(input=2, output=10)) == 6 + 10


def test_context_grows_within_a_session_and_a_turn_adds_up_its_own() -> None:
    meter = Meter(1000, Prices(input=1, output=1))
    meter.begin_turn()
    meter.add(cached_inside(100, 10))
    meter.add(cached_inside(400, 10))
    meter.begin_turn()
    assert meter.turn == Spent(context_used=400, context_max=1000, context_percent=40.0)
    meter.add(cached_inside(200, 5))
    assert meter.turn == Spent(
        context_used=400,
        context_max=1000,
        context_percent=40.0,
        input_tokens=200,
        output_tokens=5,
        cost_usd=205 / 1e6,
    )
    assert (meter.session.input_tokens, meter.session.output_tokens) == (700, 25)
    assert meter.session.cost_usd == pytest.approx(725 / 1e6)
    assert Meter(1000).session == Spent(context_max=1000), "a new session begins anew"


def test_what_nobody_said_stays_unknown() -> None:
    meter = Meter()
    meter.add(Usage())
    assert meter.session == Spent()
    meter.add(Usage(cost_usd=0.25))
    assert meter.session == Spent(cost_usd=0.25), "the provider's own word needs no prices"


COUNTS = st.none() | st.integers(-5, 2_000_000)


@given(st.lists(st.tuples(COUNTS, COUNTS, COUNTS)), st.none() | st.integers(1, 1_000_000))
def test_context_never_shrinks_and_is_never_over_the_whole(
    calls: list[tuple[Any, Any, Any]], window: int | None
) -> None:
    meter, before = Meter(window), 0
    for read, fresh, made in calls:
        meter.add(cached_beside(fresh, made, read=read))
        spent = meter.session
        assert (spent.context_used or 0) >= before
        assert spent.context_percent is None or 0 <= spent.context_percent <= 100
        before = spent.context_used or 0
