"""An agent as another agent's tool."""

import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Protocol

import msgspec

from agent_lab.application.agent import Agent
from agent_lab.application.tools import Approval, Tool
from agent_lab.domain.errors import ColleagueFailed, ToolDefinitionError
from agent_lab.domain.payloads import ToolCalled

PATIENCE = 720.0
"""Seconds an agent is given to answer: the longest wait in its line, and its longest run."""


class CallingSession(Protocol):
    """The session a call comes from; `lineage` are the agents it was asked through, in order."""

    session_id: str
    agent: Agent
    lineage: tuple[str, ...]
    colleagues: "Colleagues | None"


class Calling(msgspec.Struct, frozen=True):
    """Who calls an agent's tool: the session, and the call that asks."""

    session: CallingSession
    call: ToolCalled


CALLING: ContextVar[Calling] = ContextVar("agent_lab_calling")
"""Set around the tools that want it."""


class Colleagues(Protocol):
    """How a session's tools reach other agents."""

    async def ask(self, calling: Calling, tool: "AgentTool", message: str) -> str:
        """The agent's answer; cancelled, it stops asking. Raises ColleagueFailed."""
        ...


class AgentTool(Tool):
    """A tool that asks an agent: `agent` is one, or the name of one that is served here."""

    __slots__ = ("agent", "background", "parallel")
    wants_call = True

    def __init__(
        self,
        function: Callable[..., object],
        agent: Agent | str,
        *,
        parallel: bool,
        background: bool,
        timeout: float,
        needs_approval: Approval,
    ) -> None:
        super().__init__(function, timeout=timeout, needs_approval=needs_approval)
        self.agent = agent
        self.parallel = parallel
        self.background = background

    @property
    def agent_name(self) -> str:
        """The agent's name."""
        return self.agent if isinstance(self.agent, str) else self.agent.name


def agent_tool(
    agent: Agent | str,
    *,
    parallel: bool = False,
    background: bool = False,
    name: str | None = None,
    description: str | None = None,
    timeout: float = PATIENCE,
    needs_approval: Approval = False,
) -> Tool:
    """Give an agent to another one as a tool that takes a `message` and gives the answer.

    `agent` may be a name, of an agent that is served by the same process. Served, the message goes
    through that agent's line into its one conversation, or with `parallel` to a task of its own,
    and is an execution of source `agent`; in a script it runs in a session of its own. An agent
    that asks itself, over whatever others, or deeper than `LineLimits.depth`, is refused at once.

    With `background` the call only begins it, and each end is told to the asking session in a
    message; that needs a server. The tool is named `ask_NAME` unless `name` says otherwise.
    `timeout` is in seconds, and with it the asked agent is stopped.
    """
    said = agent if isinstance(agent, str) else agent.name

    async def ask(message: str) -> str:
        calling = CALLING.get()
        colleagues = calling.session.colleagues
        if colleagues is None:
            raise ColleagueFailed(said, "its session was opened without a way to other agents")
        return await colleagues.ask(calling, made, message)

    ask.__name__ = name or "ask_" + re.sub(r"[^a-zA-Z0-9_-]", "_", said)
    then = "Its answer comes later, in a message." if background else "Gives its answer."
    ask.__doc__ = description or f"Ask the agent {said}. {then}"
    if parallel and background:
        raise ToolDefinitionError(f"tool {ask.__name__!r}: a background agent is parallel anyway")
    made = AgentTool(
        ask,
        agent,
        parallel=parallel,
        background=background,
        timeout=timeout,
        needs_approval=needs_approval,
    )
    return made


def with_colleagues(agents: Iterable[Agent]) -> list[Agent]:
    """These agents, and behind them those that are their tools, and their tools' tools, once."""
    found: list[Agent] = list(agents)
    for agent in found:  # it grows meanwhile
        for tool in agent.tools.values():
            other = tool.agent if isinstance(tool, AgentTool) else None
            if isinstance(other, Agent) and other not in found:
                found.append(other)
    return found
