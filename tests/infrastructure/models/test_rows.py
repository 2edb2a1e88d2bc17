"""Every row of the provider faults has a test that carries its mark."""

from __future__ import annotations

import re
from pathlib import Path

ROWS = [f"P{number:02}" for number in range(1, 30)] + ["T25", "T26", "T27", "T28", "T39"]
ROWS += ["S65", "S66", "S67", "S69", "S70"]
TESTS = Path(__file__).parents[2]


def test_no_row_is_without_a_test() -> None:
    text = "".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    marked = set(re.findall(r'pytest\.mark\.(?:fault|scenario)\("(\w+)"\)', text))
    assert [row for row in ROWS if row not in marked] == []
