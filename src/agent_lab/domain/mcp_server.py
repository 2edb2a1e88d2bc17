"""An MCP server that an agent may use: how it is reached, and what its tools are called here."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agent_lab.domain.errors import ToolDefinitionError

LONGEST_NAME = 64
"""Characters of a tool's name that every provider takes."""
_NAME = re.compile(r"(?=.{1,24}\Z)[A-Za-z][A-Za-z0-9-]*(?:_[A-Za-z0-9-]+)*")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


class McpServer(msgspec.Struct, frozen=True):
    """A server whose tools become tools of an agent, each named `name__tool`.

    Either `command`, a program that speaks MCP on standard input and output, as a list or as a
    shell would split it; or `url`, where streamable HTTP is spoken. `env` is added to the few
    variables that a program gets (PATH, HOME and the like), `headers` go with each HTTP request.
    `timeout` is the longest call, `start_timeout` the longest start, in seconds. `needs_approval`
    says which of its tools somebody has to allow before they run: all, none, or those of these
    names (its own for them). Raises ToolDefinitionError for a name or an address that cannot be.
    """

    name: str
    command: str | Sequence[str] = ()
    url: str | None = None
    env: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    cwd: str | None = None
    timeout: float = 30.0
    start_timeout: float = 30.0
    needs_approval: bool | Collection[str] = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ToolDefinitionError(
                f"an MCP server cannot be named {self.name!r}: its tools are called NAME__tool, so "
                "use 1 to 24 letters, digits, - and single _, with a letter first"
            )
        try:
            argv = shlex.split(self.command) if isinstance(self.command, str) else self.command
        except ValueError as error:
            raise ToolDefinitionError(f"MCP server {self.name!r}: {error} in its command") from None
        msgspec.structs.force_setattr(self, "command", tuple(argv))
        if bool(argv) == bool(self.url):
            raise ToolDefinitionError(
                f"MCP server {self.name!r} needs a command or a url, and not both"
            )
        if self.url is not None and not _is_http(self.url):
            raise ToolDefinitionError(
                f"MCP server {self.name!r} has an address that is no http:// or https:// URL"
            )
        if min(self.timeout, self.start_timeout) <= 0:
            raise ToolDefinitionError(f"MCP server {self.name!r}: its time-outs must be over 0")

    def asks_before(self, tool: str) -> bool:
        """Whether somebody has to allow each call of this tool of its."""
        asks = self.needs_approval
        return asks if isinstance(asks, bool) else tool in asks

    def __repr__(self) -> str:
        """Its name alone: the rest may hold secrets."""
        return f"McpServer({self.name!r})"


class Offer(msgspec.Struct, frozen=True):
    """One tool of a server, under the server's own name for it; `fault` says why it is no use."""

    name: str
    description: str
    parameters: dict[str, Any]
    fault: str | None = None


def server_said(text: str) -> McpServer:
    """The server that `NAME=COMMAND` or `NAME=URL` names; raises ToolDefinitionError."""
    name, equals, rest = text.partition("=")
    if not equals or not rest.strip():
        raise ToolDefinitionError(f"{text!r} names no MCP server; say NAME=COMMAND or NAME=URL")
    if _is_http(rest.strip()):
        return McpServer(name.strip(), url=rest.strip())
    return McpServer(name.strip(), command=rest)


def local_name(server: str, tool: str) -> str:
    """What a server's tool is called here, valid for every provider; the same each time.

    Letters that no provider takes become `_`. A name that is changed or cut so gets eight digits
    of its hash at the end, so that two different tools do not come to one name.
    """
    whole = f"{server}__{tool}"
    fit = _UNFIT.sub("_", whole)
    if fit == whole and len(whole) <= LONGEST_NAME:
        return whole
    mark = blake2b(whole.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{fit[: LONGEST_NAME - 9]}_{mark}"


def _is_http(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
