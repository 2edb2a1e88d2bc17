"""agent_lab: a debug runtime for tool-calling chat agents, with every hand-off in sight.

Names are loaded on first use, so importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_lab.application.agent import Agent
    from agent_lab.application.agent_tool import agent_tool
    from agent_lab.application.control import AgentControl
    from agent_lab.application.processes import run_process
    from agent_lab.application.queues import RuntimeQueues
    from agent_lab.application.request import DebugRunRequest
    from agent_lab.application.tools import tool
    from agent_lab.bootstrap import DebugRuntime, open_agents
    from agent_lab.domain.dialects.check import check_history
    from agent_lab.domain.dialects.repair import repair_history
    from agent_lab.domain.dialects.violations import Violation
    from agent_lab.domain.limits import Limits
    from agent_lab.domain.mcp_server import McpServer
    from agent_lab.domain.messages import ChatMessage, ToolCall

_HOME = {
    "Agent": "application.agent",
    "AgentControl": "application.control",
    "ChatMessage": "domain.messages",
    "DebugRunRequest": "application.request",
    "DebugRuntime": "bootstrap",
    "Limits": "domain.limits",
    "McpServer": "domain.mcp_server",
    "RuntimeQueues": "application.queues",
    "ToolCall": "domain.messages",
    "Violation": "domain.dialects.violations",
    "agent_tool": "application.agent_tool",
    "check_history": "domain.dialects.check",
    "open_agents": "bootstrap",
    "repair_history": "domain.dialects.repair",
    "run_process": "application.processes",
    "tool": "application.tools",
}

__all__ = [
    "Agent",
    "AgentControl",
    "ChatMessage",
    "DebugRunRequest",
    "DebugRuntime",
    "Limits",
    "McpServer",
    "RuntimeQueues",
    "ToolCall",
    "Violation",
    "agent_tool",
    "check_history",
    "open_agents",
    "repair_history",
    "run_process",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
