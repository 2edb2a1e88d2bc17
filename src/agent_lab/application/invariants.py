"""What must hold whatever happens, of a session and of the line; looking changes nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from agent_lab.application.executions import Executions
from agent_lab.application.line_control import KINDS, LineState
from agent_lab.application.served import ServedSession
from agent_lab.application.session import Session
from agent_lab.domain.execution import Execution, Kind
from agent_lab.domain.payloads import (
    Accepted,
    Cancelled,
    Delivered,
    Done,
    ToolCalled,
    ToolReplied,
    TurnFailed,
    Withdrawn,
)
from agent_lab.domain.redaction import SECRETS


class Problem(msgspec.Struct, frozen=True):
    """One thing that must not be; `code` is the machine's name for it."""

    code: str
    message: str


# -- a session -----------------------------------------------------------------------------------


def check_session(session: Session) -> list[Problem]:
    """Of what is still in memory: numbers without gaps, one end a turn, one a message, one a call;
    and nobody left waiting for a session that has ended."""
    _, entries = session.journal.read()
    found: list[Problem] = []
    name = f"session {session.session_id!r}"
    seqs = [entry.seq for entry in entries]
    if seqs and seqs != list(range(seqs[0], seqs[0] + len(seqs))):
        found.append(Problem("seq_gap", f"{name} has a gap in its numbers"))
    payloads = [entry.payload for entry in entries]
    turns = Counter(p.turn for p in payloads if isinstance(p, Done | TurnFailed | Cancelled))
    gone = Counter(p.message_id for p in payloads if isinstance(p, Delivered | Withdrawn))
    replies = Counter((p.turn, p.call_id) for p in payloads if isinstance(p, ToolReplied))
    calls = Counter((p.turn, p.call_id) for p in payloads if isinstance(p, ToolCalled))
    found += _twice("two_ends", f"{name}: turn", turns)
    found += _twice("two_deliveries", f"{name}: message", gone)
    if not seqs or seqs[0] == 1:
        found += [
            Problem("two_replies", f"{name}: call {key[1]!r} of turn {key[0]} has {count} replies")
            for key, count in replies.items()
            if count > calls[key]
        ]
    return found + _left_over(session, name, payloads)


def _left_over(session: Session, name: str, payloads: Sequence[object]) -> list[Problem]:
    if not session.is_idle:
        return []
    accepted = {p.message_id for p in payloads if isinstance(p, Accepted)}
    ended = {p.message_id for p in payloads if isinstance(p, Delivered | Withdrawn)}
    return [
        Problem("no_end", f"{name} is idle and message {key!r} has no end")
        for key in sorted(accepted - ended)
    ]


def _twice(code: str, what: str, counted: Mapping[Any, int]) -> list[Problem]:
    return [
        Problem(code, f"{what} {key!r} has {count} ends")
        for key, count in counted.items()
        if count > 1
    ]


# -- the line ------------------------------------------------------------------------------------


class Looked(Protocol):
    """What is looked at of the agents."""

    @property
    def names(self) -> list[str]:
        """Their names."""
        ...

    def sessions(self) -> list[ServedSession]:
        """Their sessions."""
        ...


class States(Protocol):
    """What is looked at of the lines."""

    async def state(self, agent_name: str, kind: Kind) -> LineState:
        """One line as it is."""
        ...


async def check_line(agents: Looked, states: States, book: Executions) -> list[Problem]:
    """Slots equal runs, the line within its bounds with positions 1 to n, nothing waits while a
    slot is free, nobody waits for what has ended, and no record tells a secret."""
    found: list[Problem] = []
    for name in agents.names:
        for kind in KINDS:
            found += _check_state(name, await states.state(name, kind), book)
    for execution in book.kept:
        found += _check_record(execution, book)
    if book.stray_waiters:
        found.append(Problem("stray_waiter", "somebody waits for an execution that has its end"))
    for served in agents.sessions():
        found += check_session(served.runtime.session)
    return found


def _check_state(name: str, state: LineState, book: Executions) -> Iterator[Problem]:
    what = f"agent {name!r}, {state.kind}"
    if state.held != len(state.running):
        yield Problem("slot_without_run", f"{what}: {state.held} slots, {len(state.running)} runs")
    if len(state.waiting) > state.room.waiting:
        yield Problem("line_too_long", f"{what}: {len(state.waiting)} wait")
    if state.waiting and state.held < state.room.slots:
        yield Problem("idle_slot", f"{what}: {len(state.waiting)} wait while a slot is free")
    positions = [book.position(execution.id) for execution in state.waiting]
    if positions != list(range(1, len(positions) + 1)):
        yield Problem("positions", f"{what}: positions {positions}")


def _check_record(execution: Execution, book: Executions) -> Iterator[Problem]:
    texts = (execution.response, execution.error)
    if SECRETS and any(SECRETS.are_in(text) for text in texts if text):
        yield Problem("secret", f"execution {execution.id!r} tells a secret")
    in_line = book.position(execution.id) is not None
    if execution.status == "running" and in_line:
        yield Problem("runs_and_waits", f"execution {execution.id!r} runs and stands in line")
