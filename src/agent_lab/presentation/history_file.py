"""`agent-lab check`: a history in a file, and what is said of it.

The file holds a list of messages or a request body in the dialect's own wire format, or JSON lines
of either, or a journal of ours.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from agent_lab.domain.dialects.check import check_history
from agent_lab.domain.dialects.containers import LARGEST, find, parse
from agent_lab.domain.dialects.explain import explain_error, locate_error
from agent_lab.domain.dialects.importing import ImportedHistory, import_history
from agent_lab.domain.dialects.rendering import written
from agent_lab.domain.dialects.repair import repair_report
from agent_lab.domain.dialects.violations import (
    HistoryUnreadable,
    UnknownDialect,
    UnknownProfileKey,
    Violation,
)
from agent_lab.domain.errors import AgentLabError
from agent_lab.presentation.escapes import visible, visible_json

_MOST = 5
"""Rules that an explanation names; servers that copied a text all fit it."""


class FileUnusable(AgentLabError):
    """The file holds no history, or an option says nothing."""


class HistoryFile(NamedTuple):
    """What a file gives to check: messages, tools, and what it says of itself."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    profile: dict[str, Any]


class Answer(NamedTuple):
    """What to print, and whether it is what one hoped for."""

    text: str
    is_good: bool


def read_history_file(path: Path) -> HistoryFile:
    """The history in a file; raises FileUnusable with what to give instead."""
    with _as_unusable(f"{path}: "):
        found = find(_content(path))
    wire = found.wire
    if found.ours is not None:
        wire = written(found.ours, found.format).messages
    return HistoryFile(wire, found.tools, found.profile)


def read_imported(path: Path) -> ImportedHistory:
    """The history in a file, to go on from; raises FileUnusable."""
    with _as_unusable(f"{path}: "):
        return import_history(_content(path))


def _content(path: Path) -> Any:
    try:
        if path.stat().st_size > LARGEST:
            raise HistoryUnreadable(f"it is over {LARGEST >> 20} MiB")
        return parse(path.read_bytes())
    except OSError as error:
        raise FileUnusable(f"cannot read {str(path)!r}: {error.strerror}; give a file") from error


def read_profile_options(options: Sequence[str]) -> dict[str, Any]:
    """`--profile k=v` as keyword arguments."""
    pairs = [option.partition("=") for option in options]
    if bad := [key for key, equals, _ in pairs if not (key and equals)]:
        raise FileUnusable(f"--profile {bad[0]!r} says no value; write it as key=value")
    return {key: value for key, _, value in pairs}


def check_file(path: Path, dialect: str, profile: Sequence[str], *, as_json: bool) -> Answer:
    """What is wrong, where, what the provider would say and how to mend it; the verdict last."""
    file = read_history_file(path)
    given = file.profile | read_profile_options(profile)
    with _as_unusable():
        violations = check_history(file.messages, dialect, file.tools, **given)
    errors = sum(violation.severity == "error" for violation in violations)
    if as_json:
        return _json({"valid": not errors, "violations": violations}, is_good=not errors)
    found = f"{_count(errors, 'error')}, {_count(len(violations) - errors, 'warning')}"
    answer = "not valid" if errors else "valid"
    end = f"{answer} for {dialect}: {_count(len(file.messages), 'message')}, {found}"
    return Answer("\n\n".join([*map(_told, violations), end]), is_good=not errors)


def repair_file(path: Path, dialect: str, profile: Sequence[str], *, as_json: bool) -> Answer:
    """The history mended, or with words what was done to it; good if nothing is left to mend."""
    file = read_history_file(path)
    given = file.profile | read_profile_options(profile)
    with _as_unusable():
        report = repair_report(file.messages, dialect, file.tools, **given)
    good = not report.left
    if as_json:
        changes, left = report.changes, report.left
        said = {"messages": report.messages, "changes": changes, "left": left}
        return _json(said, is_good=good)
    done = [
        visible(f"{c.deed} {'a message' if c.where is None else f'message {c.where}'}: {c.reason}")
        for c in report.changes
    ]
    end = f"{_count(len(done), 'change')} for {dialect}; --json prints the mended history"
    return Answer("\n".join([*done, *map(_told, report.left), end]), is_good=good)


def explain(error: str, *, as_json: bool) -> Answer:
    """Which rules a provider's error text is about; good if there are any."""
    found = explain_error(error)
    if as_json:
        return _json([one._asdict() for one in found], is_good=bool(found))
    said = [
        f"{one.dialect}: {one.rule}\n  {one.explanation}\n  fix: {one.fix}" for one in found[:_MOST]
    ]
    if len(found) > _MOST:
        said.append(f"{_count(len(found) - _MOST, 'less likely rule')} left out; --json has all")
    return Answer(visible("\n\n".join(said)) or "no rule is known for this", is_good=bool(found))


def locate(
    error: str, path: Path, dialect: str, profile: Sequence[str], *, as_json: bool
) -> Answer:
    """Which faults of a history a provider's error text is about; good if there are any."""
    file = read_history_file(path)
    given = file.profile | read_profile_options(profile)
    with _as_unusable():
        found = locate_error(error, file.messages, dialect, file.tools, **given)
    if as_json:
        return _json(found, is_good=bool(found))
    said = "\n\n".join(map(_told, found))
    return Answer(said or "nothing in this history fits that error", is_good=bool(found))


@contextmanager
def _as_unusable(where: str = "") -> Generator[None]:
    try:
        yield
    except (HistoryUnreadable, UnknownDialect, UnknownProfileKey) as error:
        raise FileUnusable(f"{where}{error}") from error


def _json(value: object, *, is_good: bool) -> Answer:
    return Answer(visible_json(msgspec.json.encode(value).decode()), is_good=is_good)


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
