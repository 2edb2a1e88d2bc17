"""The three queues that carry the work: `input`, `output` and `events`.

All three are work queues: each item goes to one taker. Puts and takes of `input` and `events` are
journal entries, written where an item is added or taken; holding happens in `put()` and `get()`.
"""

from asyncio import QueueEmpty, QueueFull
from collections.abc import Coroutine
from typing import Any, Literal, Protocol, TypeVar, cast

from agent_lab.application.gate import Drop, Gate, Hop
from agent_lab.application.journal import Journal, item_id
from agent_lab.application.runtime_queue import RuntimeQueue
from agent_lab.domain.conversation import Conversation
from agent_lab.domain.errors import InvalidMessage, InvalidRole, QueueClosed
from agent_lab.domain.messages import MODES, ChatMessage
from agent_lab.domain.payloads import AnyPayload, ToolCalled

ItemT = TypeVar("ItemT", bound=ChatMessage | ToolCalled)
QueueName = Literal["input", "events"]


class Desk(Protocol):
    """What the queues ask of their session."""

    gate: Gate
    journal: Journal
    conversation: Conversation

    def is_live(self, item: ChatMessage | ToolCalled) -> bool:
        """Whether anybody still wants what lies in a queue."""
        ...

    def accept(self, message: ChatMessage) -> ChatMessage | None:
        """Give a user message its id and place; None for a repeat; raises MessageRejected."""
        ...

    def wanted(self, message: ChatMessage) -> bool:
        """Whether a tool reply answers an open call."""
        ...

    def discard(self, item: ChatMessage | ToolCalled) -> None:
        """Give an item that will not arrive its end: lost, or withdrawn."""
        ...


class WorkQueue(RuntimeQueue[ItemT]):
    """A queue whose puts and takes are entries and pass the gate."""

    def __init__(self, name: QueueName, maxsize: int, desk: Desk) -> None:
        super().__init__(name, maxsize)
        self._name: QueueName = name
        self._desk = desk
        self._journal = desk.journal
        self._conversation = desk.conversation

    async def put(self, item: ItemT) -> None:
        """Add an item: pass the gate, wait for room."""
        if self._desk.gate.hold is not None:
            passed = await self._held(item)
            if passed is None:
                return
            item = passed
        if len(self._queue) >= self._bound:
            self._let_dead_go()
            await self.room()
        if self._closed:
            raise QueueClosed(self.name)
        self.push(item)

    async def get(self) -> ItemT:
        """Take the next item: wait for one, pass the gate. A cancelled get loses nothing."""
        while True:
            if not self._queue or self._parked:
                waiter = self._line_up(self._getters)
                try:
                    await waiter
                except BaseException:
                    self._step_out(waiter, self._getters)
                    raise
            elif self._desk.gate.hold is None:
                return self._take()
            elif (item := await self._held_head()) is not None:
                return item

    def try_put(self, item: ItemT) -> bool:
        """Add an item if nothing stands in its way: no gate, no full queue. Else False."""
        if self._closed:
            raise QueueClosed(self.name)
        if len(self._queue) >= self._bound or self._desk.gate.hold is not None:
            return False
        self.push(item)
        return True

    def push(self, item: ItemT) -> None:
        """Add an item whether there is room or not, and write it down: every put comes here."""
        queue = self._queue
        queue.append(item)
        depth = len(queue)
        self._journal.hand_off((self._name, "put", item, depth, self._conversation.where))
        self._puts += 1
        if depth > self._peak:
            self._peak = depth
        if self._getters:
            self._wakeup_next(self._getters)

    def get_nowait(self) -> ItemT:
        """Take the next item now, past the gate; QueueEmpty when there is none."""
        if not self._queue:
            raise QueueEmpty
        return self._take()

    def _take(self) -> ItemT:
        """Take the head and write it down: every take comes here."""
        queue = self._queue
        item = queue.popleft()
        self._journal.hand_off((self._name, "take", item, len(queue), self._conversation.where))
        if self._putters:
            self._wakeup_next(self._putters)
        return item

    def holds(self, call_id: str) -> bool:
        """Whether a taker stands at the gate with this call at the head."""
        return self._parked and item_id(self._queue[0]) == call_id

    def _let_dead_go(self) -> None:
        """Make room: calls that were closed since they were put need no runner."""
        for item in [item for item in self._queue if not self._desk.is_live(item)]:
            if not (self._parked and item is self._queue[0]):
                self._queue.remove(item)
                depth, where = len(self._queue), self._conversation.where
                self._journal.hand_off((self._name, "take", item, depth, where))

    async def _held(self, item: ItemT) -> ItemT | None:
        hold = self._desk.gate.hold
        assert hold is not None
        verdict = await hold(Hop("put", self._name, item))
        if isinstance(verdict, Drop):
            self._desk.discard(item)
            return None
        return cast("ItemT", verdict.item)

    async def _held_head(self) -> ItemT | None:
        """Hold the head, then pop it if it is still the head. None: look again.

        What nobody wants any more is not held: its call was closed, its message withdrawn.
        """
        hold, head = self._desk.gate.hold, self._queue[0]
        assert hold is not None
        if not self._desk.is_live(head):
            return self._take()
        self._parked = True  # the other takers wait: one head is held once
        try:
            verdict = await hold(Hop("take", self._name, head))
        finally:
            self._parked = False
            if self._queue:
                self._wakeup_next(self._getters)
        if not self._queue or self._queue[0] is not head:
            return None
        taken = self._take()
        if isinstance(verdict, Drop):
            self._desk.discard(taken)
            return None
        return cast("ItemT", verdict.item)


class InputQueue(WorkQueue[ChatMessage]):
    """User messages and tool replies, to ChatAgent.

    The bound on user messages is the session's (accepted and undelivered); a reply to an open
    call never waits for a place. Only replies that no call wants wait for room.
    """

    async def put(self, item: ChatMessage) -> None:
        """Add a message; on return a user message has its receipt.

        Raises InvalidRole, QueueClosed, or MessageRejected (InputFull when too many wait). A
        message that was accepted before is not added again.
        """
        admitted = self._admit(item)
        if admitted is None:
            return
        item = admitted
        if self._must_wait(item):
            await self.room()
        if self._desk.gate.hold is not None:
            await self._bring(item)
        else:
            self._push(item)

    def begin_put(self, item: ChatMessage) -> "Coroutine[Any, Any, None] | None":
        """As put, for a user message whose receipt is wanted now: on record when this returns.

        Gives what is left of the put while the gate is held, to be awaited; None when it is done.
        """
        admitted = self._admit(item)
        if admitted is None:
            return None
        if self._desk.gate.hold is not None:
            return self._bring(admitted)
        self._push(admitted)
        return None

    def put_nowait(self, item: ChatMessage) -> None:
        """As put, past the gate; QueueFull for a reply that no call wants when there is no room."""
        admitted = self._admit(item)
        if admitted is None:
            return
        if self._must_wait(admitted):
            raise QueueFull
        self._push(admitted)

    async def _bring(self, item: ChatMessage) -> None:
        """Through the gate."""
        try:
            passed = await self._held(item)
        except BaseException:
            if item.role == "user":
                self._desk.discard(item)  # accepted, and nobody will bring it
            raise
        if passed is not None:
            self._push(passed)

    def _admit(self, item: ChatMessage) -> ChatMessage | None:
        """The message as it goes on, a user's with its receipt; None for a repeat."""
        self._check(item)
        return self._desk.accept(item) if item.role == "user" else item

    def _must_wait(self, item: ChatMessage) -> bool:
        """Whether there is no room for it: only for a reply that no call wants."""
        return self.full() and item.role == "tool" and not self._desk.wanted(item)

    def _check(self, item: ChatMessage) -> None:
        if self._closed:
            raise QueueClosed(self.name)
        if type(item) is not ChatMessage:
            raise InvalidMessage(f"'input' takes a ChatMessage, not a {type(item).__name__}")
        if item.role not in ("user", "tool"):
            raise InvalidRole(item.role)
        if item.round is None:  # else it is a runner's
            for part in (item.content, item.message_id, item.tool_call_id):
                _be_text(part)
            if item.mode not in MODES:
                raise InvalidMessage(f"mode {item.mode!r} is none of {', '.join(MODES)}")

    def _push(self, item: ChatMessage) -> None:
        if self._closed:
            raise QueueClosed(self.name)
        self.push(item)


def _be_text(part: object) -> None:
    if part is not None and not isinstance(part, str):
        raise InvalidMessage(f"content and ids of a message are text, not {part!r:.100}")


class RuntimeQueues:
    """A session's queues.

    `output` has exactly one taker; `input` and `events` are taken by the session's workers.
    """

    __slots__ = ("events", "input", "output")

    def __init__(self, desk: Desk, *, waiting: int, calls: int, output: int) -> None:
        self.input = InputQueue("input", waiting + calls, desk)
        self.events: WorkQueue[ToolCalled] = WorkQueue("events", calls, desk)
        self.output: RuntimeQueue[AnyPayload] = RuntimeQueue("output", output)
