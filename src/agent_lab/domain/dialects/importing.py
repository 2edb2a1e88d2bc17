"""A history from elsewhere, checked and mended, as messages that a session can go on from."""

import json
from typing import Any

import msgspec

from agent_lab.domain.dialects.check import check_history
from agent_lab.domain.dialects.containers import Found, find
from agent_lab.domain.dialects.reading import read_wire
from agent_lab.domain.dialects.readings.pieces import Read
from agent_lab.domain.dialects.rendering import written
from agent_lab.domain.dialects.repair import Repair, repair_report
from agent_lab.domain.dialects.repairs.passes import Change
from agent_lab.domain.dialects.rules.reading import DEEPEST, Wire
from agent_lab.domain.dialects.violations import HistoryUnreadable, Violation
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import Imported
from agent_lab.domain.repair import repair


class ImportedHistory(msgspec.Struct, frozen=True):
    """What was given, what is wrong with it, and what it became.

    `lines` tell each message, in the order of the history, also those that were dropped and made;
    `violations` and `changes` are about `wire`, the list as it was given.
    """

    format: str
    wire: list[Wire]
    tools: list[Wire] | None
    profile: dict[str, Any]
    violations: tuple[Violation, ...]
    changes: tuple[Change, ...]
    lines: tuple[Imported, ...]

    @property
    def history(self) -> list[ChatMessage]:
        """The messages to go on from; a provider takes them."""
        return [line.message for line in self.lines if line.fate != "dropped"]

    @property
    def is_valid(self) -> bool:
        """Whether the provider would have taken it as it was."""
        return all(violation.severity == "warning" for violation in self.violations)

    def line_of(self, where: int | None) -> int | None:
        """Which of `lines` tells of the wire message at this place."""
        if where is None:
            return None
        exact = (n for n, line in enumerate(self.lines) if line.index == where)
        before = [(line.index, n) for n, line in enumerate(self.lines) if line.index is not None]
        near = max((pair for pair in before if pair[0] <= where), default=(0, None))
        return next(exact, near[1])


def import_history(content: Any, wire_format: str | None = None) -> ImportedHistory:
    """Reads a parsed JSON value; raises HistoryUnreadable. See `containers.parse` for text."""
    found = find(_sayable(content), wire_format)
    if not found.wire and not found.ours:
        raise HistoryUnreadable("it is empty")
    wire = found.wire if found.ours is None else written(found.ours, found.format).messages
    violations = check_history(wire, found.format, found.tools, **found.profile)
    report = repair_report(wire, found.format, found.tools, **found.profile)
    lines = _ours(found.ours) if found.ours is not None else _lines(found, report)
    if found.system:
        system = ChatMessage("system", found.system)
        lines = [Imported(index=None, message=system, fate="kept"), *lines]
    return ImportedHistory(
        "journal" if found.ours is not None else found.format,
        wire,
        found.tools,
        found.profile,
        tuple(violations),
        report.changes,
        tuple(lines),
    )


def _sayable(content: Any) -> Any:
    """Without halves of surrogate pairs, which no socket takes (T24)."""
    try:
        msgspec.json.encode(content)
    except UnicodeEncodeError:
        text = json.dumps(content, ensure_ascii=False)
        return json.loads(text.encode("utf-8", "replace"))
    except RecursionError:
        raise HistoryUnreadable(f"it is nested more than {DEEPEST} deep") from None
    return content


def _ours(messages: list[ChatMessage]) -> list[Imported]:
    """Messages of ours need no wire format to be mended."""
    places = {id(message): n for n, message in enumerate(messages)}
    kept = repair(messages)
    lines: list[Imported] = []
    for message in kept:
        at = places.get(id(message))
        fate, why = ("kept", None) if at is not None else ("made", "every call needs a reply")
        lines.append(Imported(index=at, message=message, fate=fate, why=why))
    standing = {id(message) for message in kept}
    gone = [
        Imported(index=n, message=message, fate="dropped", why="it answers nothing or says nothing")
        for n, message in enumerate(messages)
        if id(message) not in standing
    ]
    return _merged(lines, gone)


def _lines(found: Found, report: Repair) -> list[Imported]:
    reads = read_wire(report.messages, found.format)
    by_message = {id(read.message): read for read in reads}
    kept = repair([read.message for read in reads])
    changed = {change.where: change for change in report.changes if change.where is not None}
    lines = [_line(message, by_message.get(id(message)), report, changed) for message in kept]
    standing = {id(message) for message in kept}
    gone = [
        Imported(index=at, message=read.message, fate="dropped", why="it says nothing")
        for read in reads
        if id(read.message) not in standing and (at := report.origins[read.at]) is not None
    ]
    dropped = {change.where: change for change in report.changes if change.deed == "dropped"}
    for at, change in dropped.items():
        if at is not None and at not in report.origins:
            gone += [
                Imported(index=at, message=read.message, fate="dropped", why=change.reason)
                for read in read_wire([found.wire[at]], found.format)
            ]
    return _merged(lines, gone)


def _line(
    message: ChatMessage, read: Read | None, report: Repair, changed: dict[int, Change]
) -> Imported:
    at = report.origins[read.at] if read is not None else None
    if read is None or at is None:
        return Imported(index=None, message=message, fate="made", why="every call needs a reply")
    if read.left_out:
        why = f"our messages cannot hold {', '.join(read.left_out)}"
        return Imported(index=at, message=message, fate="edited", why=why)
    change = changed.get(at)
    if change is not None and change.deed in ("edited", "moved"):
        return Imported(index=at, message=message, fate=change.deed, why=change.reason)
    return Imported(index=at, message=message, fate="kept")


def _merged(lines: list[Imported], gone: list[Imported]) -> list[Imported]:
    """What was dropped stands in front of the first message that came after it."""
    merged = list(lines)
    for dropped in sorted(gone, key=lambda line: -(line.index or 0)):
        later = (n for n, line in enumerate(merged) if (line.index or -1) > (dropped.index or 0))
        merged.insert(next(later, len(merged)), dropped)
    return merged
