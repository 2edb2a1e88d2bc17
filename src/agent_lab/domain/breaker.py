"""The breaker of one provider and host: when to stop asking a host that cannot be reached.

Pure: the time comes in with each question. Three failed connections in a row open it for 30 s;
then one probe may go, and if that fails it stays open twice as long, 300 s at most. Only failed
connections count: an answer, even a refusal, shows that the host is there; a cancelled call shows
nothing (S66). Connections that fail within 2 s after a stream broke off are its echo and do not
count either (S65).
"""

from typing import Literal

FAILURES = 3
"""Failed connections in a row that open it."""
FIRST_PAUSE = 30.0
"""Seconds it stays open at first; doubled by each failed probe."""
LONGEST_PAUSE = 300.0
"""Most seconds between two probes."""
ECHO = 2.0
"""Seconds after a dropped stream in which failed connections do not count."""

State = Literal["closed", "open", "half_open"]


class Breaker:
    """Asked before each call with `admit`, told how it went with one of the other four.

    `admit` gives a ticket; the ticket of a probe is spent by `reached`, `unreachable` or
    `returned`, so a probe that was cancelled leaves the next one free.
    """

    __slots__ = ("_dropped_at", "_failures", "_pause", "_probe", "_until", "reason")

    def __init__(self) -> None:
        self._failures = 0
        self._pause = FIRST_PAUSE
        self._until: float | None = None
        self._probe: object | None = None
        self._dropped_at = float("-inf")
        self.reason = ""
        """What the last failed connection said."""

    def state(self, now: float) -> State:
        """Asking spends no probe (S67)."""
        if self._until is None:
            return "closed"
        return "open" if now < self._until or self._probe is not None else "half_open"

    def wait(self, now: float) -> float:
        """Seconds until a probe may go; 0 if one may go now, or none is needed."""
        return max(self._until - now, 0.0) if self._until is not None else 0.0

    def admit(self, now: float) -> object | None:
        """A ticket for one call; None while the host is not to be asked."""
        state = self.state(now)
        if state == "open":
            return None
        ticket = object()
        if state == "half_open":
            self._probe = ticket
        return ticket

    def reached(self) -> None:
        """The host answered."""
        self._failures, self._pause = 0, FIRST_PAUSE
        self._until = self._probe = None

    def unreachable(self, ticket: object, now: float, reason: str) -> None:
        """The connection could not be made."""
        self.reason = reason
        if ticket is self._probe:
            self._probe = None
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
            self._until = now + self._pause
        elif self._until is None and now - self._dropped_at > ECHO:
            self._failures += 1
            if self._failures >= FAILURES:
                self._until = now + self._pause

    def returned(self, ticket: object) -> None:
        """The call ended without showing whether the host is there: cancelled, or too slow."""
        if ticket is self._probe:
            self._probe = None

    def dropped(self, now: float) -> None:
        """A stream broke off in the middle."""
        self._dropped_at = now
