"""What became of one message: its turn, read off the session's journal until its end."""

from collections.abc import Callable, Sequence

import msgspec

from agent_lab.application.journal import Entry, Gap
from agent_lab.application.served import ServedSession
from agent_lab.domain.errors import RuntimeFailed
from agent_lab.domain.execution import Outcome, ToolUse
from agent_lab.domain.payloads import (
    AnyPayload,
    Assistant,
    Cancelled,
    Delivered,
    Done,
    ModelResponded,
    Rejected,
    ToolCalled,
    ToolReplied,
    TurnFailed,
    Withdrawn,
)
from agent_lab.domain.usage import Spent

OnTool = Callable[[ToolUse, float], object]


class TurnWatch:
    """A cursor that knows one message: in which turn it went, and how that ended.

    `turn` is None until it is delivered, `outcome` until the turn has its end. `catch_up` looks at
    once at all that was decided, so that nobody ends by a limit what is over already.
    """

    def __init__(self, served: ServedSession, message_id: str, after: int, on_tool: OnTool) -> None:
        """`on_tool` hears of each tool call that is closed, with its wall time."""
        self.served = served
        self.turn: int | None = None
        self.outcome: Outcome | None = None
        self._message_id = message_id
        self._after = after
        self._on_tool = on_tool
        self._response: str | None = None
        self._turn_spent = self._session_spent = Spent()
        self._tools: dict[tuple[int, str], ToolUse] = {}
        self._round = 0
        self._missed = False

    async def until_end(self) -> Outcome:
        """Follow the session to the end of the turn, or to its own."""
        try:
            async for found in self.served.runtime.follow(self._after):
                if isinstance(found, Gap):
                    self._missed = True
                    self._after = max(self._after, found.last)
                else:
                    self._take(found)
                if self.outcome is not None:
                    return self.outcome
        except RuntimeFailed as error:
            return self._end(Outcome(status="failed", error=str(error), error_code="internal"))
        return self._end(Outcome(status="interrupted", error_code="closed"))

    def catch_up(self) -> None:
        """Read what was decided and not heard of yet."""
        if self.outcome is None:
            _, found = self.served.runtime.session.journal.read(self._after)
            self._take(found)

    def told(self, outcome: Outcome) -> Outcome:
        """The outcome with what was learnt on the way; of what was never delivered, nothing."""
        if self.turn is None:
            return outcome
        return msgspec.structs.replace(
            outcome,
            turn=self.turn,
            tool_calls=tuple(self._tools.values()),
            cost_usd=self._turn_spent.cost_usd,
            context_used=self._session_spent.context_used,
            context_max=self._session_spent.context_max,
        )

    def _take(self, found: Sequence[Entry]) -> None:
        for entry in found:
            if entry.seq > self._after and self.outcome is None:
                self._after = entry.seq
                self._hear(entry.payload, entry.at)
        if self._missed and self.outcome is None:
            self._make_up()

    def _make_up(self) -> None:
        """Memory let go of entries before they were read: ask the conversation what they said."""
        conversation = self.served.runtime.session.conversation
        if self._message_id in conversation.inbox:
            return
        if self.turn is None:
            self.turn = conversation.turn
        over = conversation.turn != self.turn or not conversation.in_turn
        if over and self._after >= self.served.last_seq:
            self._end(Outcome(status="failed", error_code="entries_lost"))

    def _hear(self, payload: AnyPayload, at: float) -> None:
        mine = payload.turn is not None and payload.turn == self.turn
        match payload:
            case Delivered(message_id=self._message_id):
                self.turn = payload.turn
            case Withdrawn(message_id=self._message_id):
                self._end(Outcome(status="cancelled", error=f"withdrawn ({payload.reason})"))
            case Rejected(message_id=self._message_id):
                code = payload.code
                self._end(Outcome(status="failed", error=payload.message, error_code=code))
            case Assistant() if mine:
                self._response = payload.content
            case ModelResponded() if mine:
                self._used(payload)
            case ToolCalled() if mine:
                self._called(payload)
            case ToolReplied() if mine:
                self._replied(payload, at)
            case Done() | TurnFailed() | Cancelled() if mine:
                self._end(self._ended(payload))
            case _:
                pass

    def _used(self, payload: ModelResponded) -> None:
        self._turn_spent = payload.turn_spent or self._turn_spent
        self._session_spent = payload.session_spent or self._session_spent

    def _called(self, payload: ToolCalled) -> None:
        self._round = payload.round
        self._tools[payload.round, payload.call_id] = ToolUse(
            call_id=payload.call_id, name=payload.name, arguments=payload.arguments
        )

    def _replied(self, payload: ToolReplied, at: float) -> None:
        key = self._round, payload.call_id
        if use := self._tools.get(key):
            self._tools[key] = use = msgspec.structs.replace(use, kind=payload.kind)
            self._on_tool(use, at + self.served.offset)

    def _ended(self, end: Done | TurnFailed | Cancelled) -> Outcome:
        match end:
            case Done():
                return Outcome(status="completed", response=self._response)
            case TurnFailed(code="interrupted"):
                return Outcome(status="interrupted", error=end.message, error_code=end.code)
            case TurnFailed():
                return Outcome(status="failed", error=end.message, error_code=end.code)
            case Cancelled(reason="closed"):
                return Outcome(status="interrupted", error_code="closed")
            case Cancelled(reason="interrupted"):
                by = f"interrupted by message {end.by!r}"
                return Outcome(status="cancelled", error=by, error_code="interrupted")
            case Cancelled():
                return Outcome(status="cancelled", error_code="cancelled")

    def _end(self, outcome: Outcome) -> Outcome:
        self.outcome = self.told(outcome)
        return self.outcome
