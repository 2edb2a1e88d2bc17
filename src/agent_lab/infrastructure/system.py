"""The real outside: the wall clock and ids that nobody can guess."""

import asyncio
import secrets
import time
from collections.abc import Callable


class SystemOutside:
    """Wall time from the system, ids from its entropy."""

    def wall_time(self) -> float:
        """Seconds since 1970, UTC."""
        return time.time()

    def clock(self, loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
        """asyncio's own loops read time.monotonic; asking it directly saves a call an entry."""
        own = getattr(loop.time, "__func__", None) is asyncio.BaseEventLoop.time
        return time.monotonic if own else loop.time

    def new_id(self, prefix: str) -> str:
        """`prefix_` and 64 random bits in hex."""
        return f"{prefix}_{secrets.token_hex(8)}"
