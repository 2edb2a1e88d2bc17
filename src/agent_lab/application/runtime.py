"""The runtime: one session, its root task, and the order in which things start and close."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agent_lab.application.agent import Agent
from agent_lab.application.chat_agent import ChatAgent
from agent_lab.application.clock import SessionClock
from agent_lab.application.event_agent import EventAgent
from agent_lab.application.gate import Gate, OpenGate
from agent_lab.application.journal import Entry, Gap, Journal
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
    SessionMismatch,
)
from agent_lab.domain.messages import ChatMessage

if TYPE_CHECKING:
    from agent_lab.application.request import DebugRunRequest

log = logging.getLogger("agent_lab")

Worker = Callable[[], Awaitable[None]]


class Runtime:
    """One session with one agent, from the first `start()` to `close()`.

    Nothing runs before the first `start()` or `run()`. Use it as `async with`, or call `close()`
    when done.
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
        self._root: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._crashes: deque[float] = deque()
        self._failure: BaseException | None = None
        self._closed = False
        self._run: Run | None = None
        self._entered = False

    # -- asking ----------------------------------------------------------------------------------

    def start(self, request: "DebugRunRequest | ChatMessage | str") -> RuntimeQueues:
        """Accept a user message and give the session's queues; returns at once.

        Idle, it begins a turn; busy, it steers the one that runs. The caller is the one taker of
        `queues.output`; if nobody takes, the agent waits. Raises NoEventLoop, RuntimeClosed,
        SessionMismatch, or MessageRejected.
        """
        session = self._open()
        session.queues.input.put_nowait(self._message(request))
        return session.queues

    def run(self, request: "DebugRunRequest | ChatMessage | str") -> Run:
        """Run until the session has answered everything: an async iterator of payloads.

        It ends at the first `done`, `error` or `cancelled` that leaves nothing pending. Leaving
        it early as `async with` cancels the turn, waiting messages too, and ends all its work
        before the next statement. Raises AlreadyRunning while another run is live.
        """
        if self._run is not None and self._run.is_live:
            raise AlreadyRunning(
                f"session {self.session_id!r} has a live run; put the message on its input queue, "
                "or wait for the run's end"
            )
        self._run = Run(self, lambda: self.start(request))
        return self._run

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
        withdrawn = self.session.withdraw(message_id)
        if withdrawn and self._run is not None and self.session.is_idle:
            self._run.nothing_left()
        return withdrawn

    def edit(self, message_id: str, content: str) -> bool:
        """Change what a message that is not delivered yet says; False as for withdraw."""
        return self.session.edit(message_id, content)

    # -- what there is ---------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session's parts; raises NoEventLoop outside a running loop."""
        if self._session is None:
            self._session = self._make_session()
        return self._session

    @property
    def history(self) -> list[ChatMessage]:
        """What the provider may see, and the replies an open round has so far; a copy."""
        return self.session.conversation.snapshot()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop this session lives on."""
        return self.session.loop

    @property
    def is_closed(self) -> bool:
        """Whether the session takes nothing any more."""
        return self._closed

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
        self._wind_down()
        await self.rest()

    async def rest(self) -> None:
        """Stop the workers and wait until they are gone, two graces at most; start() wakes them."""
        root, self._root = self._root, None
        if root is None or root.done():
            return
        root.cancel()
        limits = self.agent.limits
        await asyncio.wait({root}, timeout=2 * limits.grace)
        if not root.done():
            self.session.abandoned.tasks += 1
            log.warning("session %s: a tool or model ignores its cancellation", self.session_id)

    # -- inside ----------------------------------------------------------------------------------

    @property
    def leaves_with_run(self) -> bool:
        """Whether nobody but the run itself will stop the workers."""
        return not self._entered

    def _make_session(self) -> Session:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise NoEventLoop(
                f"session {self.session_id!r} needs a running event loop; call this from a "
                "coroutine, such as the one given to asyncio.run()"
            ) from None
        limits = self.agent.limits
        return Session(
            self.session_id,
            self.agent,
            self._model,
            outside=self._outside,
            gate=self._gate,
            clock=SessionClock(loop, self._outside.clock(loop)),
            journal=Journal(
                self._outside.clock(loop), entries=limits.journal_entries, size=limits.journal_bytes
            ),
            loop=loop,
            history=self._saved,
        )

    def _open(self) -> Session:
        if self._closed:
            raise self._ended()
        session = self.session
        if self._root is None or self._root.done():
            loop = asyncio.get_running_loop()
            self._root = loop.create_task(self._work(session), name=f"agent_lab {self.session_id}")
        return session

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
        if request.session_id not in (None, self.session_id):
            raise SessionMismatch(
                f"the request is for session {request.session_id!r}, this is "
                f"{self.session_id!r}; leave session_id out, or give it to its own session"
            )
        return ChatMessage(
            "user", request.content, mode=request.mode, message_id=request.message_id
        )

    async def _work(self, session: Session) -> None:
        """The root task: the workers' group, and what happens when it ends."""
        session.is_stopping = self._is_stopping
        chat, events = ChatAgent(session), EventAgent(session)
        try:
            async with asyncio.TaskGroup() as group:
                chat.replace = lambda: group.create_task(self._supervise(chat.run))
                events.spawn = lambda: group.create_task(self._supervise(events.run))
                chat.replace()
                events.spawn()
        finally:
            if self._root is not None:  # nobody asked for it: not rest()
                self._wind_down()

    async def _supervise(self, worker: Worker) -> None:
        """Run a worker, again after a crash; too many crashes close the session."""
        while True:
            try:
                return await worker()
            except QueueClosed as closed:
                return self._queue_closed(closed)
            except asyncio.CancelledError:
                if not self._is_stopping():
                    log.error("session %s: a worker was cancelled from outside", self.session_id)
                    self._wind_down()
                raise
            except Exception as error:
                log.exception("session %s: a worker crashed", self.session_id)
                self._crashed(error)
            except BaseException as error:
                self._failure = error
                raise

    def _is_stopping(self) -> bool:
        """Whether a cancellation in a worker is the session's own end."""
        root = self._root
        return self._closed or root is None or root.cancelling() > 0 or self._failure is not None

    def _queue_closed(self, closed: QueueClosed) -> None:
        """A queue was closed: by us, at the end, or by somebody whose session this then ends."""
        if not self._closed:
            session = self.session
            session.decide(
                session.conversation.stopped(
                    "queue_closed",
                    f"the queue {closed.queue!r} was closed while the session worked",
                    "open a new session",
                )
            )
            self._wind_down()

    def _crashed(self, error: Exception) -> None:
        session = self.session
        said = f"a worker crashed: {type(error).__name__}: {error}"
        session.control(
            session.conversation.stopped(
                "internal", said, "this is a fault of agent_lab; the worker was started again"
            )
        )
        now = asyncio.get_running_loop().time()
        self._crashes.append(now)
        while self._crashes[0] < now - 60:
            self._crashes.popleft()
        if len(self._crashes) >= session.limits.crashes:
            self._failure = error
            self._wind_down()

    def _wind_down(self) -> None:
        """Everything accepted gets its end, and every waiter is told. Once."""
        if self._closed:
            return
        self._closed = True
        if self._session is None:
            return
        session = self._session
        session.decide(session.conversation.close())
        session.clock.stop()
        queues = session.queues
        while queues.input.qsize():  # what lies there is said to be late, while there is a journal
            session.decide(session.conversation.receive(queues.input.get_nowait()))
        queues.input.close()
        queues.events.close()
        queues.output.close(last=session.outbox)
        session.outbox.clear()
        session.journal.end(lambda: self._ended() if self._failure is not None else None)
