"""States of an execution: one end each, and the one correction that there is."""

from __future__ import annotations

from typing import get_args

import pytest

from agent_lab.domain.errors import AlreadyTerminal, InvalidTransition
from agent_lab.domain.execution import (
    TERMINAL,
    TRANSITIONS,
    Execution,
    ExecutionQuery,
    Outcome,
    Status,
    Terminal,
    begun,
    ended,
)


def execution(**fields: object) -> Execution:
    said = {"id": "e", "ticket": "t", "agent_name": "a", "kind": "chat", "message": "go"}
    return Execution(**{**said, "queued_at": 1.0, **fields})  # type: ignore[arg-type]  # checked at run time


def running() -> Execution:
    return begun(execution(), at=5.0, session_id="chat:a")


def test_every_state_has_its_row_and_every_end_is_an_end() -> None:
    assert set(TRANSITIONS) == set(get_args(Status))
    assert set(get_args(Terminal)) == TERMINAL


def test_it_starts_when_it_is_granted() -> None:
    assert running() == execution(status="running", started_at=5.0, session_id="chat:a")


def test_an_end_says_how_much_of_the_context_is_used() -> None:
    done = ended(
        running(),
        Outcome(status="completed", response="Hi.", context_used=50, context_max=400, turn=3),
        at=9.0,
    )

    assert (done.context_percent, done.turn, done.response) == (12.5, 3, "Hi.")
    assert (done.finished_at, done.error, done.tool_calls) == (9.0, None, None)


@pytest.mark.scenario("S56")
@pytest.mark.parametrize("first", sorted(TERMINAL - {"skipped"}))
@pytest.mark.parametrize("second", sorted(TERMINAL))
def test_who_has_an_end_gets_no_other(first: Terminal, second: Terminal) -> None:
    done = ended(running(), Outcome(status=first), at=6.0)

    with pytest.raises(AlreadyTerminal) as caught:
        ended(done, Outcome(status=second), at=7.0)
    assert caught.value.status == first
    with pytest.raises(AlreadyTerminal):
        begun(done, at=7.0, session_id=None)


@pytest.mark.scenario("S57")
@pytest.mark.parametrize("first", ["failed", "timeout"])
def test_what_the_watchdog_said_is_corrected_by_a_late_success(first: Terminal) -> None:
    said = ended(running(), Outcome(status=first, by_watchdog=True), at=6.0)

    done = ended(said, Outcome(status="completed", response="Late."), at=7.0)

    assert (done.status, done.response, done.superseded) == ("completed", "Late.", first)
    assert done.error is None
    with pytest.raises(AlreadyTerminal):
        ended(done, Outcome(status="failed"), at=8.0)


@pytest.mark.scenario("S57")
@pytest.mark.parametrize(
    ("first", "late"),
    [
        (Outcome(status="cancelled", by_watchdog=True), "completed"),
        (Outcome(status="failed"), "completed"),
        (Outcome(status="timeout", by_watchdog=True), "failed"),
    ],
)
def test_nothing_else_is_corrected(first: Outcome, late: Terminal) -> None:
    with pytest.raises(AlreadyTerminal):
        ended(ended(running(), first, at=6.0), Outcome(status=late), at=7.0)


def test_a_wait_that_ran_out_is_not_corrected_by_a_late_grant() -> None:
    waited = ended(execution(), Outcome(status="timeout", by_watchdog=True), at=6.0)

    with pytest.raises(AlreadyTerminal):
        ended(waited, Outcome(status="completed"), at=7.0)


def test_what_never_ran_cannot_complete() -> None:
    with pytest.raises(InvalidTransition, match="'e' is queued and cannot become completed"):
        ended(execution(), Outcome(status="completed"), at=6.0)


@pytest.mark.scenario("S70")
@pytest.mark.parametrize("status", sorted(TERMINAL - {"completed", "skipped"}))
@pytest.mark.parametrize("blank", [None, "", " \n"])
def test_an_error_is_never_blank(status: Terminal, blank: str | None) -> None:
    said = ended(running(), Outcome(status=status, error=blank), at=6.0).error
    coded = ended(running(), Outcome(status=status, error=blank, error_code="x"), at=6.0).error

    assert said is not None
    assert said.strip()
    assert coded == f"{said} (x)"


def test_a_query_fits_by_every_filter() -> None:
    one = execution(source="agent")

    assert ExecutionQuery().fits(one)
    assert ExecutionQuery(agent_name="a", status="queued", source="agent", kind="chat").fits(one)
    assert not ExecutionQuery(agent_name="b").fits(one)
    assert not ExecutionQuery(status="running").fits(one)
    assert not ExecutionQuery(source="user").fits(one)
    assert not ExecutionQuery(kind="task").fits(one)
