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
        self._is_stopping = session.is_stopping  # of this crew; a later crew has its own
        self._busy: dict[str, Runner] = {}
        self._runners: set[Runner] = set()
        self._idle = 0
        self.spawn: Callable[[], object] = lambda: None
        session.call_closed = self._closed

    async def run(self) -> None:
        """Be one runner until `events` is closed; raises QueueClosed then."""
        task = current_task()
        assert task is not None
        runner = Runner(Nudge(task, self._is_stopping))
        self._runners.add(runner)
        self._idle += 1
        events = self._session.queues.events
        try:
            while not runner.abandoned and not self._is_stopping():
                try:
                    await self._serve(runner, await events.get())
                    await runner.nudge.settle()
                except CancelledError:
                    if not await runner.nudge.absorb_all():
                        raise
        finally:
            if runner.abandoned:
                self._session.abandoned.tasks -= 1
            else:
                self._runners.remove(runner)
                self._idle -= 1

    async def _serve(self, runner: Runner, call: ToolCalled) -> None:
        self._idle -= 1
        if not self._idle and len(self._runners) < self._session.limits.parallel_tools:
            self.spawn()
        runner.call, runner.started = call, False
        self._busy[call.call_id] = runner
        try:
            await self._run(runner, call)
        except Exception:
            del self._busy[call.call_id]  # nobody is to be thrown out of a call that fell over
            self._recover(runner, call)
            raise
        finally:
            if runner.call is call:  # else it was abandoned, and is out of the books
                self._session.clock.clear(runner)
                runner.call = None
                self._idle += 1
            if self._busy.get(call.call_id) is runner:
                del self._busy[call.call_id]

    def stand_down(self) -> None:
        """The session stops: everybody leaves what he does, after cleaning up."""
        for runner in self._runners:
            if not runner.nudge.pending:
                runner.nudge()

    # -- one call --------------------------------------------------------------------------------

    async def _run(self, runner: Runner, call: ToolCalled) -> None:
        session, calls = self._session, self._conversation.calls
        if not calls.is_open(call.round, call.call_id):
            return
        tool, passed = session.agent.tools[call.name], call
        if session.gate.hold is not None:
            held = await self._pass_gate(tool, call)
            if held is None:
                return
            passed = held
        timeout = session.limits.tool_timeout if tool.timeout is None else tool.timeout
        session.journal.append(
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
            outcome = await run_async(
                tool, passed.arguments, runner.nudge, session.context.copy(), limit=limit
            )
        else:
            outcome = await self._run_in_thread(tool, passed, limit)
        session.clock.clear(runner)
        await self._put_reply(runner, _reply(call, outcome))

    async def _run_in_thread(self, tool: Tool, call: ToolCalled, limit: int) -> Outcome:
        return await run_in_thread(
            tool,
            call.arguments,
            self._session.context.copy(),
            limit=limit,
            abandoned=self._session.abandoned,
            late=lambda outcome: self._thread_ended(call, outcome),
        )

    async def _put_reply(self, runner: Runner, reply: ChatMessage) -> None:
        queue = self._session.queues.input
        try:
            await queue.put(reply)
        except CancelledError:
            if runner.nudge.pending and not queue.is_closed:
                queue.put_nowait(reply)  # the call was closed while its reply stood at the gate
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

    # -- calls that end otherwise ----------------------------------------------------------------

    def _timed_out(self, call: ToolCalled, timeout: float) -> None:
        closed = self._conversation.close_call(call.round, call.call_id, "timeout", f"{timeout:g}")
        self._session.control(closed)

    def _closed(self, call_id: str) -> None:
        """The call has its reply: whoever is still at it is thrown out."""
        busy = self._busy.pop(call_id, None)
        if busy is not None:
            grace = self._session.limits.grace
            busy.nudge()
            self._session.clock.set(busy, grace, lambda: self._abandon(busy))
        if self._session.queues.events.holds(call_id):
            for runner in self._runners:  # one of them stands at the gate with this call
                if runner.call is None:
                    runner.nudge()

    def _abandon(self, runner: Runner) -> None:
        """The tool ignores its cancellation: leave it, count it, and go on with another runner."""
        runner.abandoned = True
        runner.call = None
        self._runners.discard(runner)
        self._session.abandoned.tasks += 1
        if not self._idle:
            self.spawn()

    def _thread_ended(self, call: ToolCalled, outcome: Outcome) -> None:
        """A thread nobody waited for has ended: record what it came to."""
        if not self._session.queues.input.is_closed:
            self._session.queues.input.put_nowait(_reply(call, outcome))

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
