"""The timeline of every agent: what ran and how it ended, and who did what to its line."""

from contextlib import suppress
from typing import Any

from agent_lab.application.executions import Change, Ended, Executions
from agent_lab.application.ports import Outside
from agent_lab.domain.activity import Activity, ActivityKind, ActivityQuery
from agent_lab.domain.errors import StorageError
from agent_lab.domain.execution import Asker, Execution, ToolUse

_CUT = 200
"""Characters of a message that the timeline shows."""


class Timeline:
    """Writes a line for each end of an execution, each of its tool calls, and each deed."""

    def __init__(self, book: Executions, outside: Outside) -> None:
        self._book = book
        self._new_id = outside.new_id
        book.listen(self._hear)

    async def read(self, query: ActivityQuery) -> list[Activity]:
        """Lines, newest first; raises StorageError."""
        with suppress(StorageError):  # what it has can be read all the same
            await self._book.store.committed()
        return await self._book.store.activity(query)

    def tool(self, execution: Execution, use: ToolUse, at: float) -> None:
        """A tool call of this execution was closed."""
        text = f"{use.name}: {use.kind}"
        facts = {"call_id": use.call_id, "name": use.name}
        self._put(execution, "tool_call", text, status=use.kind, at=at, facts=facts)

    def deed(self, agent_name: str, kind: ActivityKind, text: str, by: Asker, **facts: Any) -> None:
        """Somebody did this to the agent's line."""
        execution_id = facts.get("execution_id")
        self._book.store.put_activity(
            Activity(
                id=self._new_id("act"),
                at=self._book.now(),
                agent_name=agent_name,
                kind=kind,
                text=text,
                execution_id=execution_id,
                source=by.source,
                triggered_by=by.triggered_by,
                source_agent=by.source_agent,
                source_user=by.source_user,
                mcp_key_name=by.mcp_key_name,
                facts=facts,
            )
        )

    def _hear(self, change: Change) -> None:
        if isinstance(change, Ended):
            execution = change.execution
            said = execution.message[:_CUT] + ("…" if len(execution.message) > _CUT else "")
            facts = {"supersedes": execution.superseded} if change.supersedes else {}
            kind = _kind_of(execution)
            self._put(execution, kind, said, status=execution.status, facts=facts)

    def _put(
        self,
        execution: Execution,
        kind: ActivityKind,
        text: str,
        *,
        status: str | None,
        facts: dict[str, Any],
        at: float | None = None,
    ) -> None:
        self._book.store.put_activity(
            Activity(
                id=self._new_id("act"),
                at=self._book.now() if at is None else at,
                agent_name=execution.agent_name,
                kind=kind,
                text=text,
                status=status,
                execution_id=execution.id,
                session_id=execution.session_id,
                source=execution.source,
                triggered_by=execution.triggered_by,
                source_agent=execution.source_agent,
                source_user=execution.source_user,
                mcp_key_name=execution.mcp_key_name,
                facts=facts,
            )
        )


def _kind_of(execution: Execution) -> ActivityKind:
    match execution.source:
        case "agent":
            return "collaboration"
        case "schedule":
            return "schedule"
        case "user" | "mcp":
            return execution.kind
