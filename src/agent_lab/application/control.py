"""The commands on agents that every face shares: create, list, prompt, wait, cancel, close.

Page, HTTP, MCP, scripts and other agents call the same methods, and the answers are told as they
are. An agent here is a session, and `agent_id` its id: one that was created, one that a page or a
script opened, or `chat:NAME`, the one conversation that an agent has with all who chat with it.
"""

from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

import msgspec

from agent_lab.application.aborts import Abort
from agent_lab.application.agents import Agents
from agent_lab.application.asking import TakesTheLine, bar_line, create, send
from agent_lab.application.control_answers import (
    Activity,
    AgentSnapshot,
    AgentWait,
    CancelledAgent,
    ClosedAgent,
    CreatedAgent,
    PendingPermission,
    Prompted,
    Responded,
    Waited,
)
from agent_lab.application.control_views import (
    activity,
    line_of,
    listed,
    pending_permissions,
    snapshot,
)
from agent_lab.application.control_waits import Wanted, for_message, seconds, wait, watch_from
from agent_lab.application.cursors import joined, positions
from agent_lab.application.served import ServedSession, UnknownSession
from agent_lab.application.stopping import cancel, close
from agent_lab.application.waiting import Until, Watch
from agent_lab.domain.errors import MessageRejected
from agent_lab.domain.limits import ControlLimits
from agent_lab.domain.messages import ChatMessage, Mode
from agent_lab.domain.permission import PermissionAnswer
from agent_lab.domain.records import Created
from agent_lab.domain.settling import AgentStatus

IfInterrupted: TypeAlias = Literal["go_on", "tell"]
"""What a wait makes of a turn that another message interrupts: that one's turn, or the answer."""


class AgentControl:
    """The commands on these agents. It keeps nothing, so any number of faces may have one each.

    Whatever names an agent raises UnknownSession, and StorageError where there is a store that
    fails. Answers tell what is stored, if there is a store.
    """

    def __init__(self, agents: Agents, *, limits: ControlLimits | None = None) -> None:
        self.agents = agents
        self.limits = limits or ControlLimits()
        self._stop = Abort()

    def stop(self, reason: str = "the server stops") -> None:
        """End all waits of this control, and those to come, with WaitAborted."""
        self._stop.set(reason)

    # -- create ----------------------------------------------------------------------------------

    async def create_agent(
        self,
        name: str,
        *,
        from_agent: str | None = None,
        instructions: str | None = None,
        initial_prompt: str | None = None,
        message_id: str | None = None,
    ) -> CreatedAgent:
        """A new agent that runs `from_agent`'s definition in a session of its own.

        `name` is what it is called; it need not be unique. `instructions` take the place of the
        definition's. It takes no slot in any line and is kept until it is closed. It works in the
        background. Raises UnknownAgent, ModelError, TooManyAgents, MessageRejected for an empty
        prompt; then there is no new agent.
        """
        message = None
        if initial_prompt is not None:
            message = ChatMessage("user", initial_prompt, message_id=message_id)
        created = Created(name, instructions)
        return await create(self.agents, from_agent, created, message, most=self.limits.created)

    async def create_agent_and_wait(
        self,
        name: str,
        initial_prompt: str,
        *,
        from_agent: str | None = None,
        instructions: str | None = None,
        message_id: str | None = None,
        timeout_seconds: float | None = None,
        abort: Abort | None = None,
    ) -> AgentWait:
        """As create_agent, and wait as send_agent_prompt_and_wait does."""
        self._check(abort)
        made = await self.create_agent(
            name,
            from_agent=from_agent,
            instructions=instructions,
            initial_prompt=initial_prompt,
            message_id=message_id,
        )
        assert made.prompted is not None
        return await self._wait_for_message(made.prompted, "tell", timeout_seconds, abort)

    # -- prompt ----------------------------------------------------------------------------------

    async def send_agent_prompt(
        self, agent_id: str, prompt: str, *, mode: Mode = "steer", message_id: str | None = None
    ) -> Prompted:
        """Give the agent a message; it works in the background.

        Busy, it is steered, queued for its next turn (`follow_up`), interrupted, or it refuses
        (`reject`). The same `message_id` with the same text runs nothing twice. A message that is
        not accepted is no error: its receipt says why. Raises RuntimeClosed, RuntimeFailed, and
        TakesTheLine for a message to `chat:NAME` that does not steer the turn it runs.
        """
        served = await self._find(agent_id)
        if served.created is None and message_id is not None:
            await self.agents.recall(agent=served.agent.name, message_id=message_id)
        message = ChatMessage("user", prompt, mode=mode, message_id=message_id)
        bar_line(self.agents, served, message)
        return await send(self.agents, served, message)

    async def send_agent_prompt_and_wait(
        self,
        agent_id: str,
        prompt: str,
        *,
        mode: Mode = "steer",
        message_id: str | None = None,
        if_interrupted: IfInterrupted = "tell",
        timeout_seconds: float | None = None,
        abort: Abort | None = None,
    ) -> AgentWait:
        """As send_agent_prompt, and wait for the end of that message's turn, whatever else waits.

        If another message interrupts it, that is told (reason `interrupted`), or with `go_on` that
        one's turn is waited for. Raises MessageRejected for one that was not accepted.
        """
        self._check(abort)
        prompted = await self.send_agent_prompt(agent_id, prompt, mode=mode, message_id=message_id)
        if not prompted.accepted:
            said = prompted.receipt
            raise MessageRejected(said.code or "rejected", said.message_id, said.message or "")
        return await self._wait_for_message(prompted, if_interrupted, timeout_seconds, abort)

    # -- wait ------------------------------------------------------------------------------------

    async def wait_for_agent(
        self,
        agent_ids: Sequence[str],
        *,
        until: Until = "all",
        after: str | None = None,
        timeout_seconds: float | None = None,
        wait_for_active: bool = False,
        if_interrupted: IfInterrupted = "go_on",
        include_activity: bool = False,
        abort: Abort | None = None,
    ) -> Waited:
        """Wait until these agents rest, fail, are closed or ask for a permission.

        Without a cursor `after`, one that rests has settled, with what its last turn said; what is
        accepted and not begun counts as work. With one, the first end behind it is told, so none is
        missed and none told twice; an agent that rests and did nothing since has settled without
        news (`at_rest`), or `wait_for_active` its next turn is waited for. `any` wants news of one
        of them, or that none works; `all` that all have settled.

        The end of the time (`timeout_seconds`, 300 by default) is an answer, `timed_out`, and its
        cursor resumes. Cancelling the wait, or setting `abort`, leaves the agents alone; the order
        is: cancellation, abort (WaitAborted), result, time. Raises BadCursor.
        """
        ids = list(dict.fromkeys(agent_ids))
        if not 1 <= len(ids) <= self.limits.at_once:
            raise ValueError(f"{len(ids)} agents to wait for; name 1 to {self.limits.at_once}")

        async def watches() -> list[Watch]:
            found = positions(after)
            how = Wanted(goes_on=if_interrupted == "go_on", for_active=wait_for_active)
            return [watch_from(self.agents, await self._find(one), found, how) for one in ids]

        rows, is_over = await wait(
            self.agents, watches, until, seconds(self.limits, timeout_seconds), self._aborts(abort)
        )
        if include_activity:
            rows = [
                msgspec.structs.replace(one, activity=await self.get_agent_activity(one.agent_id))
                for one in rows
            ]
        return Waited(
            agents=tuple(rows), timed_out=is_over, cursor=joined(one.cursor for one in rows)
        )

    async def _wait_for_message(
        self,
        prompted: Prompted,
        if_interrupted: IfInterrupted,
        timeout_seconds: float | None,
        abort: Abort | None,
    ) -> AgentWait:
        async def watches() -> list[Watch]:
            served = await self._find(prompted.agent_id)
            return [for_message(self.agents, served, prompted, goes_on=if_interrupted == "go_on")]

        rows, _ = await wait(
            self.agents, watches, "all", seconds(self.limits, timeout_seconds), self._aborts(abort)
        )
        return rows[0]

    def _aborts(self, abort: Abort | None) -> list[Abort]:
        return [self._stop] if abort is None else [abort, self._stop]

    def _check(self, abort: Abort | None) -> None:
        for one in self._aborts(abort):
            one.check()

    # -- look ------------------------------------------------------------------------------------

    async def list_agents(
        self, *, statuses: Collection[AgentStatus] = (), limit: int | None = None
    ) -> list[AgentSnapshot]:
        """Agents newest first, then those that are only stored; of these statuses, or all."""
        return await listed(self.agents, statuses, self.limits.listed if limit is None else limit)

    async def get_agent_status(self, agent_id: str) -> AgentSnapshot:
        """The agent as it is now."""
        return snapshot(self.agents, await self._find(agent_id))

    async def get_agent_activity(self, agent_id: str, *, limit: int | None = None) -> Activity:
        """What the agent did lately, as text: at most `limit` items, the newest last."""
        most = self.limits.activity if limit is None else limit
        return activity(await self._find(agent_id), most)

    async def list_pending_permissions(
        self, agent_id: str | None = None
    ) -> list[PendingPermission]:
        """What the agent's calls wait for, or those of all agents, oldest agent first."""
        if agent_id is not None:
            sessions = [await self._find(agent_id)]
        else:
            sessions = self.agents.sessions()[::-1]
        return pending_permissions(sessions)

    async def respond_to_permission(
        self, agent_id: str, request_id: str, answer: PermissionAnswer
    ) -> Responded:
        """Answer a request of the agent; on record when this returns.

        The first answer counts: raises AnswerRefused for every other, see PermissionDesk.answer.
        """
        served = await self._find(agent_id)
        ended = self.agents.permit(served, request_id, answer)
        await served.stored(served.last_seq)
        facts = {name: getattr(ended, name) for name in Responded.__struct_fields__[1:]}
        return Responded(agent_id=served.session_id, **facts)

    # -- stop ------------------------------------------------------------------------------------

    async def cancel_agent(
        self, agent_id: str, *, turn: int | None = None, drop_waiting: bool = False
    ) -> CancelledAgent:
        """Stop the turn that runs, or just this one; on record when this returns.

        Messages that wait start the next turn unless `drop_waiting`.
        """
        return await cancel(await self._find(agent_id), turn, drop_waiting=drop_waiting)

    async def close_agent(self, agent_id: str) -> ClosedAgent:
        """Close the agent for good; on record when this returns, and what it did can be read.

        Its turn ends `cancelled` (reason `closed`), and whoever waits for it is told. Raises
        TakesTheLine for `chat:NAME`, which is begun anew by a reset.
        """
        served = await self._find(agent_id)
        if line_of(self.agents, served) is not None:
            raise TakesTheLine(
                f"{agent_id!r} is the one conversation of {served.agent.name!r}; reset it instead"
            )
        return await close(self.agents, served)

    async def _find(self, agent_id: str) -> ServedSession:
        agents = self.agents
        try:
            return agents.session(agent_id)
        except UnknownSession:
            await agents.recall(session_id=agent_id)
        name = agent_id.removeprefix("chat:")
        if name != agent_id and name in agents.names:
            return agents.line.chats.open(agents.get(name), None)
        return agents.session(agent_id)
