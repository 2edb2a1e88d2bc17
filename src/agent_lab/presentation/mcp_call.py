"""One tool of the MCP server, one call of it, and what a call comes to."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from agent_lab.domain.errors import AgentLabError
from agent_lab.domain.execution import Asker
from agent_lab.domain.redaction import SECRETS

A = TypeVar("A", bound=msgspec.Struct)


class Call(msgspec.Struct, frozen=True):
    """Who calls, and how he is told that it goes on."""

    by: Asker
    tell: Callable[[str], object]
    """Says what is waited for; told to the client with the next sign of life."""


class McpTool(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """One tool: its name, what it is for, what it takes, what it gives, and what it does."""

    name: str
    description: str
    takes: type[A]
    gives: type[msgspec.Struct]
    does: Callable[[Call, A], Awaitable[msgspec.Struct]]
    reads: bool = False
    """Whether it changes nothing."""

    async def __call__(self, call: Call, arguments: dict[str, Any]) -> msgspec.Struct:
        """Do it; raises msgspec.ValidationError for arguments that do not fit."""
        return await self.does(call, msgspec.convert(arguments, self.takes))


class McpRefusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a call came to nothing: a code for machines, what happened, and what to do now."""

    error: str
    message: str
    hint: str = ""
    retryable: bool = False


def refusal(error: AgentLabError) -> McpRefusal:
    """An error as an assistant reads it."""
    code = getattr(error, "code", None) or _snake(type(error).__name__)
    return McpRefusal(
        error=code,
        message=SECRETS.redact(str(error)),
        hint=SECRETS.redact(getattr(error, "hint", "")),
        retryable=bool(getattr(error, "may_pass", False)),
    )


def misfit(tool: McpTool[Any], error: msgspec.ValidationError) -> McpRefusal:
    """Arguments that the tool does not take."""
    return McpRefusal(
        error="bad_arguments",
        message=f"{tool.name} does not take these arguments: {str(error)[:300]}",
        hint="see the tool's input schema",
    )


def schema_of(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """The shape's JSON Schema, with an object at its root as MCP wants it."""
    (_,), parts = msgspec.json.schema_components([shape], ref_template="#/$defs/{name}")
    root = parts.pop(shape.__name__)
    return {**root, "$defs": parts} if parts else root


def _snake(name: str) -> str:
    letters = (f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return "".join(letters).strip("_")
