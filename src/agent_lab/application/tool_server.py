"""MCP servers as an agent's sessions see them: one task owns each, calls reach it by mailbox.

What is entered in a task is left in it (R44). A server that goes is started again, later each time
it fails; a call that was under way is not made again, since it may have been done.
"""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self, cast

from agent_lab.application.foreign import said
from agent_lab.application.logs import log
from agent_lab.application.ports import Connect, Connection
from agent_lab.domain.errors import AgentLabError, McpCode, McpError
from agent_lab.domain.limits import McpLimits
from agent_lab.domain.mcp_server import McpServer, Offer

ServerState = Literal["starting", "ready", "restarting", "failed", "closed"]


class _Call:
    """A call in the mailbox; whoever made it may give it up."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.name = name
        self.arguments = arguments
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def give_up(self) -> None:
        if self.task is not None:
            self.task.cancel()


class ToolServer:
    """One server: its state, what it offers, and calls to it. `run` is the task that owns it."""

    def __init__(
        self, definition: McpServer, connect: Connect, limits: McpLimits | None = None
    ) -> None:
        self.definition = definition
        self.state: ServerState = "starting"
        self.offers: Sequence[Offer] = ()
        self.fault: McpError | None = None
        """Why it is not there."""
        self.listeners: list[Callable[[], object]] = []
        """Called when it is in another state, or offers other tools."""
        self._connect = connect
        self._limits = limits or McpLimits()
        self._mailbox: asyncio.Queue[_Call | None] = asyncio.Queue()
        self._started = asyncio.Event()
        self._must_list = False
        self._is_stopping = False
        self._owner: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """What it is called in the agent."""
        return self.definition.name

    async def started(self) -> None:
        """Wait until it is there, or its first start has failed."""
        await self._started.wait()

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call its tool; raises McpError. Cancelled, the server is told that nobody waits.

        While it is started again the call waits for it; when that failed it is refused at once.
        """
        if self.state in ("failed", "closed"):
            raise self.fault or self._fault("mcp_gone", "is not connected")
        call = _Call(name, arguments)
        self._mailbox.put_nowait(call)
        try:
            return await call.answer
        except asyncio.CancelledError:
            call.give_up()
            raise

    # -- the owner -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep it connected until `stop`; then every call that is open ends."""
        limits, failures = self._limits, 0
        self._owner = asyncio.current_task()
        time = asyncio.get_running_loop().time
        try:
            while not self._is_stopping:
                began = time()
                was_ready = await self._attend()
                failures = 0 if was_ready and time() - began >= limits.steady else failures + 1
                if not was_ready or failures > 1:
                    self._set("failed")
                    self._refuse_waiting()
                delay = min(limits.retry * 2 ** max(failures - 1, 0), limits.retry_most)
                log.warning("%s; it is started again in %g s", self.fault, delay)
                await asyncio.sleep(delay)
        finally:
            self.fault = self._fault("mcp_gone", "was disconnected, because its agents close")
            self._set("closed")
            self._refuse_waiting()

    def begin(self) -> None:
        """Before `run`: as if it had never been there."""
        self._is_stopping, self._owner, self.state = False, None, "starting"
        self._started.clear()

    def stop(self) -> None:
        """Leave the server."""
        self._is_stopping = True
        if self._owner is not None:
            self._owner.cancel()

    async def _attend(self) -> bool:
        """One connection, from its start to its end; whether it was ever ready."""
        definition, was_ready = self.definition, False
        limit = asyncio.timeout(definition.start_timeout)
        try:
            async with limit, self._connect(definition, self._limits, self._changed) as connection:
                self.offers = await connection.tools(self._limits.tools)
                limit.reschedule(None)
                was_ready, self.fault = True, None
                self._set("ready")
                await self._serve(connection)
        except BaseException as error:  # groups of task groups, and cancellations inside them
            if self._is_stopping:
                raise
            if limit.expired():
                seconds = definition.start_timeout
                self.fault = self._fault("mcp_timeout", f"was not there within {seconds:g} s")
            else:
                self.fault = self._named(_first(error))
        self._set("restarting")
        return was_ready

    async def _serve(self, connection: Connection) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(connection), name=f"watch {self.name}")
            while True:
                call = await self._mailbox.get()
                if call is None:
                    group.create_task(self._list(connection), name=f"list {self.name}")
                elif not call.answer.done():
                    name = f"call {self.name} {call.name}"
                    call.task = group.create_task(self._answer(connection, call), name=name)

    async def _watch(self, connection: Connection) -> None:
        self.fault = await connection.gone()
        raise self.fault

    async def _answer(self, connection: Connection, call: _Call) -> None:
        limit, junk = self.definition.timeout, connection.junk
        try:
            async with asyncio.timeout(limit):
                answer = await connection.call(call.name, call.arguments)
            if not call.answer.done():
                call.answer.set_result(answer)
        except TimeoutError:
            late = f"gave no answer to {call.name} within {limit:g} s"
            if connection.junk > junk:
                said_junk = f"{late}, but lines on standard output that are no messages"
                call.fail(self._fault("mcp_bad_message", said_junk))
            else:
                call.fail(self._fault("mcp_timeout", late))
        except asyncio.CancelledError:
            call.fail(self._cut_off(call, self.fault or self._fault("mcp_gone", "has gone")))
            raise
        except Exception as error:  # noqa: BLE001 whatever it is, the caller is told
            fault = self._named(error)
            call.fail(self._cut_off(call, fault) if fault.code == "mcp_gone" else fault)

    # -- its tools -------------------------------------------------------------------------------

    def _changed(self) -> None:
        if not self._must_list:
            self._must_list = True
            self._mailbox.put_nowait(None)

    async def _list(self, connection: Connection) -> None:
        self._must_list = False
        try:
            async with asyncio.timeout(self.definition.start_timeout):
                self.offers = await connection.tools(self._limits.tools)
        except (AgentLabError, TimeoutError) as error:
            log.warning("MCP server %r: its tools cannot be listed: %s", self.name, said(error))
        else:
            self._tell()

    def _set(self, state: ServerState) -> None:
        self.state = state
        if state != "restarting":
            self._started.set()
        self._tell()

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()

    def _refuse_waiting(self) -> None:
        while not self._mailbox.empty():
            call = self._mailbox.get_nowait()
            if call is not None:
                call.fail(self.fault or self._fault("mcp_gone", "has gone"))
        self._must_list = False

    def _fault(self, code: McpCode, what: str) -> McpError:
        return McpError(code, f"MCP server {self.name!r} {what}")

    def _cut_off(self, call: _Call, fault: McpError) -> McpError:
        return McpError("mcp_gone", f"{fault.message}; whether {call.name} was done is not known")

    def _named(self, error: BaseException) -> McpError:
        if isinstance(error, McpError):
            return error
        log.info("MCP server %r", self.name, exc_info=error)
        return self._fault("mcp_gone", f"fell over: {type(error).__name__}: {said(error)}")


class ToolServers:
    """The servers of some agents: connected while the `async with` lasts."""

    def __init__(self, servers: Sequence[ToolServer]) -> None:
        self.servers = servers
        self._group: asyncio.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        """Begin to start them; does not wait until they are there."""
        self._group = await asyncio.TaskGroup().__aenter__()
        for server in self.servers:
            server.begin()
            self._group.create_task(server.run(), name=f"MCP server {server.name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._group is not None
        for server in self.servers:
            server.stop()
        await self._group.__aexit__(None, None, None)


def _first(error: BaseException) -> BaseException:
    """What felled it, out of the groups that task groups wrap around it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
