"""The tools of an agent: its own, and what its MCP servers offer at the moment."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from agent_lab.application.logs import log
from agent_lab.application.tool_server import ToolServer, ToolServers
from agent_lab.application.tools import Tool
from agent_lab.domain.mcp_server import Offer, local_name
from agent_lab.domain.messages import ToolSchema

MARGIN = 5.0
"""Seconds that a call's own limit lies behind its server's, which says more when it runs out."""


class RemoteTool(Tool):
    """A tool that somebody else runs: he says what its arguments are, and looks at them."""

    __slots__ = ()

    def __init__(self, schema: ToolSchema, server: ToolServer, offer: Offer) -> None:
        async def call(arguments: dict[str, Any]) -> str:
            return await server.call(offer.name, arguments)

        self.schema = schema
        self.function = call
        self.is_async = True
        self.timeout = server.definition.timeout + MARGIN
        self.needs_approval = server.definition.asks_before(offer.name)

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """All of them as they are, to be judged by the server."""
        return {"arguments": arguments}


class Toolbox:
    """What may be called (`tools`), and what the model is told of (`schemas`), at this moment.

    What a server no longer offers is not told of from the next model call on; called all the same,
    it is the server that refuses. Where two tools have one name the agent's own comes first, then
    the servers in their order; the other is left out, with a warning.
    """

    __slots__ = ("_left_out", "_shared", "own", "schemas", "servers", "tools")

    def __init__(
        self, own: Sequence[Tool], servers: Sequence[ToolServer] = (), *, shared: bool = False
    ) -> None:
        """`shared` servers are opened by somebody else, for several agents."""
        self.own = own
        self._shared = shared
        self._left_out: set[str] = set()
        self.servers = servers
        self.tools: dict[str, Tool] = {tool.name: tool for tool in own}
        self.schemas: tuple[ToolSchema, ...] = tuple(tool.schema for tool in own)
        for server in servers:
            server.listeners.append(self._gather)

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Servers of its own are connected while this lasts."""
        return nullcontext() if self._shared or not self.servers else ToolServers(self.servers)

    @property
    def is_starting(self) -> bool:
        """Whether a server has neither come nor failed yet."""
        return any(server.state == "starting" for server in self.servers)

    async def started(self) -> None:
        """Wait until each server has come, or has failed."""
        for server in self.servers:
            await server.started()

    def _gather(self) -> None:
        offered = {tool.name: tool for tool in self.own}
        for server in self.servers:
            for offer in server.offers:
                self._add(offered, server, offer)
        self.tools.update(offered)  # the same dict: conversations know it
        self.schemas = tuple(tool.schema for tool in offered.values())

    def _add(self, offered: dict[str, Tool], server: ToolServer, offer: Offer) -> None:
        name = local_name(server.name, offer.name)
        if offer.fault is not None:
            self._leave_out(server, offer, offer.fault)
        elif name in offered:
            self._leave_out(server, offer, f"there is another tool named {name}")
        else:
            offered[name] = self._known(name, server, offer)

    def _known(self, name: str, server: ToolServer, offer: Offer) -> Tool:
        """The tool as it was, if it is the same; so a schema that is compared is one object."""
        schema, known = ToolSchema(name, offer.description, offer.parameters), self.tools.get(name)
        return known if known and known.schema == schema else RemoteTool(schema, server, offer)

    def _leave_out(self, server: ToolServer, offer: Offer, why: str) -> None:
        said = f"tool {offer.name!r} of MCP server {server.name!r} is left out: {why}"
        if said not in self._left_out:
            self._left_out.add(said)
            log.warning("%s", said)
