"""User messages between their acceptance and their delivery, and the receipts they get.

Every accepted message is here until it is delivered or withdrawn, whether it still lies in the
`input` queue or was taken from it. Ids are remembered for good, so a resend runs nothing twice.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Literal

from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import (
    Accepted,
    Delivered,
    Edited,
    Held,
    Receipt,
    Rejected,
    Withdrawn,
)

At = Mapping[str, int | None]
"""`turn` and `step` of what is said."""
Refusal = Literal["queue_full", "id_reused", "busy", "empty"]

REFUSALS: dict[Refusal, str] = {
    "queue_full": "{depth} messages wait already; send {id!r} again when some are delivered",
    "id_reused": "message id {id!r} was used for other content; send this one under a new id",
    "busy": "the agent is busy and {id!r} was sent to be refused then; use another mode, or wait",
    "empty": "message {id!r} says nothing, and providers refuse empty text; send some text",
}


class Inbox:
    """Accepted and undelivered user messages, in order of arrival; at most `bound` of them."""

    __slots__ = ("_bound", "_known", "_waiting", "taken")

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._known: dict[str, bytes] = {}
        self._waiting: dict[str, ChatMessage] = {}
        self.taken: set[str] = set()
        """Ids of those that left the `input` queue."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[ChatMessage]:
        return iter(self._waiting.values())

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._waiting

    def restore(self, known: Mapping[str, bytes], waiting: Iterable[ChatMessage]) -> None:
        """Take up where a process before this one was: ids by digest, and who waits, in order."""
        self._known.update(known)
        for message in waiting:
            self._waiting[_id(message)] = message
            self.taken.add(_id(message))

    # -- receipts --------------------------------------------------------------------------------

    def accept(
        self, message: ChatMessage, *, busy: bool, blocked_by: tuple[str, ...], at: At
    ) -> list[Receipt]:
        """Give the message its place, or say why not; nothing for one that was accepted before.

        A message sent again with its own id and content is such a repeat.
        """
        key, digest = _id(message), digest_of(message.content or "")
        if self._known.get(key) == digest:
            return []
        if code := self._refusal(message, busy=busy):
            text = REFUSALS[code].format(id=key, depth=len(self._waiting))
            later = 1.0 if code in ("queue_full", "busy") else None
            return [Rejected(**at, message_id=key, code=code, message=text, retry_after=later)]
        self._known[key] = digest
        self._waiting[key] = message
        content = message.content or ""
        receipts: list[Receipt] = [
            Accepted(**at, message_id=key, content=content, mode=message.mode)
        ]
        if blocked_by:
            receipts.append(Held(**at, message_id=key, blocked_by=blocked_by))
        return receipts

    def _refusal(self, message: ChatMessage, *, busy: bool) -> Refusal | None:
        if not (message.content and message.content.strip()):
            return "empty"
        if _id(message) in self._known:
            return "id_reused"
        if busy and message.mode == "reject":
            return "busy"
        if len(self._waiting) >= self._bound:
            return "queue_full"
        return None

    def deliver(
        self, message: ChatMessage, history: list[ChatMessage], turn: int, step: int
    ) -> Delivered:
        """Put the message into the history."""
        key = _id(message)
        self._forget(key)
        history.append(message)
        return Delivered(turn=turn, step=step, message_id=key, position=len(history) - 1)

    def withdraw(
        self,
        message_id: str,
        *,
        at: At,
        reason: Literal["user", "cancelled", "dropped", "closed"],
    ) -> list[Withdrawn]:
        """Take a waiting message out; nothing for any other."""
        if message_id not in self._waiting:
            return []
        self._forget(message_id)
        return [Withdrawn(**at, message_id=message_id, reason=reason)]

    def withdraw_all(self, *, at: At, reason: Literal["cancelled", "closed"]) -> list[Withdrawn]:
        """Take all of them out, in order of arrival."""
        waiting = list(self._waiting)
        return [gone for key in waiting for gone in self.withdraw(key, at=at, reason=reason)]

    def edit(
        self, message_id: str, content: str, *, at: At, hop: int | None, why: str
    ) -> list[Edited]:
        """Change what a waiting message says; nothing for any other, or for blank text."""
        before = self._waiting.get(message_id)
        if before is None or not content.strip():
            return []
        after = ChatMessage("user", content, mode=before.mode, message_id=message_id)
        self._waiting[message_id] = after
        said = before.content or ""
        return [Edited(**at, hop=hop, item=message_id, before=said, after=content, why=why)]

    # -- the queue and the turn ------------------------------------------------------------------

    def take(self, message_id: str) -> None:
        """It left the `input` queue. Nothing happens for one that was withdrawn meanwhile."""
        if message_id in self._waiting:
            self.taken.add(message_id)

    def next_batch(self, *, in_turn: bool) -> list[ChatMessage]:
        """What would be delivered now, in order of arrival.

        In a turn every steer that was taken (interrupts, and messages that would rather be refused
        than wait, are steers once they are accepted). The next turn begins with the oldest message
        whatever its mode, and takes the steers behind it along; other follow-ups wait.
        """
        if not self.taken:
            return []
        taken = [m for key, m in self._waiting.items() if key in self.taken]
        first = [] if in_turn else taken[:1]
        return first + [m for m in taken[len(first) :] if m.mode != "follow_up"]

    def starter(self) -> str | None:
        """Id of the message that would start the next turn, taken or not."""
        return next(iter(self._waiting), None)

    def _forget(self, message_id: str) -> None:
        del self._waiting[message_id]
        self.taken.discard(message_id)


def digest_of(text: str) -> bytes:
    """16 bytes that stand for a text: ids are remembered for good, long texts must not be."""
    return blake2b(text.encode(errors="replace"), digest_size=16).digest()


def _id(message: ChatMessage) -> str:
    assert message.message_id is not None, "the runtime names a message before it is accepted"
    return message.message_id
