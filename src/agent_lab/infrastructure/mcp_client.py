"""Connections to MCP servers, with the official SDK: over stdio, and over streamable HTTP."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

import msgspec

from agent_lab.domain.errors import McpError, McpToolFailed, ToolDefinitionError
from agent_lab.domain.limits import McpLimits
from agent_lab.domain.mcp_server import McpServer, Offer
from agent_lab.domain.redaction import SECRETS, secrets_in

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool

    from agent_lab.infrastructure.mcp_stdio import Program

_PAGES = 100
"""Pages of one list of tools."""
_SHOWN = 300
"""Characters shown of what a server got wrong."""
_SESSION_LOST = "Session terminated"
"""The SDK's words for a server that has forgotten the session: it was started anew."""
T = TypeVar("T")


def prepare(server: McpServer) -> None:
    """Before any loop runs: load the SDK, which takes seconds, and register this server's secrets.

    Raises ToolDefinitionError when the SDK is not installed.
    """
    try:
        import_module("mcp")
    except ModuleNotFoundError as error:
        raise ToolDefinitionError(
            f"MCP server {server.name!r} needs the package mcp; install it with: "
            "pip install 'agent-lab[mcp]'"
        ) from error
    SECRETS.add(*secrets_in(server.env))
    for name, value in server.headers.items():
        if name.lower() == "authorization":
            SECRETS.add(value, value.partition(" ")[2])
        SECRETS.add(*secrets_in({name: value}))
    parts = urlsplit(server.url or "")
    SECRETS.add(parts.password, *secrets_in(dict(parse_qsl(parts.query))))


@asynccontextmanager
async def connect(
    server: McpServer, limits: McpLimits, changed: Callable[[], object]
) -> AsyncGenerator["SdkConnection"]:
    """A connection for as long as the `async with` lasts; see Connect."""
    import mcp
    from mcp_types import Implementation, ToolListChangedNotification

    async def heard(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed()

    program, transport = _transport(server, limits)
    client = mcp.Client(
        transport,
        client_info=Implementation(name="agent-lab", version=version("agent-lab")),
        message_handler=heard,
        cache=None,
    )
    connection = SdkConnection(server, limits, client, program)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(client)
        except Exception as error:
            raise await connection.unwelcome(error) from error
        group = await stack.enter_async_context(asyncio.TaskGroup())
        listening = group.create_task(_listen(client, changed), name=f"listen {server.name}")
        yield connection
        listening.cancel()


def _transport(
    server: McpServer, limits: McpLimits
) -> "tuple[Program | None, AbstractAsyncContextManager[Any]]":
    if server.url is None:
        from agent_lab.infrastructure.mcp_stdio import Program

        program = Program(server, limits)
        return program, program.streams()
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    patience = httpx2.Timeout(server.start_timeout, read=None)  # calls have limits of their own
    client = httpx2.AsyncClient(headers=dict(server.headers), timeout=patience)
    return None, _with_client(client, streamable_http_client(server.url, http_client=client))


@asynccontextmanager
async def _with_client(
    client: AbstractAsyncContextManager[object], transport: AbstractAsyncContextManager[Any]
) -> AsyncGenerator[Any]:
    async with client, transport as streams:
        yield streams


async def _listen(client: "Client", changed: Callable[[], object]) -> None:
    """From 2026 on a server tells of other tools to those who listen; before, to everybody."""
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

    tools = client.server_capabilities.tools
    if tools is None or not tools.list_changed:
        return
    try:
        async with client.listen(tools_list_changed=True) as subscription:
            async for _ in subscription:
                changed()
    except (ListenNotSupportedError, SubscriptionLost):
        return


class SdkConnection:
    """One live connection; see Connection."""

    def __init__(
        self, server: McpServer, limits: McpLimits, client: "Client", program: "Program | None"
    ) -> None:
        self._server = server
        self._said = f"MCP server {server.name!r}"
        self._limits = limits
        self._client = client
        self._program = program
        self._lost = asyncio.get_running_loop().create_future()

    @property
    def junk(self) -> int:
        """How many lines came that are no messages."""
        return self._program.junk if self._program is not None else 0

    async def gone(self) -> McpError:
        """Wait until the connection ends by itself; why it did."""
        if self._program is not None:
            return await self._program.gone()
        return await asyncio.shield(self._lost)

    async def tools(self, most: int) -> Sequence[Offer]:
        """What it offers now, at most so many, in the server's order."""
        found: list[Offer] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._asked("its tools", self._client.list_tools(cursor=cursor))
            found += [self._offer(tool) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None or len(found) >= most:
                break
        return found[:most]

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """What the tool gives, as text."""
        from agent_lab.infrastructure.mcp_content import text_of

        result = await self._asked(name, self._client.call_tool(name, arguments))
        text = text_of(result)
        if result.is_error:
            raise McpToolFailed(text or f"{name} failed and gave no reason")
        return text

    async def _asked(self, what: str, request: Coroutine[Any, Any, T]) -> T:
        """What the server answers; what goes wrong, by its name."""
        from mcp import MCPError

        try:
            return await request
        except MCPError as error:
            if _is_end(error):
                why = f"{self._said} went while it was asked for {what}"
                raise await self._loses(why) from error
            why = f"{self._said} answers {what} with error {error.code}: {error.message}"
            raise McpError("mcp_refused", why) from error
        except (RuntimeError, ValueError) as error:  # the SDK's words for what breaks the protocol
            why = f"{self._said} answers {what} with what is no MCP: {str(error)[:_SHOWN]}"
            raise McpError("mcp_bad_message", why) from error

    async def unwelcome(self, error: Exception) -> McpError:
        """Why the server took nobody in."""
        while isinstance(error, ExceptionGroup):  # task groups wrap it
            error = cast("ExceptionGroup[Exception]", error).exceptions[0]
        why = f"{self._said} lets nobody in: {type(error).__name__}: {str(error)[:_SHOWN]}"
        is_end = self._program is not None and _is_end(error)
        return await self._loses(why) if is_end else McpError("mcp_gone", why)

    async def _loses(self, why: str) -> McpError:
        """Nothing more comes over this connection; a process that ended says why itself."""
        if self._program is not None:
            return await self._program.gone()
        if not self._lost.done():
            self._lost.set_result(McpError("mcp_gone", why))
        return self._lost.result()

    def _offer(self, tool: "Tool") -> Offer:
        schema = tool.input_schema
        fault = _fault(schema, self._limits)
        text = (tool.description or tool.title or f"{tool.name} of {self._server.name}").strip()
        described = text[: self._limits.description]
        parameters: dict[str, Any] = {
            "properties": {},
            **schema,
        }  # OpenAI answers 400 to an object without
        return Offer(tool.name, described, {} if fault else parameters, fault)


def _is_end(error: Exception) -> bool:
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    if not isinstance(error, MCPError):
        return False
    return error.code == CONNECTION_CLOSED or error.message == _SESSION_LOST


def _fault(schema: dict[str, Any], limits: McpLimits) -> str | None:
    """Why no provider can be told of this schema."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    size = len(msgspec.json.encode(schema))
    if size > limits.schema:
        return f"its schema has {size} bytes, and {limits.schema} are the most"
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        return f"its schema is none: {error.message[:_SHOWN]}"
    return None
