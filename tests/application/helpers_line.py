"""What tests of the line share: the keepers and stores that must all behave alike, and callers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agent_lab.application.ports import ExecutionStore, SlotKeeper
from agent_lab.domain.admission import Lease, Ticket
from agent_lab.domain.execution import Source
from agent_lab.infrastructure.line_memory import MemoryExecutions, MemoryKeeper

LEASE = 30.0
KEEPERS: dict[str, Callable[[Callable[[], float]], SlotKeeper]] = {
    "memory": lambda now: MemoryKeeper(now, lease=LEASE),
}
"""Every keeper, made of a clock; each must pass the same suite."""
STORES: dict[str, Callable[[Path], ExecutionStore]] = {"memory": lambda _: MemoryExecutions()}
"""Every store of executions, made of an empty folder."""


class Hand:
    """A clock in the test's hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


class Ear:
    """Hears what a keeper tells."""

    def __init__(self) -> None:
        self.granted_: list[Lease] = []
        self.lines: dict[str, list[str]] = {}
        self.fails = 0

    def granted(self, lease: Lease) -> None:
        """Note it, or fail as often as was asked."""
        if self.fails:
            self.fails -= 1
            raise RuntimeError("nobody can take it")
        self.granted_.append(lease)

    def moved(self, line: str, waiting: Sequence[str]) -> None:
        """Note it."""
        self.lines[line] = list(waiting)

    @property
    def tickets(self) -> list[str]:
        """Who was granted, in order."""
        return [lease.ticket for lease in self.granted_]


def ticket(name: str, *, at: float = 0.0, priority: Source = "user", line: str = "a") -> Ticket:
    """A ticket of line `a`."""
    return Ticket(name, line, priority, at)
