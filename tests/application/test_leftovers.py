"""What tools leave behind is ended: tasks, programs, threads; by the ladder, counted and named."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_lab import Limits, run_process
from agent_lab.application.leftovers import Abandoned, Doing, Leftovers
from agent_lab.application.tool_server import ToolServer, ToolServers
from agent_lab.domain.limits import McpLimits
from agent_lab.domain.mcp_server import McpServer
from agent_lab.testing import ScriptedModel, call, open_runtime, reply
from tests.application.helpers_processes import Line
from tests.application.helpers_runtime import (
    said,
    settled,
    simulated,
    take_turn,
    ticks,
    turn,
    until,
)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    line = Line(tmp_path / "line")
    yield line
    line.close()


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """A test run in the background has SIGINT ignored, and its children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def model(name: str) -> ScriptedModel:
    return ScriptedModel([reply(calls=[call(name)]), "fine", "fine"])


# -- tasks ---------------------------------------------------------------------------------------


@pytest.mark.fault("R18")
@simulated
async def test_a_task_that_a_tool_leaves_lives_to_the_end_of_its_turn_and_is_counted() -> None:
    left: list[asyncio.Task[Any]] = []

    async def leaves() -> str:
        """Leave a task."""
        left.append(asyncio.create_task(asyncio.Event().wait()))
        return "started"

    async def looks() -> str:
        """Look at it."""
        return f"done: {left[0].done()}"

    script = [reply(calls=[call("leaves")]), reply(calls=[call("looks")]), "fine"]
    async with open_runtime(model=ScriptedModel(script), tools=[leaves, looks]) as runtime:
        await turn(runtime)
        await ticks()

        assert [p.content for p in said(runtime, "tool_reply")] == ["started", "done: False"]
        assert left[0].cancelled()
        assert (runtime.session.abandoned.left, runtime.session.abandoned.total) == (1, 0)


@pytest.mark.fault("R18")
@simulated
async def test_tasks_of_tasks_and_those_started_from_a_thread_are_the_tools_too() -> None:
    left: list[asyncio.Task[Any]] = []

    async def child() -> None:
        left.append(asyncio.create_task(asyncio.Event().wait()))
        await asyncio.Event().wait()

    async def nests() -> str:
        """Start a task that starts one."""
        left.append(asyncio.create_task(child()))
        await asyncio.sleep(0)
        return "started"

    async with open_runtime(model=model("nests"), tools=[nests]) as runtime:
        await turn(runtime)
        await ticks()

        assert [task.cancelled() for task in left] == [True, True]
        assert runtime.session.abandoned.left == 2


@pytest.mark.fault("R18")
@simulated
async def test_a_task_with_a_context_of_its_own_outlives_its_turn() -> None:
    stop, left = asyncio.Event(), list[asyncio.Task[Any]]()

    async def adopts() -> str:
        """Start something that stays."""
        loop = asyncio.get_running_loop()
        left.append(loop.create_task(stop.wait(), context=contextvars.Context()))
        return "started"

    async with open_runtime(model=model("adopts"), tools=[adopts]) as runtime:
        await turn(runtime)
        await asyncio.sleep(10)

        assert not left[0].done()
        assert runtime.session.abandoned.left == 0
    stop.set()
    await left[0]


@pytest.mark.fault("R18")
@simulated
async def test_a_left_task_that_ignores_its_cancellation_is_abandoned_and_named() -> None:
    let_go, left = asyncio.Event(), list[asyncio.Task[None]]()

    async def deaf() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    async def leaves() -> str:
        """Leave a stubborn task."""
        left.append(asyncio.create_task(deaf(), name="poll"))
        await asyncio.sleep(0)  # one that has not begun is simply cancelled
        return "started"

    async with open_runtime(
        model=model("leaves"), tools=[leaves], limits=Limits(grace=2)
    ) as runtime:
        await turn(runtime)
        abandoned = runtime.session.abandoned
        await asyncio.sleep(1.9)
        assert abandoned.total == 0
        await asyncio.sleep(0.2)
        assert abandoned.tasks == 1
        assert "leaves: task poll" in abandoned.names[0] and "deaf" in abandoned.names[0]

        let_go.set()
        await ticks()
        assert (abandoned.total, abandoned.names, abandoned.left) == (0, [], 1)


@simulated
async def test_what_a_cancelled_tool_cleans_up_with_is_let_be_until_it_is_done() -> None:
    cleaned: list[str] = []

    async def child() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)
            cleaned.append("child")

    async def groups() -> str:
        """Run a group of tasks."""
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
        return "never"

    async with open_runtime(model=model("groups"), tools=[groups]) as runtime:
        runtime.start("go")
        await until(runtime, "tool_started")
        await ticks()
        runtime.cancel()
        await asyncio.sleep(1.5)

        assert cleaned == ["child"]
        assert (runtime.session.abandoned.left, runtime.session.abandoned.total) == (0, 0)


@pytest.mark.fault("R18")
@simulated
async def test_closing_ends_what_was_left_and_waits_for_it() -> None:
    left: list[asyncio.Task[Any]] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1)

    async def leaves() -> str:
        """Leave a task and go on."""
        left.append(asyncio.create_task(slow()))
        await asyncio.Event().wait()
        return "never"

    async with open_runtime(model=model("leaves"), tools=[leaves]) as runtime:
        runtime.start("go")
        await until(runtime, "tool_started")
        await ticks()

    assert left[0].cancelled()


@simulated
async def test_a_session_that_a_tool_opens_is_nobodys_leftover() -> None:
    inner = open_runtime(model=ScriptedModel(["inner"] * 3))
    opened: list[Any] = []

    async def opens() -> str:
        """Open a session and leave it open."""
        runtime = await inner.__aenter__()
        opened.append(runtime)
        return (await turn(runtime))[-1]

    async with open_runtime(model=model("opens"), tools=[opens]) as runtime:
        await turn(runtime)
        await asyncio.sleep(10)

        assert runtime.session.abandoned.left == 0
        assert (await turn(opened[0]))[-1] == "done"
    await inner.__aexit__(None, None, None)


@simulated
async def test_a_connection_that_a_tool_has_opened_is_nobodys_leftover() -> None:
    """The owner of an MCP server is a task of ours; what it starts is as little the tool's."""
    inside: list[asyncio.Task[Any]] = []

    @asynccontextmanager
    async def connect(
        server: McpServer, limits: McpLimits, changed: Callable[[], object]
    ) -> AsyncGenerator[Any]:
        inside.append(asyncio.create_task(asyncio.Event().wait()))
        yield asyncio.Event()  # never asked for anything

    definition = McpServer("stub", command="stub")
    servers = ToolServers([ToolServer(definition, connect)])

    async def connects() -> str:
        """Open the connection and leave it open."""
        await servers.__aenter__()
        await ticks()
        return "connected"

    async with open_runtime(model=model("connects"), tools=[connects]) as runtime:
        await turn(runtime)
        await ticks()

        assert (runtime.session.abandoned.left, [task.done() for task in inside]) == (0, [False])
    inside[0].cancel()
    await servers.__aexit__(None, None, None)


# -- programs ------------------------------------------------------------------------------------


STARTED: list[subprocess.Popen[bytes]] = []


@pytest.fixture
def _reaped() -> Iterator[None]:
    yield
    while STARTED:
        STARTED.pop().wait(5)


def with_popen(argv: list[str]) -> Callable[[], str]:
    def starts() -> str:
        """Start a program and leave it."""
        STARTED.append(subprocess.Popen(argv))
        return "started"

    return starts


def with_asyncio(argv: list[str]) -> Callable[[], Any]:
    async def starts() -> str:
        """Start a program and leave it."""
        await asyncio.create_subprocess_exec(*argv)
        return "started"

    return starts


def with_session(argv: list[str]) -> Callable[[], str]:
    def starts() -> str:
        """Start a program in a session of its own and leave it."""
        STARTED.append(subprocess.Popen(argv, start_new_session=True))
        return "started"

    return starts


@pytest.mark.fault("R19")
@pytest.mark.usefixtures("_reaped")
@pytest.mark.parametrize("start", [with_popen, with_asyncio, with_session])
async def test_a_program_that_a_tool_leaves_is_ended_with_all_its_children(
    line: Line, start: Callable[[list[str]], Any]
) -> None:
    script = f"exec 3>{line.path}; sleep 60 & echo ready >&3; wait"

    async def hears() -> str:
        """Hear that it runs."""
        return await line.says()

    replies = [reply(calls=[call("starts")]), reply(calls=[call("hears")]), "fine"]
    tools = [start(["sh", "-c", script]), hears]
    async with open_runtime(model=ScriptedModel(replies), tools=tools) as runtime:
        await turn(runtime)

        assert [p.content for p in said(runtime, "tool_reply")] == ["started", "ready"]
        assert await line.is_dead()
        async with asyncio.timeout(5):
            await runtime.session.leftovers.gone()
        assert (runtime.session.abandoned.left, runtime.session.abandoned.total) == (1, 0)


@pytest.mark.fault("R19")
@pytest.mark.fault("R09")
async def test_a_thread_that_waits_for_a_program_is_freed_by_ending_that(line: Line) -> None:
    script = f"exec 3>{line.path}; echo ready >&3; exec sleep 60"

    def shells() -> str:
        """Wait for a program."""
        return f"ended by {-subprocess.run(['sh', '-c', script], check=False).returncode}"

    async with open_runtime(model=model("shells"), tools=[shells]) as runtime:
        runtime.start("go")
        assert await line.says() == "ready"
        runtime.cancel()
        late = await until(runtime, "late_reply")

        assert late.content == f"ended by {signal.SIGINT.value}"
        assert (runtime.session.abandoned.total, runtime.session.abandoned.names) == (0, [])


@pytest.mark.fault("R19")
async def test_a_program_that_is_just_being_started_is_ended_once_it_is_there(line: Line) -> None:
    """It may speak before the thread that started it has its number."""
    with_popen(["sh", "-c", f"exec 3>{line.path}; echo ready >&3; exec sleep 60"])()
    program = STARTED.pop()
    assert await line.says() == "ready"
    number, program.pid = program.pid, None  # type: ignore[assignment]  # as it is for a moment
    loop = asyncio.get_running_loop()
    leftovers = Leftovers("s", loop, Abandoned(), grace=2.0)
    doing = Doing("shell", 1, leftovers)
    doing.is_over = True
    leftovers.add_program(doing, program)
    leftovers.sweep(None)
    loop.call_soon(setattr, program, "pid", number)
    async with asyncio.timeout(5):
        await leftovers.gone()

    assert program.wait(5) == -signal.SIGINT
    assert await line.is_dead()


@pytest.mark.fault("R20")
async def test_a_left_program_that_ignores_sigint_is_killed(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_lab.application.strays.INTERRUPT", 0.1)
    script = f"exec 3>{line.path}; trap '' INT; sleep 60 & echo ready >&3; wait"

    def shells() -> str:
        """Wait for a program."""
        return f"ended by {-subprocess.run(['sh', '-c', script], check=False).returncode}"

    async with open_runtime(model=model("shells"), tools=[shells]) as runtime:
        runtime.start("go")
        assert await line.says() == "ready"
        runtime.cancel()
        late = await until(runtime, "late_reply")

        assert late.content == f"ended by {signal.SIGKILL.value}"
        assert await line.is_dead()


@pytest.mark.fault("R19")
async def test_closing_kills_no_program_that_heeds_sigint_and_leaves_none(line: Line) -> None:
    wait = "import sys, time\ntry:\n print('ready', flush=True, file=out); time.sleep(60)\n"
    wait = f"out = open({str(line.path)!r}, 'w')\n{wait}except KeyboardInterrupt:\n "
    script = f"{wait}print('goodbye', flush=True, file=out)"

    async def runs() -> str:
        """Run a program that says goodbye."""
        return (await run_process(sys.executable, "-c", script)).stdout

    async with open_runtime(
        model=model("runs"), tools=[runs], limits=Limits(grace=0.05)
    ) as runtime:
        runtime.start("go")
        assert await line.says() == "ready"
    assert await line.says() == "goodbye"
    assert await line.is_dead()
    assert runtime.session.abandoned.total == 0


@simulated
async def test_a_program_that_could_not_be_started_is_no_leftover() -> None:
    def starts() -> str:
        """Start nothing."""
        subprocess.Popen(["/nowhere/at/all"])
        return "never"

    async with open_runtime(model=model("starts"), tools=[starts]) as runtime:
        await turn(runtime)
        await settled(runtime)

        assert "nowhere" in said(runtime, "tool_reply")[0].content
        assert (runtime.session.abandoned.left, runtime.session.leftovers.held) == (0, {})


# -- threads -------------------------------------------------------------------------------------


@pytest.mark.fault("R09")
async def test_a_thread_that_is_abandoned_is_named() -> None:
    let_go = threading.Event()

    def hangs() -> str:
        """Hang."""
        assert let_go.wait(5)
        return "late"

    async with open_runtime(
        model=model("hangs"), tools=[hangs], limits=Limits(tool_timeout=0.01)
    ) as runtime:
        runtime.start("go")
        await take_turn(runtime)
        assert runtime.session.abandoned.names == ["hangs: its thread"]

        let_go.set()
        await until(runtime, "late_reply")
        assert runtime.session.abandoned.names == []
