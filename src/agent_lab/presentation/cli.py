"""The command line, and the only place that prints.

Each command's options stand here; what it does, in a module of `commands`, loaded when asked for.
"""

import os
import sys
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agent_lab.domain.errors import AgentLabError
from agent_lab.domain.redaction import SECRETS, secrets_in
from agent_lab.presentation.escapes import visible
from agent_lab.presentation.foreground import CANCELLED, DONE, FAILED, UNUSABLE

Record = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write what goes to the provider and comes into this folder."),
]
Replay = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Play the recordings of this folder; no network is used."),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A server that speaks the model's format, for every agent."),
]
Mcp = Annotated[
    list[str] | None,
    typer.Option(
        "--mcp",
        metavar="NAME=COMMAND|URL",
        help="An MCP server whose tools every agent gets, as NAME__tool; may be repeated.",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

app = typer.Typer(
    name="agent-lab",
    help="A debug runtime for tool-calling chat agents: every hand-off in sight.",
    epilog="FILE.py is a Python file that makes an Agent. Without one there is a built-in demo.",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The console script. Errors are one line on standard error, unless --debug."""
    SECRETS.add(*secrets_in(os.environ))
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
        raised = "".join(traceback.format_exception(error))
        print(SECRETS.redact(raised), file=sys.stderr, end="")
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
    said = " ".join(visible(SECRETS.redact(text)).split())
    print("agent-lab:", said, file=sys.stderr, flush=True)


class _Screen:
    """Standard output for us alone: what tools, files and children print goes to standard error."""

    def __init__(self) -> None:
        sys.stdout.flush()
        ours = os.dup(1)
        os.dup2(2, 1)
        self.out = os.fdopen(ours, "w", encoding="utf-8", errors="backslashreplace")
        self.console = Console(file=self.out, highlight=False, emoji=False, markup=False)

    def line(self, text: str) -> None:
        print(text, file=self.out, flush=True)

    def draw(self, *renderables: object) -> None:
        self.console.print(*renderables)

    def complain(self, text: str) -> None:
        _complain(text)


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


@app.command()
def serve(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE.py[:AGENT]]...", help="The agents.")
    ] = None,
    host: Annotated[str, typer.Option(help="A loopback address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any free one.")] = 0,
    store: Annotated[
        str, typer.Option(metavar="PATH|memory", help="Where sessions are kept; memory: nowhere.")
    ] = ".agent-lab/lab.db",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Open this history as a session of the first agent."),
    ] = None,
    base_url: BaseUrl = None,
    mcp: Mcp = None,
    record: Record = None,
    replay: Replay = None,
    debug: Debug = False,
) -> int:
    """Serve the debug page and the API.

    The one line on standard output is the page's address with its token.

    Ctrl-C stops, a second one leaves at once.
    """
    screen = _Screen()
    from agent_lab.bootstrap import model_of, open_agents, open_store, open_tape
    from agent_lab.presentation.commands.serve import agents_of, serve
    from agent_lab.presentation.commands.wire import at, tape_for, with_tools

    tape = tape_for(record, replay, open_tape)
    agents = [with_tools(mcp, at(base_url, agent)) for agent in agents_of(files or [])]
    for agent in agents:
        model_of(agent, tape)  # better now than on the first message
    return serve(
        screen,
        lambda agents: open_agents(agents, store=open_store(store), tape=tape),
        agents,
        host=host,
        port=port,
        opens_browser=not no_browser,
        history=history,
    )


@app.command()
def run(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE.py[:AGENT]] [PROMPT]", help="The agent, and what to ask it."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each journal entry as a line of JSON.")
    ] = False,
    allows: Annotated[
        bool, typer.Option("--yes", "-y", help="Allow every tool call that asks for permission.")
    ] = False,
    base_url: BaseUrl = None,
    mcp: Mcp = None,
    record: Record = None,
    replay: Replay = None,
    debug: Debug = False,
) -> int:
    """Run an agent once and watch it here.

    Ctrl-C cancels the turn, a second one leaves at once.

    A tool that asks for permission asks here; without a terminal, or with --json, it is denied.

    Exit status: 0 done, 1 error, 130 cancelled, 2 it could not begin.
    """
    screen = _Screen()
    from agent_lab.bootstrap import DebugRuntime, open_tape
    from agent_lab.presentation.commands.run import run
    from agent_lab.presentation.commands.wire import at, tape_for, with_tools

    tape = tape_for(record, replay, open_tape)
    return run(
        screen,
        lambda agent: DebugRuntime(with_tools(mcp, at(base_url, agent)), tape=tape),
        words or [],
        as_json=as_json,
        allows=allows,
    )


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
    mends: Annotated[
        bool, typer.Option("--repair", help="Mend the history, and say what was done to it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    debug: Debug = False,
) -> int:
    """Check a history against a provider's rules, or explain the provider's error.

    Exit status: 0 valid or explained, 1 not, 2 when the file or an option cannot be used.
    """
    screen = _Screen()
    from agent_lab.presentation.commands.check import check

    return check(screen, file, dialect, profile or [], error, mends=mends, as_json=as_json)


@app.command("mcp")
def mcp_server(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE.py[:AGENT]]...", help="The agents.")
    ] = None,
    store: Annotated[
        str, typer.Option(metavar="PATH|memory", help="Where sessions are kept; memory: nowhere.")
    ] = "memory",
    base_url: BaseUrl = None,
    mcp: Mcp = None,
    debug: Debug = False,
) -> int:
    """Offer the agents to an assistant, as MCP tools on standard input and output.

    The same tools are at /mcp of `agent-lab serve`.
    """
    screen = _Screen()
    from agent_lab.bootstrap import open_agents, open_store
    from agent_lab.presentation.commands.mcp import claim_input, serve_mcp
    from agent_lab.presentation.commands.serve import agents_of
    from agent_lab.presentation.commands.wire import at, with_tools

    given = claim_input()
    agents = [with_tools(mcp, at(base_url, agent)) for agent in agents_of(files or [])]
    return serve_mcp(
        screen, lambda agents: open_agents(agents, store=open_store(store)), agents, given
    )
