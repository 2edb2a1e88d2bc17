"""The book of permissions, and what a crash leaves of it."""

from __future__ import annotations

import pytest

from agent_lab.domain.errors import AnswerRefused
from agent_lab.domain.messages import ToolCall
from agent_lab.domain.payloads import Accepted, Assistant, Delivered, PermissionResolved, ToolCalled
from agent_lab.domain.permission import PermissionAnswer, Permissions, digest_of
from agent_lab.domain.records import Stored
from agent_lab.domain.recovery import recover

CALL = ToolCalled(turn=1, step=1, call_id="c1", name="pay", arguments={"a": 1, "b": 2}, round=1)


def test_the_digest_is_of_the_arguments_in_any_order() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": "1"})


def test_a_grant_lets_one_call_run_once() -> None:
    book = Permissions()
    book.ask("ask_1", CALL, 60, None)
    book.answer("ask_1", PermissionAnswer(decision="allow"))

    assert [book.admits(CALL), book.admits(CALL)] == [True, False]


def cut(*more: Stored) -> list[tuple[int, Stored]]:
    """A journal that breaks off while a call is open."""
    called = (ToolCall("c1", "pay", {"a": 1, "b": 2}),)
    said: list[Stored] = [
        Accepted(message_id="m1", content="go", mode="steer"),
        Delivered(turn=1, step=1, message_id="m1", position=0),
        Assistant(turn=1, step=1, content=None, tool_calls=called),
        CALL,
        Permissions().ask("ask_1", CALL, 60, None),
        *more,
    ]
    return list(enumerate(said, 1))


def test_a_request_that_a_crash_left_is_denied_before_its_call_is_lost() -> None:
    recovered, ends = recover(cut(), last_seq=5)

    assert [end.type for end in ends] == ["permission_resolved", "tool_reply", "error"]
    resolved = ends[0]
    assert isinstance(resolved, PermissionResolved)
    assert (resolved.request_id, resolved.decision, resolved.reason) == ("ask_1", "deny", "lost")
    assert recovered.permissions.waiting == {}
    with pytest.raises(AnswerRefused) as refused:
        recovered.permissions.answer("ask_1", PermissionAnswer(decision="allow"))
    assert refused.value.code == "prompt_closed"


def test_a_tool_that_was_allowed_for_the_session_still_is_after_a_crash() -> None:
    book = Permissions()
    book.ask("ask_1", CALL, 60, None)
    ((resolved, _),) = book.answer("ask_1", PermissionAnswer(decision="allow_always"))
    recovered, ends = recover(cut(resolved), last_seq=6)

    assert [end.type for end in ends] == ["tool_reply", "error"]
    assert recovered.permissions.admits(CALL)


def test_a_call_that_was_allowed_once_and_cut_off_is_not_allowed_after_a_crash() -> None:
    book = Permissions()
    book.ask("ask_1", CALL, 60, None)
    ((resolved, _),) = book.answer("ask_1", PermissionAnswer(decision="allow"))
    recovered, _ = recover(cut(resolved), last_seq=6)

    assert not recovered.permissions.admits(CALL)
