"""The command line, and the only place that prints."""

import asyncio
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import IO, Annotated, NoReturn, Protocol, cast

import typer
from rich.console import Console, Group
from rich.live import Live

from agent_lab.application.agent import Agent
from agent_lab.application.journal import Entry, Gap
from agent_lab.application.runtime import Runtime
from agent_lab.bootstrap import DebugRuntime
from agent_lab.domain.errors import AgentLabError
from agent_lab.domain.payloads import Cancelled, Done, TurnFailed
from agent_lab.presentation.agent_file import load_agent
from agent_lab.presentation.demo import demo_agent
from agent_lab.presentation.encoder import Encoder
from agent_lab.presentation.terminal import Story, drawn, plain, visible, visible_json

DONE, FAILED, UNUSABLE, CANCELLED = 0, 1, 2, 130

Batch = Sequence[Entry] | Gap
End = Done | TurnFailed | Cancelled
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

app = typer.Typer(
    name="agent-lab",
    help="A debug runtime for tool-calling chat agents: every hand-off in sight.",
    epilog="FILE.py is a Python file that makes an Agent. Without one there is a built-in demo.",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Unusable(AgentLabError):
    """The command line asks for something that cannot be."""


def main() -> None:
    """The console script. Errors are one line on standard error, unless --debug."""
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        code = CANCELLED
    except BrokenPipeError:  # whoever read us has gone, as `head` does
        code = FAILED
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except Exception as error:  # noqa: BLE001 the user gets a line, not a traceback
        code = _explain(error)
    sys.exit(code or DONE)


def _explain(error: Exception) -> int:
    """Say what was wrong in one line; 2 for what the user gave, 1 for a fault of ours."""
    if "--debug" in sys.argv:
        traceback.print_exception(error)
    if format_message := getattr(error, "format_message", None):  # typer's, of bad options
        context = getattr(error, "ctx", None)
        _complain(f"{format_message()} See {context.command_path if context else 'agent-lab'} -h")
        return UNUSABLE
    if isinstance(error, AgentLabError):
        hint = getattr(error, "hint", "")
        _complain(f"{error}; {hint}" if hint else str(error))
        return UNUSABLE
    _complain(f"{type(error).__name__}: {error}; a fault of agent_lab, report it with --debug")
    return FAILED


def _complain(text: str) -> None:
    print("agent-lab:", " ".join(visible(text).split()), file=sys.stderr, flush=True)


def _own_output() -> IO[str]:
    """Standard output for us alone: what tools, files and children print goes to standard error."""
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(ours, "w", encoding="utf-8", errors="backslashreplace")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """What there is without a command: the version, or the help."""
    if show_version:
        print(f"agent-lab {version('agent-lab')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


# -- run -----------------------------------------------------------------------------------------


@app.command()
def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE.py[:AGENT]] [PROMPT]", help="The agent, and what to ask it."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each journal entry as a line of JSON.")
    ] = False,
    debug: Debug = False,
) -> int:
    """Run an agent once and watch it here.

    Ctrl-C cancels the turn, a second one leaves at once. Exit status: 0 done, 1 error,
    130 cancelled, 2 if it could not begin.
    """
    out = _own_output()
    agent, prompt = _agent_and_prompt(words or [])
    runtime = DebugRuntime(agent)
    telling = _Lines(runtime, out) if as_json else _Rows(out)
    try:
        return asyncio.run(_run(runtime, prompt, telling))
    except BaseExceptionGroup as group:
        raise _first(group) from group
    finally:
        telling.close()


def _agent_and_prompt(words: Sequence[str]) -> tuple[Agent, str]:
    if not any(words) or (len(words) == 1 and not _is_file(words[0])):
        agent, prompt = demo_agent(), "Weather in Oslo?" if not words else words[0]
    elif len(words) == 2:
        agent, prompt = load_agent(words[0]), words[1]
    elif len(words) == 1:
        raise Unusable(f"nothing to ask; say agent-lab run {words[0]} 'PROMPT'")
    else:
        raise Unusable(f"{len(words)} words are too many; put the prompt in quotes")
    if any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise Unusable("the prompt is not UTF-8; say it in UTF-8")
    return agent, prompt


def _is_file(word: str) -> bool:
    return re.search(r"\.py(:\w*)?$", word) is not None


async def _run(runtime: Runtime, prompt: str, telling: "_Telling") -> int:
    end: End | None = None
    _on_interrupt(runtime, telling)
    async with asyncio.TaskGroup() as group:
        group.create_task(_tell(runtime, telling))
        try:
            async with runtime.run(prompt) as run:
                async for payload in run:
                    if isinstance(payload, End):
                        end = payload
        finally:
            await runtime.close()
    match end:
        case Done():
            code = DONE
        case TurnFailed():
            code = FAILED
        case Cancelled() | None:
            code = CANCELLED
    if left := runtime.session.abandoned.tasks:
        telling.close()
        _complain(f"{left} tool or model ignored its cancellation and was left")
        _leave(code)  # the loop would wait for it for ever
    return code


async def _tell(runtime: Runtime, telling: "_Telling") -> None:
    async for batch in runtime.follow():
        telling.tell(batch)


def _on_interrupt(runtime: Runtime, telling: "_Telling") -> None:
    """Ctrl-C cancels the turn first; a second one leaves, whatever still runs."""
    interrupts = 0

    def interrupted() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1 and runtime.cancel(drop_waiting=True) == "cancelled":
            return
        with suppress(OSError):
            telling.close()
        _leave(CANCELLED)

    with suppress(NotImplementedError):  # Windows: KeyboardInterrupt it is
        runtime.loop.add_signal_handler(signal.SIGINT, interrupted)


def _leave(code: int) -> NoReturn:
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


class _Telling(Protocol):
    """How a run is told: as rows, or as lines of JSON."""

    def tell(self, batch: Batch) -> None:
        """Print a batch of the journal now."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was; may be called twice."""
        ...


class _Lines:
    """Each entry as one line of JSON."""

    def __init__(self, runtime: Runtime, out: IO[str]) -> None:
        self._runtime = runtime
        self._out = out
        self._encoder: Encoder | None = None

    def tell(self, batch: Batch) -> None:
        if isinstance(batch, Gap):
            return _complain(f"entries {batch.first} to {batch.last} are no longer kept")
        if self._encoder is None:
            offset = self._runtime.session.outside.wall_time() - self._runtime.loop.time()
            self._encoder = Encoder(self._runtime.session_id, offset)
        for entry in batch:
            print(visible_json(self._encoder.encode(entry)), file=self._out)
        return self._out.flush()

    def close(self) -> None:
        self._out.flush()


class _Rows:
    """Rows as they come; on a terminal, what goes on stands below them."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._story = Story()
        self._console = Console(file=out, highlight=False, emoji=False, markup=False)
        self._live = Live(
            console=self._console,
            get_renderable=lambda: Group(*map(drawn, self._story.going_on())),
            refresh_per_second=10,
            transient=True,
        )
        if self._console.is_terminal:
            self._live.start()

    def tell(self, batch: Batch) -> None:
        for row in self._story.tell(batch):
            if self._console.is_terminal:
                self._console.print(drawn(row))
            else:
                print(plain(row), file=self._out, flush=True)

    def close(self) -> None:
        self._live.stop()
        self._out.flush()
