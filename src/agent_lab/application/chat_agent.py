"""ChatAgent: asks the conversation what is due, does it, asks again. It decides nothing."""

from asyncio import CancelledError, current_task
from collections.abc import Callable, Generator
from types import coroutine

from agent_lab.application.foreign import Foreign
from agent_lab.application.gate import Hold, Hop
from agent_lab.application.model_call import ModelCall
from agent_lab.application.nudge import Nudge
from agent_lab.application.session import Session
from agent_lab.domain.actions import AwaitInput, AwaitReplies, CallModel, EndTurn, RunTools, Wait
from agent_lab.domain.messages import ModelRequest
from agent_lab.domain.payloads import ModelRequested, ToolCalled


@coroutine
def _tick() -> Generator[None, None, None]:
    """Let everybody else run once; `sleep(0)` is two coroutines."""
    yield


MODEL = "its model"


class ChatAgent:
    """The worker that takes `input`, asks the model and puts `events` and `output`.

    Whatever it awaits it can be nudged out of; it then finds out anew what is due, so no decision
    survives an await.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._conversation = session.conversation
        self._is_stopping = session.is_stopping  # of this crew; a later crew has its own
        self._nudge: Nudge | None = None
        self.replace: Callable[[], object] = lambda: None
        session.nudge_chat = self._nudged

    async def run(self) -> None:
        """Work until `input` is closed; raises QueueClosed then.

        Returns only in a task that was abandoned, when another one works already.
        """
        task = current_task()
        assert task is not None
        nudge = self._nudge = Nudge(task, self._is_stopping)
        foreign = Foreign(nudge)
        try:
            while self._nudge is nudge and not self._is_stopping():
                try:
                    await self._work(nudge, foreign)
                except CancelledError:
                    if not await nudge.absorb_all():
                        raise
                    self._session.clock.clear(nudge)
        finally:
            if self._nudge is nudge:
                self._nudge = None  # whoever works next has one of his own
            else:
                self._session.abandoned.end("tasks", MODEL)

    async def _work(self, nudge: Nudge, foreign: Foreign) -> None:
        session, conversation = self._session, self._conversation
        queue, receive, decide = session.queues.input, conversation.receive, session.decide
        items, gate, next_action = queue.items, session.gate, conversation.next_action
        toolbox = session.agent.toolbox
        while self._nudge is nudge:
            if nudge.pending:  # it came without an await, or a model swallowed it
                await nudge.settle()
                session.clock.clear(nudge)
            if session.outbox:
                await self._flush()
            if items:
                item = queue.get_nowait() if gate.hold is None else await queue.get()
                for payload in receive(item):
                    session.tell(payload)
                continue
            action = next_action()
            kind = type(action)  # by type: a class pattern costs a call
            if kind is CallModel:
                if toolbox.servers and toolbox.is_starting:
                    await toolbox.started()  # something may come meanwhile: ask again
                elif (gate.hold is None or await self._may_call(gate.hold)) and (
                    call := self._begin_call(nudge, foreign)
                ):
                    await call.run()
            elif type(action) is RunTools:
                if waits := self._put_calls(action):
                    await self._put(waits)
                await _tick()  # a tool that does not wait has answered then
            elif kind is AwaitReplies or kind is AwaitInput:
                decide(receive(await queue.get()))
            elif kind is EndTurn:
                decide(conversation.end_turn())
            else:
                assert type(action) is Wait
                await session.clock.sleep("retry", action.delay)
                conversation.waited()

    def stand_down(self) -> None:
        """The session stops: leave what you do, after cleaning up if you were told so already."""
        if self._nudge is not None and not self._nudge.pending:
            self._nudge()

    def _nudged(self) -> None:
        """Throw the worker out of its await; a model that holds on to it is left behind."""
        nudge = self._nudge
        if nudge is not None and not nudge.pending:
            nudge()
            self._session.clock.set(nudge, self._session.limits.grace, self._abandon)

    def _abandon(self) -> None:
        self._nudge = None
        self._session.abandoned.begin("tasks", MODEL)
        self.replace()

    async def _flush(self) -> None:
        """Move what was decided to `output`, in order; waits while nobody takes."""
        outbox, output = self._session.outbox, self._session.queues.output
        while outbox:
            if output.full():
                await output.room()
            output.put_nowait(outbox[0])
            del outbox[0]

    def _put_calls(self, action: RunTools) -> ToolCalled | None:
        """Put calls on `events` until one has to wait: what is due may be another thing then."""
        try_put, dispatched = (
            self._session.queues.events.try_put,
            self._conversation.calls.dispatched,
        )
        for call in action.calls:
            if not try_put(call):
                return call
            dispatched(call)
        return None

    async def _put(self, call: ToolCalled) -> None:
        await self._session.queues.events.put(call)
        self._conversation.calls.dispatched(call)

    async def _may_call(self, hold: Hold) -> bool:
        """Pass the gate; False if something came meanwhile, so that another deed may be due."""
        await hold(Hop("model"))
        is_due = isinstance(self._conversation.next_action(), CallModel)
        return is_due and not self._session.queues.input.items

    def _begin_call(self, nudge: Nudge, foreign: Foreign) -> ModelCall | None:
        """Deliver what waits and write the request down; None if that ended the turn."""
        session, conversation = self._session, self._conversation
        if decided := conversation.begin_call():
            session.decide(decided)
        if not conversation.calling:
            return None
        request = ModelRequest(
            session.session_id,
            session.model.name,
            session.model.dialect,
            session.agent.instructions,
            session.agent.schemas,
            conversation.history,
            conversation.start,
            len(conversation.history),
            conversation.call,
            conversation.answers,
        )
        turn, step = conversation.where
        session.tell(ModelRequested(turn=turn, step=step, request=request))
        return ModelCall(session, request, nudge, foreign, self._flush)
