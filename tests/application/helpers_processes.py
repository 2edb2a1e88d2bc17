"""Hearing from a process under test, and of its death, without a clock."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path


class Line:
    """A named pipe on which processes say that they are there.

    Whoever has it open, and his children, holds it; it ends when the last of them is gone.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    async def says(self) -> str:
        """What is said next; empty when everybody who held the line is gone."""
        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._fd, heard.set)
        try:
            async with asyncio.timeout(5):
                await heard.wait()
            return os.read(self._fd, 4096).decode().strip()
        finally:
            loop.remove_reader(self._fd)

    async def is_dead(self) -> bool:
        """Whether it ends; waits for it."""
        while await self.says():
            pass
        return True

    def close(self) -> None:
        """Our own end."""
        os.close(self._fd)
