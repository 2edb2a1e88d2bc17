"""What a stored journal comes to when its session is taken up again: pure, from entries alone."""

from collections.abc import Iterable

import msgspec

from agent_lab.domain.messages import ChatMessage, ToolCall
from agent_lab.domain.payloads import (
    Accepted,
    AnyPayload,
    Assistant,
    Cancelled,
    Delivered,
    Done,
    Edited,
    ModelResponded,
    PermissionRequested,
    PermissionResolved,
    ToolReplied,
    TurnFailed,
    Withdrawn,
)
from agent_lab.domain.permission import Permissions
from agent_lab.domain.records import Requested, Stored
from agent_lab.domain.rounds import closing_reply


class Recovered(msgspec.Struct):
    """A session as its journal tells it.

    `history`, `turn`, `call` and `answers` are the conversation's. `accepted` has every accepted
    message by id, as it was sent, with the number of its receipt; `waiting` those that were neither
    delivered nor withdrawn. `title` is the first message. `permissions` has what was asked, and
    which tools were allowed for the session.
    """

    history: list[ChatMessage] = []
    turn: int = 0
    step: int | None = None
    call: int = 0
    answers: int = 0
    in_turn: bool = False
    title: str | None = None
    accepted: dict[str, tuple[int, str]] = {}
    waiting: dict[str, ChatMessage] = {}
    open: dict[str, ToolCall] = {}
    replies: dict[str, ChatMessage] = {}
    permissions: Permissions = msgspec.field(default_factory=Permissions)

    def take(self, seq: int, payload: Stored) -> None:
        """Hear the next entry."""
        if payload.turn is not None:
            self.turn = max(self.turn, payload.turn)
        match payload:
            case Accepted():
                self._accepted(seq, payload)
            case Edited():
                self._edited(payload)
            case Withdrawn():
                self.waiting.pop(payload.message_id, None)
            case Delivered():
                self._delivered(payload)
            case Requested():
                self.in_turn, self.step = True, payload.step
                self.call, self.answers = payload.call, payload.answers
            case ModelResponded():
                self.answers += 1
            case Assistant():
                self._said(payload)
            case ToolReplied():
                self._replied(payload)
            case PermissionRequested() | PermissionResolved():
                self.permissions.hear(payload)
            case Done() | TurnFailed() | Cancelled():
                self.in_turn, self.step = False, None
            case _:
                pass

    def ends(self) -> list[AnyPayload]:
        """What closes the turn that a crash left: a reply to each open call, and its end.

        Before them what closes each permission request: nobody can answer it any more.
        """
        if not self.in_turn:
            return []
        asked = [asked.resolved("deny", "lost") for asked in self.permissions.waiting.values()]
        lost = [self._lost(call) for call in self.open.values() if call.id not in self.replies]
        end = TurnFailed(
            turn=self.turn,
            step=self.step,
            code="interrupted",
            message="the process stopped while this turn ran",
            hint="what was finished is in the history; send a message to go on",
            pending=len(self.waiting),
        )
        return [*asked, *lost, end]

    def _lost(self, call: ToolCall) -> ToolReplied:
        said = closing_reply(call, "lost", None)
        return ToolReplied(
            turn=self.turn,
            step=self.step,
            call_id=call.id,
            name=call.name,
            content=said.content or "",
            kind="lost",
            is_error=True,
        )

    def _accepted(self, seq: int, payload: Accepted) -> None:
        key = payload.message_id
        self.title = self.title or payload.content
        self.accepted[key] = (seq, payload.content)
        self.waiting[key] = ChatMessage("user", payload.content, mode=payload.mode, message_id=key)

    def _edited(self, payload: Edited) -> None:
        before = self.waiting.get(payload.item)
        if before is not None and isinstance(payload.after, str):
            self.waiting[payload.item] = msgspec.structs.replace(before, content=payload.after)

    def _delivered(self, payload: Delivered) -> None:
        message = self.waiting.pop(payload.message_id, None)
        self.in_turn, self.step = True, payload.step
        if message is not None:
            self.history.append(message)

    def _said(self, payload: Assistant) -> None:
        calls = payload.tool_calls
        self.history.append(
            ChatMessage("assistant", payload.content, tool_calls=calls, thinking=payload.thinking)
        )
        self.open = {call.id: call for call in calls}
        self.replies = {}

    def _replied(self, payload: ToolReplied) -> None:
        if payload.call_id not in self.open:
            return
        self.replies[payload.call_id] = ChatMessage(
            "tool",
            payload.content,
            tool_call_id=payload.call_id,
            name=payload.name,
            kind=payload.kind,
            is_error=payload.is_error,
            round=self.answers,
        )
        if len(self.replies) == len(self.open):  # as Calls does: whole, and in call order
            self.history += [self.replies[call_id] for call_id in self.open]
            self.open, self.replies = {}, {}


def recover(
    entries: Iterable[tuple[int, Stored]], *, last_seq: int, history: Iterable[ChatMessage] = ()
) -> tuple[Recovered, list[AnyPayload]]:
    """What these entries come to, oldest first, and what is to be written behind `last_seq`.

    `history` is what the session was opened with. The second is what closes a turn that a crash
    left; it is part of the first already.
    """
    recovered = Recovered(history=list(history))
    for seq, payload in entries:
        recovered.take(seq, payload)
    ends = recovered.ends()
    for seq, payload in enumerate(ends, last_seq + 1):
        recovered.take(seq, payload)  # type: ignore[arg-type]  # replies and an end, no request
    return recovered, ends
