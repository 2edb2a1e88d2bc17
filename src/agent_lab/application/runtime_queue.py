"""A bounded asyncio.Queue that can be closed, and counts what passes."""

from asyncio import Event, Future, Queue, QueueEmpty, QueueFull
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeVar

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
    _finished: Event

    def __init__(self, name: str, maxsize: int) -> None:
        super().__init__(maxsize)
        del self._finished  # made when somebody joins
        # A deque weighs 0.75 KiB, and in an idle session there were twelve.
        self._getters: list[Future[None]] = []
        self._putters: list[Future[None]] = []
        self.name = name
        self.items = self._queue
        """What lies in it, the next one first; only to look at."""
        self._bound = maxsize
        self._closed = False
        self._puts = self._done = self._peak = 0
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

    def close(self, *, last: Iterable[T] = ()) -> None:
        """No more puts; takes get what is left, then QueueClosed. Closing twice is fine.

        `last` is added whether there is room or not.
        """
        for item in last:
            self.push(item)
        self._closed = True
        for waiter in (*self._getters, *self._putters):
            if not waiter.done():
                waiter.set_result(None)

    def offer(self, items: Sequence[T]) -> bool:
        """Add all items now; False, and none is added, where there is no room for all."""
        queue = self._queue
        size = len(queue) + len(items)
        if size > self._bound or self._closed:
            return False
        queue.extend(items)
        self._puts += len(items)
        if size > self._peak:
            self._peak = size
        if self._getters:
            for _ in items:
                self._wakeup_next(self._getters)
                if not self._getters:
                    break
        return True

    def offer_one(self, item: T) -> bool:
        """Add an item now; False where there is no room."""
        if len(self._queue) >= self._bound or self._closed:
            return False
        self.push(item)
        return True

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
        queue = self._queue
        queue.append(item)
        self._puts += 1
        if len(queue) > self._peak:
            self._peak = len(queue)
        if self._getters:
            self._wakeup_next(self._getters)

    async def get(self) -> T:
        """Take the next item; waits for one. A cancelled get loses nothing."""
        queue = self._queue
        while not queue:
            waiter = self._line_up(self._getters)
            try:
                await waiter
            except BaseException:
                self._step_out(waiter, self._getters)
                raise
        if self._putters:
            self._wakeup_next(self._putters)
        return queue.popleft()

    def get_nowait(self) -> T:
        """Take the next item now; QueueEmpty when there is none."""
        if not self._queue:
            raise QueueEmpty
        if self._putters:
            self._wakeup_next(self._putters)
        return self._queue.popleft()

    # What is not done is what was put less what was said to be done: no put has to count it.

    def task_done(self) -> None:
        """One item that was taken is dealt with; ValueError if all were already."""
        if self._done >= self._puts:
            raise ValueError("task_done() called too many times")
        self._done += 1
        if self._done == self._puts and hasattr(self, "_finished"):
            self._finished.set()

    async def join(self) -> None:
        """Wait until every item that was put is said to be done."""
        while self._done < self._puts:
            if not hasattr(self, "_finished"):
                self._finished = Event()
            self._finished.clear()
            await self._finished.wait()

    async def room(self) -> None:
        """Wait until there is room, or the queue is closed."""
        while len(self._queue) >= self._bound and not self._closed:
            waiter = self._line_up(self._putters)
            try:
                await waiter
            except BaseException:
                self._step_out(waiter, self._putters)
                raise

    # Two functions around an await that stands in the caller: a coroutine of its own for it would
    # be made at each wait, and gone through at each wake.

    def _line_up(self, waiters: list[Future[None]]) -> Future[None]:
        if self._closed and not self._queue:
            raise QueueClosed(self.name)
        waiter: Future[None] = Future()
        waiters.append(waiter)
        return waiter

    def _wakeup_next(self, waiters: list[Future[None]]) -> None:
        while waiters:
            waiter = waiters.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                return

    def _step_out(self, waiter: Future[None], waiters: list[Future[None]]) -> None:
        """Whoever stood there was cancelled."""
        if waiter in waiters:
            waiters.remove(waiter)
        elif waiters:  # woken and cancelled in the same tick: the next in line shall look
            self._wakeup_next(waiters)
