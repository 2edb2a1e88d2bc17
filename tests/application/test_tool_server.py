"""The owner of an MCP server, on virtual time, with a connection that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_lab.application.tool_server import ToolServer, ToolServers
from agent_lab.domain.errors import McpError
from agent_lab.domain.limits import McpLimits
from agent_lab.domain.mcp_server import McpServer, Offer
from agent_lab.testing import simulate

DEFINITION = McpServer("stub", command="stub", timeout=5.0, start_timeout=3.0)
GONE = McpError("mcp_gone", "the plug was pulled")


class Line:
    """A connection whose other end is this test."""

    def __init__(self, changed: Callable[[], object]) -> None:
        self.changed = changed
        self.offers = [Offer("look", "Look.", {"type": "object"})]
        self.pulled: asyncio.Future[McpError] = asyncio.get_running_loop().create_future()
        self.cancelled: list[str] = []
        self.entered_in = asyncio.current_task()
        self.left_in: asyncio.Task[Any] | None = None
        self.junk = 0

    async def tools(self, most: int) -> Sequence[Offer]:
        return self.offers[:most]

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        try:
            await asyncio.sleep(arguments.get("seconds", 0))
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        return f"{name} done"

    async def gone(self) -> McpError:
        return await asyncio.shield(self.pulled)


class Lines:
    """Opens them; `plan` says for each start whether it works, after how many seconds."""

    def __init__(self, *plan: float | None) -> None:
        self.plan = list(plan)
        self.made: list[Line] = []
        self.tried_at: list[float] = []

    @asynccontextmanager
    async def connect(
        self, server: McpServer, limits: McpLimits, changed: Callable[[], object]
    ) -> AsyncGenerator[Line]:
        self.tried_at.append(asyncio.get_running_loop().time())
        delay = self.plan.pop(0) if self.plan else 0.0
        if delay is None:
            raise McpError("mcp_gone", "it does not start")
        await asyncio.sleep(delay)
        line = Line(changed)
        self.made.append(line)
        try:
            yield line
        finally:
            line.left_in = asyncio.current_task()


def attended(
    test: Callable[[ToolServer, Lines], Coroutine[Any, Any, None]], *plan: float | None
) -> None:
    """Run this against a server whose starts go by plan, in virtual time."""

    async def main() -> None:
        lines = Lines(*plan)
        server = ToolServer(DEFINITION, lines.connect)
        async with ToolServers([server]):
            await server.started()
            await test(server, lines)
        assert server.state == "closed"

    simulate(main)


@pytest.mark.fault("R44")
def test_a_connection_is_left_in_the_task_that_entered_it() -> None:
    lines: list[Line] = []

    async def test(server: ToolServer, made: Lines) -> None:
        assert await server.call("look", {}) == "look done"
        lines.extend(made.made)

    attended(test)

    (line,) = lines
    assert line.left_in is line.entered_in


@pytest.mark.fault("R42")
def test_a_call_that_is_under_way_when_the_server_goes_is_not_made_again() -> None:
    async def test(server: ToolServer, lines: Lines) -> None:
        call = asyncio.ensure_future(server.call("look", {"seconds": 4}))
        await asyncio.sleep(1)
        lines.made[0].pulled.set_result(GONE)
        with pytest.raises(
            McpError, match=r"mcp_gone: the plug was pulled; whether look was done is not known"
        ):
            await call
        assert await server.call("look", {}) == "look done"  # by the next one
        assert lines.tried_at == [0.0, 1.5]

    attended(test)


@pytest.mark.fault("R42")
def test_a_server_that_does_not_start_is_tried_later_each_time() -> None:
    async def test(server: ToolServer, lines: Lines) -> None:
        with pytest.raises(McpError, match="it does not start"):
            await server.call("look", {})
        await asyncio.sleep(100)
        assert lines.tried_at == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5, 91.5]
        assert server.state == "ready"
        assert await server.call("look", {}) == "look done"

    attended(test, *[None] * 8)


@pytest.mark.fault("R42")
def test_a_server_that_keeps_falling_over_is_tried_later_each_time() -> None:
    async def test(server: ToolServer, lines: Lines) -> None:
        for wait in (0.5, 1.0, 2.0):
            lines.made[-1].pulled.set_result(GONE)
            await asyncio.sleep(0.1)
            if wait > 0.5:  # more than once in a row: who asks is told at once
                with pytest.raises(McpError, match="the plug was pulled"):
                    await server.call("look", {})
            await asyncio.sleep(wait)
        await asyncio.sleep(30)
        lines.made[-1].pulled.set_result(GONE)  # it had held out: the shortest wait again
        await asyncio.sleep(0.6)
        assert server.state == "ready"

    attended(test)


@pytest.mark.fault("R42")
def test_a_start_that_takes_too_long_is_given_up() -> None:
    async def test(server: ToolServer, lines: Lines) -> None:
        assert str(server.fault) == "mcp_timeout: MCP server 'stub' was not there within 3 s"
        assert server.state == "failed"

    attended(test, 10.0)


@pytest.mark.fault("R43")
def test_who_gives_up_his_call_has_it_cancelled_and_nobody_else() -> None:
    async def test(server: ToolServer, lines: Lines) -> None:
        first = asyncio.ensure_future(server.call("first", {"seconds": 4}))
        second = asyncio.ensure_future(server.call("second", {"seconds": 4}))
        await asyncio.sleep(1)
        first.cancel()
        assert await second == "second done"
        assert lines.made[0].cancelled == ["first"]

    attended(test)


@pytest.mark.fault("R42")
def test_a_call_without_an_answer_ends_by_its_limit_and_is_cancelled() -> None:
    async def test(server: ToolServer, lines: Lines) -> None:
        with pytest.raises(McpError, match=r"mcp_timeout: .* no answer to look within 5 s"):
            await server.call("look", {"seconds": 60})
        assert lines.made[0].cancelled == ["look"]

    attended(test)


def test_closing_ends_every_call() -> None:
    async def main() -> None:
        lines = Lines()
        server = ToolServer(DEFINITION, lines.connect)
        async with ToolServers([server]):
            call = asyncio.ensure_future(server.call("look", {"seconds": 4}))
            await asyncio.sleep(1)
        with pytest.raises(McpError, match=r"mcp_gone"):
            await call
        with pytest.raises(McpError, match="disconnected, because its agents close"):
            await server.call("look", {})

    simulate(main)


def test_servers_that_were_closed_can_be_opened_again() -> None:
    async def main() -> None:
        lines = Lines()
        server = ToolServer(DEFINITION, lines.connect)
        for _ in range(2):
            async with ToolServers([server]):
                assert await server.call("look", {}) == "look done"

    simulate(main)


@pytest.mark.fault("R45")
def test_many_changes_of_its_tools_are_listed_once() -> None:
    async def test(server: ToolServer, lines: Lines) -> None:
        heard: list[int] = []
        server.listeners.append(lambda: heard.append(len(server.offers)))
        line = lines.made[0]
        line.offers = [*line.offers, Offer("touch", "Touch.", {"type": "object"})]
        for _ in range(3):
            line.changed()
        await asyncio.sleep(0.1)
        assert heard == [2]

    attended(test)
