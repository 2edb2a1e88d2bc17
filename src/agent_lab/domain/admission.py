"""Admission to one line: who may run now, who waits and where, who is refused. Pure.

A line has slots and a bounded row of waiting tickets. Each method is one step, and what it frees it
hands to the next in the same step: `granted` has the new leases, so nobody can slip in between.
"""

from bisect import insort
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from agent_lab.domain.execution import Source

MAX_CAPACITY = 64
"""Most slots of a line, however many were asked for."""
AGEING = 20.0
"""Seconds of waiting that make up for one rank."""
RANKS: dict[Source, int] = {"user": 0, "mcp": 1, "agent": 1, "schedule": 2}
"""Who goes first; a higher rank is a later place."""

RefusedBecause: TypeAlias = Literal["in_memory_full", "busy"]


class Room(msgspec.Struct, frozen=True):
    """Slots and places of a line, as they were asked for; `slots` is what counts."""

    capacity: int
    waiting: int

    @property
    def slots(self) -> int:
        """The capacity within 1 and MAX_CAPACITY."""
        return min(max(self.capacity, 1), MAX_CAPACITY)


class Ticket(msgspec.Struct, frozen=True):
    """One who asks. `at` is the loop's time, `line` such as `weather/chat`."""

    id: str
    line: str
    priority: Source
    at: float

    @property
    def due(self) -> float:
        """Its place: a rank costs AGEING seconds once, so whoever waits long enough is passed by
        nobody who comes later (S23)."""
        return self.at + AGEING * RANKS[self.priority]


class Lease(msgspec.Struct, frozen=True):
    """The right to run now. `token` is larger than every earlier one of the line."""

    line: str
    ticket: str
    token: int


class Waits(msgspec.Struct, frozen=True):
    """It stands in line, at this position from 1."""

    position: int


class Refused(msgspec.Struct, frozen=True):
    """It was not let in, and leaves nothing behind."""

    because: RefusedBecause
    running: int
    waiting: int


Answer: TypeAlias = Lease | Waits | Refused


class Line:
    """Slots and waiting tickets of one line; `now` and lease times are the loop's seconds."""

    def __init__(self, name: str, room: Room, *, lease: float) -> None:
        """`lease` is how long one lasts unless it is renewed."""
        self.name = name
        self.room = room
        self.granted: list[Lease] = []
        """Leases that went to waiting tickets and that nobody has collected yet."""
        self._lease = lease
        self._token = 0
        self._held: dict[str, tuple[Lease, float]] = {}
        self._waiting: list[tuple[float, int, Ticket]] = []
        self._asked = 0

    @property
    def held(self) -> list[Lease]:
        """Who runs, oldest first."""
        return [lease for lease, _ in self._held.values()]

    @property
    def waiting(self) -> list[Ticket]:
        """Who waits, in order."""
        return [ticket for _, _, ticket in self._waiting]

    def position(self, ticket_id: str) -> int | None:
        """Where it stands in line, from 1."""
        ids = [ticket.id for ticket in self.waiting]
        return ids.index(ticket_id) + 1 if ticket_id in ids else None

    def ask(self, ticket: Ticket, now: float, *, may_wait: bool = True) -> Answer:
        """Let it in, give it a place, or refuse it. Who asks again gets what it has."""
        if found := self._held.get(ticket.id):
            return found[0]
        if (position := self.position(ticket.id)) is not None:
            return Waits(position)
        if len(self._held) < self.room.slots and not self._waiting:
            return self._grant(ticket, now)
        if not may_wait or len(self._waiting) >= self.room.waiting:
            because = "in_memory_full" if may_wait else "busy"
            return Refused(because, len(self._held), len(self._waiting))
        self._asked += 1
        insort(self._waiting, (ticket.due, self._asked, ticket))
        position = self.position(ticket.id)
        assert position is not None
        return Waits(position)

    def release(self, lease: Lease, now: float) -> bool:
        """Give the slot back, and on; False if the lease is stale, which frees nobody."""
        if not self._is_held(lease):
            return False
        del self._held[lease.ticket]
        self._fill(now)
        return True

    def renew(self, lease: Lease, now: float) -> bool:
        """Make it last; False if it is stale, which brings nothing back."""
        if not self._is_held(lease):
            return False
        self._held[lease.ticket] = (lease, now + self._lease)
        return True

    def expire(self, now: float) -> list[Lease]:
        """Take the slots of those who did not renew in time; their leases."""
        late = [lease for lease, until in self._held.values() if until <= now]
        for lease in late:
            del self._held[lease.ticket]
        self._fill(now)
        return late

    def leave(self, ticket_id: str) -> bool:
        """Step out of the line; False if it does not wait."""
        position = self.position(ticket_id)
        if position is not None:
            del self._waiting[position - 1]
        return position is not None

    def clear(self) -> list[Ticket]:
        """Send all away who wait; who runs is left alone."""
        gone = self.waiting
        self._waiting.clear()
        return gone

    def seize(self, now: float) -> list[Lease]:
        """Take the slots of all who run, which makes them stale."""
        taken = self.held
        self._held.clear()
        self._fill(now)
        return taken

    def resize(self, room: Room, now: float) -> None:
        """Another size from now on; who runs and waits stays, even beyond it (S9)."""
        self.room = room
        self._fill(now)

    def collect(self) -> Sequence[Lease]:
        """The leases that went to waiting tickets since this was asked last."""
        granted, self.granted = self.granted, []
        return granted

    def _is_held(self, lease: Lease) -> bool:
        found = self._held.get(lease.ticket)
        return found is not None and found[0].token == lease.token

    def _fill(self, now: float) -> None:
        while self._waiting and len(self._held) < self.room.slots:
            _, _, ticket = self._waiting.pop(0)
            self.granted.append(self._grant(ticket, now))

    def _grant(self, ticket: Ticket, now: float) -> Lease:
        self._token += 1
        lease = Lease(self.name, ticket.id, self._token)
        self._held[ticket.id] = (lease, now + self._lease)
        return lease
