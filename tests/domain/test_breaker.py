"""The breaker of a provider and host, on a clock that the test moves."""

from __future__ import annotations

import pytest

from agent_lab.domain.breaker import ECHO, FAILURES, FIRST_PAUSE, LONGEST_PAUSE, Breaker


def fail(breaker: Breaker, at: float, times: int = 1) -> None:
    for _ in range(times):
        ticket = breaker.admit(at)
        assert ticket is not None
        breaker.unreachable(ticket, at, "refused")


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker()
    fail(breaker, at, FAILURES)
    return breaker


def test_it_opens_with_the_third_failure_in_a_row() -> None:
    breaker = Breaker()
    fail(breaker, 0, FAILURES - 1)
    assert breaker.state(0) == "closed"
    fail(breaker, 0)
    assert (breaker.state(0), breaker.admit(0), breaker.reason) == ("open", None, "refused")
    assert breaker.wait(10) == FIRST_PAUSE - 10


def test_an_answer_between_failures_begins_the_count_anew() -> None:
    breaker = Breaker()
    for _ in range(5):
        fail(breaker, 0, FAILURES - 1)
        breaker.reached()
    assert breaker.state(0) == "closed"


def test_one_probe_goes_when_the_pause_is_over() -> None:
    breaker = opened()
    assert breaker.admit(FIRST_PAUSE - 0.1) is None
    assert breaker.state(FIRST_PAUSE) == "half_open"
    assert breaker.admit(FIRST_PAUSE) is not None
    assert breaker.admit(FIRST_PAUSE) is None, "only one"


def test_each_failed_probe_doubles_the_pause_up_to_its_most() -> None:
    breaker, at, pauses = opened(), 0.0, list[float]()
    for _ in range(6):
        pauses.append(breaker.wait(at))
        at += breaker.wait(at)
        fail(breaker, at)
    assert pauses == [30, 60, 120, 240, LONGEST_PAUSE, LONGEST_PAUSE]


def test_a_probe_that_reaches_the_host_closes_it() -> None:
    breaker = opened()
    fail(breaker, FIRST_PAUSE)
    assert breaker.admit(FIRST_PAUSE * 3) is not None
    breaker.reached()
    assert breaker.state(100) == "closed"
    fail(breaker, 100, FAILURES)
    assert breaker.wait(100) == FIRST_PAUSE, "the next pause is a first one again"


@pytest.mark.scenario("S66")
def test_a_cancelled_call_counts_as_nothing_and_gives_the_probe_back() -> None:
    breaker = Breaker()
    fail(breaker, 0, FAILURES - 1)
    for _ in range(10):
        breaker.returned(breaker.admit(0))
    assert breaker.state(0) == "closed"
    fail(breaker, 0)
    breaker.returned(breaker.admit(FIRST_PAUSE))
    assert breaker.admit(FIRST_PAUSE) is not None


@pytest.mark.scenario("S67")
def test_asking_for_the_state_spends_no_probe() -> None:
    breaker = opened()
    assert [breaker.state(FIRST_PAUSE) for _ in range(3)] == ["half_open"] * 3
    assert breaker.wait(FIRST_PAUSE) == 0
    assert breaker.admit(FIRST_PAUSE) is not None


@pytest.mark.scenario("S65")
def test_failures_right_behind_a_dropped_stream_are_its_echo() -> None:
    breaker = Breaker()
    breaker.dropped(10)
    fail(breaker, 10 + ECHO, 10)
    assert breaker.state(10 + ECHO) == "closed"
    fail(breaker, 10.1 + ECHO, FAILURES)
    assert breaker.state(10.1 + ECHO) == "open"


def test_a_call_from_before_it_opened_neither_doubles_the_pause_nor_spends_the_probe() -> None:
    breaker = Breaker()
    late = breaker.admit(0)
    fail(breaker, 0, FAILURES)
    breaker.unreachable(late, 20, "refused")
    assert breaker.wait(20) == FIRST_PAUSE - 20
    probe = breaker.admit(FIRST_PAUSE)
    breaker.returned(late)
    assert breaker.admit(FIRST_PAUSE) is None, "the probe is still under way"
    breaker.unreachable(probe, FIRST_PAUSE, "refused")
    assert breaker.wait(FIRST_PAUSE) == 2 * FIRST_PAUSE
