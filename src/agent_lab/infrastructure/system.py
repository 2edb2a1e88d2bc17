"""The real outside: the wall clock and ids that nobody can guess."""

import secrets
import time


class SystemOutside:
    """Wall time from the system, ids from its entropy."""

    def wall_time(self) -> float:
        """Seconds since 1970, UTC."""
        return time.time()

    def new_id(self, prefix: str) -> str:
        """`prefix_` and 64 random bits in hex."""
        return f"{prefix}_{secrets.token_hex(8)}"
