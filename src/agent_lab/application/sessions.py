"""The live sessions of one process: opened or taken up from the store, kept, let go and closed.

A pump takes each session's `output`, so an agent never waits for somebody to look.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from agent_lab.application.agent import Agent
from agent_lab.application.agent_tool import Colleagues
from agent_lab.application.archive import Archive, Dormant
from agent_lab.application.changes import Changes
from agent_lab.application.closings import Closings
from agent_lab.application.journal import Entry, Gap
from agent_lab.application.logs import log
from agent_lab.application.ports import Outside
from agent_lab.application.served import (
    AgentsClosed,
    Known,
    OpenRuntime,
    Sent,
    ServedSession,
    UnknownSession,
    derived,
)
from agent_lab.domain.errors import AgentLabError, QueueClosed, StorageError
from agent_lab.domain.inbox import digest_of
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.records import Created


class Sessions:
    """Sessions by id, oldest first, and the message ids of each agent.

    At most `idle` sessions without work and viewers are kept: of more, the ones that rested longest
    are closed and forgotten, their message ids too. What the archive has can be taken up again.
    """

    def __init__(
        self,
        open_runtime: OpenRuntime,
        outside: Outside,
        *,
        idle: int,
        grace: float,
        archive: Archive | None,
    ) -> None:
        self.by_id: dict[str, ServedSession] = {}
        self.known: dict[str, dict[str, Known]] = {}
        self.archive = archive
        self.changes = Changes()
        self.as_it_was: Callable[[Agent, str], Agent] = lambda agent, _: agent
        self.colleagues: Colleagues | None = None
        self._open_runtime = open_runtime
        self._outside = outside
        self._idle = idle
        self._grace = grace
        self._taking_up = asyncio.Lock()
        self._closings = Closings()
        self._group: asyncio.TaskGroup | None = None
        self._closed = False

    def get(self, session_id: str) -> ServedSession:
        """The session with this id; raises UnknownSession."""
        served = self.by_id.get(session_id)
        if served is None:
            raise UnknownSession(
                f"there is no session {session_id!r} here: it never was, or it rested for long and "
                "was forgotten; start a new one with a run"
            )
        return served

    def open(
        self,
        agent: Agent,
        session_id: str | None,
        history: Sequence[ChatMessage],
        created: Created | None = None,
    ) -> ServedSession:
        """A new session; raises AgentsClosed, and the fault of a store that fails."""
        group = self._working()
        self.bar_faults()
        outside, agent = self._outside, derived(agent, created)
        runtime = self._open_runtime(agent, session_id=session_id, outside=outside, history=history)
        served = ServedSession(runtime, self._outside)
        served.created, served.is_kept = created, created is not None
        if self.archive is not None:
            self.archive.record(served)
        return self._adopt(group, served)

    async def create(self, agent: Agent, created: Created) -> ServedSession:
        """A new session of a created agent, stored when this returns; else there is none."""
        served = self.open(agent, None, (), created)
        if self.archive is not None and served.recorder is not None:
            try:
                await self.archive.store.sure(served.recorder.note())
            except BaseException:
                self.forget(served.session_id)
                raise
        return served

    def bar_faults(self) -> None:
        """While nothing can be stored nothing is accepted: raises the store's fault."""
        if self.archive is not None and self.archive.store.fault is not None:
            raise self.archive.store.fault

    def _working(self) -> asyncio.TaskGroup:
        if self._group is None or self._closed:
            raise AgentsClosed("the agents are not open; enter them with `async with` first")
        return self._group

    def _adopt(self, group: asyncio.TaskGroup, served: ServedSession) -> ServedSession:
        self._make_room(group)
        served.runtime.session.colleagues = self.colleagues
        self.by_id[served.session_id] = served
        group.create_task(self._pump(served), name=f"pump {served.session_id}")
        if served.recorder is not None:
            group.create_task(served.recorder.run(), name=f"recorder {served.session_id}")
        self.changed(served)
        return served

    async def _pump(self, served: ServedSession) -> None:
        """Take `output` until the session ends: what is on it is in the journal too."""
        output = served.runtime.session.queues.output
        try:
            with suppress(QueueClosed):
                while True:
                    await output.get()
                    self.changed(served)
        except Exception:
            log.exception("session %s: its pump fell over", served.session_id)
        self.changed(served)

    def give(self, served: ServedSession, message: ChatMessage) -> None:
        """Put a message into the session's `input`: accepted now, there when the gate lets it.

        Raises MessageRejected, RuntimeClosed and RuntimeFailed.
        """
        rest = served.runtime.give(message)
        if rest is not None:
            assert self._group is not None, "a session was opened, so the group is"
            self._group.create_task(_brought(rest), name=f"put {served.session_id}")

    def changed(self, served: ServedSession) -> None:
        """Tell who watches that there is news of this session."""
        self.changes.session(served.session_id, served.agent.name)

    # -- what is stored --------------------------------------------------------------------------

    async def dormant(self, agents: Collection[str]) -> list[Dormant]:
        """Stored sessions with these agents that are not in memory, newest first."""
        return [] if self.archive is None else await self.archive.dormant(agents, self.by_id)

    async def entries(
        self, served: ServedSession, after: int, limit: int
    ) -> tuple[Gap | None, Sequence[Entry]]:
        """A session's entries behind `after`, at most `limit`, and what is gone before them."""
        gap, found = served.runtime.session.journal.read(after, limit)
        if self.archive is None or served.recorder is None:
            return gap, found
        if gap is not None:
            return None, await self.archive.read(served, gap, limit)
        return None, [entry for entry in found if entry.seq <= served.recorder.stored]

    async def recall(
        self, agents: Sequence[Agent], session_id: str | None, message_id: str | None
    ) -> None:
        """Take up the stored session of this id, and the one of these agents with this message."""
        by_name = {agent.name: agent for agent in agents}
        if self.archive is None:
            return
        if session_id is not None:
            await self._take_up(self.archive, by_name, session_id)
        for name in by_name if message_id else ():
            if message_id and message_id not in self.known.get(name, {}):
                other = await self.archive.session_of(name, message_id)
                if other is not None:
                    await self._take_up(self.archive, by_name, other)

    async def _take_up(self, archive: Archive, agents: dict[str, Agent], session_id: str) -> None:
        async with self._taking_up:
            if session_id in self.by_id:
                return
            group, saved = self._working(), await archive.load(session_id)
            if saved is None or saved.dormant.agent not in agents:
                return
            runtime = self._open_runtime(
                self.as_it_was(
                    derived(agents[saved.dormant.agent], saved.dormant.body.created), session_id
                ),
                session_id=session_id,
                outside=self._outside,
                history=saved.recovered.history,
            )
            served = self._adopt(group, archive.take_up(saved, runtime))
            served.is_kept = served.created is not None and served.gone is None
            known = self.known.setdefault(served.ids_of, {})
            for key, (seq, said) in saved.recovered.accepted.items():
                known[key] = Known(digest_of(said), Sent(served, key, seq))
            if served.gone is not None:
                runtime.wind_down()
            elif saved.recovered.waiting:
                runtime.session.wake()

    # -- opening, room, closing ------------------------------------------------------------------

    async def open_all(self, agents: Sequence[Agent]) -> asyncio.TaskGroup:
        """Enter the group that all tasks live in, take up what was left at work, and go on with it.

        Raises AgentsClosed the second time.
        """
        if self._group is not None:
            raise AgentsClosed("the agents were opened before; make new ones")
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        for session_id in await self._to_go_on(agents):
            try:
                await self.recall(agents, session_id, None)
            except AgentLabError:  # the others can go on
                log.exception("session %s cannot be taken up", session_id)
        return self._group

    async def _to_go_on(self, agents: Sequence[Agent]) -> list[str]:
        """Ids of the sessions that were at work, and of each agent's conversation."""
        if self.archive is None:
            return []
        return [*await self.archive.unfinished(), *(f"chat:{agent.name}" for agent in agents)]

    async def leave(self) -> None:
        """Wait for the group's tasks, and close the store."""
        assert self._group is not None
        # The body's own error is not the group's: it would come out wrapped.
        await self._group.__aexit__(None, None, None)
        if self.archive is not None:
            await self.archive.store.close()

    async def close(self) -> None:
        """Close all sessions at once; may be called twice.

        What runs ends `cancelled` (reason `closed`); followers get what is left and then the end.
        Work that ignores its cancellation is left behind after the grace.
        """
        self._closed = True
        if self._group is None:
            return
        for served in self.by_id.values():
            if served.recorder is not None:  # the next start finds it as a kill would leave it
                served.recorder.stop()
            if not served.runtime.is_closed:
                self._closings.close(self._group, served, "the server stops")
        await self._closings.over(self._grace)

    def _make_room(self, group: asyncio.TaskGroup) -> None:
        """Before one more session: close and forget those that rested longest."""
        resting = [served for served in self.by_id.values() if served.is_resting]
        resting.sort(key=lambda served: served.active_at)
        for served in resting[: max(len(resting) - self._idle + 1, 0)]:
            self._forget(group, served, "it rested for long and was forgotten")

    def close_one(self, served: ServedSession) -> None:
        """Close this session for good: on record when this returns, and it can still be read."""
        served.is_kept = False
        self._closings.close(self._working(), served, "closed")
        if served.recorder is not None:
            served.recorder.gone = "closed"
            with suppress(StorageError):  # it is closed all the same, until the process ends
                served.recorder.note()
        self.changed(served)

    def forget(self, session_id: str) -> None:
        """Close the session of this id, if there is one; open() makes a fresh one."""
        served = self.by_id.get(session_id)
        if served is not None:
            if self.archive is not None:
                self.archive.forget(served)
            self._forget(self._working(), served, "replaced")

    @property
    def haunted(self) -> list[ServedSession]:
        """Sessions in which work goes on that ignored its end; also those that are forgotten."""
        return self._closings.haunted(self.by_id.values())

    def _forget(self, group: asyncio.TaskGroup, served: ServedSession, why: str) -> None:
        del self.by_id[served.session_id]
        self.changed(served)
        known = self.known.get(served.ids_of, {})
        for key in [key for key, taken in known.items() if taken.sent.session is served]:
            del known[key]
        if served.created is not None:
            self.known.pop(served.ids_of, None)
        self._closings.close(group, served, why)


async def _brought(rest: Coroutine[Any, Any, None]) -> None:
    """The rest of a put. A session that closes meanwhile has given the message its end."""
    with suppress(QueueClosed):
        await rest
