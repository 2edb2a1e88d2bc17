"""`render_history`: a conversation of ours as any provider takes it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from agent_lab.domain.dialects.check import DIALECTS
from agent_lab.domain.dialects.repair import repair_report
from agent_lab.domain.dialects.violations import UnknownDialect
from agent_lab.domain.dialects.writing import write_wire
from agent_lab.domain.messages import ChatMessage


class Rendered(NamedTuple):
    """Wire messages, and for each the place of the message of ours that it (first) tells.

    None for what a server's rules made us put in between.
    """

    messages: list[dict[str, Any]]
    places: list[int | None]


def render_history(
    messages: Sequence[ChatMessage], dialect: str, **profile: Any
) -> list[dict[str, Any]]:
    """A conversation as this provider takes it; `profile` as for `check_history`.

    It is written in the provider's format, and then whatever this server, model or template wants
    besides is done to it, as by `repair_history`. Raises `UnknownDialect`, `UnknownProfileKey`.
    """
    return rendered(messages, dialect, **profile).messages


def rendered(messages: Sequence[ChatMessage], dialect: str, **profile: Any) -> Rendered:
    """The same, with the places."""
    plain = written(messages, dialect, model=str(profile.get("model") or ""))
    mended = repair_report(plain.messages, dialect, **profile)
    places = [None if at is None else plain.places[at] for at in mended.origins]
    return Rendered(mended.messages, places)


def written(messages: Sequence[ChatMessage], dialect: str, *, model: str = "") -> Rendered:
    """A conversation in this dialect's format, with its faults if it has any."""
    if dialect not in DIALECTS:
        raise UnknownDialect(dialect, DIALECTS)
    placed = write_wire(messages, DIALECTS[dialect].format, model=model)
    return Rendered([wire for _, wire in placed], [place for place, _ in placed])
