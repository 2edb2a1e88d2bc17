"""This process's side of the lines: who of its own waits where, how long yet, and who holds a slot.

The keeper decides who goes next. Here its word reaches whoever it concerns: a grant, a position, a
wait that took too long, a lease that was lost. One clock with one timer serves all of it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from agent_lab.application.clock import SessionClock
from agent_lab.application.ports import SlotKeeper
from agent_lab.domain.admission import Answer, Lease, Refused, Room, Ticket, Waits

log = logging.getLogger("agent_lab")


class Place:
    """One ticket and whom to tell: `granted` its lease, `moved` its position, `late` that its wait
    is over and it is out of the line, `lost` that its slot was taken. None of them may wait."""

    def __init__(
        self,
        ticket: Ticket,
        *,
        granted: Callable[[Lease], object],
        moved: Callable[[int], object],
        late: Callable[[], object],
        lost: Callable[[], object],
    ) -> None:
        self.ticket = ticket
        self.granted = granted
        self.moved = moved
        self.late = late
        self.lost = lost
        self.lease: Lease | None = None
        self.position: int | None = None
        self.is_asking = True


class ExecutionQueue:
    """Places by ticket, from the ask to the release. Its tasks live in the group that is given."""

    def __init__(
        self, keeper: SlotKeeper, clock: SessionClock, group: asyncio.TaskGroup, *, lease: float
    ) -> None:
        self._keeper = keeper
        self._clock = clock
        self._group = group
        self._beat = lease / 3
        self._places: dict[str, Place] = {}
        self._is_tending = False
        self._is_closed = False
        keeper.listen(self)

    @property
    def leases(self) -> list[Lease]:
        """The slots that are held here."""
        return [place.lease for place in self._places.values() if place.lease is not None]

    @property
    def waiting(self) -> int:
        """How many wait here."""
        return len(self._places) - len(self.leases)

    def has(self, ticket_id: str) -> bool:
        """Whether this ticket stands or runs here."""
        return ticket_id in self._places

    async def enter(self, place: Place, room: Room, *, may_wait: bool, limit: float) -> Answer:
        """Ask for a slot; who has to wait does so for `limit` seconds at most.

        A lease that is given back here is not told to `granted`. Cancelled, it leaves no trace.
        """
        ticket = place.ticket
        self._places[ticket.id] = place
        try:
            answer = await self._keeper.ask(ticket, room, may_wait=may_wait)
        except BaseException:
            del self._places[ticket.id]
            await self._keeper.leave(ticket.line, ticket.id)
            raise
        place.is_asking = False
        if isinstance(answer, Refused):
            del self._places[ticket.id]
            return answer
        if isinstance(answer, Waits):
            if place.lease is not None:  # granted between the keeper's answer and now
                return place.lease
            place.position = answer.position
            self._clock.set(_alarm(ticket.id), limit, partial(self._is_late, place))
        else:
            place.lease = answer
        self._tend()
        return answer

    async def leave(self, ticket: Ticket) -> bool:
        """Step out of the line; False for who does not wait in it."""
        if not await self._keeper.leave(ticket.line, ticket.id):
            return False
        self._drop(ticket.id)
        return True

    async def release(self, lease: Lease) -> bool:
        """Give the slot back; False if the lease is stale."""
        place = self._places.get(lease.ticket)
        if place is not None and place.lease == lease:
            del self._places[lease.ticket]
        return await self._keeper.release(lease)

    async def clear(self, line: str) -> list[str]:
        """Send away who waits; their tickets."""
        gone = await self._keeper.clear(line)
        for ticket_id in gone:
            self._drop(ticket_id)
        return gone

    async def seize(self, line: str) -> list[str]:
        """Take the slots of all who run; their tickets."""
        return [lease.ticket for lease in await self._keeper.seize(line)]

    def close(self) -> None:
        """No limit counts any more and no lease is renewed: the process is about to end."""
        self._is_closed = True
        self._clock.stop()

    # -- what the keeper tells -------------------------------------------------------------------

    def granted(self, lease: Lease) -> None:
        """A ticket of ours has its slot; one that we do not know gives it back."""
        place = self._places.get(lease.ticket)
        if place is None:
            self._group.create_task(self._keeper.release(lease), name=f"return {lease.ticket}")
            return
        self._clock.clear(_alarm(lease.ticket))
        place.lease, place.position = lease, None
        if not place.is_asking:
            place.granted(lease)

    def moved(self, line: str, waiting: Sequence[str]) -> None:
        """Tell those of ours whose position is another one."""
        places = self._places
        for position, ticket_id in enumerate(waiting, 1):
            place = places.get(ticket_id)
            if place is not None and place.position != position:
                place.position = position
                place.moved(position)

    # -- time ------------------------------------------------------------------------------------

    def _is_late(self, place: Place) -> None:
        name = f"late {place.ticket.id}"
        self._group.create_task(self._leave_late(place), name=name)

    async def _leave_late(self, place: Place) -> None:
        if await self.leave(place.ticket):  # else it was granted meanwhile, and runs
            place.late()

    def _tend(self) -> None:
        """Have leases renewed, and those of others looked at, as long as anybody is here."""
        if self._places and not self._is_tending and not self._is_closed:
            self._is_tending = True
            self._clock.set("tend", self._beat, self._start_tending)

    def _start_tending(self) -> None:
        self._group.create_task(self._renew_all(), name="renew leases")

    async def _renew_all(self) -> None:
        try:
            for place in list(self._places.values()):
                if place.lease is not None and not await self._keeper.renew(place.lease):
                    self._places.pop(place.ticket.id, None)
                    place.lost()
            await self._keeper.expire()
        except Exception:
            log.exception("leases were not renewed")
        self._is_tending = False
        self._tend()

    def _drop(self, ticket_id: str) -> None:
        self._clock.clear(_alarm(ticket_id))
        self._places.pop(ticket_id, None)


def _alarm(ticket_id: str) -> tuple[str, str]:
    return "wait", ticket_id
