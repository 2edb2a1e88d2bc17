"""User messages between acceptance and delivery: their receipts, their order, their bound."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent_lab.domain.inbox import Inbox
from agent_lab.domain.messages import ChatMessage, Mode
from agent_lab.domain.payloads import Accepted, AnyPayload, Delivered, Edited, Held, Withdrawn

NOWHERE = {"turn": None, "step": None}


def message(number: int, content: str = "Oslo?", mode: Mode = "steer") -> ChatMessage:
    return ChatMessage("user", content, message_id=f"m{number}", mode=mode)


def accept(
    inbox: Inbox, said: ChatMessage, *, busy: bool = False, blocked_by: tuple[str, ...] = ()
) -> Sequence[AnyPayload]:
    return inbox.accept(said, busy=busy, blocked_by=blocked_by, at=NOWHERE)


def test_a_message_that_can_go_is_accepted_and_one_that_cannot_is_held_at_once() -> None:
    inbox = Inbox(9)

    assert [*accept(inbox, message(1)), *accept(inbox, message(2), blocked_by=("c1", "c2"))] == [
        Accepted(message_id="m1", content="Oslo?", mode="steer"),
        Accepted(message_id="m2", content="Oslo?", mode="steer"),
        Held(message_id="m2", blocked_by=("c1", "c2")),
    ]


@pytest.mark.parametrize(
    ("said", "code", "retry_after"),
    [
        (message(1, "Rome?"), "id_reused", None),
        (message(2, "  "), "empty", None),
        (message(2, mode="reject"), "busy", 1.0),
        (message(2), "queue_full", 1.0),
    ],
)
def test_a_refusal_says_why_and_whether_to_try_again(
    said: ChatMessage, code: str, retry_after: float | None
) -> None:
    inbox = Inbox(1)
    accept(inbox, message(1))

    (refused,) = accept(inbox, said, busy=True)

    assert refused.type == "rejected"
    assert (refused.code, refused.retry_after) == (code, retry_after)  # type: ignore[union-attr]  # of that type
    assert len(inbox) == 1


def test_a_resend_in_another_mode_is_the_same_message() -> None:
    inbox = Inbox(1)
    accept(inbox, message(1))

    assert (accept(inbox, message(1, mode="follow_up")), len(inbox)) == ([], 1)


@pytest.mark.parametrize("end", ["waiting", "delivered", "withdrawn"])
def test_a_resend_runs_nothing_twice_whatever_became_of_the_first(end: str) -> None:
    inbox, history = Inbox(1), list[ChatMessage]()
    accept(inbox, message(1))
    if end == "delivered":
        inbox.deliver(message(1), history, 1, 1)
    if end == "withdrawn":
        inbox.withdraw("m1", at=NOWHERE, reason="user")

    assert (accept(inbox, message(1)), len(inbox)) == ([], 1 if end == "waiting" else 0)


def test_a_delivered_message_stands_at_its_position() -> None:
    inbox, history = Inbox(9), [message(1)]
    accept(inbox, message(2))

    assert inbox.deliver(message(2), history, 3, 1) == Delivered(
        turn=3, step=1, message_id="m2", position=1
    )
    assert history[1] == message(2)


def test_only_a_waiting_message_is_withdrawn_or_edited() -> None:
    inbox = Inbox(9)
    accept(inbox, message(1))

    assert inbox.edit("m1", "Rome?", at=NOWHERE, hop=None, why="user") == [
        Edited(hop=None, item="m1", before="Oslo?", after="Rome?", why="user")
    ]
    assert inbox.edit("m1", "  ", at=NOWHERE, hop=None, why="user") == []
    assert [said.content for said in inbox] == ["Rome?"]
    assert inbox.withdraw("m1", at=NOWHERE, reason="user") == [
        Withdrawn(message_id="m1", reason="user")
    ]
    assert inbox.withdraw("m1", at=NOWHERE, reason="user") == []
    assert inbox.edit("m1", "Cairo?", at=NOWHERE, hop=None, why="user") == []


def test_steers_go_together_and_a_follow_up_alone_between_turns() -> None:
    inbox = Inbox(9)
    for said in (
        message(1, mode="follow_up"),
        message(2),
        message(3, mode="follow_up"),
        message(4),
    ):
        accept(inbox, said)
        inbox.take(said.message_id or "")

    assert inbox.next_batch(in_turn=True) == [message(2), message(4)]
    for number in (2, 4):
        inbox.withdraw(f"m{number}", at=NOWHERE, reason="user")
    assert inbox.next_batch(in_turn=True) == []
    assert inbox.next_batch(in_turn=False) == [message(1, mode="follow_up")]


def test_what_still_lies_in_the_queue_is_not_in_the_batch() -> None:
    inbox = Inbox(9)
    accept(inbox, message(1))

    assert inbox.next_batch(in_turn=False) == []
    inbox.take("m1")
    assert inbox.next_batch(in_turn=False) == [message(1)]
