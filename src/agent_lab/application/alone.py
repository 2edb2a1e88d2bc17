"""Agents as tools where nothing is served: each call runs in a session of its own."""

from collections.abc import Callable
from copy import copy
from typing import Protocol

import msgspec

from agent_lab.application.agent import Agent
from agent_lab.application.agent_tool import AgentTool, Calling
from agent_lab.application.run import Run
from agent_lab.domain.errors import ColleagueFailed
from agent_lab.domain.execution import refused_chain
from agent_lab.domain.limits import LineLimits
from agent_lab.domain.payloads import AnyPayload, Assistant, Cancelled, Done, TurnFailed


class ChildRuntime(Protocol):
    """A runtime, as far as it is needed to ask its agent once."""

    def run(self, request: str) -> Run:
        """Run until everything is answered."""
        ...

    async def close(self) -> None:
        """End the session."""
        ...


OpenChild = Callable[[Agent, tuple[str, ...]], ChildRuntime]
"""Opens a runtime for an agent that was asked through these."""


class Alone:
    """Opens a runtime for each call, and closes it with the answer.

    Nobody looks on there, so what asks for permission in it is denied at once.
    """

    def __init__(self, open_child: OpenChild) -> None:
        self._open = open_child

    async def ask(self, calling: Calling, tool: AgentTool, message: str) -> str:
        """The agent's last words; raises ColleagueFailed."""
        agent, name = tool.agent, tool.agent_name
        if isinstance(agent, str) or tool.background:
            what = "known by name only" if isinstance(agent, str) else "to run in the background"
            raise ColleagueFailed(name, f"it is {what}, and that needs `agent-lab serve`")
        chain = (*calling.session.lineage, calling.session.agent.name)
        if why := refused_chain(chain, name, LineLimits().depth):
            raise ColleagueFailed(name, f"depth_exceeded: {why}; do not try it again")
        child = copy(agent)
        child.limits = msgspec.structs.replace(agent.limits, permission=0)
        runtime = self._open(child, chain)
        try:
            async with runtime.run(message) as run:
                told = [payload async for payload in run]
        finally:
            await runtime.close()
        return _answer(name, told)


def _answer(name: str, told: list[AnyPayload]) -> str:
    match told[-1] if told else None:
        case Done():
            texts = [one.content for one in told if isinstance(one, Assistant) and one.content]
            return texts[-1] if texts else ""
        case TurnFailed() as failed:
            raise ColleagueFailed(name, f"{failed.code}: {failed.message}")
        case Cancelled() as cancelled:
            raise ColleagueFailed(name, f"it was cancelled ({cancelled.reason})")
        case _:
            raise ColleagueFailed(name, "it said nothing")
