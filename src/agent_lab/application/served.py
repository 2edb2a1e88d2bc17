"""One live session that others look on at, and what became of a message that was given to it."""

from collections.abc import AsyncIterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from agent_lab.application.agent import Agent
from agent_lab.application.journal import Entry, Gap
from agent_lab.application.ports import Outside
from agent_lab.application.runtime import Runtime
from agent_lab.domain.dialects.importing import ImportedHistory
from agent_lab.domain.errors import SessionError, StorageError
from agent_lab.domain.inbox import digest_of
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.records import Created

if TYPE_CHECKING:
    from agent_lab.application.recorder import Recorder

SessionState = Literal["idle", "running", "closed"]


class UnknownAgent(SessionError):
    """No agent has this name, or none was named where there are several."""


class UnknownSession(SessionError):
    """No session has this id: it never was, or it was closed and forgotten."""


class AgentsClosed(SessionError):
    """The agents are not open yet, or closed already."""


class OpenRuntime(Protocol):
    """Makes the runtime of one session; it starts nothing."""

    def __call__(
        self,
        agent: Agent,
        *,
        session_id: str | None,
        outside: Outside,
        history: Sequence[ChatMessage] = (),
    ) -> Runtime:
        """The runtime; raises ModelError when the agent's model cannot be had."""
        ...


class ServedSession:
    """One session that is open to viewers, and what they are told of it.

    `started_at` is wall time in seconds, `offset` wall time less the loop's, taken once. `epoch`
    names this numbering of entries. `title` is the first message. `viewers` counts who looks on.
    `imported` is the history that it began with, if it came from elsewhere.
    One that `is_kept` is not forgotten however long it rests. `created` makes it an agent of its
    own. `gone` says why a session was closed that somebody closed.
    With a store, `recorder` stores it, and viewers are told what is stored.
    """

    def __init__(
        self,
        runtime: Runtime,
        outside: Outside,
        *,
        epoch: str | None = None,
        started_at: float | None = None,
    ) -> None:
        """`epoch` and `started_at` are those of a session that is taken up again."""
        now = outside.wall_time()
        self.runtime = runtime
        self.epoch = epoch or outside.new_id("epoch")
        self.started_at = now if started_at is None else started_at
        self.offset = now - runtime.session.loop.time()
        self.title: str | None = None
        self.imported: ImportedHistory | None = None
        self.viewers = 0
        self.is_kept = False
        self.created: Created | None = None
        self.gone: str | None = None
        self.recorder: Recorder | None = None

    @property
    def agent(self) -> Agent:
        """Whom the session is with."""
        return self.runtime.agent

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.runtime.session_id

    @property
    def ids_of(self) -> str:
        """Whose message ids it shares: its agent's, or of a created agent its own."""
        return self.agent.name if self.created is None else self.session_id

    @property
    def last_seq(self) -> int:
        """Number of the newest entry."""
        return self.runtime.session.journal.last_seq

    @property
    def state(self) -> SessionState:
        """What it does now."""
        if self.runtime.is_closed:
            return "closed"
        return "idle" if self.runtime.session.is_idle else "running"

    @property
    def is_resting(self) -> bool:
        """Whether it may be forgotten: nobody works, looks on, keeps it, or waits for the disk."""
        is_stored = self.recorder is None or not self.recorder.is_behind
        return self.state != "running" and not (self.viewers or self.is_kept) and is_stored

    @property
    def active_at(self) -> float:
        """When its newest entry was written, on the loop's clock."""
        _, newest = self.runtime.session.journal.read(self.last_seq - 1)
        return newest[-1].at if newest else self.started_at - self.offset

    def follow(self, after: int = 0) -> AsyncIterator[Sequence[Entry] | Gap | StorageError]:
        """What a viewer is told: see Recorder.follow, and Journal.follow without a store."""
        return self.runtime.follow(after) if self.recorder is None else self.recorder.follow(after)

    @property
    def told(self) -> int:
        """The newest entry that may be told: with a store the newest that is stored."""
        return self.last_seq if self.recorder is None else self.recorder.told

    async def stored(self, seq: int) -> None:
        """Wait until this entry is stored, if there is a store; raises StorageError."""
        if self.recorder is not None:
            await self.recorder.reached(seq)


class Sent(msgspec.Struct, frozen=True):
    """What became of a message: its session and the seq of its receipt there.

    `is_repeat`: the same message was accepted before; this is its receipt, nothing ran again.
    """

    session: ServedSession
    message_id: str
    receipt: int
    is_repeat: bool = False


class Known(msgspec.Struct, frozen=True):
    """A message id that is taken: by what text, as its digest, and the receipt it got."""

    digest: bytes
    sent: Sent

    def is_for(self, message: ChatMessage) -> bool:
        """Whether this is the message that took the id, sent again."""
        return self.digest == digest_of(message.content or "")


def derived(agent: Agent, created: Created | None) -> Agent:
    """The agent as it was created: with instructions of its own, if it has any."""
    if created is None or created.instructions is None:
        return agent
    changed = copy(agent)
    changed.instructions = created.instructions
    return changed
