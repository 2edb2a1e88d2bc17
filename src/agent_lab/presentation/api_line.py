"""`/api/agents/{name}/…`: chat, task, fan-out, the line and what a hand does to it, executions."""

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_lab.application.agents import Agents
from agent_lab.application.asked import Asked
from agent_lab.application.fan_out import FanOut
from agent_lab.application.line import ExecutionLine
from agent_lab.application.served import AgentsClosed
from agent_lab.domain.activity import AUDITED, Activity
from agent_lab.domain.execution import Execution, ExecutionQuery, Kind
from agent_lab.presentation.hanging import while_there
from agent_lab.presentation.line_answers import (
    ID,
    Handler,
    accepted,
    answer,
    finished,
    interrupted,
    told,
)
from agent_lab.presentation.line_log import log_of
from agent_lab.presentation.line_requests import (
    asked_of,
    asker_of,
    body_of,
    lines_of,
    patience_of,
    records_of,
)
from agent_lab.presentation.line_shapes import (
    ActivityPage,
    CapacityBody,
    ChatBody,
    CheckView,
    Cleared,
    ExecutionPage,
    FanOutBody,
    FanOutView,
    ProblemView,
    Released,
    Reset,
    TaskBody,
    Terminated,
)
from agent_lab.presentation.line_views import (
    activity_view,
    execution_view,
    fan_out_view,
    queue_view,
)
from agent_lab.presentation.views import Encoders

AGENT = "/api/agents/{name:path}"
WARNING = "its work was told to stop and may still run for a while; what it says goes nowhere"


class LineApi:
    """The routes of the line. Every refusal has a machine code; unknown and foreign read alike."""

    def __init__(self, agents: Agents, encoders: Encoders) -> None:
        self._agents = agents
        self._encoders = encoders

    @property
    def _line(self) -> ExecutionLine:
        return self._agents.line

    @property
    def routes(self) -> list[Route]:
        """What to mount."""
        table: list[tuple[str, str, Handler]] = [
            ("POST", f"{AGENT}/chat", self.chat),
            ("POST", f"{AGENT}/task", self.task),
            ("POST", f"{AGENT}/fan-out", self.fan_out),
            ("GET", f"{AGENT}/fan-out/{{id}}", self.fanned_out),
            ("POST", f"{AGENT}/reset", self.reset),
            ("GET", f"{AGENT}/queue", self.queue),
            ("PUT", f"{AGENT}/queue/capacity", self.capacity),
            ("POST", f"{AGENT}/queue/clear", self.clear),
            ("POST", f"{AGENT}/queue/release", self.release),
            ("GET", f"{AGENT}/executions", self.executions),
            ("GET", f"{AGENT}/executions/running", self.running),
            ("GET", f"{AGENT}/executions/{{id}}", self.execution),
            ("GET", f"{AGENT}/executions/{{id}}/log", self.log),
            ("POST", f"{AGENT}/executions/{{id}}/terminate", self.terminate),
            ("GET", f"{AGENT}/activity", self.activity),
            ("GET", "/api/audit", self.audit),
            ("GET", "/api/check", self.check),
        ]
        return [Route(path, told(handler), methods=[method]) for method, path, handler in table]

    # -- asking ----------------------------------------------------------------------------------

    async def chat(self, request: Request, name: str) -> Response:
        """Say something in the agent's one conversation."""
        body = await body_of(request, ChatBody)
        return await self._ask(request, name, "chat", asked_of(request, body))

    async def task(self, request: Request, name: str) -> Response:
        """Ask for something in a session of its own."""
        body = await body_of(request, TaskBody)
        return await self._ask(request, name, "task", asked_of(request, body))

    async def fan_out(self, request: Request, name: str) -> Response:
        """Ask for a list of tasks."""
        body = await body_of(request, FanOutBody)
        by = asker_of(request)
        tasks = [
            Asked(message=one.message, by=by, model=one.model, run_limit=one.timeout_seconds)
            for one in body.tasks
        ]
        made = self._line.fan_outs.start(name, tasks, at_once=body.max_concurrent)
        patience = 0.0 if body.async_mode else patience_of(request)
        is_over = await while_there(request, made.over.wait(), patience)
        return answer(self._fan_out_view(made), 200 if is_over else 202)

    async def fanned_out(self, request: Request, name: str) -> Response:
        """How a list stands."""
        made = self._line.fan_outs.find(name, request.path_params["id"])
        return answer(self._fan_out_view(made))

    async def _ask(self, request: Request, name: str, kind: Kind, asked: Asked) -> Response:
        patience = 0.0 if asked.detached else None
        if asked.detached:
            patience = patience_of(request) or 0.0
        submitted = await self._line.submit(name, kind, asked)
        execution = submitted.execution
        if submitted.is_replay:
            response = finished(execution)
            response.headers["X-Idempotent-Replay"] = "true"
            return response
        try:
            done = await while_there(request, self._line.until_end(execution), patience)
        except AgentsClosed:
            if not asked.detached:
                return interrupted(execution, "the server stops before this has its end")
            done = None
        if done is not None:
            return finished(done)
        if not asked.detached:  # he has gone: what still waits never runs
            await self._line.leave(execution)
        now = self._line.book.get(execution.id) or execution
        return accepted(now, self._line.book.position(execution.id))

    # -- the line --------------------------------------------------------------------------------

    async def queue(self, _: Request, name: str) -> Response:
        """Who runs and who waits."""
        control = self._line.control
        chat, task = await control.state(name, "chat"), await control.state(name, "task")
        generation = self._line.chats.generation(name)
        return answer(queue_view(name, chat, task, self._line.book, generation))

    async def capacity(self, request: Request, name: str) -> Response:
        """Another capacity from now on."""
        body = await body_of(request, CapacityBody)
        await self._line.control.resize(name, body.kind, body.capacity, asker_of(request))
        return await self.queue(request, name)

    async def clear(self, request: Request, name: str) -> Response:
        """Send away who waits."""
        gone = await self._line.control.clear(name, asker_of(request))
        return answer(Cleared(agent=name, cleared_count=len(gone)))

    async def release(self, request: Request, name: str) -> Response:
        """Take the slot of whoever runs."""
        ran = await self._line.control.release(name, asker_of(request))
        return answer(Released(agent=name, was_running=bool(ran), warning=WARNING if ran else None))

    async def reset(self, request: Request, name: str) -> Response:
        """Begin the conversation anew."""
        generation, cut = await self._line.control.reset(name, asker_of(request))
        return answer(
            Reset(
                agent=name,
                session_id=f"chat:{name}",
                generation=generation,
                cancelled_executions=[execution.id for execution in cut],
            )
        )

    # -- executions ------------------------------------------------------------------------------

    async def executions(self, request: Request, name: str) -> Response:
        """Records, newest first."""
        self._agents.get(name)
        return await self._page(records_of(request, name))

    async def running(self, _: Request, name: str) -> Response:
        """Records of what runs now."""
        agent = self._agents.get(name)
        live = [one for one in self._line.book.live if one.agent_name == agent.name]
        runs = [self._line.runs.so_far(one) for one in live if one.status == "running"]
        found = [execution_view(one) for one in runs]
        return answer(ExecutionPage(executions=found, next=None))

    async def execution(self, request: Request, name: str) -> Response:
        """One record."""
        found = await self._find(request, name)
        return answer(execution_view(found, self._line.book.position(found.id)))

    async def log(self, request: Request, name: str) -> Response:
        """The entries of its turn."""
        found = await self._find(request, name)
        text = await log_of(self._agents, self._encoders, found)
        return Response(text, media_type="application/json", headers={ID: found.id})

    async def terminate(self, request: Request, name: str) -> Response:
        """End it, and nothing else."""
        execution_id = request.path_params["id"]
        status = await self._line.control.terminate(name, execution_id, asker_of(request))
        return answer(Terminated(status=status, execution_id=execution_id, agent=name))

    # -- what was done, and whether all is right -------------------------------------------------

    async def activity(self, request: Request, name: str) -> Response:
        """The timeline of an agent."""
        self._agents.get(name)
        query = lines_of(request, name)
        return answer(_page_of(await self._line.timeline.read(query), query.limit))

    async def audit(self, request: Request, _: str) -> Response:
        """Who did what to lines, conversations and executions."""
        query = msgspec.structs.replace(lines_of(request, None), kinds=AUDITED)
        return answer(_page_of(await self._line.timeline.read(query), query.limit))

    async def check(self, _: Request, __: str) -> Response:
        """Whether the books are right."""
        problems = await self._line.check()
        views = [ProblemView(code=one.code, message=one.message) for one in problems]
        return answer(CheckView(ok=not views, problems=views))

    async def _find(self, request: Request, name: str) -> Execution:
        self._agents.get(name)
        found = await self._line.book.find(name, request.path_params["id"])
        return self._line.runs.so_far(found)

    async def _page(self, query: ExecutionQuery) -> Response:
        found = await self._line.book.page(query)
        views = [execution_view(one, self._line.book.position(one.id)) for one in found]
        behind = found[-1].id if len(found) == query.limit else None
        return answer(ExecutionPage(executions=views, next=behind))

    def _fan_out_view(self, made: FanOut) -> FanOutView:
        return fan_out_view(made, self._line.book)


def _page_of(found: Sequence[Activity], limit: int) -> ActivityPage:
    behind = found[-1].id if len(found) == limit else None
    return ActivityPage(activity=[activity_view(one) for one in found], next=behind)
