"""Positions in the journals of agents, as a text that anybody can keep and bring back.

`EPOCH:SEQ`, and several of them with commas between. An epoch names one numbering of entries, so a
position of a conversation that was begun anew since counts for nothing.
"""

from collections.abc import Iterable, Mapping

from agent_lab.application.served import ServedSession
from agent_lab.domain.errors import SessionError

_DIGITS = 16


class BadCursor(SessionError):
    """The text is no position, or one beyond the last entry."""

    def __init__(self, said: str, why: str) -> None:
        short = said if len(said) <= 60 else f"{said[:60]}…"
        super().__init__(f"{short!r} is no cursor: {why}; use one that an answer gave, or none")


def cursor(served: ServedSession, seq: int) -> str:
    """This position; never beyond what may be told."""
    return f"{served.epoch}:{min(seq, served.told)}"


def joined(cursors: Iterable[str]) -> str:
    """The positions of several, as one text."""
    return ",".join(cursors)


def positions(text: str | None) -> dict[str, int]:
    """Positions by epoch; raises BadCursor."""
    found: dict[str, int] = {}
    for one in text.split(",") if text else ():
        epoch, colon, said = one.strip().rpartition(":")
        if not (colon and epoch and said.isascii() and said.isdigit() and len(said) < _DIGITS):
            raise BadCursor(one, "it has not the form EPOCH:SEQ")
        found[epoch] = int(said)
    return found


def position(found: Mapping[str, int], served: ServedSession) -> int | None:
    """The position of this agent; None if there is none. Raises BadCursor for one to come."""
    seq = found.get(served.epoch)
    if seq is not None and seq > served.last_seq:
        raise BadCursor(f"{served.epoch}:{seq}", f"its last entry is {served.last_seq}")
    return seq
