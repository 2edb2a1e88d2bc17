"""The line's keeper and store in this process's memory: nothing outlives it, and nothing waits."""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from agent_lab.application.ports import LineListener
from agent_lab.domain.activity import Activity, ActivityQuery
from agent_lab.domain.admission import Answer, Lease, Line, Room, Ticket
from agent_lab.domain.execution import Broken, Execution, ExecutionQuery

log = logging.getLogger("agent_lab")
KEPT = 10_000
"""Records with an end, and lines of the timeline, that memory keeps."""
SIZE = 64 << 20
"""Characters of the texts of records with an end, beyond which the oldest go."""
_Kept = TypeVar("_Kept", Execution, Activity)


class MemoryKeeper:
    """See SlotKeeper. `now` is the loop's clock, `lease` seconds until one expires."""

    def __init__(self, now: Callable[[], float], *, lease: float = 30.0) -> None:
        self.faults = 0
        self._now = now
        self._lease = lease
        self._lines: dict[str, Line] = {}
        self._listener: LineListener | None = None

    def listen(self, listener: LineListener) -> None:
        """Tell this one from now on."""
        self._listener = listener

    async def ask(self, ticket: Ticket, room: Room, *, may_wait: bool = True) -> Answer:
        """A lease, a place in line or a refusal."""
        line = self._lines.get(ticket.line)
        if line is None:
            line = self._lines[ticket.line] = Line(ticket.line, room, lease=self._lease)
        before = len(line.waiting)
        answer = line.ask(ticket, self._now(), may_wait=may_wait)
        if len(line.waiting) != before:
            self._tell_moved(line)
        return answer

    async def release(self, lease: Lease) -> bool:
        """Give a slot back; False if the lease is stale."""
        line = self._lines.get(lease.line)
        if line is None or not line.release(lease, self._now()):
            return False
        self._tell(line)
        return True

    async def renew(self, lease: Lease) -> bool:
        """Keep it from expiring; False if it is stale."""
        line = self._lines.get(lease.line)
        return line is not None and line.renew(lease, self._now())

    async def expire(self) -> list[Lease]:
        """Take the slots of leases that nobody renewed."""
        taken: list[Lease] = []
        for line in list(self._lines.values()):
            if late := line.expire(self._now()):
                taken += late
                self._tell(line)
        return taken

    async def leave(self, line: str, ticket: str) -> bool:
        """Step out of the line."""
        found = self._lines.get(line)
        if found is None or not found.leave(ticket):
            return False
        self._tell_moved(found)
        return True

    async def clear(self, line: str) -> list[str]:
        """Send away who waits."""
        found = self._lines.get(line)
        gone = [ticket.id for ticket in found.clear()] if found is not None else []
        if found is not None and gone:
            self._tell_moved(found)
        return gone

    async def seize(self, line: str) -> list[Lease]:
        """Take the slots of all who run."""
        found = self._lines.get(line)
        if found is None:
            return []
        taken = found.seize(self._now())
        self._tell(found)
        return taken

    async def resize(self, line: str, room: Room) -> None:
        """Another size from now on."""
        found = self._lines.get(line)
        if found is None:
            self._lines[line] = Line(line, room, lease=self._lease)
        else:
            found.resize(room, self._now())
            self._tell(found)

    async def look(self, line: str) -> tuple[list[Lease], list[str], Room | None]:
        """Who runs, who waits, and the line's size."""
        found = self._lines.get(line)
        if found is None:
            return [], [], None
        return found.held, [ticket.id for ticket in found.waiting], found.room

    def _tell(self, line: Line) -> None:
        """Tell of new leases, until none is left: one that nobody takes is given on."""
        while granted := line.collect():
            for lease in granted:
                try:
                    if self._listener is not None:
                        self._listener.granted(lease)
                except Exception:
                    log.exception("line %s: ticket %s was not started", line.name, lease.ticket)
                    self.faults += 1
                    line.release(lease, self._now())
            self._tell_moved(line)

    def _tell_moved(self, line: Line) -> None:
        try:
            if self._listener is not None:
                self._listener.moved(line.name, [ticket.id for ticket in line.waiting])
        except Exception:
            log.exception("line %s: nobody was told who waits", line.name)
            self.faults += 1


class MemoryExecutions:
    """See ExecutionStore. All records without an end are kept, and the newest of those with one."""

    def __init__(self, *, kept: int = KEPT, size: int = SIZE) -> None:
        """Of records with an end, `kept` are, or less if their texts are over `size`."""
        self._kept = kept
        self._size = size
        self._text = 0
        self._executions: dict[str, Execution] = {}
        self._ended: deque[str] = deque()
        self._activity: deque[Activity] = deque(maxlen=KEPT)
        self._keys: dict[tuple[str, str, str], str] = {}

    def put_execution(self, execution: Execution) -> None:
        """Keep it, in place of an older one."""
        before = self._executions.get(execution.id)
        self._executions[execution.id] = execution
        if execution.idempotency_key is not None:
            self._keys[_key(execution)] = execution.id
        if execution.is_terminal:
            if before is not None and before.is_terminal:
                self._text -= _text_of(before)
            else:
                self._ended.append(execution.id)
            self._text += _text_of(execution)
            while len(self._ended) > self._kept or self._text > self._size:
                self._forget(self._executions.pop(self._ended.popleft()))

    def put_activity(self, activity: Activity) -> None:
        """Add a line to the timeline."""
        self._activity.append(activity)

    async def committed(self) -> None:
        """At once: as durable as it gets."""

    async def execution(self, execution_id: str) -> Execution | None:
        """The record with this id."""
        return self._executions.get(execution_id)

    async def executions(self, query: ExecutionQuery) -> list[Execution]:
        """Records, newest first."""
        newest = reversed(self._executions.values())
        found = (one for one in _older(newest, query.before) if query.fits(one))
        return list(islice(found, query.limit))

    async def by_key(self, agent_name: str, kind: str, key: str) -> Execution | None:
        """The newest record that carries this key."""
        return self._executions.get(self._keys.get((agent_name, kind, key), ""))

    async def unfinished(self) -> list[Execution | Broken]:
        """Every record that has no end, oldest first."""
        return [one for one in self._executions.values() if not one.is_terminal]

    async def activity(self, query: ActivityQuery) -> list[Activity]:
        """Lines of the timeline, newest first."""
        found = (one for one in _older(reversed(self._activity), query.before) if query.fits(one))
        return list(islice(found, query.limit))

    def _forget(self, execution: Execution) -> None:
        self._text -= _text_of(execution)
        if execution.idempotency_key is not None and (
            self._keys.get(_key(execution)) == execution.id
        ):
            del self._keys[_key(execution)]


def _text_of(execution: Execution) -> int:
    return sum(map(len, (execution.message, execution.response or "", execution.error or "")))


def _key(execution: Execution) -> tuple[str, str, str]:
    return execution.agent_name, execution.kind, execution.idempotency_key or ""


def _older(newest: Iterable[_Kept], before: str | None) -> Iterable[_Kept]:
    """Behind the one with this id; all without one."""
    behind = before is None
    for one in newest:
        if behind:
            yield one
        behind = behind or one.id == before
