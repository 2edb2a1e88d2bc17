"""What the MCP server's tools on agents take and give, where the commands' own answers do not."""

from typing import Annotated, Any, Literal

import msgspec

from agent_lab.application.control_answers import AgentSnapshot, AgentWait, PendingPermission
from agent_lab.domain.messages import Mode
from agent_lab.domain.permission import Decision
from agent_lab.domain.settling import AgentStatus
from agent_lab.presentation.mcp_shapes import Arguments, Id, Limit, Name, Text

Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]


class CreateAgent(Arguments, frozen=True, kw_only=True):
    """`from` names the agent whose definition it runs; not needed where there is one."""

    name: Name
    from_agent: Name | None = msgspec.field(default=None, name="from")
    instructions: Text | None = None
    initial_prompt: Text | None = None
    background: bool = True


class CreateAgentAndWait(Arguments, frozen=True, kw_only=True):
    """As CreateAgent, with a first prompt and a wait."""

    name: Name
    initial_prompt: Text
    from_agent: Name | None = msgspec.field(default=None, name="from")
    instructions: Text | None = None
    timeout_seconds: Seconds = 300.0


class SendPrompt(Arguments, frozen=True, kw_only=True):
    """`message_id` makes a repeat harmless."""

    agent_id: Id
    prompt: Text
    mode: Mode = "steer"
    message_id: Id | None = None


class SendPromptAndWait(SendPrompt, frozen=True, kw_only=True):
    """As SendPrompt, and a wait."""

    timeout_seconds: Seconds = 300.0


class WaitForAgent(Arguments, frozen=True, kw_only=True):
    """`after` is the cursor of an answer before."""

    agent_ids: Annotated[list[Id], msgspec.Meta(min_length=1, max_length=1000)]
    until: Literal["any", "all"] = "all"
    after: str | None = None
    timeout_seconds: Seconds = 300.0
    include_activity: bool = False


class ListAgents(Arguments, frozen=True, kw_only=True):
    """Of these statuses, or all."""

    statuses: list[AgentStatus] | None = None
    limit: Limit = 50


class OneAgent(Arguments, frozen=True, kw_only=True):
    """One agent."""

    agent_id: Id


class AgentActivity(OneAgent, frozen=True, kw_only=True):
    """The newest so many updates."""

    limit: Limit = 50


class CancelAgent(OneAgent, frozen=True, kw_only=True):
    """With `turn` that turn and no other."""

    turn: Annotated[int, msgspec.Meta(ge=1)] | None = None


class ListPermissions(Arguments, frozen=True, kw_only=True):
    """Of one agent, or of all."""

    agent_id: Id | None = None


class RespondToPermission(OneAgent, frozen=True, kw_only=True):
    """`arguments` take the place of the model's, `sha256` is that of the request as it was seen."""

    request_id: Id
    decision: Decision
    arguments: dict[str, Any] | None = None
    message: Text | None = None
    sha256: str | None = None


# -- what is given -------------------------------------------------------------------------------


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """A new agent. `wait` is what became of its first prompt, when it was waited for."""

    agent_id: str
    name: str
    agent: str
    status: AgentStatus
    cursor: str
    message_id: str | None
    wait: AgentWait | None


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    """Agents, newest first."""

    agents: list[AgentSnapshot]


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for somebody to allow or deny it, oldest agent first."""

    permissions: list[PendingPermission]
