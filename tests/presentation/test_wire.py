"""The strict decoder: forty-odd kinds of bad frame, each with its name, and the good ones."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_lab.presentation.strict import MAX_BYTES, MAX_DEPTH, Refused, read
from agent_lab.presentation.wire import (
    NOT_YET,
    AttachFrame,
    CancelFrame,
    CancelToolFrame,
    ClientFrame,
    EditFrame,
    FrameCode,
    MessageFrame,
    RunFrame,
    WithdrawFrame,
    decode,
    error_frame,
)

GOOD: list[tuple[str, ClientFrame]] = [
    ('{"content":"Hi"}', RunFrame(content="Hi")),
    (
        '{"type":"run","agent":"a","content":"Hi","message_id":"m","session_id":null}',
        RunFrame(content="Hi", agent="a", message_id="m"),
    ),
    (
        '{"type":"run","content":"Hi","mode":"reject"}',
        RunFrame(content="Hi", mode="reject"),
    ),
    ('{"type":"attach","session_id":"s"}', AttachFrame(session_id="s")),
    (
        '{"type":"attach","session_id":"s","after":7,"epoch":"e"}',
        AttachFrame(session_id="s", after=7, epoch="e"),
    ),
    ('{"type":"user_message","content":""}', MessageFrame(content="")),
    (
        '{"type":"user_message","content":"\\ud83d\\ude00 é","mode":"interrupt"}',
        MessageFrame(content="😀 é", mode="interrupt"),
    ),
    ('{"type":"withdraw","message_id":"m"}', WithdrawFrame(message_id="m")),
    (
        '{"type":"edit","message_id":"m","content":"x"}',
        EditFrame(message_id="m", content="x"),
    ),
    ('{"type":"cancel"}', CancelFrame()),
    ('{"type":"cancel","turn":2,"drop_waiting":true}', CancelFrame(turn=2, drop_waiting=True)),
    ('{"type":"cancel_tool","call_id":"c"}', CancelToolFrame(call_id="c")),
    ('{"content":"\\\\u0000 and \\\\ud800"}', RunFrame(content="\\u0000 and \\ud800")),
    ('{"content":"' + "[" * 100_000 + '"}', RunFrame(content="[" * 100_000)),
]

BAD: list[tuple[str, FrameCode, dict[str, int | str]]] = [
    # C09: what is no JSON at all
    ("", "bad_json", {"position": 0}),
    ("{", "bad_json", {"position": 1}),
    ('{"content":"Hi"', "bad_json", {"position": 15}),
    ('{"content":"Hi', "bad_json", {"position": 11}),
    ('{"content":"Hi"} {}', "bad_json", {"position": 17}),
    ("{'content':'Hi'}", "bad_json", {"position": 1}),
    ('{"content":"Hi",}', "bad_json", {"position": 16}),
    ('{"content":01}', "bad_json", {"position": 12}),
    ('{"content":"\x01"}', "bad_json", {"position": 12}),
    ('{"content":"\\x"}', "bad_json", {"position": 12}),
    ("\ufeff{}", "bad_json", {"position": 0}),
    ("hello", "bad_json", {"position": 0}),
    # C10: JSON, and none of our frames
    ("null", "bad_message", {"path": "$"}),
    ("1", "bad_message", {"path": "$"}),
    ('"run"', "bad_message", {"path": "$"}),
    ("[]", "bad_message", {"path": "$"}),
    ('[{"content":"Hi"}]', "bad_message", {"path": "$"}),
    ("{}", "bad_message", {"path": "$.content"}),
    ('{"type":"run"}', "bad_message", {"path": "$.content"}),
    ('{"type":"shout","content":"Hi"}', "bad_message", {"path": "$.type"}),
    ('{"type":null,"content":"Hi"}', "bad_message", {"path": "$.type"}),
    ('{"type":["run"],"content":"Hi"}', "bad_message", {"path": "$.type"}),
    ('{"content":1}', "bad_message", {"path": "$.content"}),
    ('{"content":null}', "bad_message", {"path": "$.content"}),
    ('{"content":["Hi"]}', "bad_message", {"path": "$.content"}),
    ('{"content":"Hi","agent":1}', "bad_message", {"path": "$.agent"}),
    ('{"content":"Hi","message_id":""}', "bad_message", {"path": "$.message_id"}),
    ('{"content":"Hi","message_id":"' + "m" * 201 + '"}', "bad_message", {"path": "$.message_id"}),
    ('{"content":"Hi","message_id":"a\\nb"}', "bad_message", {"path": "$.message_id"}),
    ('{"content":"Hi","message_id":"\\u001b[2J"}', "bad_message", {"path": "$.message_id"}),
    ('{"content":"Hi","model":"x"}', "bad_message", {"path": "$.model"}),
    (
        '{"type":"user_message","content":"Hi","role":"system"}',
        "bad_message",
        {"path": "$.role"},
    ),
    (
        '{"type":"user_message","content":"Hi","mode":"shout"}',
        "bad_message",
        {"path": "$.mode"},
    ),
    ('{"type":"attach","after":1}', "bad_message", {"path": "$.session_id"}),
    ('{"type":"attach","session_id":"s","after":-1}', "bad_message", {"path": "$.after"}),
    ('{"type":"attach","session_id":"s","after":1.0}', "bad_message", {"path": "$.after"}),
    ('{"type":"attach","session_id":"s","after":"1"}', "bad_message", {"path": "$.after"}),
    ('{"type":"attach","session_id":"s","after":true}', "bad_message", {"path": "$.after"}),
    ('{"type":"cancel","turn":0}', "bad_message", {"path": "$.turn"}),
    ('{"type":"cancel","drop_waiting":1}', "bad_message", {"path": "$.drop_waiting"}),
    ('{"type":"withdraw"}', "bad_message", {"path": "$.message_id"}),
    ('{"' + "k" * 900_000 + '":1}', "bad_message", {"path": f"$.{'k' * 198}"}),
    # C14 and C18: too deep, too much
    ("[" * (MAX_DEPTH + 1), "too_deep", {}),
    ("[" * 100_000, "too_deep", {}),
    ('{"a":' * 100_000, "too_deep", {}),
    ('{"content":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}", "too_deep", {}),
    (" " * (10 << 20), "too_large", {}),
    (" " * MAX_BYTES, "too_large", {}),
    ('{"content":"' + "é" * (MAX_BYTES // 2) + '"}', "too_large", {}),
    ("[" + "[]," * 300_000 + "[]]", "too_large", {}),
    ("{" + ",".join(f'"{n}":1' for n in range(100_000)) + "}", "too_large", {}),
    # C15: a key that comes twice
    ('{"content":"a","content":"a"}', "duplicate_key", {}),
    ('{"content":{"a":1,"\\u0061":2}}', "duplicate_key", {}),
    # C16: numbers that not everybody can hold
    ('{"content":NaN}', "bad_number", {}),
    ('{"content":Infinity}', "bad_number", {}),
    ('{"content":-Infinity}', "bad_number", {}),
    ('{"content":1e999}', "bad_number", {}),
    ('{"content":-1e999}', "bad_number", {}),
    ('{"content":' + "1" * 5_000 + "}", "bad_number", {}),
    ('{"content":9007199254740993}', "bad_number", {}),
    ('{"content":-9007199254740993}', "bad_number", {}),
    # C17: strings that would poison a store or a page
    ('{"content":"\\u0000"}', "bad_text", {}),
    ('{"content":"\0"}', "bad_text", {}),
    ('{"content":"\\ud800"}', "bad_text", {}),
    ('{"content":"\ud800"}', "bad_text", {}),
    ('{"content":"\\ude00\\ud83d"}', "bad_text", {}),
    ('{"a\\u0000":1}', "bad_text", {}),
    ('{"\\udfff":1}', "bad_text", {}),
    ('{"content":["\\ud800"]}', "bad_text", {}),
    *((f'{{"type":"{kind}"}}', "not_yet", {}) for kind in sorted(NOT_YET)),
]


@pytest.mark.parametrize(("text", "frame"), GOOD, ids=range(len(GOOD)))
def test_a_good_frame_is_read(text: str, frame: ClientFrame) -> None:
    assert decode(text) == frame


@pytest.mark.fault("C09")
@pytest.mark.fault("C10")
@pytest.mark.fault("C14")
@pytest.mark.fault("C15")
@pytest.mark.fault("C16")
@pytest.mark.fault("C17")
@pytest.mark.fault("C18")
@pytest.mark.fault("T23")
@pytest.mark.fault("T24")
@pytest.mark.parametrize(("text", "code", "facts"), BAD, ids=range(len(BAD)))
def test_a_bad_frame_is_refused_by_name(
    text: str, code: FrameCode, facts: dict[str, int | str]
) -> None:
    with pytest.raises(Refused) as refused:
        decode(text)

    assert (refused.value.code, refused.value.facts) == (code, facts)
    assert code in names(FrameCode)
    frame = json.loads(error_frame(refused.value))
    assert frame["type"] == "error" and frame["scope"] == "frame" and frame["code"] == code
    assert 0 < len(frame["message"]) < 600 and frame["hint"]


def names(union: Any) -> set[str]:
    return {name for part in get_args(union) for name in (names(part) or {part})}


# Measured: 0.6 and 4 ms, 5 to 30 ms. Twice the bound, for a machine that does other things too.
@pytest.mark.fault("C14")
@pytest.mark.fault("C18")
@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("[" * 100_000, 0.01),
        ('{"a":' * 100_000, 0.01),
        (" " * MAX_BYTES, 0.1),
        ("[]" * (MAX_BYTES // 2), 0.1),
        ('"",' * (MAX_BYTES // 3), 0.1),
        ('"' * MAX_BYTES, 0.1),
        ("1," * (MAX_BYTES // 2), 0.1),
        ('{"content":"' + '\\"' * (MAX_BYTES // 2 - 20) + '"}', 0.1),
        ('{"content":"' + "\\u0041" * (MAX_BYTES // 6 - 20) + '"}', 0.1),
        ('{"content":"' + "é" * (MAX_BYTES // 2 - 20) + '"}', 0.1),
        ('{"' + "\\" * (MAX_BYTES - 2), 0.1),
        ("{" + ",".join(f'"{n}":1' for n in range(8_000)) + "}", 0.1),
    ],
    ids=range(12),
)
def test_no_frame_takes_long(text: str, bound: float) -> None:
    assert min(seconds(lambda: _tried(text)) for _ in range(3)) < bound


def _tried(text: str) -> None:
    with suppress(Refused):
        decode(text)


def seconds(deed: Callable[[], None]) -> float:
    started = time.perf_counter()
    deed()
    return time.perf_counter() - started


KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
)


@given(VALUES, st.booleans())
def test_all_other_json_is_read_as_everybody_reads_it(value: Any, ascii_only: bool) -> None:
    assert read(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(st.text() | st.text('{}[]",:\\u0d8e1 '))
def test_whatever_comes_in_is_a_frame_or_a_refusal(text: str) -> None:
    with suppress(Refused):
        assert isinstance(decode(text), get_args(ClientFrame))
