"""What an agent is: instructions, a model, tools and limits, under a name."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

from agent_lab.application.ports import Model
from agent_lab.application.tool_server import ToolServer
from agent_lab.application.toolbox import Toolbox
from agent_lab.application.tools import Tool, as_tool
from agent_lab.domain.errors import ToolDefinitionError
from agent_lab.domain.limits import Limits
from agent_lab.domain.mcp_server import McpServer
from agent_lab.domain.messages import ToolSchema
from agent_lab.domain.usage import Meter, Prices


class Agent:
    """A named definition; any number of sessions run it at once.

    `model` is an object with the `Model` protocol, a function that answers a request, or a string
    such as `"anthropic:MODEL"` or `"scripted:FILE.json"`; strings and functions are resolved when
    a session opens. `base_url` is the address of a server that speaks the provider's format, and
    `model_options` go into the body of each request as they are, such as `{"temperature": 0}`.
    `context_window` (tokens) and `prices` are the model's, for `context_percent` and `cost_usd`.
    `tools` are `@tool` functions or plain ones. `mcp_servers` have more, each as `server__tool`;
    they are started with the first session. Raises ToolDefinitionError for two of one name.
    """

    __slots__ = (
        "base_url",
        "context_window",
        "instructions",
        "limits",
        "mcp_servers",
        "model",
        "model_options",
        "name",
        "prices",
        "toolbox",
    )

    def __init__(
        self,
        name: str,
        *,
        model: Model | Callable[..., Any] | str,
        instructions: str | None = None,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        limits: Limits | None = None,
        base_url: str | None = None,
        model_options: Mapping[str, Any] | None = None,
        context_window: int | None = None,
        prices: Prices | None = None,
        mcp_servers: Sequence[McpServer] = (),
    ) -> None:
        self.name = name
        self.model = model
        self.base_url = base_url
        self.model_options = model_options
        self.context_window = context_window
        self.prices = prices
        self.instructions = instructions
        self.limits = limits or Limits()
        made = [as_tool(candidate) for candidate in tools]
        if again := _twice([tool.name for tool in made]):
            raise ToolDefinitionError(f"agent {name!r} has two tools named {again!r}; rename one")
        self.mcp_servers: tuple[McpServer, ...] = ()
        self.add_servers(mcp_servers)
        self.toolbox = Toolbox(made)

    @property
    def tools(self) -> dict[str, Tool]:
        """What may be called, by name: its own tools, and those of its MCP servers."""
        return self.toolbox.tools

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """What a model is told of them now."""
        return self.toolbox.schemas

    def add_servers(self, servers: Sequence[McpServer]) -> None:
        """Use the tools of these MCP servers too, from the next session on.

        Raises ToolDefinitionError for two of one name.
        """
        every = (*self.mcp_servers, *servers)
        if again := _twice([server.name for server in every]):
            raise ToolDefinitionError(
                f"agent {self.name!r} has two MCP servers named {again!r}; rename one"
            )
        self.mcp_servers = every

    def equipped(self, servers: Sequence[ToolServer], *, shared: bool = False) -> "Agent":
        """This agent with these servers behind its tools; see Toolbox."""
        changed = copy(self)
        changed.toolbox = Toolbox(self.toolbox.own, servers, shared=shared)
        return changed

    def meter(self) -> Meter:
        """What adds up the tokens and the cost of one session."""
        return Meter(self.context_window, self.prices)


def _twice(names: Sequence[str]) -> str | None:
    """The first, by the alphabet, of the names that are there twice."""
    return next(iter(sorted({name for name in names if names.count(name) > 1})), None)
