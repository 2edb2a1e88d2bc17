"""The one place that decides what the provider may be told, and what happens next.

Pure: it takes messages in any order and gives back what was decided, as payloads, in order. It
knows no clock, no task and no queue; whoever calls it writes the payloads to the journal before
the next await. The history only ever grows, so a request is two numbers into it.
"""

from collections.abc import Collection, Sequence
from typing import Literal

from agent_lab.domain.actions import (
    Action,
    AwaitInput,
    AwaitReplies,
    CallModel,
    EndTurn,
    RunTools,
    Wait,
)
from agent_lab.domain.assembly import Assembly
from agent_lab.domain.calls import Calls, answer, late
from agent_lab.domain.inbox import At, Inbox
from agent_lab.domain.limits import Again, Limits
from agent_lab.domain.messages import ChatMessage, ModelEvent, Reply, ReplyKind, clean
from agent_lab.domain.payloads import (
    AnyPayload,
    Cancelled,
    Done,
    Retrying,
    TurnFailed,
)
from agent_lab.domain.repair import repair, window_start
from agent_lab.domain.spending import responded
from agent_lab.domain.usage import Meter

Decided = Sequence[AnyPayload]

_NOWHERE = (None, None)
_CALL_MODEL, _END_TURN, _AWAIT_INPUT = CallModel(), EndTurn(), AwaitInput()


class Conversation:
    """One session's messages, calls and turns.

    `history` is what the provider may see, from `start` on. `turn`, `step`, `call` (model calls)
    and `answers` count from 1. Nothing is raised on bad order: what comes too late is said to be
    late.
    """

    def __init__(
        self, tools: Collection[str], limits: Limits, history: Sequence[ChatMessage] = ()
    ) -> None:
        """Begin with `history`, repaired if a crash left calls open in it."""
        self.history: list[ChatMessage] = repair(history)
        self.inbox = Inbox(limits.waiting)
        self.start = self.turn = self.step = self.call = self.answers = 0
        self.in_turn = self.calling = self._answered = False
        self._finish = "stop"
        self.where: tuple[int | None, int | None] = _NOWHERE
        self.calls = Calls(self.history, tools)
        self._attempt = 0
        self._delay: float | None = None
        self._assembly: Assembly | None = None
        self._reply: Reply | None = None
        self._limits = limits
        self.meter = Meter()

    # -- what next -------------------------------------------------------------------------------

    def next_action(self) -> Action:
        """The one deed that is due now."""
        if (current := self.calls.current) is not None:
            if current.undispatched:
                return RunTools(tuple(current.undispatched.values()))
            return AwaitReplies(current.open)
        if self._delay is not None:
            return Wait(self._delay)
        if self.inbox.taken and self.inbox.next_batch(in_turn=self.in_turn):
            return _CALL_MODEL
        if not self.in_turn:
            return _AWAIT_INPUT
        return _END_TURN if self._answered else _CALL_MODEL

    @property
    def at(self) -> At:
        """`turn` and `step` now, None outside a turn."""
        turn, step = self.where
        return {"turn": turn, "step": step}

    def snapshot(self) -> list[ChatMessage]:
        """The history and the replies an open round already has: what to save."""
        return [*self.history, *self.calls.replies()]

    # -- what comes in ---------------------------------------------------------------------------

    def accept(self, message: ChatMessage) -> Decided:
        """Give a user message its place; an interrupt stops the turn at once."""
        busy = self.in_turn or len(self.inbox) > 0
        interrupts = message.mode == "interrupt" and self.in_turn
        blocked_by = () if interrupts else self._blocked_by(message, busy=busy)
        receipts = self.inbox.accept(message, busy=busy, blocked_by=blocked_by, at=self.at)
        if interrupts and receipts and receipts[0].type == "accepted":
            return [*receipts, *self._stop("interrupted", by=message.message_id)]
        return receipts

    def _blocked_by(self, message: ChatMessage, *, busy: bool) -> tuple[str, ...]:
        if message.mode == "follow_up":
            return ("turn",) if busy else ()
        if self.calls.round:
            return self.calls.open
        return ("model",) if self.calling or self._attempt else ()

    def withdraw(self, message_id: str, *, reason: Literal["user", "dropped"] = "user") -> Decided:
        """Take back a message that is not delivered yet; nothing for any other."""
        return self.inbox.withdraw(message_id, at=self.at, reason=reason)

    def edit(self, message_id: str, content: str, *, hop: int | None, why: str) -> Decided:
        """Change what a message that is not delivered yet says; nothing for any other."""
        return self.inbox.edit(message_id, clean(content), at=self.at, hop=hop, why=why)

    def receive(self, message: ChatMessage) -> Decided:
        """Take a user message or a tool reply that left the `input` queue."""
        if message.role == "user":
            self.inbox.take(message.message_id or "")
            return ()
        return (self.calls.receive(message) or late(message, self.at),)

    def close_call(self, round_: int, call_id: str, kind: ReplyKind, detail: str = "") -> Decided:
        """Close an open call without its tool: time-out, cancel, drop or crash."""
        return self.calls.close(round_, call_id, kind, detail)

    # -- the model -------------------------------------------------------------------------------

    def begin_call(self) -> Decided:
        """Deliver what waits and count the call; the request is then `history[start:]`."""
        inbox = self.inbox
        batch = inbox.next_batch(in_turn=self.in_turn) if inbox.taken else ()
        if not self.in_turn:
            self.turn += 1
            self.step = 0
            self.in_turn = True
            self.meter.begin_turn()
        elif not self._attempt and self.step >= self._limits.steps:
            return self._fail(
                "step_limit",
                f"the turn made {self.step} model calls, which is its limit",
                "raise Limits.steps, or look why the model keeps calling tools",
            )
        self.step += not self._attempt
        self.where = turn, step = self.turn, self.step
        self.call += 1
        self.calling, self._answered = True, False
        history = self.history
        decided = [inbox.deliver(m, history, turn, step) for m in batch] if batch else ()
        if self._limits.window is not None:
            self.start = max(self.start, window_start(history, self._limits.window))
        return decided

    def hear(self, call: int, event: ModelEvent) -> bool:
        """Take one event of model call number `call`; False when that call is over."""
        if not self.calling or call != self.call:
            return False
        if isinstance(event, Reply):
            self._reply = event
            return True
        if self._assembly is None:
            self._assembly = Assembly()
        self._assembly.feed(event)
        return True

    def answered(self, call: int) -> Decided | None:
        """The stream ended. None: without the provider's last word, so it was cut."""
        if not self.calling or call != self.call:
            return ()
        reply = self._reply or (self._assembly.reply() if self._assembly else None)
        if reply is None:
            return None
        self.calling, self._assembly, self._reply = False, None, None
        self._attempt = 0
        self.answers += 1
        self._finish = reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")
        told = responded(self.meter, reply.usage, self.where, self._finish)
        if len(reply.tool_calls) > self._limits.calls:
            failed = self._fail(
                "too_many_tool_calls",
                f"one answer made {len(reply.tool_calls)} tool calls; {self._limits.calls} is most",
                "tell the model to call fewer tools at a time",
            )
            return [told, *failed]
        if reply.tool_calls:
            return [told, *self.calls.begin(reply, self.answers, self.turn, self.step)]
        return [told, *self._text(reply)]

    def _text(self, reply: Reply) -> Decided:
        self._answered = True
        if not (reply.content and reply.content.strip()):
            self._finish = "empty" if self._finish == "stop" else self._finish
            return ()
        text = clean(reply.content)
        return (answer(self.history, self.turn, self.step, text, (), reply.thinking),)

    def call_failed(
        self, call: int, code: str, message: str, hint: str, *, again: Again | None = None
    ) -> Decided:
        """Model call number `call` failed: it will be made again, as the same step, or it is over.

        Nothing of a failed call is kept. Without `again` the fault does not pass.
        """
        if not self.calling or call != self.call:
            return ()
        message, hint = clean(message)[:10_000], clean(hint)[:10_000]
        if again is None or self._attempt >= self._limits.model_retries:
            return self._fail(
                code, message, hint or f"look up {code!r} where your model comes from"
            )
        self._attempt += 1
        self._delay = delay = again.delay(self._attempt, self._limits)
        self.calling, self._assembly, self._reply = False, None, None
        said = Retrying(**self.at, attempt=self._attempt, delay=delay, code=code, message=message)
        return (said,)

    def waited(self) -> None:
        """The delay before the next attempt is over."""
        self._delay = None

    # -- ends ------------------------------------------------------------------------------------

    def end_turn(self) -> Decided:
        """The turn is done."""
        spent = self.meter.of_turn
        done = Done(**self.at, reason=self._finish, pending=len(self.inbox), spent=spent)
        self._leave_turn()
        return (done,)

    def stopped(self, code: str, message: str, hint: str) -> Decided:
        """The session itself failed: the running turn ends with this error."""
        return self._fail(code, clean(message), hint) if self.in_turn else ()

    def cancel(self, turn: int | None = None, *, drop_waiting: bool = False) -> Decided:
        """Stop the running turn, or the one that is accepted and not begun; () if neither is it."""
        running = self.turn if self.in_turn else self.turn + 1
        if turn not in (None, running) or not (self.in_turn or self.inbox):
            return ()
        return self._stop("user", drop_waiting=drop_waiting)

    def close(self) -> Decided:
        """End everything that was accepted."""
        if self.in_turn:
            return self._stop("closed", drop_waiting=True)
        return self.inbox.withdraw_all(at=self.at, reason="closed")

    def _stop(
        self,
        reason: Literal["user", "interrupted", "closed"],
        *,
        by: str | None = None,
        drop_waiting: bool = False,
    ) -> Decided:
        decided = [*self._keep_text(), *self.calls.close_all("cancelled")]
        if not self.in_turn:
            self.turn += 1
            self.step = 0
            starter = self.inbox.starter()
            assert starter is not None, "a turn that is not begun has a message to begin with"
            at = {"turn": self.turn, "step": None}
            decided += self.inbox.withdraw(starter, at=at, reason="cancelled")
        if drop_waiting:
            why = "closed" if reason == "closed" else "cancelled"
            decided += self.inbox.withdraw_all(at=self.at, reason=why)
        pending = len(self.inbox)
        decided.append(
            Cancelled(turn=self.turn, step=self.step or None, reason=reason, pending=pending, by=by)
        )
        self._leave_turn()
        return decided

    def _fail(self, code: str, message: str, hint: str) -> Decided:
        pending = len(self.inbox)
        failed = TurnFailed(
            turn=self.turn, step=self.step, code=code, message=message, hint=hint, pending=pending
        )
        closed = self.calls.close_all("lost")
        self._leave_turn()
        return [*closed, failed]

    def _leave_turn(self) -> None:
        self.in_turn = self.calling = False
        self.where = _NOWHERE
        self._attempt, self._delay = 0, None
        self._assembly = self._reply = None

    def _keep_text(self) -> list[AnyPayload]:
        """What was already shown of a cancelled answer stays in the history, trimmed."""
        assembly, self._assembly, self._reply = self._assembly, None, None
        if not (assembly and (text := assembly.text.strip())):
            return []
        thinking = assembly.thinking
        return [answer(self.history, self.turn, self.step, text, (), thinking, partial=True)]
