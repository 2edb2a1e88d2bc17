"""The line before each agent: every request is admitted, waits, or is refused, and ends once.

It guards the session `chat:NAME`, one at a time, and the tasks of an agent, a few at a time. All
faces go through it: HTTP, a run frame into that session, other agents, schedules.
"""

import asyncio
from contextlib import suppress
from functools import partial

import msgspec

from agent_lab.application.agents import Agents
from agent_lab.application.asked import Asked, Submitted, line_of
from agent_lab.application.chat_sessions import ChatSessions, chat_id
from agent_lab.application.clock import SessionClock
from agent_lab.application.execution_queue import ExecutionQueue, Place
from agent_lab.application.executions import Change, Declined, Executions
from agent_lab.application.fan_out import FanOuts
from agent_lab.application.idempotency import Claim, Keys
from agent_lab.application.invariants import Problem, check_line
from agent_lab.application.line_calls import LineCalls
from agent_lab.application.line_control import LineControl
from agent_lab.application.line_fires import LineFires
from agent_lab.application.line_recovery import recover
from agent_lab.application.line_runs import Runs
from agent_lab.application.pace import Pace
from agent_lab.application.ports import ExecutionStore, Outside, SlotKeeper, Store
from agent_lab.application.schedules import Schedules
from agent_lab.application.served import AgentsClosed
from agent_lab.application.timeline import Timeline
from agent_lab.domain.admission import Lease, Refused, Room, Ticket, Waits
from agent_lab.domain.errors import AlreadyTerminal, NotAdmitted, StorageError
from agent_lab.domain.execution import Execution, Kind, Outcome, chain_of, refused_chain
from agent_lab.domain.limits import LineLimits


class ExecutionLine:
    """Opened by its Agents, with their task group; until then it takes nothing."""

    def __init__(
        self,
        agents: Agents,
        keeper: SlotKeeper,
        store: ExecutionStore,
        outside: Outside,
        limits: LineLimits,
        schedules: Schedules,
        kept: Store | None = None,
    ) -> None:
        """`kept` remembers what conversations began with, if it is to outlive the process."""
        self.limits = limits
        self.schedules = schedules
        self.keeper = keeper
        self.store = store
        self.agents = agents
        self._outside = outside
        self._closed = True
        self._offset = 0.0
        self.book = Executions(store, lambda: self.time() + self._offset)
        self.chats = ChatSessions(agents, kept, self.book.now)
        agents.call_through(LineCalls(self))  # before sessions are taken up

    # -- opening and closing ---------------------------------------------------------------------

    async def open(self, group: asyncio.TaskGroup) -> None:
        """Begin, with what a process before this one left behind. Its tasks live in `group`."""
        loop, outside, limits = asyncio.get_running_loop(), self._outside, self.limits
        self._group = group
        self.time = outside.clock(loop)
        self._offset = outside.wall_time() - self.time()
        self.clock = SessionClock(loop, self.time)
        self.timeline = Timeline(self.book, outside)
        self.book.listen(self._changed)
        self.pace = Pace(self.book)
        self.queue = ExecutionQueue(self.keeper, self.clock, group, lease=limits.lease)
        self.runs = Runs(self.agents, self.chats, self.book, self.queue, self.timeline, group)
        self.control = LineControl(self)
        self.fan_outs = FanOuts(self, group, outside)
        self._keys = Keys(self.book, keep=limits.keys)
        self._closed = False
        await recover(self)
        told, new_id = self.agents.changes.agent, outside.new_id
        fires = LineFires(self.agents, self.chats, self.book, self.clock, self.submit, new_id, told)
        await self.schedules.open(fires, group)

    def close(self) -> None:
        """Take nothing more; who waits is told that the server stops. What runs ends by itself.

        May be called twice.
        """
        if self._closed:
            return
        self._closed = True
        self.queue.close()
        for execution in self.book.live:
            if execution.status == "queued" and not execution.detached:
                with suppress(AlreadyTerminal):
                    self.end(execution.id, Outcome(status="interrupted", error_code="closed"))
        self.book.close(AgentsClosed("the server stops; what was accepted for good runs later"))

    @property
    def is_open(self) -> bool:
        """Whether it takes anything."""
        return not self._closed

    async def check(self) -> list[Problem]:
        """What must not be, of all lines and sessions here; empty when all is right."""
        return await check_line(self.agents, self.control, self.book)

    # -- asking ----------------------------------------------------------------------------------

    async def submit(self, agent_name: str, kind: Kind, asked: Asked) -> Submitted:
        """Accept the request: it runs, or it waits. On record and stored when this returns.

        Raises UnknownAgent, NotAdmitted for a request that was refused, StorageError for one that
        could not be stored. Cancelled, it leaves nothing behind.
        """
        agent = self.agents.get(agent_name)
        if self._closed:
            raise NotAdmitted("closing", "the server stops", hint="come back when it is up again")
        self.chats.check(agent, asked.model)
        try:
            if why := refused_chain(chain_of(asked.by), agent.name, self.limits.depth):
                raise NotAdmitted("depth_exceeded", why, hint="answer without; do not try again")
            async with self._keys.claim(agent.name, kind, asked.key, asked.digest) as claim:
                if claim.replay is not None:
                    return Submitted(claim.replay, is_replay=True)
                execution = self._record(agent.name, kind, asked, claim)
                limit = execution.wait_limit or 0.0
                refused = await self.enter(execution, may_wait=asked.may_wait, limit=limit)
                if refused is not None:
                    raise self._refusal(execution, refused)
        except NotAdmitted as refusal:
            self.book.decline(Declined(agent.name, kind, asked.by.source, refusal.code))
            raise
        await self._stored(execution)
        return Submitted(self.book.get(execution.id) or execution)

    async def leave(self, execution: Execution) -> bool:
        """Whoever asked has gone: a request that still waits never runs; False if it does."""
        return await self.withdraw(execution, "whoever asked has left", "left")

    async def withdraw(self, execution: Execution, why: str, code: str) -> bool:
        """Take it out of the line, ended `cancelled`; False if it does not wait there."""
        ticket = self._ticket(execution)
        if not await self.queue.leave(ticket):
            return False
        self.end(execution.id, Outcome(status="cancelled", error=why, error_code=code))
        return True

    async def until_end(self, execution: Execution) -> Execution:
        """Wait for its end; cancelling that disturbs nobody."""
        return await self.book.until_end(execution)

    def end(self, execution_id: str, outcome: Outcome) -> Execution:
        """End one that never ran; raises AlreadyTerminal."""
        execution = self.book.end(execution_id, outcome)
        self.book.forget(execution_id)
        return execution

    # -- the line itself -------------------------------------------------------------------------

    def room(self, kind: Kind) -> Room:
        """What a line begins with."""
        limits = self.limits
        if kind == "chat":
            return Room(limits.capacity, limits.waiting)
        return Room(limits.tasks, limits.backlog)

    async def enter(self, execution: Execution, *, may_wait: bool, limit: float) -> Refused | None:
        """Ask for its slot, and put it on record unless it is refused."""
        room = self.room(execution.kind)
        place = self._place(execution)
        answer = await self.queue.enter(place, room, may_wait=may_wait, limit=limit)
        match answer:
            case Refused():
                return answer
            case Waits():
                waiting = msgspec.structs.replace(execution, was_queued=True)
                self.book.add(waiting, position=answer.position)
            case Lease():
                self.book.add(execution)
                self.runs.start(execution.id, answer)
        return None

    async def _stored(self, execution: Execution) -> None:
        """Accepted means stored: what cannot be stored is taken back."""
        try:
            await self.store.committed()
        except StorageError as error:
            if await self.queue.leave(self._ticket(execution)):
                outcome = Outcome(status="failed", error=str(error), error_code=error.code)
                self.end(execution.id, outcome)
            raise
        except asyncio.CancelledError:
            await self.leave(execution)
            raise

    def _record(self, agent_name: str, kind: Kind, asked: Asked, claim: Claim) -> Execution:
        by, limits, new_id = asked.by, self.limits, self._outside.new_id
        execution_id = new_id("exec")
        return Execution(
            id=execution_id,
            ticket=new_id("ticket"),
            agent_name=agent_name,
            kind=kind,
            message=asked.message,
            queued_at=self.book.now(),
            **msgspec.structs.asdict(by),
            priority=asked.priority or by.source,
            model=asked.model,
            detached=asked.detached,
            wait_limit=limits.wait if kind == "chat" else limits.backlog_wait,
            run_limit=asked.run_limit or limits.run,
            idempotency_key=asked.key,
            body_digest=asked.digest if asked.key is not None else None,
            idempotency_unchecked=claim.is_unchecked,
            message_id=asked.message_id or execution_id,
            session_id=chat_id(agent_name) if kind == "chat" else None,
        )

    def _place(self, execution: Execution) -> Place:
        key = execution.id
        return Place(
            self._ticket(execution),
            granted=partial(self._granted, key),
            moved=partial(self.book.move, key),
            late=partial(self._late, execution),
            lost=partial(self.runs.lost, key),
        )

    def _ticket(self, execution: Execution) -> Ticket:
        line = line_of(execution.agent_name, execution.kind)
        at = self.time() - (self.book.now() - execution.queued_at)
        return Ticket(execution.ticket, line, execution.priority, at)

    def _granted(self, execution_id: str, lease: Lease) -> None:
        if self._closed:  # it waits for the next start, if it is stored
            self._group.create_task(self.queue.release(lease), name=f"return {execution_id}")
        else:
            self.runs.start(execution_id, lease)

    def _changed(self, change: Change) -> None:
        """Whoever looks on at all agents looks at this one again."""
        if not isinstance(change, Declined):
            self.agents.changes.agent(change.execution.agent_name)

    def _late(self, execution: Execution) -> None:
        said = f"nobody was free for {execution.wait_limit:g} s; ask again later"
        outcome = Outcome(
            status="timeout", error=said, error_code="queued_timeout", by_watchdog=True
        )
        with suppress(AlreadyTerminal):
            self.end(execution.id, outcome)

    def _refusal(self, execution: Execution, refused: Refused) -> NotAdmitted:
        name = execution.agent_name
        retry = self.pace.retry_after(line_of(name, execution.kind), refused)
        said = f"agent {name!r} runs {refused.running} and {refused.waiting} wait"
        hint = "try again after Retry-After seconds"
        if refused.because == "busy":
            hint += ", or ask so that it may wait"
        return NotAdmitted(
            "capacity", said, hint=hint, retry_after=retry, queue_length=refused.waiting
        )
