"""EventAgent: long-lived runners that take tool calls from `events` and put replies on `input`."""

from asyncio import CancelledError, current_task
from collections.abc import Callable
from typing import Literal

from agent_lab.application.boundary import Outcome, run_async, run_in_thread
from agent_lab.application.gate import Drop, Hop
from agent_lab.application.nudge import Nudge
from agent_lab.application.session import Session
from agent_lab.application.tools import Tool
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import ToolCalled, ToolStarted


class Runner:
    """One task that runs one call at a time. `started` is set once the tool was let loose."""

    __slots__ = ("abandoned", "call", "nudge", "started")

    def __init__(self, nudge: Nudge) -> None:
        self.nudge = nudge
        self.call: ToolCalled | None = None
        self.started = False
        self.abandoned = False


class EventAgent:
    """Runs tools, several at a time: there is always a spare runner, up to the limit.

    No task is made for a call. A call is closed in the conversation when its limit runs out or it
    is cancelled; its runner is then thrown out of the tool, and a tool that holds on for longer
    than the grace is abandoned: counted, and its runner replaced.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._conversation = session.conversation
        self._busy: dict[str, Runner] = {}
        self._runners = 0
        self._idle = 0
        self.spawn: Callable[[], object] = lambda: None
        session.call_closed = self._closed

    async def run(self) -> None:
        """Be one runner until `events` is closed; raises QueueClosed then."""
        task = current_task()
        assert task is not None
        runner = Runner(Nudge(task, self._session.is_stopping))
        self._runners += 1
        self._idle += 1
        try:
            while not runner.abandoned:
                try:
                    await self._serve(runner)
                except CancelledError:
                    if not runner.nudge.absorb():
                        raise
        finally:
            self._left(runner)

    async def _serve(self, runner: Runner) -> None:
        call = await self._session.queues.events.get()
        self._take(runner, call)
        try:
            await self._run(runner, call)
        except Exception:
            self._recover(runner, call)
            raise
        finally:
            if runner.call is call:
                self._give_back(runner, call)

    # -- who is busy -----------------------------------------------------------------------------

    def _take(self, runner: Runner, call: ToolCalled) -> None:
        runner.call, runner.started = call, False
        self._busy[call.call_id] = runner
        self._idle -= 1
        if not self._idle and self._runners < self._session.limits.parallel_tools:
            self.spawn()

    def _give_back(self, runner: Runner, call: ToolCalled) -> None:
        if self._busy.get(call.call_id) is runner:
            del self._busy[call.call_id]
        self._session.clock.clear(runner)
        runner.call = None
        self._idle += 1

    def _left(self, runner: Runner) -> None:
        """The runner's task ends. One that was abandoned is out of the books already."""
        if not runner.abandoned:
            self._runners -= 1
            self._idle -= 1

    # -- one call --------------------------------------------------------------------------------

    async def _run(self, runner: Runner, call: ToolCalled) -> None:
        session, calls = self._session, self._conversation.calls
        if not calls.is_open(call.round, call.call_id):
            return
        tool, held = session.agent.tools[call.name], call
        if session.gate.hold is not None:
            passed = await self._pass_gate(tool, call)
            if passed is None:
                return
            held = passed
        outcome = await self._let_loose(runner, tool, held)
        session.clock.clear(runner)
        reply = _reply(call, outcome)
        try:
            await session.queues.input.put(reply)
        except CancelledError:
            if runner.nudge.pending:  # the call was closed while the reply stood at the gate
                session.queues.input.put_nowait(reply)
            raise

    async def _pass_gate(self, tool: Tool, call: ToolCalled) -> ToolCalled | None:
        """The call as the gate lets it pass; None if it was dropped, or closed meanwhile."""
        held = await self._hold("tool", call)
        if held is not None and not tool.is_async:
            held = await self._hold("thread", held)
        return held if self._conversation.calls.is_open(call.round, call.call_id) else None

    async def _hold(self, kind: Literal["tool", "thread"], call: ToolCalled) -> ToolCalled | None:
        """Pass the gate; None if the call was dropped there."""
        hold = self._session.gate.hold
        if hold is None:
            return call
        verdict = await hold(Hop(kind, None, call))
        if isinstance(verdict, Drop):
            self._session.discard(call)
            return None
        assert isinstance(verdict.item, ToolCalled)
        return verdict.item

    async def _let_loose(self, runner: Runner, tool: Tool, call: ToolCalled) -> Outcome:
        session = self._session
        timeout = session.limits.tool_timeout if tool.timeout is None else tool.timeout
        session.note(
            ToolStarted(
                turn=call.turn,
                step=call.step,
                call_id=call.call_id,
                name=call.name,
                timeout=timeout,
            )
        )
        runner.started = True
        session.clock.set(runner, timeout, lambda: self._timed_out(call, timeout))
        limit = session.limits.tool_output
        if tool.is_async:
            return await run_async(tool, call.arguments, runner.nudge, limit=limit)
        return await run_in_thread(
            tool,
            call.arguments,
            limit=limit,
            left=self._thread_left,
            late=lambda outcome: self._thread_ended(call, outcome),
        )

    # -- calls that end otherwise ----------------------------------------------------------------

    def _timed_out(self, call: ToolCalled, timeout: float) -> None:
        closed = self._conversation.close_call(call.round, call.call_id, "timeout", f"{timeout:g}")
        self._session.control(closed)

    def _closed(self, call_id: str) -> None:
        """The call has its reply; if a runner is still at it, throw it out."""
        runner = self._busy.pop(call_id, None)
        if runner is not None and runner.call is not None and runner.call.call_id == call_id:
            runner.nudge()
            self._session.clock.set(
                runner, self._session.limits.grace, lambda: self._abandon(runner)
            )

    def _abandon(self, runner: Runner) -> None:
        """The tool ignores its cancellation: leave it, count it, and go on with another runner."""
        runner.abandoned = True
        runner.call = None
        self._session.abandoned.tasks += 1
        self._runners -= 1
        if not self._idle:
            self.spawn()

    def _thread_left(self) -> None:
        self._session.abandoned.threads += 1

    def _thread_ended(self, call: ToolCalled, outcome: Outcome) -> None:
        """A thread nobody waited for has ended: record what it came to."""
        session = self._session
        session.abandoned.threads -= 1
        if not session.queues.input.is_closed:
            session.queues.input.put_nowait(_reply(call, outcome))

    def _recover(self, runner: Runner, call: ToolCalled) -> None:
        """This worker fell over. A call that had not begun is put back; one that had is lost."""
        session = self._session
        if runner.started:
            session.control(self._conversation.close_call(call.round, call.call_id, "lost"))
        elif not session.queues.events.is_closed:
            session.queues.events.put_nowait(call)


def _reply(call: ToolCalled, outcome: Outcome) -> ChatMessage:
    return ChatMessage(
        "tool",
        outcome.content,
        tool_call_id=call.call_id,
        name=call.name,
        kind=outcome.kind,
        is_error=outcome.kind != "result",
        round=call.round,
    )
