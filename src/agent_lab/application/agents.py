"""The agents of one process and their live sessions, as the page, HTTP and MCP share them.

Message ids are unique an agent, over all its sessions.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agent_lab.application.agent import Agent
from agent_lab.application.agent_tool import Colleagues, with_colleagues
from agent_lab.application.archive import Archive, Dormant
from agent_lab.application.inlet import Inlet
from agent_lab.application.journal import Entry, Gap
from agent_lab.application.ports import Outside
from agent_lab.application.runtime import Runtime
from agent_lab.application.served import (
    AgentsClosed,
    OpenRuntime,
    Sent,
    ServedSession,
    UnknownAgent,
    UnknownSession,
)
from agent_lab.application.sessions import Sessions
from agent_lab.application.tool_server import ToolServers
from agent_lab.domain.errors import (
    AnswerRefused,
    SessionMismatch,
)
from agent_lab.domain.hand_payloads import PermissionResolved
from agent_lab.domain.inbox import digest_of
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.permission import PermissionAnswer
from agent_lab.domain.records import Created

__all__ = ["Agents", "AgentsClosed", "OpenRuntime", "UnknownAgent", "UnknownSession"]

if TYPE_CHECKING:
    from agent_lab.application.line import ExecutionLine


class Agents:
    """Agents by name and their sessions, newest first.

    Agents that others have as tools are served as well; a name that is left out is not theirs.
    Open it with `async with`: the task that enters owns the pumps of all sessions, so enter it in a
    coroutine, not in a fixture or generator. At most `idle` sessions without work and viewers are
    kept: of more, the ones that rested longest are closed and forgotten, their message ids too.
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        open_runtime: OpenRuntime,
        outside: Outside,
        *,
        idle: int = 200,
        grace: float = 2.0,
        archive: Archive | None = None,
        servers: ToolServers | None = None,
    ) -> None:
        """`grace`: seconds that close() gives all sessions together. Names must differ.

        `archive` stores the sessions; it is closed with the agents, and so are the MCP `servers`.
        """
        self._only = agents[0] if len(agents) == 1 else None
        agents = with_colleagues(agents)
        self._agents = {agent.name: agent for agent in agents}
        if len(self._agents) < len(agents) or not agents:
            raise ValueError("agents need one name each, and there must be one at least")
        self._open_runtime = open_runtime
        self._outside = outside
        self.kept = self._sessions = Sessions(
            open_runtime, outside, idle=idle, grace=grace, archive=archive
        )
        self.changes = self._sessions.changes
        self._inlet = Inlet(self._sessions)
        self._line: ExecutionLine | None = None
        self._servers = servers

    # -- what there is ---------------------------------------------------------------------------

    @property
    def line(self) -> "ExecutionLine":
        """What stands before the conversations and tasks of these agents."""
        assert self._line is not None, "whoever makes Agents gives them a line: see bootstrap"
        return self._line

    def guard(self, line: "ExecutionLine") -> None:
        """Put this line before the agents; it opens and closes with them."""
        self._line = line
        self._sessions.as_it_was = line.chats.as_it_was

    def call_through(self, colleagues: Colleagues) -> None:
        """How tools of sessions from now on ask other agents."""
        self._sessions.colleagues = colleagues

    @property
    def names(self) -> list[str]:
        """Names of the agents, in the order they were given."""
        return list(self._agents)

    def get(self, name: str | None = None) -> Agent:
        """The agent of that name; None means the only one. Raises UnknownAgent."""
        if name is None and self._only is not None:
            return self._only
        if name is None or name not in self._agents:
            said = "no agent was named" if name is None else f"there is no agent {name!r}"
            raise UnknownAgent(f"{said}; name one of: {', '.join(self._agents)}")
        return self._agents[name]

    def probe(self, agent: Agent) -> Runtime:
        """A runtime that is never started, to look at; raises ModelError."""
        return self._open_runtime(agent, session_id="probe", outside=self._outside)

    def is_busy(self, agent: Agent) -> bool:
        """Whether any of its sessions works."""
        live = self._sessions.by_id.values()
        return any(s.agent.name == agent.name and s.state == "running" for s in live)

    def session(self, session_id: str) -> ServedSession:
        """The session with this id; raises UnknownSession."""
        return self._sessions.get(session_id)

    def sessions(self) -> list[ServedSession]:
        """All sessions in memory, newest first."""
        return list(reversed(self._sessions.by_id.values()))

    async def dormant(self) -> list[Dormant]:
        """Stored sessions with these agents that are not in memory, newest first."""
        return await self._sessions.dormant(self._agents)

    async def entries(
        self, served: ServedSession, after: int, limit: int
    ) -> tuple[Gap | None, Sequence[Entry]]:
        """A session's entries behind `after`, at most `limit`, and what is gone before them.

        With a store only what is stored, and nothing is gone. Raises StorageError.
        """
        return await self._sessions.entries(served, after, limit)

    async def recall(
        self,
        *,
        session_id: str | None = None,
        agent: str | None = None,
        message_id: str | None = None,
    ) -> None:
        """Take up the stored session of this id, and the one that has this message of the agent.

        Before `session`, `run` and `send` of what may be from before; nothing happens if there is
        no such session, or no store. Raises StorageError when it cannot be read.
        """
        agents = [one for one in self._agents.values() if agent in (None, one.name)]
        await self._sessions.recall(agents, session_id, message_id)

    def knows(self, name: str, message_id: str | None) -> bool:
        """Whether the agent of this name accepted a message of this id before."""
        return message_id in self._inlet.ids(name)

    # -- asking ----------------------------------------------------------------------------------

    def open(
        self, agent: Agent, session_id: str | None = None, history: Sequence[ChatMessage] = ()
    ) -> ServedSession:
        """A new session, or the one that has this id; raises SessionMismatch, AgentsClosed."""
        if session_id is not None and session_id in self._sessions.by_id:
            return self._with(agent, self.session(session_id))
        return self._sessions.open(agent, session_id, history)

    async def create(self, agent: Agent, created: Created) -> ServedSession:
        """A session with this agent as it is created: an agent of its own, kept until it is closed.

        Its message ids are its own. Stored when this returns. Raises AgentsClosed, ModelError,
        StorageError.
        """
        return await self._sessions.create(agent, created)

    def close_session(self, served: ServedSession) -> None:
        """Close this session for good, on record when this returns; it can still be read."""
        self._sessions.close_one(served)

    def replace(self, session_id: str) -> None:
        """Close the session of this id and forget it; open() makes a fresh one of the same id."""
        self._sessions.forget(session_id)

    def run(self, name: str | None, message: ChatMessage, session_id: str | None = None) -> Sent:
        """Give the message to a new session, or to the one named.

        A message that was accepted before, in whatever session, runs nothing: that session is
        given back. Raises UnknownAgent, UnknownSession, SessionMismatch and what start() raises
        for a closed session; a rejection is no exception, it is the receipt.
        """
        served = None if session_id is None else self.session(session_id)
        agent = self.get(name) if served is None or name is not None else served.agent
        if served is not None:
            self._with(agent, served)
        ids_of = agent.name if served is None else served.ids_of
        known = self._inlet.ids(ids_of).get(message.message_id or "")
        if known is not None and (
            served is None or known.digest == digest_of(message.content or "")
        ):
            served = known.sent.session
        return self.send(served or self.open(agent), message)

    def send(self, served: ServedSession, message: ChatMessage) -> Sent:
        """Give the message to this session; its receipt is in the journal when this returns.

        Raises RuntimeClosed and RuntimeFailed. A message that another session of the agent has is
        a repeat, other content under its id is `rejected id_reused`.
        """
        return self._inlet.send(served, message)

    def permit(
        self, served: ServedSession, request_id: str, answer: PermissionAnswer
    ) -> PermissionResolved:
        """Answer a permission request of this session; see PermissionDesk.answer.

        Raises AnswerRefused, with `prompt_elsewhere` for a request that another session made.
        """
        desk = served.runtime.permissions
        others = (one.runtime.permissions for one in self._sessions.by_id.values())
        if not desk.knows(request_id) and any(other.knows(request_id) for other in others):
            raise AnswerRefused(
                "prompt_elsewhere",
                f"permission request {request_id!r} is not of session {served.session_id!r}",
                "answer it in the session that asks",
            )
        return desk.answer(
            request_id,
            answer.decision,
            arguments=answer.arguments,
            message=answer.message,
            sha256=answer.sha256,
        )

    def _with(self, agent: Agent, served: ServedSession) -> ServedSession:
        if served.agent.name != agent.name:
            raise SessionMismatch(
                f"session {served.session_id!r} is with agent {served.agent.name!r}, not "
                f"{agent.name!r}; leave the agent out, or open a new session"
            )
        return served

    # -- opening and closing ---------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._servers is not None:
            await self._servers.__aenter__()
        if self._line is not None:
            await self._line.chats.load()
        group = await self._sessions.open_all(list(self._agents.values()))
        if self._line is not None:
            await self._line.open(group)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        finally:
            await self._sessions.leave()
            if self._servers is not None:
                await self._servers.__aexit__(None, None, None)

    async def close(self) -> None:
        """Close all sessions at once, within the grace; may be called twice. See Sessions.close."""
        if self._line is not None:
            self._line.close()
        await self._sessions.close()
