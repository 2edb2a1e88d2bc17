"""The agents of one process and their live sessions, as the page, HTTP and MCP share them.

A served session is taken care of: its own pump takes `output` always, with or without viewers, so
the agent never waits for somebody to look. Message ids are unique an agent, over all its sessions.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agent_lab.application.agent import Agent
from agent_lab.application.changes import Changes
from agent_lab.application.logs import log
from agent_lab.application.ports import Outside
from agent_lab.application.runtime import Runtime
from agent_lab.application.served import (
    AgentsClosed,
    Known,
    OpenRuntime,
    Sent,
    ServedSession,
    UnknownAgent,
    UnknownSession,
)
from agent_lab.domain.errors import (
    MessageRejected,
    QueueClosed,
    SessionMismatch,
)
from agent_lab.domain.inbox import REFUSALS, digest_of
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import Accepted, Rejected

if TYPE_CHECKING:
    from agent_lab.application.line import ExecutionLine


class Agents:
    """Agents by name and their sessions, newest first.

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
    ) -> None:
        """`grace`: seconds that close() gives all sessions together. Names must differ."""
        self._agents = {agent.name: agent for agent in agents}
        if len(self._agents) < len(agents) or not agents:
            raise ValueError("agents need one name each, and there must be one at least")
        self.changes = Changes()
        self._open_runtime = open_runtime
        self._outside = outside
        self._idle = idle
        self._grace = grace
        self._sessions: dict[str, ServedSession] = {}
        self._known: dict[str, dict[str, Known]] = {name: {} for name in self._agents}
        self._closing: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup | None = None
        self._closed = False
        self._line: ExecutionLine | None = None

    # -- what there is ---------------------------------------------------------------------------

    @property
    def line(self) -> "ExecutionLine":
        """What stands before the conversations and tasks of these agents."""
        assert self._line is not None, "whoever makes Agents gives them a line: see bootstrap"
        return self._line

    def guard(self, line: "ExecutionLine") -> None:
        """Put this line before the agents; it opens and closes with them."""
        self._line = line

    @property
    def names(self) -> list[str]:
        """Names of the agents, in the order they were given."""
        return list(self._agents)

    def get(self, name: str | None = None) -> Agent:
        """The agent of that name; None means the only one. Raises UnknownAgent."""
        if name is None and len(self._agents) == 1:
            return next(iter(self._agents.values()))
        if name is None or name not in self._agents:
            said = "no agent was named" if name is None else f"there is no agent {name!r}"
            raise UnknownAgent(f"{said}; name one of: {', '.join(self._agents)}")
        return self._agents[name]

    def probe(self, agent: Agent) -> Runtime:
        """A runtime that is never started, to look at; raises ModelError."""
        return self._open_runtime(agent, session_id="probe", outside=self._outside)

    def is_busy(self, agent: Agent) -> bool:
        """Whether any of its sessions works."""
        return any(
            s.agent.name == agent.name and s.state == "running" for s in self._sessions.values()
        )

    def session(self, session_id: str) -> ServedSession:
        """The session with this id; raises UnknownSession."""
        served = self._sessions.get(session_id)
        if served is None:
            raise UnknownSession(
                f"there is no session {session_id!r} here: it never was, or it rested for long and "
                "was forgotten; start a new one with a run"
            )
        return served

    def sessions(self) -> list[ServedSession]:
        """All sessions, newest first."""
        return list(reversed(self._sessions.values()))

    def knows(self, name: str, message_id: str | None) -> bool:
        """Whether the agent of this name accepted a message of this id before."""
        return message_id in self._known[name]

    # -- asking ----------------------------------------------------------------------------------

    def open(
        self, agent: Agent, session_id: str | None = None, history: Sequence[ChatMessage] = ()
    ) -> ServedSession:
        """A new session, or the one that has this id; raises SessionMismatch, AgentsClosed."""
        if self._group is None or self._closed:
            raise AgentsClosed("the agents are not open; enter them with `async with` first")
        if session_id is not None and session_id in self._sessions:
            return self._with(agent, self._sessions[session_id])
        outside = self._outside
        runtime = self._open_runtime(agent, session_id=session_id, outside=outside, history=history)
        served = ServedSession(runtime, self._outside)
        self._make_room(self._group)
        self._sessions[served.session_id] = served
        self._group.create_task(self._pump(served), name=f"pump {served.session_id}")
        self._changed(served)
        return served

    def replace(self, session_id: str) -> None:
        """Close the session of this id and forget it; open() makes a fresh one of the same id."""
        served = self._sessions.get(session_id)
        if served is not None:
            assert self._group is not None, "there are sessions only while it is open"
            self._forget(self._group, served)

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
        known = self._known[agent.name].get(message.message_id or "")
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
        known = self._known[served.agent.name].get(message.message_id or "")
        if known is not None and known.sent.session is not served:
            if known.is_for(message):
                return Sent(known.sent.session, known.sent.message_id, known.sent.receipt, True)
            return self._refuse(served, message)
        before = served.last_seq
        with suppress(MessageRejected):  # that is its receipt, and on record
            served.runtime.start(message)
        if served.last_seq == before:
            first = known.sent.receipt if known else 0
            return Sent(served, message.message_id or "", first, is_repeat=True)
        return self._receipt(served, message, before)

    def _receipt(self, served: ServedSession, message: ChatMessage, before: int) -> Sent:
        _, entries = served.runtime.session.journal.read(before, 1)
        receipt = entries[0].payload
        assert isinstance(receipt, Accepted | Rejected), "a user message's receipt comes first"
        sent = Sent(served, receipt.message_id, before + 1)
        if isinstance(receipt, Accepted):
            self._known[served.agent.name][receipt.message_id] = Known(
                digest_of(receipt.content), sent
            )
            served.title = served.title or receipt.content
            self._changed(served)
        return sent

    def _refuse(self, served: ServedSession, message: ChatMessage) -> Sent:
        session, key = served.runtime.session, message.message_id or ""
        text = REFUSALS["id_reused"].format(id=key, depth=0)
        refusal = Rejected(**session.at(), message_id=key, code="id_reused", message=text)
        return Sent(served, key, session.note(refusal))

    def _with(self, agent: Agent, served: ServedSession) -> ServedSession:
        if served.agent.name != agent.name:
            raise SessionMismatch(
                f"session {served.session_id!r} is with agent {served.agent.name!r}, not "
                f"{agent.name!r}; leave the agent out, or open a new session"
            )
        return served

    # -- opening, room, closing ------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise AgentsClosed("the agents were opened before; make new ones")
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        if self._line is not None:
            await self._line.open(self._group)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._group is not None
        try:
            await self.close()
        finally:
            # The body's own error is not the group's: it would come out wrapped.
            await self._group.__aexit__(None, None, None)

    async def close(self) -> None:
        """Close all sessions at once, within the grace; may be called twice.

        What runs ends `cancelled` (reason `closed`); followers get what is left and then the end.
        Work that ignores its cancellation is left behind after the grace.
        """
        self._closed = True
        if self._group is None:
            return
        if self._line is not None:
            self._line.close()
        for served in self._sessions.values():
            if not served.runtime.is_closed:
                self._close(self._group, served)
        if self._closing:
            await asyncio.wait(self._closing, timeout=self._grace)
        for task in self._closing:
            task.cancel()

    def _make_room(self, group: asyncio.TaskGroup) -> None:
        """Before one more session: close and forget those that rested longest."""
        resting = [
            served
            for served in self._sessions.values()
            if served.state != "running" and not served.viewers and not served.is_kept
        ]
        resting.sort(key=lambda served: served.active_at)
        for served in resting[: max(len(resting) - self._idle + 1, 0)]:
            self._forget(group, served)

    def _forget(self, group: asyncio.TaskGroup, served: ServedSession) -> None:
        del self._sessions[served.session_id]
        self._changed(served)
        known = self._known[served.agent.name]
        for key in [key for key, taken in known.items() if taken.sent.session is served]:
            del known[key]
        self._close(group, served)

    def _close(self, group: asyncio.TaskGroup, served: ServedSession) -> None:
        task = group.create_task(served.runtime.close(), name=f"close {served.session_id}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _pump(self, served: ServedSession) -> None:
        """Take `output` until the session ends: what is on it is in the journal too."""
        output = served.runtime.session.queues.output
        try:
            with suppress(QueueClosed):
                while True:
                    await output.get()
                    self._changed(served)
        except Exception:
            log.exception("session %s: its pump fell over", served.session_id)
        self._changed(served)

    def _changed(self, served: ServedSession) -> None:
        self.changes.session(served.session_id, served.agent.name)
