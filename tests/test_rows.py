"""Each row of the lists of faults and scenarios that a capability names has a test with its id.

A row is an id such as C07, SEC-24 or S71. The marks are read off the tests' source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def rows(letters: str, first: int, last: int | None = None, *, width: int = 2) -> set[str]:
    """The ids from `first` to `last`."""
    return {f"{letters}{number:0{width}}" for number in range(first, (last or first) + 1)}


WIRE = (
    rows("C", 1, 22)
    | rows("C", 24, 29)
    | rows("S", 49, 54)
    | rows("SEC-", 1, 20)
    | rows("SEC-", 22, 29)
    | rows("SEC-", 33)
    | rows("SEC-", 41)
    | rows("T", 3, 6, width=1)
    | rows("T", 40, 41)
    | rows("S", 71, 75)
    | rows("O", 1, 3)
    | {"O06", "O10", "R10"}
)
"""What the wire, the guard, stopping and starting answer for."""


LINE = (
    rows("S", 1, 5, width=1)
    | rows("S", 7, 9, width=1)
    | rows("S", 11, 14)
    | rows("S", 16, 20)
    | rows("S", 22, 25)
    | rows("S", 28)
    | rows("S", 56, 60)
    | rows("S", 76, 79)
    | {"S81"}
)
"""Scenarios that the line answers for."""
STORE = rows("S", 1, 17) | {"T22"}
"""Faults that the store answers for."""
LEFT = rows("R", 7, 9) | rows("R", 18, 21)
"""Faults of tools that do not end, or leave something behind."""


WAITS = rows("S", 29, 31) | rows("S", 33, 36) | rows("S", 38, 39) | {"S41"}
"""Scenarios that waiting for agents answers for."""


def marked(source: str) -> Iterator[tuple[str, str]]:
    """The ids in `@pytest.mark.fault("…")` and `@pytest.mark.scenario("…")`, with their list:
    the fault S12 and the scenario S12 are two things."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in (
            "pytest.mark.fault",
            "pytest.mark.scenario",
        ):
            kind = name.rpartition(".")[2]
            yield from ((kind, str(a.value)) for a in node.args if isinstance(a, ast.Constant))


MARKED = {mark for path in TESTS.rglob("test_*.py") for mark in marked(path.read_text("utf-8"))}


@pytest.mark.parametrize(
    ("kinds", "capability"),
    [
        (("fault", "scenario"), WIRE),
        (("scenario",), LINE),
        (("fault",), STORE),
        (("fault",), LEFT),
        (("scenario",), WAITS),
    ],
    ids=["wire", "line", "store", "left", "waits"],
)
def test_every_row_has_a_test(kinds: tuple[str, ...], capability: set[str]) -> None:
    assert sorted(capability - {id_ for kind, id_ in MARKED if kind in kinds}) == []


def test_a_row_without_a_test_is_seen() -> None:
    source = '@pytest.mark.fault("C01")\n@pytest.mark.scenario("S49")\ndef test_x(): "C02"'

    assert set(marked(source)) == {("fault", "C01"), ("scenario", "S49")}
    assert rows("SEC-", 9, 10) | rows("T", 3, width=1) == {"SEC-09", "SEC-10", "T3"}
