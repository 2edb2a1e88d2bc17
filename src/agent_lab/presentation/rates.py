"""How often a client may do something."""

from collections.abc import Callable


class Rate:
    """So many at once, and from then on so many a second (a token bucket)."""

    def __init__(self, per_second: float, burst: int, now: Callable[[], float]) -> None:
        """`now` is seconds that never go back."""
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._left = float(burst)
        self._at = now()

    def take(self) -> float:
        """Take one: 0, or the seconds until there is one."""
        now = self._now()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._per_second
        self._left -= 1
        return 0.0
