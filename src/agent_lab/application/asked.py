"""What somebody asks of an agent, and what he is told once it is accepted."""

import math
from typing import Protocol

import msgspec

from agent_lab.application.agent import Agent
from agent_lab.domain.execution import Asker, Execution, Kind, Source


class Named(Protocol):
    """Agents by name."""

    @property
    def names(self) -> list[str]:
        """Their names."""
        ...

    def get(self, name: str | None = None) -> Agent:
        """The agent; raises UnknownAgent."""
        ...


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody asks of an agent.

    Who `may_wait` takes a place in line, else he is refused when it is busy. What is `detached`
    survives its caller. `run_limit` is seconds. `key` and `digest` are those of the request, so
    that it runs once. `message_id` is the message's in its session; without it the record's id.
    """

    message: str
    by: Asker = Asker()
    priority: Source | None = None
    model: str | None = None
    may_wait: bool = True
    detached: bool = False
    run_limit: float | None = None
    key: str | None = None
    digest: str = ""
    message_id: str | None = None


class Submitted(msgspec.Struct, frozen=True):
    """An accepted request; `is_replay` when it had run before, under the same key."""

    execution: Execution
    is_replay: bool = False


def line_of(agent_name: str, kind: Kind) -> str:
    """The name of a line."""
    return f"{kind}:{agent_name}"


def seconds(value: float) -> int:
    """Whole seconds, as `Retry-After` has them; one at least."""
    return max(math.ceil(value), 1)
