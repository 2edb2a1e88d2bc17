"""What has changed since a watcher last looked: names, never a queue of events.

Whoever changes a session or an agent says so (`Changes.session`, `Changes.agent`), and each watcher
has a set of names. Slow or fast, it then reads the present state of these, so what it costs is
bounded by what there is and a thousand changes to one session are one name.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

import msgspec

MOST = 4096
"""Names kept for one watcher; with more, it is told to look at everything again."""


class Changed(msgspec.Struct, frozen=True):
    """Names of sessions and agents to look at again; `all`: there were too many to name."""

    sessions: frozenset[str]
    agents: frozenset[str]
    all: bool = False


class Watcher:
    """One who looks on at everything."""

    def __init__(self) -> None:
        self._sessions: set[str] = set()
        self._agents: set[str] = set()
        self._all = False
        self._changed = asyncio.Event()

    async def wait(self) -> None:
        """Wait until there is something to look at, or somebody calls wake()."""
        await self._changed.wait()
        self._changed.clear()

    def wake(self) -> None:
        """Let wait() return."""
        self._changed.set()

    def take(self) -> Changed | None:
        """What changed since the last time; None for nothing."""
        if not (self._sessions or self._agents or self._all):
            return None
        changed = Changed(frozenset(self._sessions), frozenset(self._agents), self._all)
        self._sessions.clear()
        self._agents.clear()
        self._all = False
        return changed

    def note(self, *, session: str | None = None, agent: str) -> None:
        """Remember that these changed."""
        self._agents.add(agent)
        if session is not None and not self._all:
            self._sessions.add(session)
            if len(self._sessions) > MOST:
                self._sessions.clear()
                self._all = True
        self._changed.set()


class Changes:
    """Where changes are said, and who is told."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()

    @contextmanager
    def watch(self) -> Generator[Watcher]:
        """A watcher, for as long as the `with` lasts."""
        watcher = Watcher()
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def session(self, session_id: str, agent: str) -> None:
        """This session of this agent changed, was opened, or is gone."""
        for watcher in self._watchers:
            watcher.note(session=session_id, agent=agent)

    def agent(self, name: str) -> None:
        """Something about this agent changed that is of no one session: its line, its runs."""
        for watcher in self._watchers:
            watcher.note(agent=name)
