"""What gets into a log: no secret, and one line a message."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from agent_lab.application.logs import log
from agent_lab.domain.redaction import MARK, SECRETS

KEY = "sk-canary-logs-4711"


@pytest.fixture
def text() -> Iterator[io.StringIO]:
    """What a program's own handler writes."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    log.addHandler(handler)
    SECRETS.add(KEY)
    yield out
    SECRETS.forget(KEY)
    log.removeHandler(handler)


@pytest.mark.fault("SEC-30")
@pytest.mark.scenario("S75")
def test_a_record_and_its_traceback_are_redacted(text: io.StringIO) -> None:
    try:
        raise ValueError(f"Illegal header value b'Bearer {KEY}' and password=hunter2")
    except ValueError:
        log.exception("a call with %s failed", KEY)

    said = text.getvalue()
    assert said.startswith(f"a call with {MARK} failed\nTraceback")
    assert said.endswith(f"ValueError: Illegal header value b'Bearer {MARK}' and password={MARK}\n")


@pytest.mark.fault("SEC-29")
def test_a_message_cannot_forge_a_line_or_move_the_cursor(text: io.StringIO) -> None:
    log.warning("session %s fell over", "a\r\nERROR all is lost\x1b[2J\x00\u2028")

    assert text.getvalue() == (
        "session a\\x0d\\x0aERROR all is lost\\x1b[2J\\x00\\x2028 fell over\n"
    )


def test_a_wrong_format_is_no_reason_to_lose_the_line(text: io.StringIO) -> None:
    log.handle(
        logging.makeLogRecord(
            {"msg": "one %s and %s", "args": ("only",), "levelno": 30, "name": log.name}
        )
    )

    assert text.getvalue() == "one %s and %s\n"
