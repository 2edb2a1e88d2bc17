"""What tests of the line share: the keepers and stores that must all behave alike, and callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from agent_lab import Agent
from agent_lab.application.agents import Agents
from agent_lab.application.asked import Asked
from agent_lab.application.executions import Change, Declined, Moved, Queued
from agent_lab.application.line import ExecutionLine
from agent_lab.application.ports import ExecutionStore, Outside, SlotKeeper, Store
from agent_lab.application.stored_executions import StoredExecutions
from agent_lab.bootstrap import open_agents
from agent_lab.domain.admission import Lease, Ticket
from agent_lab.domain.execution import Execution, Kind, Source
from agent_lab.domain.limits import Limits, LineLimits
from agent_lab.domain.messages import ModelRequest, Reply, Usage
from agent_lab.infrastructure.line_memory import MemoryExecutions, MemoryKeeper
from agent_lab.infrastructure.sqlite import SqliteStore
from agent_lab.infrastructure.store_memory import MemoryStore
from agent_lab.testing import SeededOutside

LEASE = 30.0
KEEPERS: dict[str, Callable[[Callable[[], float]], SlotKeeper]] = {
    "memory": lambda now: MemoryKeeper(now, lease=LEASE),
}
"""Every keeper, made of a clock; each must pass the same suite."""
STORES: dict[str, Callable[[Path], tuple[ExecutionStore, Store | None]]] = {
    "memory": lambda _: (MemoryExecutions(), None),
    "stored in memory": lambda _: _stored(MemoryStore()),
    "sqlite": lambda folder: _stored(SqliteStore(folder / "store/lab.db")),
}
"""Every store of executions, made of an empty folder; the second is to be closed."""
BEHIND: ContextVar[Callable[[], Store | None]] = ContextVar("behind", default=lambda: None)
"""What `held` stores in unless it is told: nothing, so that memory keeps executions, or a store."""


def _stored(store: Store) -> tuple[ExecutionStore, Store]:
    return StoredExecutions(store), store


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


# -- a line before real sessions -----------------------------------------------------------------


class Gates:
    """A model that answers when the test says so, and counts how often it was asked."""

    dialect = "openai_chat"

    def __init__(self, name: str = "gates") -> None:
        self.name = name
        self.asked: list[str] = []
        self._doors: dict[str, asyncio.Future[str | BaseException]] = {}

    def door(self, content: str) -> asyncio.Future[str | BaseException]:
        """What the answer to this message waits for."""
        return self._doors.setdefault(content, asyncio.get_running_loop().create_future())

    def open(self, content: str, answer: str | BaseException = "Well.") -> None:
        """Let the model answer this message."""
        self.door(content).set_result(answer)

    async def stream(self, request: ModelRequest) -> Reply:
        """Wait for the door of the newest user message."""
        content = [m.content for m in request.history() if m.role == "user"][-1] or ""
        self.asked.append(content)
        answer = await asyncio.shield(self.door(content))
        if isinstance(answer, BaseException):
            raise answer
        return Reply(f"{content}: {answer}", usage=Usage(30, 10))


class Held:
    """Agents with one agent `a` whose model is in the test's hand, and the line before them."""

    def __init__(self, agents: Agents, model: Gates) -> None:
        self.agents = agents
        self.line: ExecutionLine = agents.line
        self.model = model
        self.changes: list[Change] = []
        self.line.book.listen(self.changes.append)

    async def ask(self, message: str, kind: Kind = "chat", **fields: Any) -> Execution:
        """Submit it."""
        return (await self.line.submit("a", kind, Asked(message=message, **fields))).execution

    def now(self, execution: Execution) -> Execution:
        """The record as it is."""
        found = self.line.book.get(execution.id) or self.line.book.recent(execution.id)
        assert found is not None
        return found

    async def end(self, execution: Execution) -> Execution:
        """Wait for its end."""
        async with asyncio.timeout(1000):
            return await self.line.until_end(execution)

    async def asked(self, *messages: str) -> None:
        """Wait until the model was asked these, and see that it was asked nothing else."""
        for _ in range(1000):
            if len(self.model.asked) >= len(messages):
                break
            await asyncio.sleep(0)
        assert self.model.asked == list(messages)

    def told(self, execution: Execution) -> list[str]:
        """The changes of this one, by name, positions with them."""
        return [
            f"{type(one).__name__} {one.position}"
            if isinstance(one, Queued | Moved)
            else type(one).__name__
            for one in self.changes
            if not isinstance(one, Declined) and one.execution.id == execution.id
        ]


@asynccontextmanager
async def held(
    *,
    limits: LineLimits | None = None,
    executions: ExecutionStore | None = None,
    tools: Sequence[Any] = (),
    model: Gates | None = None,
    outside: Outside | None = None,
    others: Sequence[Agent] = (),
    store: Store | None = None,
) -> AsyncGenerator[Held, None]:
    """Agents, open, with agent `a` whose model answers when it is told to."""
    model = model or Gates()
    patient = Limits(model_timeout=1e6, model_retries=0)
    made = [Agent("a", model=model, tools=tools, limits=patient), *others]
    outside = outside or SeededOutside()
    store = store or (BEHIND.get()() if executions is None else None)
    async with open_agents(
        made, line=limits, executions=executions, outside=outside, store=store
    ) as agents:
        yield Held(agents, model)
