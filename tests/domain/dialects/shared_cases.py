"""The shared validity cases: our copy, and those beside the repository when they are there."""

import json
import os
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[3]
SHARED = Path(os.environ.get("AGENT_LAB_SHARED", ROOT.parent / "shared")) / "validity"


def cases() -> list[dict[str, Any]]:
    """Each case once, by id."""
    found = {
        case["id"]: case
        for folder in (DATA / "cases", SHARED / "cases")
        for path in sorted(folder.glob("*.json"))
        for case in json.loads(path.read_text(encoding="utf-8"))
    }
    return list(found.values())


def rules() -> list[dict[str, Any]]:
    return json.loads((DATA / "rules.json").read_text(encoding="utf-8"))


def scenarios() -> list[dict[str, Any]]:
    return json.loads((DATA / "scenarios.json").read_text(encoding="utf-8"))["scenarios"]


def profile_of(case: dict[str, Any]) -> dict[str, Any]:
    return case.get("context") or {}
