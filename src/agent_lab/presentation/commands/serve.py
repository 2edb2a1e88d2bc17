"""`agent-lab serve`."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from agent_lab.application.agent import Agent
from agent_lab.application.agents import Agents
from agent_lab.application.histories import open_imported
from agent_lab.domain.errors import ModelError
from agent_lab.presentation.agent_file import load_agent
from agent_lab.presentation.commands.screen import Screen, Unusable
from agent_lab.presentation.demo import demo_agent
from agent_lab.presentation.foreground import browser_at, serve_until_stopped
from agent_lab.presentation.history_file import read_imported
from agent_lab.presentation.server import listen

OpenAgents = Callable[[Sequence[Agent]], Agents]


def agents_of(files: Sequence[str]) -> list[Agent]:
    """The agents in these files, or the demo; raises Unusable when two have one name."""
    agents = [load_agent(file) for file in files] or [demo_agent()]
    names = [agent.name for agent in agents]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Unusable(f"two agents are named {twice[0]!r}; rename one")
    return agents


def serve(
    screen: Screen,
    open_agents: OpenAgents,
    agents: Sequence[Agent],
    *,
    host: str,
    port: int,
    opens_browser: bool,
    history: Path | None = None,
) -> int:
    """Serve until it is told to stop; the exit status. Its address is the one line of output.

    `history` is a file with a history that the first agent goes on from.
    """
    imported = read_imported(history) if history is not None else None
    listener = listen(host, port)
    registry = open_agents(agents)
    for agent in agents:  # importing an SDK takes seconds, which would hold up every session
        with suppress(ModelError):
            registry.probe(agent)

    def announce(url: str) -> None:
        if imported is not None:
            opened = open_imported(registry, agents[0], imported)
            screen.complain(f"{history} is session {opened.session_id} of {agents[0].name}")
        screen.line(url)
        names = ", ".join(agent.name for agent in agents)
        screen.complain(f"serving {names}; Ctrl-C stops")
        if opens_browser and screen.console.is_terminal:
            visits.enter_context(browser_at(url))

    with ExitStack() as visits:
        serving = serve_until_stopped(registry, listener, announce, screen.complain)
        return asyncio.run(serving)
