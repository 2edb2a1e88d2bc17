"""What `/api` is asked about agents as sessions; the answers are those of the commands."""

from typing import Annotated, Any

import msgspec

from agent_lab.application.control import IfInterrupted
from agent_lab.application.control_answers import AgentSnapshot, PendingPermission
from agent_lab.application.waiting import Until
from agent_lab.domain.hand_payloads import Decision
from agent_lab.domain.messages import Mode
from agent_lab.presentation.line_shapes import Body, Text
from agent_lab.presentation.wire import Id

Wait = Annotated[float, msgspec.Meta(ge=0, le=86_400)]


class CreateBody(Body, frozen=True, kw_only=True):
    """`POST /api/agents`: an agent of one that is defined here, and of nothing else.

    With `background` false the answer comes when its first turn is over, or the time is.
    """

    name: Id
    from_agent: Id | None = msgspec.field(name="from", default=None)
    instructions: Text | None = None
    initial_prompt: Text | None = None
    message_id: Id | None = None
    background: bool = True
    timeout_seconds: Wait | None = None


class PromptBody(Body, frozen=True, kw_only=True):
    """`POST …/prompt`. With `background` false the answer comes when its turn is over."""

    prompt: str
    mode: Mode = "steer"
    message_id: Id | None = None
    background: bool = True
    if_interrupted: IfInterrupted = "tell"
    timeout_seconds: Wait | None = None


class WaitBody(Body, frozen=True, kw_only=True):
    """`POST /api/sessions/wait`; see AgentControl.wait_for_agent."""

    agent_ids: Annotated[list[Id], msgspec.Meta(min_length=1, max_length=2_000)]
    until: Until = "all"
    after: str | None = None
    timeout_seconds: Wait | None = None
    wait_for_active: bool = False
    if_interrupted: IfInterrupted = "go_on"
    include_activity: bool = False


class CancelBody(Body, frozen=True, kw_only=True):
    """`POST …/cancel`: this turn, or the one that runs."""

    turn: Annotated[int, msgspec.Meta(ge=1)] | None = None
    drop_waiting: bool = False


class AnswerBody(Body, frozen=True, kw_only=True):
    """`POST …/permissions/{request_id}`: see PermissionAnswer."""

    decision: Decision
    arguments: dict[str, Any] | None = None
    message: str | None = None
    sha256: str | None = None


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    """Agents as sessions, newest first."""

    agents: list[AgentSnapshot]


class PermissionList(msgspec.Struct, frozen=True, kw_only=True):
    """What calls wait for somebody to allow, oldest agent first."""

    permissions: list[PendingPermission]
