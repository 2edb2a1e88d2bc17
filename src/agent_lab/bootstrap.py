"""From what a user wrote to concrete parts. The only importer of infrastructure."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agent_lab.application.agent import Agent
from agent_lab.application.gate import Gate
from agent_lab.application.ports import Model, Outside
from agent_lab.application.runtime import Runtime
from agent_lab.domain.errors import ModelError
from agent_lab.domain.messages import ChatMessage
from agent_lab.infrastructure.system import SystemOutside

if TYPE_CHECKING:
    from agent_lab.application.agents import Agents


class DebugRuntime(Runtime):
    """One session with one agent, on the real clock. See Runtime for what it does.

    `history` continues a saved conversation: calls that a crash left open are closed as `lost`.
    `gate` holds hops, `outside` gives wall time and ids; both are for tests and debuggers.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        session_id: str | None = None,
        history: Sequence[ChatMessage] = (),
        gate: Gate | None = None,
        outside: Outside | None = None,
    ) -> None:
        super().__init__(
            agent,
            resolve_model(agent.model),
            outside or SystemOutside(),
            session_id=session_id,
            gate=gate,
            history=history,
        )


def open_agents(agents: Sequence[Agent], *, idle: int = 200, grace: float = 2.0) -> "Agents":
    """The registry of these agents and their sessions; enter it with `async with`. See Agents."""
    from agent_lab.application.agents import Agents

    return Agents(agents, DebugRuntime, SystemOutside(), idle=idle, grace=grace)


def resolve_model(model: Model | Callable[..., Any] | str) -> Model:
    """The model object that was meant; raises ModelError for a string that names none."""
    if isinstance(model, str):
        return _named(model)
    if isinstance(model, Model):
        return model
    from agent_lab.infrastructure.models.function import FunctionModel

    return FunctionModel(model)


def _named(name: str) -> Model:
    kind, _, rest = name.partition(":")
    if kind == "scripted" and rest:
        from agent_lab.infrastructure.models.scripted import ScriptedModel

        return ScriptedModel.from_file(rest)
    raise ModelError(
        f"there is no model {name!r}",
        code="model_unknown",
        hint='use "scripted:FILE.json", a ScriptedModel, or a function of your own',
    )
