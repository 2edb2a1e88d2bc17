"""ChatAgent: asks the conversation what is due, does it, asks again. It decides nothing."""

from asyncio import CancelledError, current_task
from collections.abc import AsyncIterator, Callable
from inspect import iscoroutine
from typing import assert_never, cast

from agent_lab.application.gate import Hop
from agent_lab.application.nudge import Nudge
from agent_lab.application.session import Session
from agent_lab.domain.actions import AwaitInput, AwaitReplies, CallModel, EndTurn, RunTools
from agent_lab.domain.errors import ModelError, QueueClosed
from agent_lab.domain.messages import EVENT_TYPES, ModelEvent, ModelRequest, TextDelta, clean
from agent_lab.domain.payloads import ModelRequested, Text, ToolCalled

_MODEL, _TEXT, _GRACE, _RETRY = "model call", "text", "model grace", "retry"


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
        self._text: list[str] = []
        self._text_at = float("-inf")
        self._failures = 0
        self.replace: Callable[[], object] = lambda: None
        session.nudge_chat = self._nudged

    async def run(self) -> None:
        """Work until `input` is closed; raises QueueClosed then.

        Returns only in a task that was abandoned, when another one works already.
        """
        task = current_task()
        assert task is not None
        nudge = self._nudge = Nudge(task, self._is_stopping)
        try:
            while self._nudge is nudge and not self._is_stopping():
                try:
                    await self._work(nudge)
                except CancelledError:
                    if not nudge.absorb():
                        raise
                    if self._nudge is nudge:
                        self._session.clock.clear(_GRACE)
        finally:
            if self._nudge is nudge:
                self._nudge = None  # whoever works next has one of his own
            else:
                self._session.abandoned.tasks -= 1

    async def _work(self, nudge: Nudge) -> None:
        session, conversation = self._session, self._conversation
        queue, receive, decide = session.queues.input, conversation.receive, session.decide
        while self._nudge is nudge:
            if nudge.pending:
                await self._settle(nudge)
            if session.outbox:
                await self._flush()
            if queue.qsize():
                decide(receive(await queue.get()))
                continue
            match action := conversation.next_action():
                case RunTools():
                    await self._put_call(action.calls[0])
                case CallModel():
                    await self._call_model()
                case AwaitReplies() | AwaitInput():
                    decide(receive(await queue.get()))
                case EndTurn():
                    decide(conversation.end_turn())
                case _:
                    assert_never(action)

    async def _settle(self, nudge: Nudge) -> None:
        """A nudge that came without an await to be thrown out of, or that a model swallowed."""
        await nudge.settle()
        self._session.clock.clear(_GRACE)

    def stand_down(self) -> None:
        """The session stops: leave what you do, after cleaning up if you were told so already."""
        if self._nudge is not None and not self._nudge.pending:
            self._nudge()

    def _nudged(self) -> None:
        """Throw the worker out of its await; a model that holds on to it is left behind."""
        if self._nudge is not None:
            self._nudge()
            self._session.clock.set(_GRACE, self._session.limits.grace, self._abandon)

    def _abandon(self) -> None:
        self._nudge = None
        self._session.abandoned.tasks += 1
        self.replace()

    async def _flush(self) -> None:
        """Move what was decided to `output`, in order; waits while nobody takes."""
        outbox, output = self._session.outbox, self._session.queues.output
        while outbox:
            if output.full():
                await output.room()
            output.put_nowait(outbox[0])
            del outbox[0]

    async def _put_call(self, call: ToolCalled) -> None:
        await self._session.queues.events.put(call)
        self._conversation.calls.dispatched(call)

    # -- the model -------------------------------------------------------------------------------

    async def _call_model(self) -> None:
        session, conversation = self._session, self._conversation
        if session.gate.hold is not None:
            await session.gate.hold(Hop("model"))
            if session.queues.input.qsize() or not isinstance(
                conversation.next_action(), CallModel
            ):
                return  # something came while the hop was held: ask again
        session.decide(conversation.begin_call())
        if not conversation.calling:
            return
        request = self._request()
        session.decide(
            (ModelRequested(turn=conversation.turn, step=conversation.step, request=request),)
        )
        session.clock.set(_MODEL, session.limits.model_timeout, self._timed_out)
        try:
            await self._listen(request)
        except ModelError as error:
            await self._failed(request.call, error)
        finally:
            session.clock.clear(_MODEL)

    def _request(self) -> ModelRequest:
        session, conversation = self._session, self._conversation
        return ModelRequest(
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

    async def _listen(self, request: ModelRequest) -> None:
        session, conversation, call = self._session, self._conversation, request.call
        try:
            stream = session.model.stream(request)
            if iscoroutine(stream):
                self._hear(call, await stream)
            else:
                await self._hear_all(call, cast("AsyncIterator[ModelEvent]", stream))
        except BaseException as error:
            fault = self._fault(error)
            if fault is error:
                raise
            raise fault from error
        if self._text:
            self._flush_text()
        decided = conversation.answered(call)
        if decided is None:
            raise ModelError(
                "the answer was cut off: the stream ended without a last event",
                code="provider_cut",
                hint="nothing of it was kept; send the message again",
                may_pass=True,
            )
        self._failures = 0
        session.decide(decided)

    async def _hear_all(self, call: int, stream: AsyncIterator[ModelEvent]) -> None:
        """Take the stream's events until it ends, or the call is over."""
        session = self._session
        try:
            async for event in stream:
                if not self._hear(call, event):
                    if self._nudge is not None:
                        await self._settle(self._nudge)  # not in the middle of its cleaning up
                    return await _close(stream)
                if type(event) is TextDelta:
                    self._say(event.text)
                    if session.outbox:
                        await self._flush()
        except BaseException:
            await _close(stream)
            raise

    def _hear(self, call: int, event: ModelEvent) -> bool:
        if type(event) not in EVENT_TYPES:
            raise _unexpected(TypeError(f"the model gave a {type(event).__name__}"))
        return self._conversation.hear(call, event)

    def _fault(self, error: BaseException) -> BaseException:
        """What the model raised as a ModelError; a cancellation that is ours stays what it is."""
        if isinstance(error, ModelError | QueueClosed):
            return error
        if isinstance(error, GeneratorExit) and not (self._nudge and self._nudge.is_current):
            return error  # our own coroutine is being closed
        if isinstance(error, CancelledError) and self._nudge is not None:
            if self._nudge.is_cancelled:
                return error
            self._nudge.disown()
        return _unexpected(error)

    # -- text, coalesced -------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self._text.append(text)
        clock, interval = self._session.clock, self._session.limits.text_interval
        wait = self._text_at + interval - clock.now()
        if wait <= 0:
            self._flush_text()
        elif len(self._text) == 1:
            clock.set(_TEXT, wait, self._flush_text)

    def _flush_text(self) -> None:
        if not self._text:
            return
        session, conversation = self._session, self._conversation
        text = clean("".join(self._text))
        self._text.clear()
        session.clock.clear(_TEXT)
        if conversation.calling:
            self._text_at = session.clock.now()
            session.decide((Text(turn=conversation.turn, step=conversation.step, text=text),))

    # -- what goes wrong -------------------------------------------------------------------------

    def _timed_out(self) -> None:
        session, limit = self._session, self._session.limits.model_timeout
        session.control(
            self._conversation.failed(
                self._conversation.call,
                "model_timeout",
                f"the model gave no whole answer within {limit:g} s",
                "raise Limits.model_timeout, or look at the provider",
            )
        )

    async def _failed(self, call: int, error: ModelError) -> None:
        session, conversation = self._session, self._conversation
        if not conversation.calling or conversation.call != call:
            return  # the turn was stopped meanwhile
        self._text.clear()
        self._failures += 1
        if not error.may_pass or self._failures > session.limits.model_retries:
            self._failures = 0
            session.decide(conversation.failed(call, error.code, str(error), error.hint))
            return
        delay = session.limits.retry_delay * 2 ** (self._failures - 1)
        session.decide(
            conversation.retry(
                call, attempt=self._failures, delay=delay, code=error.code, message=str(error)
            )
        )
        await session.clock.sleep(_RETRY, delay)


def _unexpected(error: BaseException) -> ModelError:
    """A fault of the model object that it did not name."""
    return ModelError(
        f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
        code="model_error",
        hint="the model raised it; see its own documentation",
    )


async def _close(stream: AsyncIterator[ModelEvent]) -> None:
    """Let a stream that is left in the middle clean up now, not when it is collected."""
    if close := getattr(stream, "aclose", None):
        await close()
