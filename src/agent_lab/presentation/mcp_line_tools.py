"""The MCP server's tools for conversations that several share: chat through the line, records."""

import asyncio
from typing import Any

import anyio
import msgspec

from agent_lab.application.agents import Agents
from agent_lab.application.asked import Asked, seconds
from agent_lab.application.executions import Change, Started
from agent_lab.application.line import ExecutionLine
from agent_lab.domain.errors import ExecutionError, NotAdmitted
from agent_lab.domain.execution import Execution, ExecutionQuery
from agent_lab.presentation import mcp_shapes as shapes
from agent_lab.presentation.line_log import log_of
from agent_lab.presentation.line_views import execution_view
from agent_lab.presentation.mcp_call import Call, McpTool
from agent_lab.presentation.views import Encoders

QUEUED = 25.0
"""Seconds that a call waits for a place in line: clients give up after 30 or 60."""


class NoExecution(ExecutionError):
    """There is no record of this id."""

    code = "not_found"
    hint = "list_recent_executions lists them"


class LineTools:
    """Tools on agents by name, which go through their lines and leave records."""

    def __init__(self, agents: Agents, encoders: Encoders, *, queued: float = QUEUED) -> None:
        self._agents = agents
        self._encoders = encoders
        self._queued = queued

    @property
    def _line(self) -> ExecutionLine:
        return self._agents.line

    @property
    def tools(self) -> "list[McpTool[Any]]":
        """All of them."""
        return [
            McpTool(
                name="chat_with_agent",
                description=(
                    "Say something to an agent and get its answer. Its one conversation goes on "
                    "from call to call, one at a time; parallel=true asks in a session of its own."
                ),
                takes=shapes.ChatWithAgent,
                gives=shapes.ChatAnswer,
                does=self.chat_with_agent,
            ),
            McpTool(
                name="list_recent_executions",
                description="What was asked of agents lately and what became of it, newest first.",
                takes=shapes.ListExecutions,
                gives=shapes.Executions,
                does=self.list_recent_executions,
                reads=True,
            ),
            McpTool(
                name="get_execution_result",
                description="What became of one request, also one that was left waiting in line.",
                takes=shapes.GetExecution,
                gives=shapes.ExecutionResult,
                does=self.get_execution_result,
                reads=True,
            ),
        ]

    async def chat_with_agent(self, call: Call, said: shapes.ChatWithAgent) -> shapes.ChatAnswer:
        """Its answer, or why there is none, or none yet.

        Cancelled, a request that still waits in line never runs; one that runs goes on.
        """
        asked = Asked(
            message=said.message, by=call.by, detached=True, run_limit=said.timeout_seconds
        )
        try:
            submitted = await self._line.submit(
                said.agent_name, "task" if said.parallel else "chat", asked
            )
        except NotAdmitted as error:
            return _not_admitted(error)
        execution = submitted.execution
        call.tell(f"{said.agent_name} is asked; execution {execution.id}")
        try:
            return _ended(await self._until_end(execution))
        except TimeoutError:
            return shapes.ChatAnswer(
                status="queued_timeout",
                execution_id=execution.id,
                position=self._line.book.position(execution.id),
                message=f"it waited {self._queued:g} s in line, keeps its place and will run",
                hint=f"ask get_execution_result for {execution.id!r} later; do not send it again",
            )
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await self._line.leave(execution)
            raise

    async def _until_end(self, execution: Execution) -> Execution:
        """Its record with its end; raises TimeoutError when it stands in line for too long."""
        book = self._line.book
        limit = asyncio.timeout(None)

        def started(change: Change) -> None:
            if isinstance(change, Started) and not limit.expired():
                limit.reschedule(None)

        async with limit:
            now = book.get(execution.id) or execution
            if now.status == "queued":
                limit.reschedule(asyncio.get_running_loop().time() + self._queued)
            unwatch = book.watch(execution.id, started)
            try:
                return await self._line.until_end(execution)
            finally:
                unwatch()

    async def list_recent_executions(
        self, _: Call, said: shapes.ListExecutions
    ) -> shapes.Executions:
        """Records, newest first."""
        if said.agent_name is not None:
            self._agents.get(said.agent_name)
        query = ExecutionQuery(agent_name=said.agent_name, status=said.status, limit=said.limit)
        position = self._line.book.position
        found = await self._line.book.page(query)
        return shapes.Executions(
            executions=[execution_view(one, position(one.id)) for one in found]
        )

    async def get_execution_result(
        self, _: Call, said: shapes.GetExecution
    ) -> shapes.ExecutionResult:
        """One record."""
        book, key = self._line.book, said.execution_id
        found = book.get(key) or book.recent(key) or await book.store.execution(key)
        if found is None:
            raise NoExecution(f"there is no execution {key!r}")
        found = self._line.runs.so_far(found)
        log = None
        if said.include_log:
            log = msgspec.json.decode(await log_of(self._agents, self._encoders, found))
        return shapes.ExecutionResult(execution=execution_view(found, book.position(key)), log=log)


def _not_admitted(error: NotAdmitted) -> shapes.ChatAnswer:
    if error.code == "capacity":
        wait = seconds(error.retry_after or 1.0)
        return shapes.ChatAnswer(
            status="agent_busy",
            retryable=True,
            retry_after_seconds=wait,
            queue_length=error.queue_length,
            message=str(error),
            hint=f"nothing was accepted; ask again in {wait} seconds",
        )
    return shapes.ChatAnswer(
        status="refused",
        retryable=False,
        execution_id=error.execution_id,
        code=error.code,
        message=str(error),
        hint=error.hint or None,
    )


def _ended(execution: Execution) -> shapes.ChatAnswer:
    if execution.status == "completed":
        return shapes.ChatAnswer(
            status="completed",
            response=execution.response or "",
            execution_id=execution.id,
            session_id=execution.session_id,
        )
    is_limited = execution.error_code == "rate_limited"
    status = execution.status if execution.status in _TOLD else "failed"
    return shapes.ChatAnswer(
        status="rate_limited" if is_limited else status,
        retryable=False,
        execution_id=execution.id,
        session_id=execution.session_id,
        code=execution.error_code,
        message=execution.error,
        hint="the provider is asked too often; do not ask again at once" if is_limited else None,
    )


_TOLD = ("timeout", "cancelled", "interrupted")
