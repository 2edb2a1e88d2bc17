"""What keys make a line, and what a line asks for."""

from __future__ import annotations

import pytest

from agent_lab.domain.hand_payloads import PermissionRequested
from agent_lab.presentation.keyboard import (
    HELP,
    Begin,
    Cancel,
    Edit,
    Line,
    Order,
    Permit,
    Send,
    Tell,
    Withdraw,
    understand,
)

WAITING = {"m1": "first", "m2": "second"}


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("And in Rome?", Send("And in Rome?")),
        ("//usr/bin is a path", Send("/usr/bin is a path")),
        ("/follow later", Send("later", "follow_up")),
        ("/interrupt  now ", Send("now", "interrupt")),
        ("/withdraw", Withdraw("m2")),
        ("/withdraw m1", Withdraw("m1")),
        ("/edit better", Edit("m2", "better")),
        ("/cancel", Cancel()),
        ("/cancel call_1", Cancel("call_1")),
        ("/help", Tell(HELP)),
        ("   ", None),
    ],
)
def test_a_line_asks_for_one_thing(line: str, order: Order | None) -> None:
    assert understand(line, WAITING) == order


@pytest.mark.parametrize("line", ["/withdraw", "/edit x", "/edit", "/follow", "/what", "/"])
def test_a_line_that_cannot_be_done_is_told_why(line: str) -> None:
    assert isinstance(understand(line, {}), Tell)


ASKS = PermissionRequested(
    request_id="ask_1",
    call_id="c1",
    name="pay",
    arguments={"amount": 5},
    sha256="0" * 64,
    timeout=60,
)


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("y", Permit("ask_1", "allow")),
        (" a ", Permit("ask_1", "allow_always")),
        ("n", Permit("ask_1", "deny")),
        ("n too dear", Permit("ask_1", "deny", message="too dear")),
        ("x stop it", Permit("ask_1", "deny_and_interrupt", message="stop it")),
        ("e", Begin('e {"amount":5}')),
        ('e {"amount":3}', Permit("ask_1", "allow", arguments={"amount": 3})),
        ("yes", Send("yes")),
        ("y and go on", Send("y and go on")),
        ("allow it", Send("allow it")),
        ("e for effort", Send("e for effort")),
        ("/cancel", Cancel()),
    ],
)
def test_only_a_letter_of_its_own_answers_a_tool_that_asks(line: str, order: Order) -> None:
    assert understand(line, {}, ASKS) == order


def test_arguments_that_are_no_json_are_told_and_a_letter_is_a_steer_when_nobody_asks() -> None:
    assert isinstance(understand("e {amount}", {}, ASKS), Tell)
    assert understand("y", {}) == Send("y")


def test_help_names_every_command() -> None:
    for command in ("/follow", "/interrupt", "/withdraw", "/edit", "/cancel", "/help", "//"):
        assert command in HELP


@pytest.mark.parametrize(
    ("pressed", "lines", "left"),
    [
        ([b"Hel", b"lo\r"], ["Hello"], ""),
        ([b"a\nb\nc"], ["a", "b"], "c"),
        ([b"ab\x7fc"], [], "ac"),
        ([b"one two  \x17!"], [], "one !"),
        ([b"one two\x15three"], [], "three"),
        (["é".encode()[:1], "é".encode()[1:]], [], "é"),
        ([b"\x1b[A\x1bOPx\x1b[200~y\x1b[201~"], [], "xy"),
        ([b"x\x1b[", b"1;5Cy"], [], "xy"),
        ([b"x\x1b", b"y"], [], "xy"),
        ([b"a\x00\x01\x02b"], [], "ab"),
    ],
)
def test_keys_make_a_line(pressed: list[bytes], lines: list[str], left: str) -> None:
    line = Line()

    assert [done for keys in pressed for done in line.feed(keys)] == lines
    assert line.text == left
