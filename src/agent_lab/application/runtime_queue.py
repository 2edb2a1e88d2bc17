"""A bounded asyncio.Queue that can be closed, and counts what passes."""

from asyncio import Event, Future, Queue, QueueEmpty, QueueFull, get_running_loop
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from agent_lab.domain.errors import QueueClosed

T = TypeVar("T")


class Statistics(msgspec.Struct, frozen=True):
    """What went through a queue so far; `peak` is the most it ever held."""

    name: str
    size: int
    maxsize: int
    puts: int
    takes: int
    peak: int
    closed: bool


class RuntimeQueue(Queue[T]):
    """A bounded asyncio.Queue that can be closed and counts what passes."""

    _queue: deque[T]
    _getters: "deque[Future[None]]"
    _putters: "deque[Future[None]]"
    _wakeup_next: Callable[[Any], None]
    _unfinished_tasks: int
    _finished: Event

    def __init__(self, name: str, maxsize: int) -> None:
        super().__init__(maxsize)
        self.name = name
        self._bound = maxsize
        self._closed = False
        self._puts = self._peak = 0
        self._parked = False

    def statistics(self) -> Statistics:
        """Counts since the session began."""
        return Statistics(
            self.name,
            self.qsize(),
            self.maxsize,
            self._puts,
            self._puts - self.qsize(),
            self._peak,
            self._closed,
        )

    @property
    def is_closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    def has_room(self, items: int) -> bool:
        """Whether so many could be put now without waiting."""
        return len(self._queue) + items <= self._bound and not self._closed

    def close(self, *, last: Iterable[T] = ()) -> None:
        """No more puts; takes get what is left, then QueueClosed. Closing twice is fine.

        `last` is added whether there is room or not.
        """
        for item in last:
            self._put(item)
        self._closed = True
        for waiter in (*self._getters, *self._putters):
            if not waiter.done():
                waiter.set_result(None)

    def extend(self, items: Sequence[T]) -> None:
        """Add items whether there is room or not; each may wake a taker."""
        queue = self._queue
        queue.extend(items)
        self._puts += len(items)
        if len(queue) > self._peak:
            self._peak = len(queue)
        if not self._unfinished_tasks:
            self._finished.clear()
        self._unfinished_tasks += len(items)
        if self._getters:
            for _ in items:
                self._wakeup_next(self._getters)

    async def put(self, item: T) -> None:
        """Add an item; waits for room. Cancelled while it waits, it has added nothing."""
        if len(self._queue) >= self._bound:
            await self.room()
        if self._closed:
            raise QueueClosed(self.name)
        self.push(item)

    def put_nowait(self, item: T) -> None:
        """Add an item now; QueueFull when there is no room, QueueClosed after close()."""
        if self._closed:
            raise QueueClosed(self.name)
        if len(self._queue) >= self._bound:
            raise QueueFull
        self.push(item)

    def push(self, item: T) -> None:
        """Add an item whether there is room or not."""
        self._put(item)
        if not self._unfinished_tasks:
            self._finished.clear()
        self._unfinished_tasks += 1
        if self._getters:
            self._wakeup_next(self._getters)

    async def get(self) -> T:
        """Take the next item; waits for one. A cancelled get loses nothing."""
        while not self._queue:
            await self._wait(self._getters)
        item = self._get()
        if self._putters:
            self._wakeup_next(self._putters)
        return item

    def get_nowait(self) -> T:
        """Take the next item now; QueueEmpty when there is none."""
        if not self._queue:
            raise QueueEmpty
        item = self._get()
        if self._putters:
            self._wakeup_next(self._putters)
        return item

    def _put(self, item: T) -> None:
        queue = self._queue
        queue.append(item)
        self._puts += 1
        if len(queue) > self._peak:
            self._peak = len(queue)

    def _get(self) -> T:
        return self._queue.popleft()

    async def room(self) -> None:
        """Wait until there is room, or the queue is closed."""
        while len(self._queue) >= self._bound and not self._closed:
            await self._wait(self._putters)

    async def _wait(self, waiters: "deque[Future[None]]") -> None:
        if self._closed and not self._queue:
            raise QueueClosed(self.name)
        waiter: Future[None] = get_running_loop().create_future()
        waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter in waiters:
                waiters.remove(waiter)
            elif waiters:  # woken and cancelled in the same tick: the next in line shall look
                self._wakeup_next(waiters)
            raise
