"""A session's story as rows for a terminal, and as one line an entry for a test report.

Nothing here prints.
"""

import re
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text as Styled

from agent_lab.application.journal import Entry, Gap
from agent_lab.domain.payloads import (
    Accepted,
    AnyPayload,
    Assistant,
    Cancelled,
    Delivered,
    Done,
    Edited,
    Held,
    LateReply,
    ModelRequested,
    PermissionRequested,
    PermissionResolved,
    Rejected,
    Retrying,
    Text,
    ToolCalled,
    ToolReplied,
    ToolStarted,
    TurnFailed,
    Withdrawn,
)
from agent_lab.domain.redaction import SECRETS
from agent_lab.presentation.escapes import visible

_CLIP = 300


def one_line(entry: Entry, start: float) -> str:
    """Number, seconds since `start`, turn and step, type, and what there is to say."""
    payload = entry.payload
    at = f"{payload.turn}.{payload.step or 0}" if payload.turn else ""
    facts = SECRETS.hide(" ".join(f"{name}={_fact(value)}" for name, value in _facts(payload)))
    head = f"{entry.seq:>5} {entry.at - start:>8.3f} {at:<6} {payload.type:<14}"
    return f"{head} {facts}".rstrip()


def _facts(payload: AnyPayload) -> Iterable[tuple[str, Any]]:
    if isinstance(payload, ModelRequested):
        yield "model", payload.request.model
        yield "messages", payload.request.stop - payload.request.start
        return
    for name in payload.__struct_fields__:
        value = getattr(payload, name)
        if name == "tool_calls":
            value = [call.id for call in value]
        left_out = name in ("turn", "step", "scope") or value is None or value is False
        if not left_out and value not in ([], ()):
            yield name, value


def _fact(value: Any) -> str:
    """As JSON on one line, at most 120 characters; a plain word without its quotes."""
    if isinstance(value, str) and re.fullmatch(r"[\w.-]{1,60}", value):
        return value
    return _clip(visible(msgspec.json.encode(value).decode()), 120)


def _clip(text: str, most: int = _CLIP) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}… ({len(text):,} characters)"


# -- rows ----------------------------------------------------------------------------------------


class Row(NamedTuple):
    """Seconds since the story began, who or what, its text, its style, and how long it took."""

    at: float
    label: str
    text: str
    style: str = ""
    took: str = ""


def plain(row: Row) -> str:
    """A row for a file or a pipe; further lines of its text are indented."""
    first, *more = row.text.split("\n")
    head = f"{row.at:>8.2f} {row.label:<9} {row.took:>7}"
    lines = [f"{head} {first}", *(f"{'':<{len(head)}} {line}" for line in more)]
    return "\n".join(line.rstrip() for line in lines)


def drawn(row: Row) -> RenderableType:
    """A row for a terminal, wrapped under its own column."""
    line = Table.grid(padding=(0, 1))
    line.add_column(width=6, justify="right", style="dim")
    line.add_column(width=9, style=row.style)
    line.add_column(width=7, justify="right", style="dim")
    line.add_column(overflow="fold")
    line.add_row(f"{row.at:.1f}", row.label, row.took, Styled(row.text))
    return line


def typing(line: str, asks: PermissionRequested | None = None) -> RenderableType:
    """The line that is being typed, and what it does."""
    shown = Styled(f"> {line}▌", overflow="fold")
    help_ = "a line steers, /help, Ctrl-C cancels"
    if asks is not None:
        help_ = f"{visible(asks.name)} asks: y allows, n denies, a always, e edits; {help_}"
    shown.append("" if line else f"  {help_}", style="dim" if asks is None else "yellow")
    return shown


class Story:
    """Rows of one session, entry by entry, and what goes on between them."""

    def __init__(self) -> None:
        self.end: Done | TurnFailed | Cancelled | None = None
        self._start: float | None = None
        self._said: dict[str, str] = {}
        self._held: set[str] = set()
        self._tools: dict[str, tuple[str, float | None]] = {}
        self._model_since: float | None = None
        self._streamed = ""
        self._models = self._calls = 0
        self.waiting: dict[str, str] = {}
        """Messages accepted and not yet delivered, by id."""
        self.asks: dict[str, PermissionRequested] = {}
        """Tool calls that wait for permission, by the request's id, oldest first."""
        self._now = 0.0

    def tell(self, batch: Sequence[Entry] | Gap) -> list[Row]:
        """The rows a batch of the journal comes to; escapes in them are made visible."""
        if isinstance(batch, Gap):
            return [Row(0.0, "gap", f"entries {batch.first} to {batch.last} are no longer kept")]
        rows: list[Row] = []
        for entry in batch:
            if self._start is None:
                self._start = entry.at
            self._now = entry.at - self._start
            told = self._rows(entry.payload, self._now)
            rows.extend(row._replace(text=visible(SECRETS.hide(row.text))) for row in told)
        return rows

    def note(self, text: str) -> Row:
        """A remark of ours, at the time of the newest entry."""
        return Row(self._now, "", visible(text), "dim")

    def going_on(self, now: float | None = None) -> list[Row]:
        """What runs now, on the loop's clock: the answer so far, and each tool."""
        if self._start is None:
            return []
        now = time.monotonic() if now is None else now
        at = now - self._start
        rows: list[Row] = []
        if (since := self._model_since) is not None:
            text = visible(self._streamed[-800:]) or "…"
            rows.append(Row(at, "model", text, "blue", _seconds(at - since)))
        for name, since in list(self._tools.values()):  # a copy: a thread draws this
            if since is not None:
                rows.append(Row(at, "running", visible(name), "cyan", _seconds(at - since)))
        return rows

    def _rows(self, payload: AnyPayload, at: float) -> Iterable[Row]:
        match payload:
            case Accepted() | Held() | Delivered() | Withdrawn() | Rejected():
                yield from self._receipt(payload, at)
            case ModelRequested() | Retrying() | Text() | Assistant():
                yield from self._model(payload, at)
            case ToolCalled() | ToolStarted() | ToolReplied() | LateReply():
                yield from self._tool(payload, at)
            case PermissionRequested() | PermissionResolved():
                yield self._asked(payload, at)
            case Done() | TurnFailed() | Cancelled():
                yield from self._ended(payload, at)
            case Edited(after=str() as after) if payload.item in self._said:
                self._said[payload.item] = after
                yield Row(at, "edited", f"“{_clip(after, 80)}”", "yellow")
            case _:  # hand-offs and the gate have no row: --json tells them
                return

    def _receipt(
        self, receipt: Accepted | Held | Delivered | Withdrawn | Rejected, at: float
    ) -> Iterable[Row]:
        said = _clip(self._said.get(receipt.message_id, receipt.message_id), 80)
        match receipt:
            case Accepted():
                self._said[receipt.message_id] = receipt.content
                self.waiting[receipt.message_id] = receipt.content
                yield Row(at, "you", receipt.content, "bold")
            case Held():
                self._held.add(receipt.message_id)
                waits = ", ".join(self._waits_for(name) for name in receipt.blocked_by)
                yield Row(at, "held", f"“{said}” waits for {waits}", "yellow")
            case Delivered():
                self.waiting.pop(receipt.message_id, None)
                if receipt.message_id in self._held:
                    yield Row(at, "delivered", f"“{said}”", "yellow")
            case Withdrawn():
                self.waiting.pop(receipt.message_id, None)
                yield Row(at, "withdrawn", f"“{said}” ({receipt.reason})", "yellow")
            case Rejected():
                yield Row(at, "rejected", f"{receipt.code}: {receipt.message}", "red")

    def _waits_for(self, blocked_by: str) -> str:
        if blocked_by in ("model", "turn"):
            return f"the {blocked_by}"
        name, _ = self._tools.get(blocked_by, (blocked_by, None))
        return f"{name} ({blocked_by})"

    def _model(
        self, payload: ModelRequested | Retrying | Text | Assistant, at: float
    ) -> Iterable[Row]:
        match payload:
            case ModelRequested():
                self._model_since, self._streamed = at, ""
                self._models += 1
            case Text():
                self._streamed += payload.text
            case Retrying():
                self._streamed = ""
                said = f"{payload.code}: {payload.message}; again in {_seconds(payload.delay)}"
                yield Row(at, "retry", said, "yellow")
            case Assistant():
                took = _seconds(at - self._model_since) if self._model_since is not None else ""
                self._model_since, self._streamed = None, ""
                cut = " [cut short]" if payload.partial else ""
                yield Row(at, "model", f"{payload.content or ''}{cut}".strip(), "blue", took)

    def _tool(
        self, payload: ToolCalled | ToolStarted | ToolReplied | LateReply, at: float
    ) -> Iterable[Row]:
        match payload:
            case ToolCalled():
                self._calls += 1
                self._tools[payload.call_id] = (payload.name, None)
                yield Row(at, "call", f"{payload.name}({_arguments(payload.arguments)})", "cyan")
            case ToolStarted():
                self._tools[payload.call_id] = (payload.name, at)
            case ToolReplied():
                _, since = self._tools.pop(payload.call_id, ("", None))
                took = "" if since is None else _seconds(at - since)
                kind = "" if payload.kind in ("result", "error") else f" [{payload.kind}]"
                said = f"{payload.name}{kind}: {_clip(payload.content)}"
                yield Row(at, "reply", said, "red" if payload.is_error else "green", took)
            case LateReply():
                said = f"{payload.name or payload.call_id}: {_clip(payload.content)}"
                yield Row(at, "late", f"{said} [the model does not see it]", "yellow")

    def _asked(self, payload: PermissionRequested | PermissionResolved, at: float) -> Row:
        called = f"{payload.name}({_arguments(payload.arguments)})"
        match payload:
            case PermissionRequested():
                self.asks[payload.request_id] = payload
                why = f"; its needs_approval raised {payload.error}" if payload.error else ""
                return Row(at, "asks", f"{called} wants your permission{why}", "bold yellow")
            case PermissionResolved():
                self.asks.pop(payload.request_id, None)
                label = "allowed" if payload.decision.startswith("allow") else "denied"
                why = "" if payload.reason == "answered" else f" ({payload.reason})"
                return Row(at, label, f"{called}{why}", "yellow")

    def _ended(self, end: Done | TurnFailed | Cancelled, at: float) -> Iterable[Row]:
        self.end, self._model_since = end, None
        sums = f"{_count(self._models, 'model call')}, {_count(self._calls, 'tool call')}"
        match end:
            case Done():
                yield Row(at, "done", sums, "green", _seconds(at))
            case Cancelled():
                yield Row(at, "cancelled", f"by {end.reason}; {sums}", "yellow", _seconds(at))
            case TurnFailed():
                hint = f"; {end.hint}" if end.hint else ""
                yield Row(at, "error", f"{end.code}: {end.message}{hint}", "bold red", _seconds(at))


def _arguments(arguments: dict[str, Any]) -> str:
    said = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in arguments.items())
    return _clip(", ".join(said))


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
