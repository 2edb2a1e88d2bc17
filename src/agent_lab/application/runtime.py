"""The runtime: one session, its root task, and the order in which things start and close."""

from collections.abc import AsyncIterator, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import ReferenceType, ref

from agent_lab.application.agent import Agent
from agent_lab.application.clock import running_loop
from agent_lab.application.crew import Crew
from agent_lab.application.gate import Gate, OpenGate
from agent_lab.application.journal import Entry, Gap
from agent_lab.application.permissions import PermissionDesk
from agent_lab.application.ports import Model, Outside
from agent_lab.application.queues import RuntimeQueues
from agent_lab.application.run import Run
from agent_lab.application.session import CancelStatus, Session
from agent_lab.domain.errors import (
    AlreadyRunning,
    NoEventLoop,
    QueueClosed,
    RuntimeClosed,
    RuntimeFailed,
)
from agent_lab.domain.messages import ChatMessage

if TYPE_CHECKING:
    from agent_lab.application.request import DebugRunRequest


class Runtime:
    """One session with one agent, from the first `start()` to `close()`.

    Nothing runs before the first `start()` or `run()`. Use it as `async with`, or call `close()`.
    """

    def __init__(
        self,
        agent: Agent,
        model: Model,
        outside: Outside,
        *,
        session_id: str | None = None,
        gate: Gate | None = None,
        history: Sequence[ChatMessage] = (),
    ) -> None:
        self.agent = agent
        self.session_id = session_id or outside.new_id("s")
        self._model = model
        self._outside = outside
        self._gate = gate or OpenGate()
        self._saved = history
        self._session: Session | None = None
        self._crew: Crew | None = None
        self._crashes: list[float] = []
        self._failure: BaseException | None = None
        self._closed = False
        self._run: ReferenceType[Run] | None = None
        self._entered = False

    # -- asking ----------------------------------------------------------------------------------

    def start(self, request: "DebugRunRequest | ChatMessage | str") -> RuntimeQueues:
        """Accept a user message and give the session's queues; returns at once.

        Idle, it begins a turn; busy, it steers the one that runs. The caller is the one taker of
        `queues.output`; if nobody takes, the agent waits. Raises NoEventLoop, RuntimeClosed,
        SessionMismatch, MessageRejected, or InvalidRole for a ChatMessage that is not a user's.
        """
        session = self._open()
        session.queues.input.put_nowait(self._message(request))
        return session.queues

    def give(self, message: ChatMessage) -> "Coroutine[Any, Any, None] | None":
        """As start(), but through the gate: see InputQueue.begin_put for what is given back."""
        return self._open().queues.input.begin_put(message)

    def run(self, request: "DebugRunRequest | ChatMessage | str") -> Run:
        """Run until the session has answered everything: an async iterator of payloads.

        It ends at the first `done`, `error` or `cancelled` that leaves nothing pending. Leaving
        it early as `async with` cancels the turn, waiting messages too, and ends all its work
        before the next statement. Raises AlreadyRunning while another run is live.
        """
        self._bar_other_run(None)
        return Run(self, lambda run: self._begin(run, request))

    def _begin(self, run: Run, request: "DebugRunRequest | ChatMessage | str") -> RuntimeQueues:
        self._bar_other_run(run)
        queues = self.start(request)
        self._run = ref(run)  # weakly: a run that is broken off and forgotten cleans up
        return queues

    def _bar_other_run(self, run: Run | None) -> None:
        live = self._run() if self._run is not None else None
        if live is not None and live is not run and live.is_live:
            said = (
                f"session {self.session_id!r} has a live run; put the message on its input queue, "
            )
            raise AlreadyRunning(f"{said}or wait for the run's end")

    def follow(self, after: int = 0) -> AsyncIterator[Sequence[Entry] | Gap]:
        """Journal entries after `after`, in batches, as they are written; see Journal.follow."""
        return self.session.journal.follow(after)

    # -- control ---------------------------------------------------------------------------------

    def cancel(self, turn: int | None = None, *, drop_waiting: bool = False) -> CancelStatus:
        """Stop the turn; on record when this returns. A past turn is `not_running`.

        Open calls get a `cancelled` reply, streamed text is kept. A turn that is accepted and not
        begun ends too. Other accepted messages start the next turn unless `drop_waiting`.
        """
        return self.session.cancel(turn, drop_waiting=drop_waiting)

    def cancel_tool(self, call_id: str) -> CancelStatus:
        """Close one open tool call as `cancelled`; the turn goes on."""
        return self.session.cancel_tool(call_id)

    def withdraw(self, message_id: str) -> bool:
        """Take back a message that is not delivered yet; False if it is, or is unknown."""
        return self.session.withdraw(message_id)

    def edit(self, message_id: str, content: str) -> bool:
        """Change what a message that is not delivered yet says; False as for withdraw."""
        return self.session.edit(message_id, content)

    @property
    def permissions(self) -> PermissionDesk:
        """Tool calls that wait for somebody's permission (`pending`), and `answer()`."""
        return self.session.permissions

    # -- what there is ---------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session's parts; raises NoEventLoop outside a running loop."""
        if self._session is None:
            self._session = self._make_session()
            self._session.wake = self._bring_crew
            self._session.idle = self._tell_run
            if self._closed:  # before it began
                self._end_session(self._session)
        return self._session

    @property
    def history(self) -> list[ChatMessage]:
        """What the provider may see, and the replies an open round has so far; a copy."""
        return self.session.conversation.snapshot()

    @property
    def is_closed(self) -> bool:
        """Whether the session takes nothing any more; it does not outlive its loop."""
        return self._closed or (self._session is not None and self._session.loop.is_closed())

    # -- open and close --------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._entered = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session; may be called twice.

        What runs ends `cancelled` (reason `closed`), waiting messages are `withdrawn`. Takers of
        `output` and followers get what is left, then QueueClosed and the end; putters get
        QueueClosed. Work that ignores its cancellation is left after the grace and counted in
        `session.abandoned`.
        """
        self.wind_down()
        if not self.session.loop.is_closed():
            await self.rest()

    async def rest(self) -> None:
        """Stop the workers and return when they are gone; start() brings new ones."""
        if self._crew is not None:
            await self._crew.dismiss()

    def forget_run(self) -> None:
        """A run was broken off and forgotten: stop its work."""
        self.cancel(drop_waiting=True)
        if self.leaves_with_run and self._crew is not None:
            self._crew.send_home()

    # -- inside ----------------------------------------------------------------------------------

    @property
    def leaves_with_run(self) -> bool:
        """Whether nobody but the run itself will stop the workers."""
        return not self._entered

    def _make_session(self) -> Session:
        return Session(
            self.session_id,
            self.agent,
            self._model,
            outside=self._outside,
            gate=self._gate,
            loop=running_loop(self.session_id),
            history=self._saved,
        )

    def _open(self) -> Session:
        if self.is_closed:
            raise self._ended()
        session = self.session
        if session.loop is not running_loop(self.session_id):
            raise NoEventLoop(
                f"session {self.session_id!r} lives on another event loop; open one on this loop"
            )
        return session

    def _bring_crew(self) -> None:
        """A message was accepted: somebody must be there to work."""
        if self._crew is None or not self._crew.is_working:
            self._crew = Crew(self.session, self)

    def _tell_run(self) -> None:
        """The last message that waited was withdrawn or dropped: no end will come for it."""
        run = self._run() if self._run is not None else None
        if run is not None:
            run.nothing_left()

    def _ended(self) -> Exception:
        if self._failure is not None:
            failed = RuntimeFailed(f"session {self.session_id!r} fell over: {self._failure!r}")
            failed.__cause__ = self._failure
            return failed
        return RuntimeClosed(f"session {self.session_id!r} is closed; open a new one")

    def _message(self, request: "DebugRunRequest | ChatMessage | str") -> ChatMessage:
        if isinstance(request, ChatMessage):
            return request
        if isinstance(request, str):
            return ChatMessage("user", request)
        return request.message_for(self.session_id)

    # -- what the crew tells -----------------------------------------------------------------------

    def queue_closed(self, closed: QueueClosed) -> None:
        """A queue was closed: by us, at the end, or by somebody whose session this then ends."""
        if not self._closed:
            said = f"the queue {closed.queue!r} was closed while the session worked"
            self._stop_turn("queue_closed", said, "open a new session")
            self.wind_down()

    def crashed(self, error: Exception) -> None:
        """A worker fell over; too many in a minute close the session."""
        session = self.session
        said = f"a worker crashed: {type(error).__name__}: {error}"
        hint = "this is a fault of agent_lab; the worker was started again"
        self._stop_turn("internal", said, hint)
        now = session.loop.time()
        self._crashes = [*(at for at in self._crashes if at >= now - 60), now]
        if len(self._crashes) >= session.limits.crashes:
            self._failure = error
            self.wind_down()

    def left(self, error: BaseException | None) -> None:
        """The workers are gone and nobody sent them: the session ends with them."""
        self._failure = self._failure or error
        self.wind_down()

    def _stop_turn(self, code: str, message: str, hint: str) -> None:
        session = self.session
        session.control(session.conversation.stopped(code, message, hint))

    def wind_down(self) -> None:
        """Everything accepted gets its end, and every waiter is told. Once."""
        if self._closed:
            return
        self._closed = True
        if self._session is not None:
            self._end_session(self._session)

    def _end_session(self, session: Session) -> None:
        queues = session.queues
        while queues.input.qsize():  # what lies there is said while there is a journal to say it
            session.decide(session.conversation.receive(queues.input.get_nowait()))
        session.decide(session.conversation.close())
        session.clock.stop()
        session.gate.open()
        queues.input.close()
        queues.events.close()
        queues.output.close(last=session.outbox)
        session.outbox.clear()
        session.journal.end(lambda: self._ended() if self._failure is not None else None)
