"""What a process before this one left without an end: interrupted, or in line again."""

from typing import Protocol

from agent_lab.application.asked import Named
from agent_lab.application.executions import Executions
from agent_lab.domain.admission import Refused
from agent_lab.domain.execution import Broken, Execution, Outcome
from agent_lab.domain.limits import LineLimits


class Entrance(Protocol):
    """What is needed of the line to give records their end, or their place."""

    limits: LineLimits
    book: Executions

    @property
    def agents(self) -> Named:
        """Whom it is before."""
        ...

    async def enter(self, execution: Execution, *, may_wait: bool, limit: float) -> Refused | None:
        """Ask for its slot, and put it on record unless it is refused."""
        ...

    def end(self, execution_id: str, outcome: Outcome) -> Execution:
        """End one that never ran."""
        ...


async def recover(line: Entrance) -> None:
    """Give every record its end, or its place in line in the order they came (S18).

    What ran is interrupted. What waited and was accepted for good runs now, once: its message has
    the record's id, and a record that had begun is never begun again.
    """
    for found in await line.book.store.unfinished():
        if isinstance(found, Broken):
            _bury(line, found)
        elif (dead := _dead(line, found)) is not None:
            line.book.add(found)
            line.end(found.id, dead)
        else:
            await _again(line, found)


def _dead(line: Entrance, execution: Execution) -> Outcome | None:
    """How one ends that cannot go on; None for one that can."""
    if execution.status == "running" or execution.agent_name not in line.agents.names:
        return Outcome(status="interrupted", error_code="interrupted")
    limit = line.limits.backlog_wait
    if execution.queued_at < line.book.now() - limit:
        said = f"it waited longer than {limit / 3600:g} h"
        return Outcome(status="failed", error=said, error_code="expired")
    if not execution.detached:
        said = "the server stopped, and whoever waited for this has gone"
        return Outcome(status="interrupted", error=said, error_code="interrupted")
    return None


async def _again(line: Entrance, execution: Execution) -> None:
    left = execution.queued_at + (execution.wait_limit or 0.0) - line.book.now()
    refused = await line.enter(execution, may_wait=True, limit=max(left, 0.0))
    if refused is not None:
        line.book.add(execution)
        said = "the line was made shorter while the server was down"
        line.end(execution.id, Outcome(status="failed", error=said, error_code="capacity"))


def _bury(line: Entrance, broken: Broken) -> None:
    """A record that cannot be read ends failed, under its id, with the reason (S19)."""
    unread = Execution(
        id=broken.id,
        ticket=broken.id,
        agent_name=broken.agent_name or "",
        kind="task",
        message="",
        queued_at=line.book.now(),
    )
    line.book.add(unread)
    failed = Outcome(status="failed", error=broken.reason, error_code="storage_corrupt")
    line.end(broken.id, failed)
