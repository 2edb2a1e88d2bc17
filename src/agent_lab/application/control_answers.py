"""What the commands on agents answer, in shapes that every face tells as they are."""

from typing import Any, Literal

import msgspec

from agent_lab.domain.hand_payloads import Decision
from agent_lab.domain.settling import AgentStatus, Fault, MessageReceipt, Permission


class AgentSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One agent as it is now.

    `agent_id` is the id of its one session. `agent` is the definition it runs, `name` what it was
    created as (that of the definition for sessions that nobody created). `reason` says what its
    last turn came to, or why it was closed, see Settled; `turn` counts from 1, 0 before the first.
    `waiting` are ids of messages that are accepted and not delivered. Times are wall time in
    seconds. `cursor` is where a wait for what comes next begins.
    """

    agent_id: str
    name: str
    agent: str
    is_created: bool
    status: AgentStatus
    reason: str | None
    error: Fault | None
    turn: int
    waiting: tuple[str, ...]
    permissions: tuple[Permission, ...]
    title: str | None
    started_at: float
    cursor: str


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent did lately: `update_count` items, told in `content`, one line each at least.

    `current_mode_id` is always null: agents here have no modes.
    """

    format: Literal["curated"] = "curated"
    update_count: int
    current_mode_id: str | None = None
    content: str


class AgentWait(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one agent that was waited for.

    `status` and `reason` are those at `cursor`, see Settled; with `timed_out` or while another of
    several has settled, those of now. `permission` is what it asks for and has no answer to.
    `last_message` is the last text of the assistant in the turn that ended: null after an error,
    while it runs, and if no turn ended behind the position that was waited from. `pending` messages
    start its next turn. A wait from `cursor` tells what comes next and nothing twice; after a
    time-out it also tells again who had settled before.
    """

    agent_id: str
    status: AgentStatus
    reason: str | None = None
    permission: Permission | None = None
    last_message: str | None = None
    timed_out: bool = False
    cursor: str
    turn: int | None = None
    pending: int = 0
    interrupted_by: str | None = None
    error: Fault | None = None
    activity: Activity | None = None


class Waited(msgspec.Struct, frozen=True, kw_only=True):
    """What became of several, in the order they were named; `cursor` is the position of them all.

    `timed_out`: it was not enough of them.
    """

    agents: tuple[AgentWait, ...]
    timed_out: bool
    cursor: str


class Prompted(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message: `receipt` is on record. `is_repeat`: it was accepted before.

    A wait from `cursor` does not miss the end of what it began.
    """

    agent_id: str
    accepted: bool
    message_id: str
    receipt: MessageReceipt
    is_repeat: bool
    cursor: str


class CreatedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A new agent; `prompted` is what became of its first message, if it got one."""

    agent_id: str
    name: str
    agent: str
    status: AgentStatus
    cursor: str
    prompted: Prompted | None = None


class CancelledAgent(msgspec.Struct, frozen=True, kw_only=True):
    """What the wish to stop came to: `turn` was stopped, or there was none (`not_running`).

    Messages of `still_waiting` start the next turn.
    """

    agent_id: str
    status: Literal["cancelled", "not_running"]
    turn: int | None
    still_waiting: tuple[str, ...]


class ClosedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """The agent takes nothing any more; what ran was cancelled.

    `still_waiting` are messages that were withdrawn, `was` what it did before.
    """

    agent_id: str
    status: Literal["closed", "already_closed"]
    was: AgentStatus
    still_waiting: tuple[str, ...]


class Responded(msgspec.Struct, frozen=True, kw_only=True):
    """A permission request has its one end: allowed, the call runs with these arguments."""

    agent_id: str
    request_id: str
    call_id: str
    name: str
    decision: Decision
    arguments: dict[str, Any]


class PendingPermission(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of an agent that waits for somebody to allow or deny it."""

    agent_id: str
    request_id: str
    call_id: str
    name: str
    arguments: dict[str, Any]
    sha256: str
