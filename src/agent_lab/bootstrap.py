"""From what a user wrote to concrete parts. The only importer of infrastructure."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent_lab.application.agent import Agent
from agent_lab.application.alone import Alone
from agent_lab.application.gate import Gate
from agent_lab.application.ports import ExecutionStore, Model, Outside
from agent_lab.application.runtime import Runtime
from agent_lab.application.session import Session
from agent_lab.application.tool_server import ToolServer, ToolServers
from agent_lab.domain.errors import ModelError
from agent_lab.domain.limits import Limits, LineLimits
from agent_lab.domain.mcp_server import McpServer
from agent_lab.domain.messages import ChatMessage
from agent_lab.infrastructure.system import SystemOutside

if TYPE_CHECKING:
    from agent_lab.application.agents import Agents
    from agent_lab.application.invariants import Problem
    from agent_lab.application.ports import Store
    from agent_lab.infrastructure.models.cassette import Tape


class DebugRuntime(Runtime):
    """One session with one agent, on the real clock. See Runtime for what it does.

    `history` continues a saved conversation: calls that a crash left open are closed as `lost`.
    `gate` holds hops, `outside` gives wall time and ids; both are for tests and debuggers.
    `tape` records what a provider's model sends and gets, or plays it again (see `open_tape`).
    """

    def __init__(
        self,
        agent: Agent,
        *,
        session_id: str | None = None,
        history: Sequence[ChatMessage] = (),
        gate: Gate | None = None,
        outside: Outside | None = None,
        tape: "Tape | None" = None,
    ) -> None:
        if agent.mcp_servers and not agent.toolbox.servers:
            agent = agent.equipped([_server(one) for one in agent.mcp_servers])
        super().__init__(
            agent,
            model_of(agent, tape),
            outside or SystemOutside(),
            session_id=session_id,
            gate=gate,
            history=history,
        )

        self._tape = tape

    def _make_session(self) -> Session:
        """With agents as tools: served they are asked through their lines, else as here."""
        session = super()._make_session()
        session.colleagues = Alone(self._open_child)
        return session

    def _open_child(self, agent: Agent, lineage: tuple[str, ...]) -> "DebugRuntime":
        child = DebugRuntime(agent, outside=self._outside, tape=self._tape)
        child.session.lineage = lineage
        return child

    def check(self) -> "list[Problem]":
        """What must not be: two ends of one turn, a message without one, a gap in the numbers."""
        from agent_lab.application.invariants import check_session

        return check_session(self.session)


def open_agents(
    agents: Sequence[Agent],
    *,
    idle: int = 200,
    grace: float = 2.0,
    executions: ExecutionStore | None = None,
    line: LineLimits | None = None,
    outside: Outside | None = None,
    store: "Store | None" = None,
    tape: "Tape | None" = None,
) -> "Agents":
    """The registry of these agents and their sessions, with the line before them. See Agents.

    Enter it with `async with`. With a `store` sessions and executions outlive the process; it is
    closed with the agents. Without one, memory keeps executions, or what `executions` says.
    """
    from agent_lab.application.agents import Agents
    from agent_lab.application.archive import Archive
    from agent_lab.application.line import ExecutionLine
    from agent_lab.application.schedules import Schedules
    from agent_lab.application.stored_executions import StoredExecutions
    from agent_lab.infrastructure.line_memory import MemoryExecutions, MemoryKeeper

    outside, limits = outside or SystemOutside(), line or LineLimits()
    make = partial(DebugRuntime, tape=tape) if tape is not None else DebugRuntime
    archive = Archive(store, outside) if store is not None else None
    agents, servers = _with_servers(agents)
    made = Agents(agents, make, outside, idle=idle, grace=grace, archive=archive, servers=servers)
    keeper = MemoryKeeper(lambda: asyncio.get_running_loop().time(), lease=limits.lease)
    if executions is None:
        executions = StoredExecutions(store) if store is not None else MemoryExecutions()
    schedules = Schedules(_next_fire, outside, store)
    made.guard(ExecutionLine(made, keeper, executions, outside, limits, schedules, store))
    return made


def _with_servers(agents: Sequence[Agent]) -> tuple[list[Agent], ToolServers | None]:
    """The agents with one connection to each MCP server, which those share that name it alike."""
    made: list[ToolServer] = []

    def server_of(definition: McpServer) -> ToolServer:
        for server in made:
            if server.definition == definition:
                return server
        made.append(_server(definition))
        return made[-1]

    ready = [
        agent.equipped([server_of(one) for one in agent.mcp_servers], shared=True)
        if agent.mcp_servers
        else agent
        for agent in agents
    ]
    return ready, ToolServers(made) if made else None


def _server(definition: McpServer) -> ToolServer:
    from agent_lab.infrastructure.mcp_client import connect, prepare

    prepare(definition)
    return ToolServer(definition, connect)


def _next_fire(line: str, zone: str, after: float) -> float | None:
    """The calendar; it is loaded when the first cron line is read."""
    from agent_lab.infrastructure.cron import next_fire

    return next_fire(line, zone, after)


def open_store(where: str) -> "Store | None":
    """The store in this file, made if it is not there; None for `memory`. Raises StorageError."""
    if where == "memory":
        return None
    from agent_lab.infrastructure.sqlite import SqliteStore

    return SqliteStore(Path(where))


def open_tape(folder: str | Path, *, record: bool) -> "Tape":
    """A folder of recordings, to be written or played; raises ModelError `cassette_unusable`."""
    from agent_lab.infrastructure.models.cassette import Tape

    return Tape(folder, "record" if record else "replay")


def model_of(agent: Agent, tape: "Tape | None" = None) -> Model:
    """The model of an agent; raises ModelError when it cannot be had."""
    return resolve_model(
        agent.model,
        base_url=agent.base_url,
        options=agent.model_options,
        limits=agent.limits,
        tape=tape,
    )


def resolve_model(
    model: Model | Callable[..., Any] | str,
    *,
    base_url: str | None = None,
    options: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    tape: "Tape | None" = None,
) -> Model:
    """The model object that was meant; raises ModelError for a string that names none.

    `base_url` is a compatible server's, `options` go into each request's body, `tape` records or
    replays; all are for strings that name a provider.
    """
    if isinstance(model, str):
        return _named(model, base_url, options, limits, tape)
    if hasattr(model, "stream") and hasattr(model, "name") and hasattr(model, "dialect"):
        return cast("Model", model)  # isinstance() of a Protocol is a tenth of opening a session
    from agent_lab.infrastructure.models.function import FunctionModel

    return FunctionModel(cast("Callable[..., Any]", model))


_PROVIDERS = {
    "openai": ("openai_chat", "OpenAIChat"),
    "openai-responses": ("openai_responses", "OpenAIResponses"),
    "anthropic": ("anthropic", "Anthropic"),
    "gemini": ("gemini", "Gemini"),
}


def _named(
    name: str,
    base_url: str | None,
    options: Mapping[str, Any] | None,
    limits: Limits | None,
    tape: "Tape | None",
) -> Model:
    kind, _, rest = name.partition(":")
    if kind == "scripted" and rest:
        from agent_lab.infrastructure.models.scripted import ScriptedModel

        return ScriptedModel.from_file(rest)
    if kind in _PROVIDERS and rest:
        module, model = _PROVIDERS[kind]
        provider = getattr(import_module(f"agent_lab.infrastructure.models.{module}"), model)
        return provider(rest, base_url=base_url, options=options, limits=limits, tape=tape)
    raise ModelError(
        f"there is no model {name!r}",
        code="model_unknown",
        hint='use "openai:MODEL", "openai-responses:MODEL", "anthropic:MODEL", "gemini:MODEL", '
        '"scripted:FILE.json", a ScriptedModel, or a function of your own',
    )
