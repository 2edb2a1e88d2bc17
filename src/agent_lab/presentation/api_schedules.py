"""`/api/agents/{name}/schedules`: made, listed, turned on and off, triggered, taken away."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_lab.application.agents import Agents
from agent_lab.application.schedules import Schedules
from agent_lab.presentation.line_answers import answer, told
from agent_lab.presentation.line_requests import asker_of, body_of
from agent_lab.presentation.schedule_shapes import (
    RemovedSchedule,
    ScheduleBody,
    ScheduleList,
    ScheduleView,
    Triggered,
    schedule_view,
)

ALL = "/api/agents/{name:path}/schedules"
ONE = ALL + "/{id}"


class SchedulesApi:
    """The routes of schedules."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    @property
    def _schedules(self) -> Schedules:
        return self._agents.line.schedules

    @property
    def routes(self) -> list[Route]:
        """What to mount."""
        return [
            Route(ALL, told(self.list)),
            Route(ALL, told(self.add), methods=["POST"]),
            Route(ONE, told(self.remove), methods=["DELETE"]),
            Route(f"{ONE}/enable", told(self.enable), methods=["POST"]),
            Route(f"{ONE}/disable", told(self.disable), methods=["POST"]),
            Route(f"{ONE}/trigger", told(self.trigger), methods=["POST"]),
        ]

    async def list(self, _: Request, name: str) -> Response:
        """All of an agent."""
        found = await self._schedules.list(name)
        return answer(ScheduleList(schedules=[schedule_view(one) for one in found]))

    async def add(self, request: Request, name: str) -> Response:
        """A new one."""
        body = await body_of(request, ScheduleBody)
        made = await self._schedules.add(
            name,
            body.message,
            cron=body.cron,
            every=body.every_seconds,
            timezone=body.timezone,
            kind=body.kind,
            model=body.model,
            run_limit=body.timeout_seconds,
            enabled=body.enabled,
        )
        return answer(schedule_view(await self._schedules.told(made)), 201)

    async def remove(self, request: Request, name: str) -> Response:
        """Take it away."""
        key = request.path_params["id"]
        await self._schedules.remove(name, key)
        return answer(RemovedSchedule(schedule_id=key, agent=name))

    async def enable(self, request: Request, name: str) -> Response:
        """Turn it on: it fires from now on."""
        return answer(await self._switch(request, name, on=True))

    async def disable(self, request: Request, name: str) -> Response:
        """Turn it off: it keeps its times and fires at none."""
        return answer(await self._switch(request, name, on=False))

    async def trigger(self, request: Request, name: str) -> Response:
        """Have it fire now."""
        key = request.path_params["id"]
        execution = await self._schedules.trigger(name, key, asker_of(request))
        was_skipped = execution.status == "skipped"
        said = Triggered(
            status="skipped" if was_skipped else "triggered",
            schedule_id=key,
            execution_id=execution.id,
            agent=name,
            error=execution.error,
            error_code=execution.error_code,
        )
        return answer(said, 200 if was_skipped else 202)

    async def _switch(self, request: Request, name: str, *, on: bool) -> ScheduleView:
        changed = await self._schedules.switch(name, request.path_params["id"], on=on)
        return schedule_view(await self._schedules.told(changed))
