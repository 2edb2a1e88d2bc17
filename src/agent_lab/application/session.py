"""What one session is made of, and the one way from a decision to the journal.

The workers and the runtime share it. It moves nothing: it asks the conversation, writes down what
was decided before anybody awaits, and tells the worker whom it concerns.
"""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Literal

from agent_lab.application.agent import Agent
from agent_lab.application.agent_tool import Colleagues
from agent_lab.application.clock import SessionClock
from agent_lab.application.gate import Gate
from agent_lab.application.journal import Journal
from agent_lab.application.leftovers import DOING, Abandoned, Leftovers
from agent_lab.application.permissions import PermissionDesk
from agent_lab.application.ports import Model, Outside
from agent_lab.application.queues import RuntimeQueues
from agent_lab.domain.conversation import Conversation
from agent_lab.domain.errors import InputFull, MessageRejected
from agent_lab.domain.inbox import At
from agent_lab.domain.messages import ChatMessage, ReplyKind, clean
from agent_lab.domain.payloads import (
    OUTPUT,
    AnyPayload,
    Rejected,
    ToolCalled,
    ToolReplied,
)

CancelStatus = Literal["cancelled", "not_running"]


class Session:
    """One conversation with one agent: its queues, journal, clock and gate."""

    lineage: tuple[str, ...] = ()
    """The agents it was opened through, by their tools; none for one that a person opened."""
    colleagues: Colleagues | None = None
    """How its tools reach other agents."""

    def __init__(
        self,
        session_id: str,
        agent: Agent,
        model: Model,
        *,
        outside: Outside,
        gate: Gate,
        loop: AbstractEventLoop,
        history: Sequence[ChatMessage] = (),
    ) -> None:
        limits = agent.limits
        self.session_id = session_id
        self.agent = agent
        self.model = model
        self.limits = limits
        self.outside = outside
        self.gate = gate
        now = outside.clock(loop)
        self.clock = SessionClock(loop, now)
        self.journal = Journal(now, entries=limits.journal_entries, size=limits.journal_bytes)
        self.loop = loop
        self.conversation = Conversation(agent.tools, limits, history)
        self.conversation.meter = agent.meter()
        self.queues = RuntimeQueues(
            self, waiting=limits.waiting, calls=limits.calls, output=limits.output
        )
        self.outbox: list[AnyPayload] = []  # a deque weighs 0.6 KiB; this is nearly always empty
        self.abandoned = Abandoned()
        self.leftovers = Leftovers(session_id, loop, self.abandoned, limits.grace)
        self.permissions = PermissionDesk(self)
        self.nudge_chat: Callable[[], None] = _nobody
        self.call_closed: Callable[[str], None] = _nobody
        self.is_stopping: Callable[[], bool] = bool
        self.wake: Callable[[], None] = _nobody
        self.idle: Callable[[], None] = _nobody
        self.context = copy_context()
        """Whoever sent the last message: what tools and models see of context variables."""
        gate.bind(self)

    @property
    def is_idle(self) -> bool:
        """Whether no turn runs and no message waits."""
        return not self.conversation.in_turn and not len(self.conversation.inbox)

    # -- from a decision to the journal ----------------------------------------------------------

    def decide(self, decided: Sequence[AnyPayload]) -> None:
        """Write down what was decided, then pass on what belongs on `output`.

        With no room there it waits in the outbox, in order, and ChatAgent moves it when somebody
        takes.
        """
        if len(decided) == 1:
            self.tell(decided[0])
        else:
            self._tell_all(decided)
        if self.leftovers.held and not self.conversation.in_turn:
            self.sweep()

    def tell(self, payload: AnyPayload) -> None:
        """As decide, of one payload that ends no turn."""
        self.journal.append(payload)
        if type(payload) in OUTPUT and (self.outbox or not self.queues.output.offer_one(payload)):
            self.outbox.append(payload)
        if type(payload) is ToolReplied:
            self.call_closed(payload.call_id)

    def _tell_all(self, decided: Sequence[AnyPayload]) -> None:
        self.journal.extend(decided)
        for_output: list[AnyPayload] = []
        for payload in decided:
            if type(payload) in OUTPUT:
                for_output.append(payload)
            if type(payload) is ToolReplied:
                self.call_closed(payload.call_id)
        if for_output and (self.outbox or not self.queues.output.offer(for_output)):
            self.outbox += for_output

    def sweep(self) -> None:
        """End what the tools of turns that are over left behind."""
        self.leftovers.sweep(self.conversation.at["turn"])

    def control(self, decided: Sequence[AnyPayload]) -> bool:
        """As decide, for anybody but ChatAgent, who is told if it changes what is due.

        False if nothing was decided.
        """
        self.decide(decided)
        if any(payload.on_output for payload in decided):
            self.nudge_chat()
        elif decided and self.is_idle:
            self.idle()
        return bool(decided)

    # -- control: never waits, and is on record when it returns ----------------------------------

    def cancel(self, turn: int | None = None, *, drop_waiting: bool = False) -> CancelStatus:
        """Stop the turn."""
        decided = self.conversation.cancel(turn, drop_waiting=drop_waiting)
        return "cancelled" if self.control(decided) else "not_running"

    def cancel_tool(self, call_id: str) -> CancelStatus:
        """Close one open call as cancelled."""
        closed = self.control(self.close_open(call_id, "cancelled"))
        return "cancelled" if closed else "not_running"

    def withdraw(self, message_id: str) -> bool:
        """Take back a message that is not delivered; False for any other."""
        return self.control(self.conversation.withdraw(message_id))

    def edit(self, message_id: str, content: str) -> bool:
        """Change a message that is not delivered; False for any other, and for blank text."""
        decided = self.conversation.edit(
            message_id, content, hop=None, why="edited while it waited"
        )
        return self.control(decided)

    def close_open(self, call_id: str, kind: ReplyKind) -> Sequence[AnyPayload]:
        """What closing this call of the open round comes to."""
        calls = self.conversation.calls
        return self.conversation.close_call(calls.round, call_id, kind)

    # -- what the queues ask ---------------------------------------------------------------------

    def is_live(self, item: ChatMessage | ToolCalled) -> bool:
        """Whether anybody still wants what lies in a queue; a late reply is wanted, to be said."""
        if isinstance(item, ToolCalled):
            return self.conversation.calls.is_open(item.round, item.call_id)
        return item.role != "user" or (item.message_id or "") in self.conversation.inbox

    def accept(self, message: ChatMessage) -> ChatMessage | None:
        """Give a user message its id and place; None for a repeat; raises MessageRejected."""
        key = clean(message.message_id or "") or self.outside.new_id("m")
        said = clean(message.content or "")
        if key != message.message_id or said != message.content:
            message = ChatMessage("user", said, mode=message.mode, message_id=key)
        receipts = self.conversation.accept(message)
        self.control(receipts)
        if not receipts:
            return None
        if isinstance(first := receipts[0], Rejected):
            error = InputFull if first.code == "queue_full" else MessageRejected
            raise error(first.code, first.message_id, first.message)
        self.context = copy_context()
        if DOING.get() is not None:  # a tool sent it: what comes of it is not that tool's
            self.context.run(DOING.set, None)
        self.wake()
        return message

    def wanted(self, message: ChatMessage) -> bool:
        """Whether a tool reply answers an open call."""
        return message.tool_call_id in self.conversation.calls.open

    def discard(self, item: ChatMessage | ToolCalled) -> None:
        """Give an item that will not arrive its end: the call is lost, the message withdrawn."""
        conversation = self.conversation
        if isinstance(item, ToolCalled):
            self.control(conversation.close_call(item.round, item.call_id, "lost"))
        elif item.role == "user":
            self.control(conversation.withdraw(item.message_id or "", reason="dropped"))
        else:
            round_ = item.round if item.round is not None else conversation.calls.round
            self.control(conversation.close_call(round_, item.tool_call_id or "", "lost"))

    # -- what the gate asks ----------------------------------------------------------------------

    def note(self, payload: AnyPayload) -> int:
        """Write an entry and give its seq."""
        self.journal.append(payload)
        return self.journal.last_seq

    def at(self) -> At:
        """`turn` and `step` now, None outside a turn."""
        return self.conversation.at

    def rewrite(self, message_id: str, content: str, hop: int) -> None:
        """Change a user message that waits, on record."""
        decided = self.conversation.edit(message_id, content, hop=hop, why="edited at the gate")
        self.control(decided)

    def stand_still(self, still: bool) -> None:
        """Stop the clock, or let it go on."""
        if still:
            self.clock.pause()
        else:
            self.clock.resume()


def _nobody(*_: object) -> None:
    """Nobody to tell yet."""
