"""Executions that have their slot: the session they run in, the turn, the limits, and the stop."""

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Literal

import msgspec

from agent_lab.application.agents import Agents, AgentsClosed
from agent_lab.application.chat_sessions import ChatSessions
from agent_lab.application.execution_queue import ExecutionQueue
from agent_lab.application.executions import Executions
from agent_lab.application.served import ServedSession
from agent_lab.application.timeline import Timeline
from agent_lab.application.turn_watch import TurnWatch
from agent_lab.domain.admission import Lease
from agent_lab.domain.errors import (
    AgentLabError,
    AlreadyTerminal,
    ModelError,
    RuntimeClosed,
    StorageError,
)
from agent_lab.domain.execution import Execution, Outcome
from agent_lab.domain.messages import ChatMessage

log = logging.getLogger("agent_lab")
Stopped = Literal["stopped", "before_start"]


class Runs:
    """One task for each execution that holds a slot; the slot is given back whatever happens."""

    def __init__(
        self,
        agents: Agents,
        chats: ChatSessions,
        book: Executions,
        queue: ExecutionQueue,
        timeline: Timeline,
        group: asyncio.TaskGroup,
    ) -> None:
        self._agents = agents
        self._chats = chats
        self._book = book
        self._queue = queue
        self._timeline = timeline
        self._group = group
        self._claims: dict[str, Lease] = {}
        self._watches: dict[str, TurnWatch] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def start(self, execution_id: str, lease: Lease) -> None:
        """Run it; its record says what becomes of it."""
        self._group.create_task(self._run(execution_id, lease), name=f"run {execution_id}")

    def stop(self, execution_id: str, outcome: Outcome) -> Stopped:
        """Give it this end and stop its turn, and no other; on record when this returns.

        `before_start` if no model was asked for it. Raises AlreadyTerminal when its turn has its
        end, even if that end is not on the record yet.
        """
        watch = self._watches.get(execution_id)
        if watch is None:
            self._book.end(execution_id, outcome)
            return "before_start"
        watch.catch_up()
        if watch.outcome is not None:
            raise AlreadyTerminal(execution_id, watch.outcome.status)
        execution = self._book.end(execution_id, watch.told(outcome))
        runtime = watch.served.runtime
        if watch.turn is None:
            runtime.withdraw(execution.message_id or execution.id)
            return "before_start"
        runtime.cancel(watch.turn)
        return "stopped"

    def so_far(self, execution: Execution) -> Execution:
        """The record of one that runs, with what its turn has come to until now."""
        watch = self._watches.get(execution.id)
        if watch is None or execution.is_terminal:
            return execution
        watch.catch_up()
        told = watch.told(Outcome(status="completed"))
        return msgspec.structs.replace(
            execution,
            turn=told.turn,
            tool_calls=told.tool_calls,
            context_used=told.context_used,
            cost_usd=told.cost_usd,
        )

    def execution_in(self, session_id: str, turn: int | None) -> Execution | None:
        """The execution whose turn this is, if it is one's."""
        for execution_id, watch in self._watches.items():
            if watch.served.session_id == session_id:
                watch.catch_up()
                if watch.turn == turn:
                    return self._book.get(execution_id)
        return None

    def lost(self, execution_id: str) -> None:
        """Its slot was taken by the keeper: it must not go on beside the next one."""
        said = "its slot was taken because the lease was not renewed in time"
        outcome = Outcome(status="failed", error=said, error_code="lease_lost", by_watchdog=True)
        with suppress(AlreadyTerminal):
            self.stop(execution_id, outcome)

    async def _run(self, execution_id: str, lease: Lease) -> None:
        claimed = self._claims.get(execution_id)
        if claimed is not None:  # woken twice: it runs once, and keeps the slot it has (S20)
            if claimed != lease:
                await self._queue.release(lease)
            return
        self._claims[execution_id] = lease
        try:
            await self._attempt(execution_id)
        except (StorageError, ModelError) as error:
            self._fail(execution_id, str(error), error.code)
        except (AgentsClosed, RuntimeClosed):
            self._stopped(execution_id)
        except AgentLabError as error:
            self._fail(execution_id, str(error), "not_started")
        except Exception as error:
            log.exception("execution %s fell over", execution_id)
            self._fail(execution_id, f"{type(error).__name__}: {error}", "internal")
        finally:
            del self._claims[execution_id]
            self._watches.pop(execution_id, None)
            self._book.forget(execution_id)
            await self._queue.release(lease)

    async def _attempt(self, execution_id: str) -> None:
        await self._book.store.committed()  # accepted is stored, before anything is done for it
        execution = self._book.get(execution_id)
        if execution is None or execution.is_terminal:
            return  # a late dispatch of what has its end already (S11)
        served = self._session_of(execution)
        execution = self._book.begin(execution_id, served.session_id, served.epoch)
        await self._book.store.committed()  # else a restart would run it a second time (S28)
        known = self._book.get(execution_id)
        if known is None or known.is_terminal:
            return
        await self._follow(execution, served)

    async def _follow(self, execution: Execution, served: ServedSession) -> None:
        key = execution.message_id or execution.id
        message = ChatMessage("user", execution.message, mode="follow_up", message_id=key)
        sent = self._agents.send(served, message)
        on_tool = partial(self._timeline.tool, execution)
        watch = TurnWatch(sent.session, key, max(sent.receipt - 1, 0), on_tool)
        self._watches[execution.id] = watch
        clock, alarm = served.runtime.session.clock, ("execution", execution.id)
        clock.set(alarm, execution.run_limit, partial(self._overran, execution))
        try:
            outcome = await watch.until_end()
        finally:
            clock.clear(alarm)
        with suppress(AlreadyTerminal):  # somebody ended it, and that stands
            self._book.end(execution.id, outcome)

    def _session_of(self, execution: Execution) -> ServedSession:
        agent = self._agents.get(execution.agent_name)
        if execution.kind == "chat":
            return self._chats.open(agent, execution.model)
        return self._agents.open(self._chats.variant(agent, execution.model))

    def _overran(self, execution: Execution) -> None:
        said = f"it ran longer than {execution.run_limit:g} s and was stopped"
        outcome = Outcome(status="timeout", error=said, error_code="run_timeout", by_watchdog=True)
        with suppress(AlreadyTerminal):
            self.stop(execution.id, outcome)

    def _stopped(self, execution_id: str) -> None:
        """The server stops: what waits for good is left for the next start, the rest has ended."""
        execution = self._book.get(execution_id)
        if execution is not None and not (execution.detached and execution.status == "queued"):
            with suppress(AlreadyTerminal):
                self._book.end(execution_id, Outcome(status="interrupted", error_code="closed"))

    def _fail(self, execution_id: str, error: str, code: str) -> None:
        with suppress(AlreadyTerminal):
            self._book.end(execution_id, Outcome(status="failed", error=error, error_code=code))
