"""What the token numbers of a provider mean, how full the context is, and what it cost.

Each provider counts by its own meaning. OpenAI and Gemini count cached tokens inside the input, so
adding them would count them twice. Anthropic's Messages API reports cache reads and writes beside
`input_tokens`, so what the request filled is their sum.
"""

from typing import Any

import msgspec

from agent_lab.domain.messages import Usage

MOST = 1 << 53
"""Greater counts are no counts: JSON numbers beyond it lose digits."""


def count(said: Any) -> int | None:
    """A token count as a provider sent it; None for a missing, negative or absurd one."""
    if isinstance(said, int) and not isinstance(said, bool) and 0 <= said < MOST:
        return said
    return None


def cached_inside(
    input_tokens: Any, output_tokens: Any, *, cached: Any = None, reasoning: Any = None
) -> Usage:
    """OpenAI's and Gemini's numbers: `cached` is a part of the input, `reasoning` of the output."""
    whole = count(input_tokens)
    return Usage(
        whole,
        count(output_tokens),
        cache_read_tokens=count(cached),
        reasoning_tokens=count(reasoning),
        context_tokens=whole,
    )


def cached_beside(
    input_tokens: Any, output_tokens: Any, *, read: Any = None, written: Any = None
) -> Usage:
    """Anthropic's numbers: the context is input, cache reads and cache writes together."""
    fresh, from_cache, to_cache = count(input_tokens), count(read), count(written)
    parts = [part for part in (fresh, from_cache, to_cache) if part is not None]
    return Usage(
        fresh,
        count(output_tokens),
        cache_read_tokens=from_cache,
        cache_write_tokens=to_cache,
        context_tokens=sum(parts) if parts else None,
    )


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars a million tokens. Without a price of its own, cached input costs as input does."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


def cost(usage: Usage, prices: Prices) -> float:
    """US dollars of one call. Reasoning is a part of the output and costs as such."""
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    fresh = max((usage.context_tokens or usage.input_tokens or 0) - read - written, 0)
    dollars = fresh * prices.input + (usage.output_tokens or 0) * prices.output
    dollars += read * (prices.input if prices.cache_read is None else prices.cache_read)
    dollars += written * (prices.input if prices.cache_write is None else prices.cache_write)
    return dollars / 1_000_000


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn or a session came to; None for what no call has told.

    `context_used` is the fullest request so far: it only grows within a session, and a new session
    begins anew. `context_percent` is of `context_max`, the model's window.
    """

    context_used: int | None = None
    context_max: int | None = None
    context_percent: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class Meter:
    """Adds up the calls of one session, and of its turn."""

    __slots__ = ("_prices", "_session", "_told", "_turn", "_window")

    def __init__(self, window: int | None = None, prices: Prices | None = None) -> None:
        """`window` is the most tokens the model takes; None if nobody knows."""
        self._window = window
        self._prices = prices
        self._session = self._turn = Spent(context_max=window)
        self._told = False

    @property
    def of_turn(self) -> Spent | None:
        """What the turn came to; None if no call of it told."""
        return self._turn if self._told else None

    @property
    def session(self) -> Spent:
        """What the session came to."""
        return self._session

    @property
    def turn(self) -> Spent:
        """What the turn came to; its context is the session's, which the turn filled on."""
        return self._turn

    def begin_turn(self) -> None:
        """The next turn costs nothing yet."""
        self._told = False
        now = self._session
        self._turn = Spent(
            context_used=now.context_used,
            context_max=now.context_max,
            context_percent=now.context_percent,
        )

    def add(self, usage: Usage) -> None:
        """One call's numbers."""
        self._told = True
        dollars = usage.cost_usd
        if dollars is None and self._prices is not None:
            dollars = cost(usage, self._prices)
        self._session = self._added(self._session, usage, dollars)
        self._turn = self._added(self._turn, usage, dollars)

    def _added(self, spent: Spent, usage: Usage, dollars: float | None) -> Spent:
        filled = usage.input_tokens if usage.context_tokens is None else usage.context_tokens
        used, window = _most(spent.context_used, filled), self._window
        if window is not None and used is not None and used > window:
            window = used  # the provider took it, so its window is larger than was said
        percent = round(100 * used / window, 1) if used is not None and window else None
        return Spent(
            context_used=used,
            context_max=window,
            context_percent=percent,
            input_tokens=_sum(spent.input_tokens, filled),
            output_tokens=_sum(spent.output_tokens, usage.output_tokens),
            cost_usd=_sum(spent.cost_usd, dollars),
        )


def _most(a: int | None, b: int | None) -> int | None:
    return max(a, b) if a is not None and b is not None else b if a is None else a


def _sum(a: Any, b: Any) -> Any:
    return a + b if a is not None and b is not None else b if a is None else a
