"""Agents as tools where they are served: each call is one execution, through the agent's line."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from agent_lab.application.agent_tool import AgentTool, Calling, CallingSession
from agent_lab.application.asked import Asked
from agent_lab.application.executions import Change, Ended
from agent_lab.application.logs import log
from agent_lab.application.served import AgentsClosed, UnknownAgent
from agent_lab.domain.errors import (
    AgentLabError,
    AlreadyTerminal,
    ColleagueFailed,
    NotAdmitted,
    UnknownExecution,
)
from agent_lab.domain.execution import Asker, Execution, chain_of
from agent_lab.domain.messages import ChatMessage

if TYPE_CHECKING:
    from agent_lab.application.line import ExecutionLine


_OVER = " (done)"
"""Behind the name of an agent in a chain that waits for nothing: it counts, and bars no circle."""


class Report(msgspec.Struct):
    """Whom the ends of a background execution are told to, and how many were."""

    session_id: str
    ends: int = 0


class LineCalls:
    """Asks agents through their lines, and tells the ends of those that run in the background.

    An end is told once, as a message of the asking session: it goes in at the next safe point of a
    turn that runs, or begins one.
    """

    def __init__(self, line: "ExecutionLine") -> None:
        self._line = line
        self._reports: dict[str, Report] = {}
        self._begun: dict[str, tuple[int, tuple[str, ...]]] = {}
        line.book.listen(self._heard)

    async def ask(self, calling: Calling, tool: AgentTool, message: str) -> str:
        """The agent's answer; raises ColleagueFailed. Cancelled, its execution is terminated."""
        name, session = tool.agent_name, calling.session
        if not self._line.is_open:
            raise ColleagueFailed(name, "closing: the server starts or stops")
        by = Asker(
            source="agent",
            triggered_by=f"tool:{tool.name}",
            source_agent=session.agent.name,
            ancestors=self._chain(session, calling.call.turn),
        )
        execution = await self._submit(name, tool, message, by)
        if tool.background:
            return self._began(execution, session)
        try:
            ended = await self._line.until_end(execution)
        except asyncio.CancelledError:
            await self._stop(execution, by)
            raise
        except AgentsClosed as error:
            raise ColleagueFailed(name, str(error)) from error
        if ended.status != "completed":
            raise ColleagueFailed(name, f"{ended.status}: {ended.error} (execution {ended.id})")
        return ended.response or ""

    async def _submit(self, name: str, tool: AgentTool, message: str, by: Asker) -> Execution:
        kind = "task" if tool.parallel or tool.background else "chat"
        asked = Asked(message=message, by=by, detached=tool.background)
        try:
            return (await self._line.submit(name, kind, asked)).execution
        except NotAdmitted as error:
            then = f"try again in {error.retry_after:.0f} s" if error.retry_after else error.hint
            raise ColleagueFailed(name, f"{error.code}: {error}; {then}") from error
        except UnknownAgent as error:
            raise ColleagueFailed(name, str(error)) from error

    async def _stop(self, execution: Execution, by: Asker) -> None:
        """Whoever asked was cancelled: what was asked for is stopped with it, on record."""
        with suppress(UnknownExecution, AlreadyTerminal):
            await self._line.control.terminate(execution.agent_name, execution.id, by)

    def _chain(self, session: CallingSession, turn: int | None) -> tuple[str, ...]:
        """The agents this turn was asked through, the session's own last."""
        running = self._line.runs.execution_in(session.session_id, turn)
        if running is not None:
            return (*chain_of(running), session.agent.name)
        begun, chain = self._begun.get(session.session_id, (None, ()))
        return (*(chain if begun == turn else session.lineage), session.agent.name)

    # -- in the background -----------------------------------------------------------------------

    def _began(self, execution: Execution, session: CallingSession) -> str:
        """What the model reads at once."""
        gone = [key for key in self._reports if self._line.book.get(key) is None]
        for key in gone:
            del self._reports[key]
        report = self._reports[execution.id] = Report(session.session_id)
        known = self._line.book.get(execution.id) or execution
        if known.is_terminal:  # before this was told of
            self._tell(report, known)
        said = f"agent {execution.agent_name!r} began execution {execution.id!r}"
        return f"{said}; its answer comes in a message"

    def _heard(self, change: Change) -> None:
        if isinstance(change, Ended):
            report = self._reports.get(change.execution.id)
            if report is not None:
                self._tell(report, change.execution)

    def _tell(self, report: Report, ended: Execution) -> None:
        report.ends += 1
        corrected = f", not {ended.superseded} as was said before" if ended.superseded else ""
        head = f"[agent {ended.agent_name}, execution {ended.id}: {ended.status}{corrected}]"
        text = f"{head}\n{ended.response if ended.status == 'completed' else ended.error}"
        key = f"end_{ended.id}_{report.ends}"
        try:
            served = self._line.agents.session(report.session_id)
            session = served.runtime.session
            if session.is_idle:  # it begins a turn, which is as deep as what it tells of
                asked = (*chain_of(ended), ended.agent_name)
                chain = tuple(f"{name.removesuffix(_OVER)}{_OVER}" for name in asked)
                self._begun[report.session_id] = (session.conversation.turn + 1, chain)
            self._line.agents.send(served, ChatMessage("user", text, message_id=key))
        except AgentLabError as error:
            log.warning("the end of execution %s is told to nobody: %s", ended.id, error)
