"""Waiting for agents: from a position in each journal, with nothing to subscribe to.

Who waits reads on from a position, so there is no moment between looking and listening at which an
end could be missed. It makes no task and no follower, and takes along what it left in the journals,
however it ends. Of what comes at once this order holds: a cancellation of the task from outside, an
abort, a result, the end of the time.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Literal

from agent_lab.application.resting import Elsewhere, asked, at_rest, closed, is_busy, pending
from agent_lab.application.served import ServedSession
from agent_lab.domain.settling import Settled, Settling

Until = Literal["any", "all"]


class Watch:
    """One agent, read on from a position until it settles.

    `found` is what it settled to, and `has_news` unless that is only that it rests. `position` is
    the last entry that was read and said nothing of the kind.
    """

    def __init__(
        self,
        served: ServedSession,
        elsewhere: Elsewhere | None = None,
        *,
        after: int | None = None,
        settling: Settling | None = None,
        for_active: bool = False,
    ) -> None:
        """Without `after` from now on, and an agent that rests has settled.

        With it one that rests and did nothing since settles without news; `for_active` neither
        does: its next turn is waited for.
        """
        self.served = served
        self.found: Settled | None = None
        self.has_news = False
        self.position = served.last_seq if after is None else after
        self._elsewhere = elsewhere
        self._after = after
        self._is_new = after is None and not for_active
        self._for_active = for_active
        self._settling = settling or Settling()
        if self._is_new:
            self._settling.asks |= pending(served)
        self._ring: Callable[[Watch], None] | None = None
        self._news: asyncio.Future[None] | None = None
        self._unlisten: Callable[[], None] | None = None

    def look(self) -> None:
        """Read on; nothing happens once it has settled."""
        if self.found is not None:
            return None
        gap, entries = self.served.runtime.session.journal.read(self.position)
        self._settling.is_moot |= gap is not None
        for entry in entries:
            found = self._settling.hear(entry.seq, entry.payload)
            if found is not None:
                return self._settle(found)
            self.position = entry.seq
        return self._at_tail()

    def _at_tail(self) -> None:
        """Everything was read: what the agent does now."""
        served, settling = self.served, self._settling
        if settling.asks:
            self._settle(asked(served, next(iter(settling.asks.values()))))
        elif served.runtime.is_closed:
            self._settle(closed(served))
        elif is_busy(served, self._elsewhere):
            self._is_new = False
            settling.is_moot |= served.runtime.session.is_idle  # all it has may be taken back
        elif self._is_new:
            self._settle(at_rest(served))
        elif settling.is_moot:
            self._settle(at_rest(served, self._after))
        elif not self._for_active:
            self.found = at_rest(served, self._after)

    def _settle(self, found: Settled) -> None:
        if found.reason == "cancelled" and self.served.runtime.is_closed:
            found = closed(self.served)  # it was stopped to be closed
        self.found, self.has_news = found, True

    async def stored(self) -> None:
        """Wait until what it settled to is stored, if there is a store; raises StorageError."""
        if self.found is not None:
            await self.served.stored(self.found.seq)

    def unsettle(self) -> None:
        """What is not stored yet must not be told."""
        if self.found is not None and self.found.seq > self.served.told:
            self.position, self.found, self.has_news = self.served.told, None, False

    # -- news ------------------------------------------------------------------------------------

    def listen(self, ring: "Callable[[Watch], None]") -> None:
        """Ring when there is something to look at."""
        self._ring = ring
        if self._news is None or self._news.done():
            self._news = self.served.runtime.session.journal.news()
            self._news.add_done_callback(self._heard)
        if self._elsewhere is not None and self._unlisten is None:
            self._unlisten = self._elsewhere.listen(self._heard)

    def leave(self) -> None:
        """Nobody listens any more."""
        if self._news is not None:
            self._news.remove_done_callback(self._heard)
            self.served.runtime.session.journal.forget(self._news)
            self._news = None
        if self._unlisten is not None:
            self._unlisten()
            self._unlisten = None

    def _heard(self, *_: object) -> None:
        if self._ring is not None:
            self._ring(self)


class _Bell:
    """Rung by any of several watches."""

    def __init__(self, watches: Collection[Watch], until: Until) -> None:
        self._until = until
        # dicts, because the order counts where a run is to be told again
        self._open = dict.fromkeys(watches)
        self._rung = dict.fromkeys(watches)
        self._bell = asyncio.Event()

    async def wait(self) -> None:
        """Return when it was rung."""
        await self._bell.wait()

    def look(self) -> bool:
        """Look where it rang; whether that is enough."""
        self._bell.clear()
        rung, self._rung = self._rung, {}
        has_news = False
        for watch in rung:
            watch.look()
            if watch.found is None:
                watch.listen(self._ring)
            else:
                self._open.pop(watch, None)
                has_news |= watch.has_news
        return not self._open or (has_news and self._until == "any")

    def _ring(self, watch: Watch) -> None:
        self._rung[watch] = None
        self._bell.set()


async def settled(watches: Collection[Watch], until: Until) -> None:
    """Return when one has news, or all have settled, and that is stored; raises StorageError."""
    bell = _Bell(watches, until)
    try:
        while not bell.look():
            await bell.wait()
    finally:
        for watch in watches:
            watch.leave()
    for watch in watches:
        await watch.stored()


def last_look(watches: Collection[Watch], until: Until) -> bool:
    """The time is over: what is there all the same, and is stored, counts; whether it is enough."""
    for watch in watches:
        watch.look()
        watch.unsettle()
    is_one = until == "any" and any(watch.has_news for watch in watches)
    return is_one or all(watch.found is not None for watch in watches)
