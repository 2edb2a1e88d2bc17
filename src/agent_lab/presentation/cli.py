"""The command line, and the only place that prints."""

import asyncio
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live

from agent_lab.application.agent import Agent
from agent_lab.application.journal import Gap
from agent_lab.application.runtime import Runtime
from agent_lab.domain.errors import AgentLabError
from agent_lab.presentation.agent_file import load_agent
from agent_lab.presentation.demo import demo_agent
from agent_lab.presentation.encoder import Encoder
from agent_lab.presentation.foreground import (
    CANCELLED,
    DONE,
    FAILED,
    UNUSABLE,
    Batch,
    browser_at,
    first_error,
    run_once,
    serve_until_stopped,
)
from agent_lab.presentation.terminal import Story, drawn, plain, visible, visible_json

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
        command = context.command_path if context else "agent-lab"
        _complain(f"{format_message().rstrip('.')}; see {command} --help".replace("?;", "? Else"))
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


# -- serve ---------------------------------------------------------------------------------------


@app.command()
def serve(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE.py[:AGENT]]...", help="The agents.")
    ] = None,
    host: Annotated[str, typer.Option(help="A loopback address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    debug: Debug = False,
) -> int:
    """Serve the debug page and the API.

    The one line on standard output is the page's address with its token.

    Ctrl-C stops, a second one leaves at once.
    """
    out = _own_output()
    from agent_lab.bootstrap import open_agents, resolve_model
    from agent_lab.presentation.server import listen

    agents = [load_agent(file) for file in files or []] or [demo_agent()]
    names = [agent.name for agent in agents]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Unusable(f"two agents are named {twice[0]!r}; rename one")
    for agent in agents:
        resolve_model(agent.model)  # better now than on the first message
    listener = listen(host, port)

    def announce(url: str) -> None:
        print(url, file=out, flush=True)
        _complain(f"serving {', '.join(names)}; Ctrl-C stops")
        if not no_browser and out.isatty():
            visits.enter_context(browser_at(url))

    with ExitStack() as visits:
        return asyncio.run(serve_until_stopped(open_agents(agents), listener, announce, _complain))


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

    Ctrl-C cancels the turn, a second one leaves at once.

    Exit status: 0 done, 1 error, 130 cancelled, 2 it could not begin.
    """
    out = _own_output()
    from agent_lab.bootstrap import DebugRuntime

    agent, prompt = _agent_and_prompt(words or [])
    runtime = DebugRuntime(agent)
    telling = _Lines(runtime, out) if as_json else _Rows(out)
    try:
        return asyncio.run(run_once(runtime, prompt, telling, _complain))
    except BaseExceptionGroup as group:
        raise first_error(group) from group
    finally:
        telling.close()


def _agent_and_prompt(words: Sequence[str]) -> tuple[Agent, str]:
    match words:
        case []:
            agent, prompt = demo_agent(), "Weather in Oslo?"
        case [where] if re.search(r"\.py(:\w*)?$", where):
            raise Unusable(f"nothing to ask; say agent-lab run {where} 'PROMPT'")
        case [prompt]:
            agent = demo_agent()
        case [where, prompt]:
            agent = load_agent(where)
        case _:
            raise Unusable(f"{len(words)} words are too many; put the prompt in quotes")
    if not prompt.strip():
        raise Unusable("nothing to ask, the prompt is blank; say something")
    if any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise Unusable("the prompt is not UTF-8; say it in UTF-8")
    return agent, prompt


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
            offset = self._runtime.session.outside.wall_time() - self._runtime.session.loop.time()
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


# -- check ---------------------------------------------------------------------------------------


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE.json]", help="Messages, or a request body.")
    ] = None,
    dialect: Annotated[
        str | None, typer.Option(help="Whose rules: openai_chat, anthropic, gemini, …")
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="What a verdict depends on, such as model=…"),
    ] = None,
    error: Annotated[
        str | None,
        typer.Option("--explain", metavar="ERROR", help="Say what a provider's error is about."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    debug: Debug = False,
) -> int:
    """Check a history against a provider's rules, or explain the provider's error.

    Exit status: 0 valid or explained, 1 not, 2 when the file or an option cannot be used.
    """
    out = _own_output()
    from agent_lab.presentation.history_file import check_file, explain, locate

    if error is not None and file is None:
        answer = explain(error, as_json=as_json)
    elif file is None or dialect is None:
        raise Unusable("say agent-lab check FILE.json --dialect openai_chat, or --explain 'ERROR'")
    elif error is not None:
        answer = locate(error, file, dialect, profile or [], as_json=as_json)
    else:
        answer = check_file(file, dialect, profile or [], as_json=as_json)
    print(answer.text, file=out, flush=True)
    return DONE if answer.is_good else FAILED
