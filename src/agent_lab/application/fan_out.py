"""One list of tasks for an agent: so many under way at once, and what became of each."""

import asyncio
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from agent_lab.application.asked import Asked, Named, Submitted
from agent_lab.application.ports import Outside
from agent_lab.domain.errors import AgentLabError, ExecutionError
from agent_lab.domain.execution import Execution, Kind

FanOutStatus = Literal["running", "completed", "partial", "failed"]
KEPT = 200
"""Lists that are remembered; the executions of older ones are in the store."""


class UnknownFanOut(ExecutionError):
    """There is no list of this id, or none of this agent's."""


class FanOut:
    """One list; `executions` and `refusals` by the place of the task in it."""

    def __init__(self, fan_out_id: str, agent_name: str, total: int) -> None:
        self.id = fan_out_id
        self.agent_name = agent_name
        self.total = total
        self.executions: dict[int, Execution] = {}
        self.refusals: dict[int, AgentLabError] = {}
        self.over = asyncio.Event()

    @property
    def finished(self) -> int:
        """How many have their end, or were refused."""
        return len(self.refusals) + sum(one.is_terminal for one in self.executions.values())

    @property
    def status(self) -> FanOutStatus:
        """How it stands; `partial` when some of them did not complete."""
        if self.finished < self.total:
            return "running"
        completed = sum(one.status == "completed" for one in self.executions.values())
        if completed == self.total:
            return "completed"
        return "partial" if completed else "failed"


class TaskLine(Protocol):
    """What a list needs of the line."""

    @property
    def agents(self) -> Named:
        """Whom it is before."""
        ...

    async def submit(self, agent_name: str, kind: Kind, asked: Asked) -> Submitted:
        """Accept one; raises NotAdmitted, StorageError."""
        ...

    async def until_end(self, execution: Execution) -> Execution:
        """Wait for its end."""
        ...


class FanOuts:
    """Lists that are under way and the newest that are over."""

    def __init__(self, line: TaskLine, group: asyncio.TaskGroup, outside: Outside) -> None:
        self._line = line
        self._new_id = outside.new_id
        self._group = group
        self._lists: dict[str, FanOut] = {}

    def start(self, agent_name: str, tasks: Sequence[Asked], *, at_once: int) -> FanOut:
        """Begin with them, `at_once` at a time; raises UnknownAgent."""
        agent = self._line.agents.get(agent_name)
        made = FanOut(self._new_id("fan"), agent.name, len(tasks))
        self._lists[made.id] = made
        if len(self._lists) > KEPT:
            del self._lists[next(iter(self._lists))]
        self._group.create_task(self._work(made, tasks, at_once), name=f"fan-out {made.id}")
        return made

    def find(self, agent_name: str, fan_out_id: str) -> FanOut:
        """The list; raises UnknownFanOut."""
        found = self._lists.get(fan_out_id)
        if found is None or found.agent_name != agent_name:
            raise UnknownFanOut(f"agent {agent_name!r} has no fan-out {fan_out_id!r}")
        return found

    async def _work(self, made: FanOut, tasks: Sequence[Asked], at_once: int) -> None:
        room = asyncio.Semaphore(at_once)
        try:
            async with asyncio.TaskGroup() as group:
                for index, asked in enumerate(tasks):
                    group.create_task(self._one(made, index, asked, room))
        finally:
            made.over.set()

    async def _one(self, made: FanOut, index: int, asked: Asked, room: asyncio.Semaphore) -> None:
        by = msgspec.structs.replace(asked.by, triggered_by=f"fan-out:{made.id}")
        asked = msgspec.structs.replace(asked, by=by, detached=True)
        async with room:
            try:
                submitted = await self._line.submit(made.agent_name, "task", asked)
                made.executions[index] = submitted.execution
                made.executions[index] = await self._line.until_end(submitted.execution)
            except AgentLabError as error:
                made.refusals[index] = error
