"""What an agent does now, and what its newest entries say of it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec

from agent_lab.application.journal import Entry
from agent_lab.application.served import ServedSession
from agent_lab.domain.payloads import Assistant, End
from agent_lab.domain.settling import (
    AgentStatus,
    Fault,
    Permission,
    Settled,
    permission,
    settled,
)

_CHUNK = 32
"""Entries that are read at once on the way back through a journal."""


class Elsewhere(Protocol):
    """What an agent has to do besides what its session knows of: messages that stand in line."""

    def is_busy(self) -> bool:
        """Whether there is any."""
        ...

    def listen(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Tell when that may have changed, until what is given back is called."""
        ...


def is_busy(served: ServedSession, elsewhere: Elsewhere | None) -> bool:
    """Whether it works, or has accepted what it has not begun."""
    is_idle = served.runtime.session.is_idle
    return not is_idle or (elsewhere is not None and elsewhere.is_busy())


def at_rest(served: ServedSession, after: int | None = None) -> Settled:
    """An agent that rests: by the end of its last turn, if that came behind `after`."""
    last = next((one for one in newest(served) if isinstance(one.payload, End)), None)
    if last is None or not isinstance(last.payload, End):
        return Settled(status="idle", reason="at_rest", seq=served.last_seq)
    found = settled(last.seq, last.payload)
    if after is None or last.seq > after:
        return msgspec.structs.replace(found, pending=0)
    status, fault = found.status, found.error
    return Settled(status=status, reason="at_rest", seq=served.last_seq, error=fault)


def closed(served: ServedSession) -> Settled:
    """A session that takes nothing any more, and why."""
    failure = served.runtime.session.journal.failure
    if failure is not None:
        fault = Fault("session_failed", str(failure), "open a new one")
        return Settled(status="error", reason=fault.code, seq=served.last_seq, error=fault)
    return Settled(status="closed", reason=served.gone or "closed", seq=served.last_seq)


def asked(served: ServedSession, request: Permission) -> Settled:
    """An agent whose tool call waits for this."""
    return Settled(
        status="running",
        reason="permission",
        seq=served.last_seq,
        turn=served.runtime.session.conversation.turn,
        permission=request,
    )


def status_of(served: ServedSession, elsewhere: Elsewhere | None) -> AgentStatus:
    """What the agent does now."""
    if served.runtime.is_closed:
        return closed(served).status
    if not is_busy(served, elsewhere):
        return at_rest(served).status
    conversation = served.runtime.session.conversation
    return "running" if conversation.in_turn or conversation.turn else "initializing"


def last_message(served: ServedSession, found: Settled) -> str | None:
    """What the assistant said last in the turn that ended; None after an error."""
    if found.turn is None or found.status == "error" or found.permission is not None:
        return None
    said = (one.payload for one in turn_of(served, found.turn, found.seq))
    texts = (one.content for one in said if isinstance(one, Assistant) and one.content)
    return next(texts, None)


def pending(served: ServedSession) -> dict[str, Permission]:
    """What its calls wait for somebody to allow, oldest first, by request id."""
    return {one.request_id: permission(one) for one in served.runtime.permissions.pending}


# -- a journal from its end backwards ------------------------------------------------------------


def newest(served: ServedSession, last: int | None = None) -> Iterator[Entry]:
    """Entries from `last`, or the newest, back to the first that is in memory."""
    journal = served.runtime.session.journal
    stop = journal.last_seq if last is None else last
    while stop > 0:
        start = max(stop - _CHUNK, 0)
        gap, entries = journal.read(start, stop - start)
        yield from (entry for entry in reversed(entries) if entry.seq <= stop)
        if gap is not None:
            return
        stop = start


def turn_of(served: ServedSession, turn: int, last: int | None = None) -> Iterable[Entry]:
    """Entries of a turn from `last`, or its newest, backwards."""
    for entry in newest(served, last):
        at = entry.payload.turn
        if at == turn:
            yield entry
        elif at is not None and at < turn:
            return
