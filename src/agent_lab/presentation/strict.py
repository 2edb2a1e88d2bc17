"""The one strict reader of JSON that comes from outside: a text to a value, or a named refusal.

What it lets through is JSON as everybody reads it: no number that JSON cannot say, no key twice, no
text that a database or a browser would choke on, no depth that breaks a parser (T23, T24). It is
linear: strings are cut out in one pass, what is left is measured, and only then parsed.
"""

import json
import math
import re
from array import array
from itertools import accumulate
from typing import Any, Literal, NoReturn, TypeAlias

from agent_lab.domain.errors import AgentLabError

MAX_BYTES = 1 << 20
"""One text, in UTF-8."""
MAX_DEPTH = 64
MAX_STRUCTURE = 1 << 16
"""Characters outside strings: what comes in is texts, with little between them."""
MAX_STRINGS = 1 << 13
MAX_INT = 1 << 53
"""Beyond it, JavaScript cannot count by one."""

JsonCode: TypeAlias = Literal[
    "bad_json", "bad_number", "bad_text", "duplicate_key", "too_deep", "too_large"
]
"""Every code that reading can be refused with."""


class Refused(AgentLabError):
    """What came in is not obeyed; `code` is the machine's name for why, `hint` what to do.

    `facts` are further fields for the sender: `position` (a character of the text, from 0), `path`
    (the field at fault), `last_seq`, `message_id`, `retry_after` in seconds.
    """

    def __init__(self, code: str, message: str, hint: str, **facts: float | str) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.facts = facts


_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_LEVELS = bytes(1 if chr(b) in "[{" else 255 for b in range(256))
_NO_LEVEL = bytes(b for b in range(256) if chr(b) not in "[]{}")
_CHUNK = 4096


def read(text: str, *, is_data: bool = False) -> Any:
    """The value that this text is; raises Refused.

    With `is_data` it may be all brackets and numbers: a history, not a request.
    """
    _check_bytes(text)
    _check_structure(text, *((MAX_BYTES, MAX_BYTES) if is_data else (MAX_STRUCTURE, MAX_STRINGS)))
    value = _parse(text)
    if "\\u" in text:
        _check_texts(value)
    return value


def _check_bytes(text: str) -> None:
    if len(text) > MAX_BYTES:
        _too_large(f"the text is over {MAX_BYTES} bytes")
    if "\0" in text:
        _bad_text("NUL")
    if _check_surrogates(text) > MAX_BYTES:
        _too_large(f"the text is over {MAX_BYTES} bytes")


def _check_surrogates(text: str) -> int:
    """The text's size in UTF-8, which has no halves of pairs."""
    try:
        return len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        _bad_text("half of a surrogate pair")


def _check_structure(text: str, most: int, most_strings: int) -> None:
    """How deep it goes, and how much of it is not text."""
    structure, strings = _STRING.subn("", text, most_strings)
    structure = structure.partition('"')[0]  # behind it, a string that does not end
    _check_depth(structure[:most])
    if strings == most_strings or len(structure) > most:
        _too_large("the text has too many keys, numbers or blanks")


def _check_depth(structure: str) -> None:
    brackets = structure.encode().translate(_LEVELS, _NO_LEVEL)
    if len(brackets) <= MAX_DEPTH:
        return
    level = 0
    for start in range(0, len(brackets), _CHUNK):
        levels = list(accumulate(array("b", brackets[start : start + _CHUNK]), initial=level))
        if max(levels) > MAX_DEPTH:
            raise Refused(
                "too_deep",
                f"the text is nested deeper than {MAX_DEPTH} levels",
                "send it flatter, or as a string",
            )
        level = levels[-1]


def _parse(text: str) -> Any:
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_bad_number,
            parse_int=_int,
            parse_float=_float,
        )
    except json.JSONDecodeError as error:
        raise Refused(
            "bad_json",
            f"the text is not JSON: {error.msg.removesuffix(' at')}, at character {error.pos}",
            "send one JSON object",
            position=error.pos,
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise Refused(
                "duplicate_key",
                f"an object has the key {_short(key)} twice",
                "send each key once: readers disagree on which of them counts",
            )
        made[key] = value
    return made


def _int(digits: str) -> int:
    if len(digits) > 17 or abs(value := int(digits)) > MAX_INT:
        _bad_number(digits)
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        _bad_number(digits)
    return value


def _bad_number(said: str) -> NoReturn:
    raise Refused(
        "bad_number",
        f"{_short(said)} is no number that every JSON reader can hold",
        "send finite numbers, and whole ones within 2^53; longer ones as strings",
    )


def _bad_text(what: str) -> NoReturn:
    raise Refused(
        "bad_text", f"a string has {what} in it", "send whole Unicode characters, without NUL"
    )


def _too_large(said: str) -> NoReturn:
    raise Refused(
        "too_large", said, f"it may have at most {MAX_BYTES} bytes, most of them in strings"
    )


def _check_texts(value: Any) -> None:
    """What escapes can smuggle in. The depth is checked by now, so this may recurse."""
    match value:
        case str():
            if "\0" in value:
                _bad_text("NUL")
            _check_surrogates(value)
        case dict():
            for key, item in value.items():  # type: ignore[misc]  # of any kind
                _check_texts(key)
                _check_texts(item)
        case list():
            for item in value:  # type: ignore[misc]  # of any kind
                _check_texts(item)
        case _:
            pass


def _short(said: str) -> str:
    text = said if len(said) <= 40 else f"{said[:40]}…"
    return repr(text.encode("utf-8", "replace").decode())
