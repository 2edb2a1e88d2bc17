"""The MCP server's tools for agents: create, prompt, wait, look, stop. One to one the commands."""

from typing import Any

from agent_lab.application.control import AgentControl
from agent_lab.application.control_answers import (
    Activity,
    AgentSnapshot,
    AgentWait,
    CancelledAgent,
    ClosedAgent,
    Prompted,
    Responded,
    Waited,
)
from agent_lab.domain.permission import PermissionAnswer
from agent_lab.presentation import mcp_agent_shapes as shapes
from agent_lab.presentation.mcp_call import Call, McpTool


class AgentTools:
    """Tools on sessions; what they answer is what AgentControl answers."""

    def __init__(self, control: AgentControl) -> None:
        self._control = control

    @property
    def tools(self) -> "list[McpTool[Any]]":
        """All of them."""
        return [*self._making(), *self._prompting(), *self._looking(), *self._stopping()]

    def _making(self) -> "list[McpTool[Any]]":
        return [
            McpTool(
                name="create_agent",
                description=(
                    "Create an agent that runs the definition named by `from`. It works in the "
                    "background on `initial_prompt`; with background=false the end is waited for."
                ),
                takes=shapes.CreateAgent,
                gives=shapes.Created,
                does=self.create_agent,
            ),
            McpTool(
                name="create_agent_and_wait",
                description="Create an agent, give it a prompt and wait for what it says.",
                takes=shapes.CreateAgentAndWait,
                gives=AgentWait,
                does=self.create_agent_and_wait,
            ),
        ]

    def _prompting(self) -> "list[McpTool[Any]]":
        return [
            McpTool(
                name="send_agent_prompt",
                description=(
                    "Give an agent a message; it works in the background. While it is busy, mode "
                    "says what happens: steer goes in as soon as it can, follow_up waits for the "
                    "next turn, interrupt stops this one, reject refuses."
                ),
                takes=shapes.SendPrompt,
                gives=Prompted,
                does=self.send_agent_prompt,
            ),
            McpTool(
                name="send_agent_prompt_and_wait",
                description="Give an agent a message and wait for the end of that message's turn.",
                takes=shapes.SendPromptAndWait,
                gives=AgentWait,
                does=self.send_agent_prompt_and_wait,
            ),
            McpTool(
                name="wait_for_agent",
                description=(
                    "Wait until agents rest, fail, are closed or ask for a permission. A time-out "
                    "is an answer: call again with after=cursor to go on without missing anything."
                ),
                takes=shapes.WaitForAgent,
                gives=Waited,
                does=self.wait_for_agent,
                reads=True,
            ),
        ]

    def _looking(self) -> "list[McpTool[Any]]":
        return [
            McpTool(
                name="list_agents",
                description="Agents, newest first, of these statuses or all.",
                takes=shapes.ListAgents,
                gives=shapes.AgentList,
                does=self.list_agents,
                reads=True,
            ),
            McpTool(
                name="get_agent_status",
                description="One agent as it is now.",
                takes=shapes.OneAgent,
                gives=AgentSnapshot,
                does=self.get_agent_status,
                reads=True,
            ),
            McpTool(
                name="get_agent_activity",
                description="What an agent did lately, as text, the newest last.",
                takes=shapes.AgentActivity,
                gives=Activity,
                does=self.get_agent_activity,
                reads=True,
            ),
            McpTool(
                name="list_pending_permissions",
                description="Tool calls that wait for somebody to allow or deny them.",
                takes=shapes.ListPermissions,
                gives=shapes.Permissions,
                does=self.list_pending_permissions,
                reads=True,
            ),
        ]

    def _stopping(self) -> "list[McpTool[Any]]":
        return [
            McpTool(
                name="cancel_agent",
                description="Stop an agent's turn; messages that wait start the next one.",
                takes=shapes.CancelAgent,
                gives=CancelledAgent,
                does=self.cancel_agent,
            ),
            McpTool(
                name="respond_to_permission",
                description=(
                    "Allow or deny a tool call that waits, with other arguments or a message for "
                    "the model if need be. The first answer counts."
                ),
                takes=shapes.RespondToPermission,
                gives=Responded,
                does=self.respond_to_permission,
            ),
            McpTool(
                name="close_agent",
                description="Close an agent for good.",
                takes=shapes.OneAgent,
                gives=ClosedAgent,
                does=self.close_agent,
            ),
        ]

    # -- asking ----------------------------------------------------------------------------------

    async def create_agent(self, call: Call, said: shapes.CreateAgent) -> shapes.Created:
        """A new agent; with a prompt and not in the background, also what it came to."""
        made = await self._control.create_agent(
            said.name,
            from_agent=said.from_agent,
            instructions=said.instructions,
            initial_prompt=said.initial_prompt,
        )
        wait = None
        if not said.background and made.prompted is not None:
            call.tell(f"agent {made.name} works")
            waited = await self._control.wait_for_agent([made.agent_id], after=made.cursor)
            wait = waited.agents[0]
        return shapes.Created(
            agent_id=made.agent_id,
            name=made.name,
            agent=made.agent,
            status=wait.status if wait else made.status,
            cursor=wait.cursor if wait else made.cursor,
            message_id=made.prompted and made.prompted.message_id,
            wait=wait,
        )

    async def create_agent_and_wait(self, call: Call, said: shapes.CreateAgentAndWait) -> AgentWait:
        """A new agent, and what its first turn came to."""
        call.tell(f"agent {said.name} works")
        return await self._control.create_agent_and_wait(
            said.name,
            said.initial_prompt,
            from_agent=said.from_agent,
            instructions=said.instructions,
            timeout_seconds=said.timeout_seconds,
        )

    async def send_agent_prompt(self, _: Call, said: shapes.SendPrompt) -> Prompted:
        """The receipt."""
        return await self._control.send_agent_prompt(
            said.agent_id, said.prompt, mode=said.mode, message_id=said.message_id
        )

    async def send_agent_prompt_and_wait(
        self, call: Call, said: shapes.SendPromptAndWait
    ) -> AgentWait:
        """What the message's turn came to."""
        call.tell(f"agent {said.agent_id} works")
        return await self._control.send_agent_prompt_and_wait(
            said.agent_id,
            said.prompt,
            mode=said.mode,
            message_id=said.message_id,
            timeout_seconds=said.timeout_seconds,
        )

    async def wait_for_agent(self, call: Call, said: shapes.WaitForAgent) -> Waited:
        """What became of each."""
        call.tell(f"waits for {said.until} of {len(said.agent_ids)} agents")
        return await self._control.wait_for_agent(
            said.agent_ids,
            until=said.until,
            after=said.after,
            timeout_seconds=said.timeout_seconds,
            include_activity=said.include_activity,
        )

    # -- looking and stopping --------------------------------------------------------------------

    async def list_agents(self, _: Call, said: shapes.ListAgents) -> shapes.AgentList:
        """All agents, newest first."""
        found = await self._control.list_agents(statuses=said.statuses or (), limit=said.limit)
        return shapes.AgentList(agents=found)

    async def get_agent_status(self, _: Call, said: shapes.OneAgent) -> AgentSnapshot:
        """As it is now."""
        return await self._control.get_agent_status(said.agent_id)

    async def get_agent_activity(self, _: Call, said: shapes.AgentActivity) -> Activity:
        """What it did."""
        return await self._control.get_agent_activity(said.agent_id, limit=said.limit)

    async def list_pending_permissions(
        self, _: Call, said: shapes.ListPermissions
    ) -> shapes.Permissions:
        """What waits for a decision."""
        found = await self._control.list_pending_permissions(said.agent_id)
        return shapes.Permissions(permissions=found)

    async def respond_to_permission(self, _: Call, said: shapes.RespondToPermission) -> Responded:
        """What was decided."""
        answer = PermissionAnswer(
            decision=said.decision,
            arguments=said.arguments,
            message=said.message,
            sha256=said.sha256,
        )
        return await self._control.respond_to_permission(said.agent_id, said.request_id, answer)

    async def cancel_agent(self, _: Call, said: shapes.CancelAgent) -> CancelledAgent:
        """What was stopped."""
        return await self._control.cancel_agent(said.agent_id, turn=said.turn)

    async def close_agent(self, _: Call, said: shapes.OneAgent) -> ClosedAgent:
        """What was closed."""
        return await self._control.close_agent(said.agent_id)
