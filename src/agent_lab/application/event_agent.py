"""EventAgent: long-lived runners that take tool calls from `events` and put replies on `input`."""

from asyncio import CancelledError, current_task
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal

from agent_lab.application.agent_tool import CALLING, Calling
from agent_lab.application.boundary import Outcome, misfit, run_async, run_in_thread
from agent_lab.application.foreign import Foreign
from agent_lab.application.gate import Drop, Hop
from agent_lab.application.leftovers import DOING, Doing
from agent_lab.application.logs import log
from agent_lab.application.nudge import Nudge
from agent_lab.application.session import Session
from agent_lab.application.tools import Tool
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import ToolCalled, ToolStarted


class Runner:
    """One task that runs one call at a time. `started` is set once the tool was let loose."""

    __slots__ = (
        "abandoned",
        "call",
        "doing",
        "foreign",
        "nudge",
        "started",
        "timed_out",
        "timeout",
    )

    def __init__(self, nudge: Nudge, timed_out: "Callable[[Runner], None]") -> None:
        self.nudge = nudge
        self.foreign = Foreign(nudge)
        self.timed_out = partial(timed_out, self)
        self.timeout = 0.0
        self.call: ToolCalled | None = None
        self.doing: Doing | None = None
        self.started = False
        self.abandoned = ""
        """What was given up, once it was."""

    @property
    def patience(self) -> float:
        """Seconds that programs of its call may take to end."""
        return max(self.doing.patience, default=0.0) if self.doing is not None else 0.0


class EventAgent:
    """Runs tools, several at a time: there is always a spare runner, up to the limit.

    No task is made for a call, and one that waits for somebody's permission has no runner: it comes
    again when it is allowed. A call is closed in the conversation when its limit runs out or it
    is cancelled; its runner is then thrown out of the tool, and a tool that holds on for longer
    than the grace is abandoned: counted, and its runner replaced.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._conversation = session.conversation
        self._permissions = session.permissions
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
        runner = Runner(Nudge(task, self._is_stopping), self._timed_out)
        self._runners.add(runner)
        self._idle += 1
        events = self._session.queues.events
        try:
            while not runner.abandoned:
                try:
                    await self._serve(runner, await events.get())
                    if not runner.nudge.pending:
                        continue
                    await runner.nudge.settle()
                except CancelledError:
                    if not await runner.nudge.absorb_all():
                        raise
                if self._is_stopping():
                    return
        finally:
            if runner.abandoned:
                self._session.abandoned.end("tasks", runner.abandoned)
            else:
                self._runners.remove(runner)
                self._idle -= 1

    async def _serve(self, runner: Runner, call: ToolCalled) -> None:
        self._idle -= 1
        if not self._idle and len(self._runners) < self._session.limits.parallel_tools:
            self.spawn()
        runner.call, runner.started = call, False
        self._busy[call.call_id] = runner
        session = self._session
        try:
            if not self._conversation.calls.is_open(call.round, call.call_id):
                return
            tool, passed = session.agent.tools[call.name], call
            if tool.needs_approval is not False and not self._may_run(tool, call):
                return
            if session.gate.hold is not None:
                held = await self._pass_gate(tool, call)
                if held is None:
                    return
                passed = held
            self._start(runner, tool, call)
            outcome = await self._work(runner, tool, passed)
            reply = _reply(call, outcome)
            if not session.queues.input.try_put(reply):
                session.clock.clear(runner)
                await self._put_reply(runner, reply)
        except Exception:
            self._busy.pop(call.call_id, None)  # nobody is to be thrown out of what fell over
            self._recover(runner, call)
            raise
        finally:
            if runner.call is call:  # else it was abandoned, and is out of the books
                session.clock.clear(runner)
                runner.call = None
                self._idle += 1
            self._is_over(runner)
            if self._busy.get(call.call_id) is runner:
                del self._busy[call.call_id]

    @property
    def patience(self) -> float:
        """Seconds that programs of running calls may take to end, once they are told to."""
        return max((runner.patience for runner in self._runners), default=0.0)

    def stand_down(self) -> None:
        """The session stops: everybody leaves what he does, after cleaning up."""
        for runner in self._runners:
            if not runner.nudge.pending:
                runner.nudge()

    def give_up(self) -> None:
        """The session is gone and these calls are not: what they started is ended all the same."""
        for runner in list(self._runners):
            self._is_over(runner)

    # -- one call --------------------------------------------------------------------------------

    def _start(self, runner: Runner, tool: Tool, call: ToolCalled) -> None:
        """Say that the tool runs now, and set its limit."""
        session = self._session
        timeout = session.limits.tool_timeout if tool.timeout is None else tool.timeout
        started = ToolStarted(
            turn=call.turn, step=call.step, call_id=call.call_id, name=call.name, timeout=timeout
        )
        session.journal.append(started)
        runner.started, runner.timeout = True, timeout
        session.clock.set(runner, timeout, runner.timed_out)

    def _work(self, runner: Runner, tool: Tool, call: ToolCalled) -> Coroutine[Any, Any, Outcome]:
        session = self._session
        limit, context = session.limits.tool_output, session.context.copy()
        runner.doing = Doing(call.name, call.turn, session.leftovers)
        context.run(DOING.set, runner.doing)
        if tool.wants_call:
            context.run(CALLING.set, Calling(session, call))
        if tool.is_async:
            return run_async(tool, call.arguments, runner.nudge, runner.foreign, context, limit)
        return run_in_thread(
            tool,
            call.arguments,
            context,
            limit=limit,
            abandoned=session.abandoned,
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

    def _may_run(self, tool: Tool, call: ToolCalled) -> bool:
        """Whether a call that may need permission can run now; nobody is asked of one that cannot.

        If not it has its reply, or comes again when somebody allows it.
        """
        if (bad := misfit(tool, call.arguments)) is not None:
            self._session.queues.input.put_nowait(_reply(call, bad))
            return False
        return self._permissions.admits(tool, call)

    async def _pass_gate(self, tool: Tool, call: ToolCalled) -> ToolCalled | None:
        """The call as the gate lets it pass; None if it was dropped, or closed meanwhile.

        Other arguments than were allowed are asked for anew.
        """
        held = await self._hold("tool", call)
        if held is not None and not tool.is_async:
            held = await self._hold("thread", held)
        if held is None or not self._conversation.calls.is_open(call.round, call.call_id):
            return None
        changed = held is not call and tool.needs_approval is not False
        return None if changed and not self._may_run(tool, held) else held

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

    def _timed_out(self, runner: Runner) -> None:
        call, limit = runner.call, f"{runner.timeout:g}"
        assert call is not None, "a runner without a call has no alarm"
        closed = self._conversation.close_call(call.round, call.call_id, "timeout", limit)
        self._session.control(closed)

    def _closed(self, call_id: str) -> None:
        """The call has its reply: whoever is still at it is thrown out."""
        busy = self._busy.pop(call_id, None)
        if busy is not None:
            grace = max(self._session.limits.grace, busy.patience)
            busy.nudge()
            self._session.clock.set(busy, grace, lambda: self._abandon(busy))
        if self._permissions.alarms:
            self._permissions.call_closed(call_id)
        if self._session.queues.events.holds(call_id):
            for runner in self._runners:  # one of them stands at the gate with this call
                if runner.call is None:
                    runner.nudge()

    def _abandon(self, runner: Runner) -> None:
        """The tool ignores its cancellation: leave it, count it, and go on with another runner."""
        call = runner.call
        runner.abandoned = f"{call.name}: its call {call.call_id}" if call is not None else "a tool"
        log.error("session %s: %s is abandoned", self._session.session_id, runner.abandoned)
        runner.call = None
        self._runners.discard(runner)
        self._session.abandoned.begin("tasks", runner.abandoned)
        self._is_over(runner)
        if not self._idle:
            self.spawn()

    def _is_over(self, runner: Runner) -> None:
        """Nobody works at the call any more: what it started is on its own."""
        if runner.doing is not None:
            runner.doing.is_over = True
            if self._session.leftovers.held:
                self._session.sweep()

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
