"""The timeline of an agent, and the audit of what people did to its line."""

from typing import Any, Literal, TypeAlias

import msgspec

from agent_lab.domain.execution import Source

ActivityKind: TypeAlias = Literal[
    "chat", "task", "tool_call", "collaboration", "schedule", "clear", "release", "terminate",
    "reset", "resize",
]  # fmt: skip
AUDITED: frozenset[ActivityKind] = frozenset(("clear", "release", "terminate", "reset", "resize"))
"""What `GET /api/audit` tells: who did something to others' work."""


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the timeline. `at` is wall time in seconds, `text` what happened in words.

    `status` is the execution's state that the line tells of, or the kind of a tool's reply.
    """

    id: str
    at: float
    agent_name: str
    kind: ActivityKind
    text: str
    status: str | None = None
    execution_id: str | None = None
    session_id: str | None = None
    source: Source = "user"
    triggered_by: str = "api"
    source_agent: str | None = None
    source_user: str | None = None
    mcp_key_name: str | None = None
    facts: dict[str, Any] = {}


class ActivityQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines; None leaves a filter out. `before` is an id: older than that one."""

    agent_name: str | None = None
    kinds: frozenset[ActivityKind] | None = None
    before: str | None = None
    limit: int = 100

    def fits(self, activity: Activity) -> bool:
        """Whether this line is one of them, `before` and `limit` aside."""
        return self.agent_name in (None, activity.agent_name) and (
            self.kinds is None or activity.kind in self.kinds
        )
