"""A socket that watches: the present state of all agents and sessions, again as it changes."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from agent_lab.application.agents import Agents
from agent_lab.application.changes import Changed, Watcher
from agent_lab.application.served import ServedSession
from agent_lab.domain.errors import AgentLabError
from agent_lab.presentation.downstream import Ended, SocketLimits
from agent_lab.presentation.encoder import hidden_text
from agent_lab.presentation.views import refused_by, session_view
from agent_lab.presentation.wire import error_frame


class Watching:
    """Tells one client what goes on everywhere; the one writer of its socket.

    What changes while the client reads slowly, or within `watch_interval`, is told once, as it is
    then: it costs what there is, however much happens and however slow the client.
    """

    def __init__(
        self, agents: Agents, send: Callable[[str], Awaitable[None]], limits: SocketLimits
    ) -> None:
        self._agents = agents
        self._send = send
        self._limits = limits
        self._answers: deque[str] = deque()
        self._watcher: Watcher | None = None

    def refuse(self, error: AgentLabError) -> None:
        """Tell this client that its frame was not obeyed."""
        if len(self._answers) >= self._limits.answers:
            raise Ended(1008, "reads none of its answers")
        self._answers.append(error_frame(refused_by(error)))
        if self._watcher is not None:
            self._watcher.wake()

    async def run(self) -> None:
        """Tell everything, and then what changes, until cancelled."""
        with self._agents.changes.watch() as watcher:
            self._watcher = watcher
            await self._send(self._everything())
            while True:
                while self._answers:
                    await self._send(self._answers.popleft())
                if changed := watcher.take():
                    await self._send(self._everything() if changed.all else self._some(changed))
                    await asyncio.sleep(self._limits.watch_interval)
                else:
                    await watcher.wait()

    def _everything(self) -> str:
        sessions = self._agents.sessions()
        return _frame("watching", self._states(self._agents.names), sessions)

    def _some(self, changed: Changed) -> str:
        kept = {session.session_id: session for session in self._agents.sessions()}
        sessions = [kept[name] for name in kept if name in changed.sessions]
        gone = sorted(changed.sessions - kept.keys())
        return _frame("changed", self._states(sorted(changed.agents)), sessions, gone=gone)

    def _states(self, names: Iterable[str]) -> list[dict[str, Any]]:
        return [agent_state(self._agents, name) for name in names]


def agent_state(agents: Agents, name: str) -> dict[str, Any]:
    """What a watcher is told of an agent now. Who adds to it calls `changes.agent(name)`."""
    running, waiting = agents.line.book.depth(name)
    busy = agents.is_busy(agents.get(name))
    return {"name": name, "is_busy": busy, "running": running, "queue_length": waiting}


def _frame(
    kind: str, states: list[dict[str, Any]], sessions: list[ServedSession], **more: Any
) -> str:
    views = [session_view(session) for session in sessions]
    return hidden_text({"type": kind, "agents": states, "sessions": views, **more})
