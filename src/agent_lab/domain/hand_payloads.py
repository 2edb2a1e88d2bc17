"""What a person's hand does, in payloads: at the gate, and where a tool asks before it runs."""

from typing import Any, Literal

from agent_lab.domain.payload import Payload

Decision = Literal["allow", "allow_always", "deny", "deny_and_interrupt"]
"""What is answered to a permission request."""
Why = Literal["answered", "always", "timeout", "interrupted", "lost"]
"""Why a permission request ended."""

# -- a hand on the gate --------------------------------------------------------------------------


class Paused(Payload, frozen=True, gc=False, tag="paused", kw_only=True):
    """A hop is parked at the gate; this entry's seq is the hop's number."""

    hop: Literal["put", "take", "model", "tool", "thread"]
    queue: Literal["input", "events"] | None
    item: str


class Resumed(Payload, frozen=True, gc=False, tag="resumed", kw_only=True):
    """The parked hop passed, or nobody waits for it any more; `why` says which."""

    hop: int
    why: str


class Edited(Payload, frozen=True, gc=False, tag="edited", kw_only=True):
    """Content or arguments were changed, at the gate (`hop`) or while the message waited."""

    hop: int | None
    item: str
    before: str | dict[str, Any]
    after: str | dict[str, Any]
    why: str


class Dropped(Payload, frozen=True, gc=False, tag="dropped", kw_only=True):
    """The parked hop was thrown away; the call closes as lost, the message as withdrawn."""

    hop: int
    item: str
    why: str


# -- permissions ---------------------------------------------------------------------------------


class PermissionRequested(Payload, frozen=True, gc=False, tag="permission_requested", kw_only=True):
    """A call waits for somebody's permission, for `timeout` seconds at most; then it is denied.

    `sha256` is of the arguments as JSON with sorted keys and no blanks. `error` is what the tool's
    own `needs_approval` raised, if that is why it asks.
    """

    request_id: str
    call_id: str
    name: str
    arguments: dict[str, Any]
    sha256: str
    timeout: float
    error: str | None = None


class PermissionResolved(Payload, frozen=True, gc=False, tag="permission_resolved", kw_only=True):
    """The one end of a request. Allowed, the call runs with these `arguments`.

    `reason` says how it came: `answered`, or allowed with another one for the session (`always`),
    or denied because nobody answered (`timeout`), the call was cancelled (`interrupted`), or the
    process stopped (`lost`). `message` is what the model is told of a denial.
    """

    request_id: str
    call_id: str
    name: str
    decision: Decision
    reason: Why
    arguments: dict[str, Any]
    message: str | None = None
