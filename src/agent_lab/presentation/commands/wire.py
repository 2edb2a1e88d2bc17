"""Options of the commands that run agents: another address, cassettes, MCP servers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from agent_lab.application.agent import Agent
from agent_lab.domain.mcp_server import server_said
from agent_lab.presentation.commands.screen import Unusable

Tape = TypeVar("Tape")


def at(base_url: str | None, agent: Agent) -> Agent:
    """The agent, with its model at this address if one is given."""
    if base_url is not None:
        agent.base_url = base_url
    return agent


def with_tools(mcp: Sequence[str] | None, agent: Agent) -> Agent:
    """The agent, with the tools of these servers (`NAME=COMMAND`, `NAME=URL`) besides its own."""
    agent.add_servers([server_said(text) for text in mcp or ()])
    return agent


def tape_for(
    record: Path | None, replay: Path | None, open_tape: Callable[..., Tape]
) -> Tape | None:
    """The tape that was asked for; raises Unusable for both ways at once."""
    if record is not None and replay is not None:
        raise Unusable("--record and --replay exclude each other; give one")
    if folder := record or replay:
        return open_tape(folder, record=record is not None)
    return None
