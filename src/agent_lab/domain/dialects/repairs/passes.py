"""What a pass is, how passes run, and how what they did is told."""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, cast

import msgspec

from agent_lab.domain.dialects.rules.reading import Wire, as_text, objects
from agent_lab.domain.dialects.rules.rule import History

# What is put in where something is missing; each text tells a reader that it was made up.
LOST = "Error: no result (the process stopped while the tool ran)"
CONTINUE = "Continue."
UNDERSTOOD = "Understood."
EMPTY = "(empty message)"

Deed = Literal["dropped", "made", "edited", "moved"]


class Pass(msgspec.Struct, frozen=True):
    """One step of a repair: pure and idempotent, from a history to its new list of messages.

    Messages that a pass leaves alone are the same objects afterwards.
    """

    name: str
    reason: str
    run: Callable[[History], list[Wire]]


class Change(msgspec.Struct, frozen=True):
    """One thing that a repair did.

    `where` is the index in the history as given, None for what was made; `before` and `after` are
    the message, None where there was or is none.
    """

    deed: Deed
    where: int | None
    before: Wire | None
    after: Wire | None
    by: str
    reason: str


class Mended(NamedTuple):
    """What the passes made, where each of it was in the history as given, and what they did."""

    messages: list[Wire]
    origins: list[int | None]
    changes: list[Change]


def run_passes(history: History, passes: Sequence[Pass]) -> Mended:
    """All passes in order, on a copy of the messages."""
    now = [fresh(message) for message in history.messages]
    origin: dict[int, int | None] = {id(message): i for i, message in enumerate(now)}
    kept_alive = [now]  # an id is not used again while its object lives
    changes: list[Change] = []
    for step in passes:
        after = step.run(msgspec.structs.replace(history, messages=now))
        for deed, old, new in compare(now, after):
            where = origin.get(id(old)) if old is not None else None
            if new is not None:
                origin[id(new)] = where
            changes.append(Change(deed, where, old, new, step.name, step.reason))
        kept_alive.append(after)
        now = after
    return Mended(now, [origin.get(id(message)) for message in now], changes)


class Difference(NamedTuple):
    """One thing that differs between two lists."""

    deed: Deed
    before: Wire | None
    after: Wire | None


def compare(before: list[Wire], after: list[Wire]) -> list[Difference]:
    """What happened between two lists that share the objects left alone."""
    old = {id(message): i for i, message in enumerate(before)}
    new = {id(message) for message in after}
    gone = [message for message in before if id(message) not in new]
    come = [message for message in after if id(message) not in old]
    both = min(len(gone), len(come))
    kept = [message for message in after if id(message) in old]
    stay = longest_rise([old[id(message)] for message in kept])
    return [
        *(Difference("edited", *pair) for pair in zip(gone[:both], come[:both], strict=True)),
        *(Difference("dropped", message, None) for message in gone[both:]),
        *(Difference("made", None, message) for message in come[both:]),
        *(Difference("moved", m, m) for m in kept if old[id(m)] not in stay),
    ]


def longest_rise(places: list[int]) -> set[int]:
    """The longest rising run through a list, so that few are told as moved."""
    tails: list[int] = []
    before: dict[int, int | None] = {}
    for place in places:
        k = bisect_left(tails, place)
        before[place] = tails[k - 1] if k else None
        tails[k : k + 1] = [place]
    stay: set[int] = set()
    last = tails[-1] if tails else None
    while last is not None:
        stay.add(last)
        last = before[last]
    return stay


def fresh(value: Any) -> Any:
    """A copy in which no two parts are one object, unlike copy.deepcopy's."""
    if isinstance(value, dict):
        return {key: fresh(part) for key, part in cast("Wire", value).items()}
    if isinstance(value, list):
        return [fresh(part) for part in cast("list[Any]", value)]
    return value


def edit(messages: list[Wire], change: Callable[[int, Wire], Wire]) -> list[Wire]:
    """Each message changed or, when nothing changed, as it was."""
    changed = [change(i, message) for i, message in enumerate(messages)]
    return [was if now == was else now for was, now in zip(messages, changed, strict=True)]


def without(message: Wire, *fields: str) -> Wire:
    """The message without some fields."""
    return {field: value for field, value in message.items() if field not in fields}


def short_id(call: str, length: int = 9) -> str:
    """Nine letters and digits that stand for an id, the same each time."""
    return hashlib.sha256(call.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def text_of(content: Any) -> str:
    """The text of a content, its parts joined by line breaks."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        texts = [as_text(part.get("text")) for part in objects(content)]
        return "\n".join(text for text in texts if text)
    return as_json(content)


def as_json(value: Any) -> str:
    """JSON text of whatever a program put into a message."""
    return json.dumps(value, default=str, skipkeys=True)
