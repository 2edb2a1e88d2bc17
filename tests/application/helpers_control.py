"""What tests of the commands share: agents whose model is in the test's hand, and what is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agent_lab import Agent
from agent_lab.application.aborts import Abort, WaitAborted
from agent_lab.application.agents import Agents
from agent_lab.application.control import AgentControl
from agent_lab.application.control_answers import AgentWait
from agent_lab.bootstrap import open_agents
from agent_lab.domain.limits import ControlLimits, Limits
from agent_lab.infrastructure.store_memory import MemoryStore
from agent_lab.testing import SeededOutside
from tests.application.helpers_line import Gates


class Lab:
    """Agents, `a` with a model that answers when it is told to, and the commands on them."""

    def __init__(self, agents: Agents, model: Gates, limits: ControlLimits | None) -> None:
        self.agents = agents
        self.model = model
        self.control = AgentControl(agents, limits=limits)

    async def made(self, prompt: str | None = None, name: str = "helper", **options: Any) -> str:
        """Id of a new agent."""
        options = {"initial_prompt": prompt, **options}
        return (await self.control.create_agent(name, **options)).agent_id

    async def wait(self, *ids: str, **options: Any) -> AgentWait:
        """What became of the one, or of the first of several."""
        return (await self.control.wait_for_agent(ids, **options)).agents[0]

    def begin(self, group: asyncio.TaskGroup, *ids: str, **options: Any) -> asyncio.Task[Any]:
        """Wait in a task of its own, for the first row of the answer, or for WaitAborted."""

        async def found() -> AgentWait | WaitAborted:
            try:
                return await self.wait(*ids, **options)
            except WaitAborted as aborted:
                return aborted

        return group.create_task(found(), name="waiter")

    def tell(self, content: str, answer: str | BaseException = "Well.") -> None:
        """Let the model answer this."""
        self.model.open(content, answer)

    def left(self, *aborts: Abort) -> int:
        """Whoever still listens anywhere for a wait."""
        journals = (one.runtime.session.journal for one in self.agents.sessions())
        followers = sum(journal.waiters for journal in journals)
        listeners = len(self.agents.line.book._listeners) - self._listeners
        return followers + listeners + sum(abort.waits for abort in (*aborts, self.control._stop))

    def count(self) -> None:
        """What listens now is not left by a wait."""
        self._listeners = len(self.agents.line.book._listeners)

    _listeners = 0


@asynccontextmanager
async def lab(
    *others: Agent,
    tools: Sequence[Any] = (),
    limits: ControlLimits | None = None,
    store: MemoryStore | None = None,
    model: Gates | None = None,
    seed: int = 0,
) -> AsyncGenerator[Lab, None]:
    """Agents, open, with agent `a`; a second process at a store has another `seed`."""
    model = model or Gates()
    patient = Limits(model_timeout=1e6, model_retries=0)
    made = [Agent("a", model=model, tools=tools, limits=patient, instructions="Be brief."), *others]
    async with open_agents(made, outside=SeededOutside(seed), store=store) as agents:
        made_ = Lab(agents, model, limits)
        made_.count()
        yield made_
