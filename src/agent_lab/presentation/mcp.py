"""The MCP server, with the official SDK: the agents of this process as tools of an assistant.

Loading this module loads the SDK, which takes seconds: load it when somebody needs it.
"""

from importlib.metadata import version
from typing import Any, cast

import anyio
import mcp_types as types
import msgspec
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

from agent_lab.application.agents import Agents
from agent_lab.application.control import AgentControl
from agent_lab.application.logs import log
from agent_lab.domain.errors import AgentLabError
from agent_lab.domain.execution import Asker
from agent_lab.domain.redaction import SECRETS
from agent_lab.presentation.line_requests import asker_of
from agent_lab.presentation.mcp_agent_tools import AgentTools
from agent_lab.presentation.mcp_call import Call, McpRefusal, McpTool, misfit, refusal, schema_of
from agent_lab.presentation.mcp_line_tools import QUEUED, LineTools
from agent_lab.presentation.mcp_schedule_tools import ScheduleTools
from agent_lab.presentation.mcp_shapes import ChatAnswer
from agent_lab.presentation.views import Encoders

SIGN = 5.0
"""Seconds between two signs of life; a client's own time-out begins again with each."""
Context = ServerRequestContext[Any, Any]


class McpFace:
    """The tools, and the SDK's server that offers them over whatever carries it."""

    def __init__(
        self, agents: Agents, encoders: Encoders, *, queued: float = QUEUED, sign: float = SIGN
    ) -> None:
        self._control = AgentControl(agents)
        every = [
            *AgentTools(self._control).tools,
            *LineTools(agents, encoders, queued=queued).tools,
            *ScheduleTools(agents).tools,
        ]
        self._tools: dict[str, McpTool[Any]] = {tool.name: tool for tool in every}
        self._sign = sign
        names = ", ".join(agents.names)
        self.server: Server[Any] = Server(
            "agent-lab",
            version=version("agent-lab"),
            instructions=f"Agents here: {names}. chat_with_agent asks one of them; create_agent "
            "makes one of your own, to be prompted, waited for and stopped.",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    def stop(self, reason: str) -> None:
        """End every wait; who waits is told why."""
        self._control.stop(reason)

    async def _list(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in self._tools.values()])

    async def _call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            said = f"there is no tool {params.name!r}; tools/list lists them"
            raise MCPError(types.INVALID_PARAMS, said)
        results: list[types.CallToolResult] = []
        async with anyio.create_task_group() as group:
            signs = _Signs(context, self._sign)
            group.start_soon(signs.give)
            call = Call(_asker(context), signs.tell)
            results.append(await _outcome(tool, call, params.arguments or {}))
            group.cancel_scope.cancel()
        return results[0]


class _Signs:
    """Progress, told when there is something to say and then every few seconds."""

    def __init__(self, context: Context, interval: float) -> None:
        self._context = context
        self._interval = interval
        self._text = ""
        self._told = anyio.Event()

    def tell(self, text: str) -> None:
        self._text = text
        self._told.set()

    async def give(self) -> None:
        await self._told.wait()
        began = anyio.current_time()
        while True:
            passed = anyio.current_time() - began
            await self._context.session.report_progress(
                round(passed, 1), message=f"{self._text} ({passed:.0f} s)"
            )
            await anyio.sleep(self._interval)


async def _outcome(
    tool: McpTool[Any], call: Call, arguments: dict[str, Any]
) -> types.CallToolResult:
    """What the call came to; a refusal is a result too, for the assistant to act on."""
    try:
        answer = await tool(call, arguments)
    except msgspec.ValidationError as error:
        return _refused(misfit(tool, error))
    except AgentLabError as error:
        return _refused(refusal(error))
    except Exception:
        log.exception("MCP tool %s", tool.name)
        said = "a fault of agent_lab; its log says more"
        return _refused(McpRefusal(error="internal", message=said))
    told = SECRETS.hide_in(msgspec.to_builtins(answer))
    is_error = isinstance(answer, ChatAnswer) and answer.is_error
    return types.CallToolResult(content=[_text(told)], structured_content=told, is_error=is_error)


def _refused(refused: McpRefusal) -> types.CallToolResult:
    """Text alone: structured content would have to be what the tool promises to give."""
    return types.CallToolResult(content=[_text(msgspec.to_builtins(refused))], is_error=True)


def _text(told: Any) -> types.TextContent:
    return types.TextContent(text=msgspec.json.encode(told).decode())


def _described(tool: McpTool[Any]) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=schema_of(tool.takes),
        output_schema=schema_of(tool.gives),
        annotations=types.ToolAnnotations(read_only_hint=tool.reads, open_world_hint=False),
    )


def _asker(context: Context) -> Asker:
    """Who asks: what the headers say over HTTP, nobody in particular over stdio."""
    request = cast("Request | None", context.request)
    by = Asker() if request is None else asker_of(request)
    return msgspec.structs.replace(by, source="mcp", triggered_by="mcp")
