"""The MCP server's tools for schedules: those of an agent, and one of them now."""

from typing import Any

from agent_lab.application.agents import Agents
from agent_lab.application.schedules import Schedules
from agent_lab.domain.errors import ExecutionError
from agent_lab.domain.schedule import Schedule, UnknownSchedule
from agent_lab.presentation.mcp_call import Call, McpTool
from agent_lab.presentation.mcp_shapes import ListSchedules, TriggerSchedule
from agent_lab.presentation.schedule_shapes import ScheduleList, Triggered, schedule_view


class NoSchedule(ExecutionError):
    """No agent has a schedule of this id."""

    code = "not_found"
    hint = "list_agent_schedules lists those of an agent"


class ScheduleTools:
    """Tools on the schedules of all agents here."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    @property
    def _schedules(self) -> Schedules:
        return self._agents.line.schedules

    @property
    def tools(self) -> "list[McpTool[Any]]":
        """All of them."""
        return [
            McpTool(
                name="list_agent_schedules",
                description="When an agent is asked what, by itself: next time and last result.",
                takes=ListSchedules,
                gives=ScheduleList,
                does=self.list_agent_schedules,
                reads=True,
            ),
            McpTool(
                name="trigger_agent_schedule",
                description="Have a schedule ask its agent now, whatever its times.",
                takes=TriggerSchedule,
                gives=Triggered,
                does=self.trigger_agent_schedule,
            ),
        ]

    async def list_agent_schedules(self, _: Call, said: ListSchedules) -> ScheduleList:
        """Those of one agent, oldest first."""
        found = await self._schedules.list(said.agent_name)
        return ScheduleList(schedules=[schedule_view(one) for one in found])

    async def trigger_agent_schedule(self, call: Call, said: TriggerSchedule) -> Triggered:
        """The execution it has asked for; it goes on in the background."""
        schedule = self._find(said.schedule_id)
        done = await self._schedules.trigger(schedule.agent_name, schedule.id, call.by)
        return Triggered(
            status="skipped" if done.status == "skipped" else "triggered",
            schedule_id=schedule.id,
            execution_id=done.id,
            agent=schedule.agent_name,
            error=done.error,
            error_code=done.error_code,
        )

    def _find(self, schedule_id: str) -> Schedule:
        for name in self._agents.names:
            try:
                return self._schedules.find(name, schedule_id)
            except UnknownSchedule:
                continue
        raise NoSchedule(f"no agent here has a schedule {schedule_id!r}")
