"""The book of executions: the one door through which a record gets a state, and who is told.

Compare-and-set happens here, in memory and at once; the store is written behind. So of two endings
in one moment one wins, the other is told AlreadyTerminal, and one change is announced.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import msgspec

from agent_lab.application.ports import ExecutionStore
from agent_lab.domain.errors import AlreadyTerminal, StorageError, UnknownExecution
from agent_lab.domain.execution import (
    Execution,
    ExecutionQuery,
    Kind,
    Outcome,
    Source,
    begun,
    ended,
)
from agent_lab.domain.redaction import SECRETS

log = logging.getLogger("agent_lab")
_RECENT = 100
"""Records that are kept behind their run's end, because the store is written behind."""


class Queued(msgspec.Struct, frozen=True):
    """It was accepted and waits; the positions that follow come as Moved."""

    execution: Execution
    position: int


class Moved(msgspec.Struct, frozen=True):
    """It waits at another position now, from 1."""

    execution: Execution
    position: int


class Started(msgspec.Struct, frozen=True):
    """It has its slot."""

    execution: Execution


class Ended(msgspec.Struct, frozen=True):
    """It has its end. `supersedes` marks the one correction there is: a success behind a limit."""

    execution: Execution
    supersedes: bool = False


class Declined(msgspec.Struct, frozen=True):
    """A request was refused; there is no record of it."""

    agent_name: str
    kind: Kind
    source: Source
    code: str


Change = Queued | Moved | Started | Ended | Declined
Listener = Callable[[Change], object]


class Executions:
    """Records that have no end yet, or a run that is not over; older ones are in the store."""

    def __init__(self, store: ExecutionStore, now: Callable[[], float]) -> None:
        """`now` is wall time in seconds."""
        self.store = store
        self.now = now
        self.faults = 0
        """Times that a listener raised."""
        self._live: dict[str, Execution] = {}
        self._recent: dict[str, Execution] = {}
        self._positions: dict[str, int] = {}
        self._waiters: dict[str, list[asyncio.Future[Execution]]] = {}
        self._listeners: list[Listener] = []
        self._watchers: dict[str, list[Listener]] = {}
        self._closed: Exception | None = None

    # -- what there is ---------------------------------------------------------------------------

    @property
    def live(self) -> list[Execution]:
        """Records that wait or run, oldest first."""
        return [one for one in self._live.values() if not one.is_terminal]

    def depth(self, agent_name: str) -> tuple[int, int]:
        """How many executions of this agent run, and how many wait."""
        live = [one.status for one in self._live.values() if one.agent_name == agent_name]
        return live.count("running"), live.count("queued")

    @property
    def waiters(self) -> int:
        """How many wait for an end."""
        return sum(map(len, self._waiters.values()))

    def get(self, execution_id: str) -> Execution | None:
        """The record, if its run is not over."""
        return self._live.get(execution_id)

    def recent(self, execution_id: str) -> Execution | None:
        """The record, if its run is over but not long ago."""
        return self._recent.get(execution_id)

    def by_ticket(self, agent_name: str, ticket: str) -> Execution | None:
        """The record that this admission was for, if it is not long over."""
        known = (*self._live.values(), *self._recent.values())
        found = (one for one in known if one.ticket == ticket and one.agent_name == agent_name)
        return next(found, None)

    def position(self, execution_id: str) -> int | None:
        """Where it stands in line, from 1."""
        return self._positions.get(execution_id)

    async def find(self, agent_name: str, execution_id: str) -> Execution:
        """The record, wherever it is; raises UnknownExecution, StorageError."""
        found = self.get(execution_id) or self.recent(execution_id)
        found = found or await self.store.execution(execution_id)
        if found is None or found.agent_name != agent_name:
            raise UnknownExecution(execution_id, agent_name)
        return found

    async def page(self, query: ExecutionQuery) -> list[Execution]:
        """Records, newest first; raises StorageError."""
        with suppress(StorageError):  # what it has can be read all the same
            await self.store.committed()
        return await self.store.executions(query)

    # -- states ----------------------------------------------------------------------------------

    def add(self, execution: Execution, *, position: int | None = None) -> None:
        """A request was accepted; `position` if it waits."""
        self._live[execution.id] = execution
        self.store.put_execution(execution)
        if position is not None:
            self._positions[execution.id] = position
            self._tell(Queued(execution, position))

    def move(self, execution_id: str, position: int) -> None:
        """It waits at another position."""
        execution = self._live.get(execution_id)
        if execution is not None and self._positions.get(execution_id) != position:
            self._positions[execution_id] = position
            self._tell(Moved(execution, position))

    def begin(self, execution_id: str, session_id: str, epoch: str) -> Execution:
        """It has its slot; raises AlreadyTerminal, InvalidTransition."""
        known = self._known(execution_id)
        execution = begun(known, at=self.now(), session_id=session_id, epoch=epoch)
        self._keep(execution)
        self._tell(Started(execution))
        return execution

    def end(self, execution_id: str, outcome: Outcome) -> Execution:
        """Give it its end; raises AlreadyTerminal if it has one that this cannot correct."""
        execution = _hidden(ended(self._known(execution_id), outcome, at=self.now()))
        self._keep(execution)
        for waiter in self._waiters.pop(execution_id, ()):
            if not waiter.done():
                waiter.set_result(execution)
        self._tell(Ended(execution, supersedes=execution.superseded is not None))
        return execution

    def forget(self, execution_id: str) -> None:
        """Its run is over and nothing can correct it any more; the store is about to have it."""
        execution = self._live.pop(execution_id, None)
        if execution is not None:
            self._recent[execution_id] = execution
            if len(self._recent) > _RECENT:
                del self._recent[next(iter(self._recent))]

    def decline(self, declined: Declined) -> None:
        """Tell that a request was refused."""
        self._tell(declined)

    @property
    def stray_waiters(self) -> int:
        """How many wait for one that has its end already; none, if all is right."""
        over = (key for key in self._waiters if key not in self._live)
        return sum(len(self._waiters[key]) for key in over)

    @property
    def kept(self) -> list[Execution]:
        """Records in memory: those that live and those that ended not long ago."""
        return [*self._live.values(), *self._recent.values()]

    def close(self, error: Exception) -> None:
        """Nobody waits any longer: what has no end yet is the next process's, if it is stored."""
        self._closed = error
        for waiters in self._waiters.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(error)

    async def until_end(self, execution: Execution) -> Execution:
        """Wait for its end. Cancelling one who waits disturbs no other, and not the execution.

        Raises what `close` was given if the server stops first.
        """
        known = self._live.get(execution.id)
        if known is None or known.is_terminal:
            return known or await self.find(execution.agent_name, execution.id)
        if self._closed is not None:
            raise self._closed
        waiter: asyncio.Future[Execution] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(execution.id, []).append(waiter)
        try:
            return await waiter
        finally:
            if waiters := self._waiters.get(execution.id):
                waiters.remove(waiter)
                if not waiters:
                    del self._waiters[execution.id]

    # -- who is told -----------------------------------------------------------------------------

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell this one of every change, at once, until what is given back is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def watch(self, execution_id: str, listener: Listener) -> Callable[[], None]:
        """As `listen`, of this execution alone."""
        watchers = self._watchers.setdefault(execution_id, [])
        watchers.append(listener)

        def unwatch() -> None:
            watchers.remove(listener)
            if not watchers:
                self._watchers.pop(execution_id, None)

        return unwatch

    def is_watched(self, execution_id: str) -> bool:
        """Whether somebody watches this one."""
        return execution_id in self._watchers

    def _tell(self, change: Change) -> None:
        told = tuple(self._listeners)
        if not isinstance(change, Declined):
            told += tuple(self._watchers.get(change.execution.id, ()))
        for listener in told:
            try:
                listener(change)
            except Exception:
                log.exception("a listener to executions fell over")
                self.faults += 1

    def _known(self, execution_id: str) -> Execution:
        execution = self._live.get(execution_id)
        if execution is None:
            raise AlreadyTerminal(execution_id, "over")
        return execution

    def _keep(self, execution: Execution) -> None:
        self._live[execution.id] = execution
        self._positions.pop(execution.id, None)
        self.store.put_execution(execution)


def _hidden(execution: Execution) -> Execution:
    """A record for good, without what this process must not let out."""
    if not SECRETS:
        return execution
    uses = execution.tool_calls
    return msgspec.structs.replace(
        execution,
        message=SECRETS.hide(execution.message),
        response=execution.response and SECRETS.hide(execution.response),
        error=execution.error and SECRETS.redact(execution.error),
        tool_calls=uses
        and tuple(
            msgspec.structs.replace(use, arguments=SECRETS.hide_in(use.arguments)) for use in uses
        ),
    )
