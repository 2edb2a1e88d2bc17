"""Sessions that were closed, until nothing of them works any more."""

import asyncio
from collections.abc import Iterable

from agent_lab.application.served import ServedSession


class Closings:
    """Closes sessions, and knows those in which work goes on that ignored its end."""

    def __init__(self) -> None:
        self._closing: set[asyncio.Task[None]] = set()
        self._gone: list[tuple[ServedSession, asyncio.Task[None]]] = []

    def close(self, group: asyncio.TaskGroup, served: ServedSession, why: str) -> None:
        """End it at once; its workers have the grace to leave."""
        served.gone = served.gone or why
        served.runtime.wind_down()
        task = group.create_task(served.runtime.close(), name=f"close {served.session_id}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        self._gone = [*self._restless(), (served, task)]

    async def over(self, grace: float) -> None:
        """Wait until all workers have left, `grace` seconds at most; then they are left."""
        if self._closing:
            await asyncio.wait(self._closing, timeout=grace)
        for task in self._closing:
            task.cancel()

    def haunted(self, live: Iterable[ServedSession]) -> list[ServedSession]:
        """Of these and of those that were closed, in whom work goes on that ignored its end."""
        self._gone = self._restless()
        every = [*live, *(served for served, _ in self._gone)]
        found = {id(one): one for one in every if one.runtime.session.abandoned.total}
        return list(found.values())

    def _restless(self) -> list[tuple[ServedSession, "asyncio.Task[None]"]]:
        """Of those that were closed, who is not over and done with."""
        return [
            (served, task)
            for served, task in self._gone
            if not task.done() or served.runtime.session.abandoned.total
        ]
