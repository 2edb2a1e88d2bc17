"""What an agent is: instructions, a model, tools and limits, under a name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_lab.application.ports import Model
from agent_lab.application.tools import Tool, as_tool
from agent_lab.domain.errors import ToolDefinitionError
from agent_lab.domain.limits import Limits
from agent_lab.domain.messages import ToolSchema
from agent_lab.domain.usage import Meter, Prices


class Agent:
    """A named definition; any number of sessions run it at once.

    `model` is an object with the `Model` protocol, a function that answers a request, or a string
    such as `"anthropic:MODEL"` or `"scripted:FILE.json"`; strings and functions are resolved when
    a session opens. `base_url` is the address of a server that speaks the provider's format, and
    `model_options` go into the body of each request as they are, such as `{"temperature": 0}`.
    `context_window` (tokens) and `prices` are the model's, for `context_percent` and `cost_usd`.
    `tools` are `@tool` functions or plain ones. Raises ToolDefinitionError for two of one name.
    """

    __slots__ = (
        "base_url",
        "context_window",
        "instructions",
        "limits",
        "model",
        "model_options",
        "name",
        "prices",
        "schemas",
        "tools",
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
        self.tools: dict[str, Tool] = {tool.name: tool for tool in made}
        if len(self.tools) < len(made):
            names = [tool.name for tool in made]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ToolDefinitionError(
                f"agent {name!r} has two tools named {twice[0]!r}; rename one"
            )
        self.schemas: tuple[ToolSchema, ...] = tuple(tool.schema for tool in made)

    def meter(self) -> Meter:
        """What adds up the tokens and the cost of one session."""
        return Meter(self.context_window, self.prices)
