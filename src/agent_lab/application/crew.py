"""The workers of a session, the one root task that owns them, and how they are stopped."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from agent_lab.application.chat_agent import ChatAgent
from agent_lab.application.event_agent import EventAgent
from agent_lab.application.leftovers import notice
from agent_lab.application.logs import log
from agent_lab.application.session import Session
from agent_lab.domain.errors import QueueClosed

_roots: set["asyncio.Task[None]"] = set()
"""The loop holds tasks weakly: a root that only its session knew would be collected with it."""


class Owner(Protocol):
    """Who is told how the crew fares."""

    def queue_closed(self, closed: QueueClosed) -> None:
        """A queue was closed while the session worked."""
        ...

    def crashed(self, error: Exception) -> None:
        """A worker fell over and is started again."""
        ...

    def left(self, error: BaseException | None) -> None:
        """The crew ended without being dismissed, because of `error` or an outside cancellation."""
        ...


class Crew:
    """One ChatAgent and the EventAgent's runners, in one TaskGroup inside one root task."""

    def __init__(self, session: Session, owner: Owner) -> None:
        """Start them; the root is the only task made outside a group."""
        self._session = session
        self._owner = owner
        self._dismissed = False
        self._grace = session.limits.grace
        self._group: asyncio.TaskGroup | None = None
        session.is_stopping = self._is_stopping
        self._chat = ChatAgent(session)
        self._events = EventAgent(session)
        self._chat.replace = lambda: self._add(self._chat.run)
        self._events.spawn = lambda: self._add(self._events.run)
        loop = asyncio.get_running_loop()
        notice(loop)
        self._root = loop.create_task(self._work(), name=f"agent_lab {session.session_id}")
        _roots.add(self._root)
        self._root.add_done_callback(self._ended)

    @property
    def is_working(self) -> bool:
        """Whether it was not dismissed and has not ended."""
        return not self._dismissed and not self._root.done()

    def send_home(self) -> None:
        """Everybody is thrown out of what he does, and cancelled for good after the grace."""
        if not self._dismissed:
            self._dismissed = True
            grace = self._grace = max(self._session.limits.grace, self._events.patience)
            self._chat.stand_down()
            self._events.stand_down()
            last_call = self._session.loop.call_later(grace, self._root.cancel)
            self._root.add_done_callback(lambda _: last_call.cancel())

    async def dismiss(self) -> None:
        """Send everybody home and return when they are gone; several may call it at once.

        What is still there after two graces is left, and counted. What tools left behind is ended
        too. A caller that is cancelled leaves the stopping to go on, but programs are killed.
        """
        self.send_home()
        if not self._root.done():
            await asyncio.wait({self._root}, timeout=self._grace + self._session.limits.grace)
        if not self._root.done():
            self._events.give_up()
            abandoned = self._session.abandoned
            abandoned.begin("tasks", "its workers")
            self._root.add_done_callback(lambda _: abandoned.end("tasks", "its workers"))
            log.warning(
                "session %s: a tool or model ignores its cancellation and was left behind",
                self._session.session_id,
            )
        self._session.sweep()
        await self._session.leftovers.gone()

    # -- inside ----------------------------------------------------------------------------------

    def _is_stopping(self) -> bool:
        """Whether a cancellation in a worker is the crew's own end."""
        return self._dismissed or self._root.cancelling() > 0 or self._root.done()

    async def _work(self) -> None:
        async with self._session.agent.toolbox.opened(), asyncio.TaskGroup() as group:
            self._group = group
            self._chat.replace()
            self._events.spawn()

    def _ended(self, root: "asyncio.Task[None]") -> None:
        """The root is done, or was cancelled before it began."""
        _roots.discard(root)
        self._group = None
        failure = None if root.cancelled() else root.exception()
        if isinstance(failure, BaseExceptionGroup):  # of what felled it the first says most
            failure = cast("BaseExceptionGroup[BaseException]", failure).exceptions[0]
        if failure is not None:
            log.error("session %s fell over", self._session.session_id, exc_info=failure)
        if not self._dismissed:
            self._owner.left(failure)

    def _add(self, worker: Callable[[], Awaitable[None]]) -> None:
        if self._group is not None and not self._is_stopping():
            task = self._group.create_task(self._supervise(worker))
            task.add_done_callback(self._gone)

    def _gone(self, task: "asyncio.Task[None]") -> None:
        """A worker that somebody cancelled is gone: better no session than a deaf one."""
        if task.cancelled() and not self._is_stopping():
            log.error("session %s: a worker was cancelled from outside", self._session.session_id)
            self._owner.left(None)
            self.send_home()

    async def _supervise(self, worker: Callable[[], Awaitable[None]]) -> None:
        """Run a worker, and again after a crash."""
        while not self._is_stopping():
            try:
                await worker()
                return
            except QueueClosed as closed:
                self._owner.queue_closed(closed)
                return
            except Exception as error:
                log.exception("session %s: a worker crashed", self._session.session_id)
                self._owner.crashed(error)
