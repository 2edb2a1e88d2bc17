"""`agent-lab check`: a history in a file, and what is said of it.

The file holds a list of messages, or a request body as a log keeps it; both in the dialect's own
wire format.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from agent_lab.domain.dialects.violations import Violation
from agent_lab.domain.errors import AgentLabError
from agent_lab.presentation.terminal import visible

_LISTS = ("messages", "input", "contents")
"""Where a request body of Chat and Anthropic, of Responses, of Gemini has its history."""


class FileUnusable(AgentLabError):
    """The file holds no history, or an option says nothing."""


class HistoryFile(NamedTuple):
    """What a file gives to check: messages, tools, and what it says of itself."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    profile: dict[str, Any]


def read_history_file(path: Path) -> HistoryFile:
    """The history in a JSON file; raises FileUnusable with what to give instead."""
    try:
        data: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise FileUnusable(f"cannot read {str(path)!r}: {error.strerror}; give a file") from error
    except (ValueError, RecursionError) as error:
        raise FileUnusable(f"{path} is not JSON: {error}; mend it") from error
    if isinstance(data, list):
        return HistoryFile(cast("list[dict[str, Any]]", data), None, {})
    body = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    for name in _LISTS:
        if isinstance(history := body.get(name), list | str):
            return HistoryFile(_as_messages(history), body.get("tools"), _profile(body))
    raise FileUnusable(
        f"{path} holds no history; give a list of messages, or a request body with one of "
        f"{', '.join(_LISTS)}"
    )


def _as_messages(history: Any) -> list[dict[str, Any]]:
    """Responses takes a bare string for one user message."""
    return [{"role": "user", "content": history}] if isinstance(history, str) else history


def _profile(body: dict[str, Any]) -> dict[str, Any]:
    """What a request body says of what the verdict depends on."""
    kinds = {"model": str, "store": bool}
    return {name: body[name] for name, kind in kinds.items() if isinstance(body.get(name), kind)}


def read_profile_options(options: Sequence[str]) -> dict[str, Any]:
    """`--profile k=v` as keyword arguments."""
    pairs = [option.partition("=") for option in options]
    if bad := [key for key, equals, _ in pairs if not (key and equals)]:
        raise FileUnusable(f"--profile {bad[0]!r} says no value; write it as key=value")
    return {key: value for key, _, value in pairs}


def verdict(violations: Sequence[Violation]) -> bool:
    """Whether a history with these is valid: warnings do not make it invalid."""
    return not any(violation.severity == "error" for violation in violations)


def as_json(violations: Sequence[Violation]) -> dict[str, Any]:
    """The answer of `--json`."""
    return {"valid": verdict(violations), "violations": list(violations)}


def as_text(violations: Sequence[Violation], dialect: str, count: int) -> str:
    """What is wrong, where, what the provider would say and how to mend it; the verdict last."""
    said = [_told(violation) for violation in violations]
    errors = sum(violation.severity == "error" for violation in violations)
    warnings = len(violations) - errors
    found = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"
    answer = "valid" if not errors else "not valid"
    return "\n\n".join([*said, f"{answer} for {dialect}: {_count(count, 'message')}, {found}"])


def _told(violation: Violation) -> str:
    place = "history" if violation.where is None else f"message {violation.where}"
    ids = f" ({', '.join(violation.ids)})" if violation.ids else ""
    lines = [
        f"{violation.severity} in {place}{ids}: {violation.rule}",
        f"  {violation.explanation}",
        f"  provider: {violation.provider_error}",
        f"  fix: {violation.fix}",
    ]
    return visible("\n".join(lines))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
