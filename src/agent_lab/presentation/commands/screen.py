"""What a command says goes through this; `cli.py` has the one that prints."""

from typing import Protocol, TextIO

from rich.console import Console

from agent_lab.domain.errors import AgentLabError


class Unusable(AgentLabError):
    """The command line asks for something that cannot be; the exit status is 2."""


class Screen(Protocol):
    """Standard output, which is the command's alone, and standard error for remarks."""

    @property
    def console(self) -> Console:
        """Standard output as rich draws on it."""
        ...

    @property
    def out(self) -> TextIO:
        """Standard output itself."""
        ...

    def line(self, text: str) -> None:
        """A line on standard output, now."""
        ...

    def draw(self, *renderables: object) -> None:
        """Something rich draws, on standard output."""
        ...

    def complain(self, text: str) -> None:
        """One line on standard error."""
        ...
