"""Options of the commands that talk to providers: another address, and cassettes."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agent_lab.application.agent import Agent
from agent_lab.presentation.commands.screen import Unusable

Tape = TypeVar("Tape")


def at(base_url: str | None, agent: Agent) -> Agent:
    """The agent, with its model at this address if one is given."""
    if base_url is not None:
        agent.base_url = base_url
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
