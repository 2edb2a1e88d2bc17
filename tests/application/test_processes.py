"""Programs that tools start, with real ones."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_lab import Agent, DebugRuntime, Limits
from agent_lab.application.processes import ProcessResult, run_process
from agent_lab.testing import ScriptedModel, call, reply
from tests.application.helpers_processes import Line


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


async def test_a_program_gives_its_exit_code_and_both_outputs() -> None:
    async with asyncio.timeout(5):
        result = await run_process("sh", "-c", "echo out; echo err >&2; exit 3")

    assert result == ProcessResult(3, "out\n", "err\n", "exited")


async def test_arguments_are_never_read_by_a_shell() -> None:
    async with asyncio.timeout(5):
        result = await run_process("echo", "$HOME; `id`", "two words")

    assert result == ProcessResult(0, "$HOME; `id` two words\n", "", "exited")


@pytest.mark.parametrize("given", ["ö" * 300_000, ("ö" * 300_000).encode()])
async def test_input_is_written_and_closed(given: str | bytes) -> None:
    async with asyncio.timeout(5):
        result = await run_process("cat", input=given)

    assert result == ProcessResult(0, "ö" * 300_000, "", "exited")


async def test_a_program_that_does_not_read_its_input_ends() -> None:
    async with asyncio.timeout(5):
        result = await run_process("true", input="x" * 3_000_000)

    assert result == ProcessResult(0, "", "", "exited")


async def test_without_input_a_program_reads_an_end_and_not_our_terminal() -> None:
    async with asyncio.timeout(5):
        assert await run_process("cat") == ProcessResult(0, "", "", "exited")


@pytest.mark.fault("R22")
async def test_bytes_that_are_no_text_are_replaced() -> None:
    async with asyncio.timeout(5):
        result = await run_process("printf", r"a\377b")

    assert result == ProcessResult(0, "a�b", "", "exited")


@pytest.mark.fault("R22")
@pytest.mark.parametrize(
    ("name", "error"), [("missing", FileNotFoundError), ("plain.txt", PermissionError)]
)
async def test_what_cannot_be_started_is_named(
    tmp_path: Path, name: str, error: type[OSError]
) -> None:
    (tmp_path / "plain.txt").write_text("no program")

    async with asyncio.timeout(5):
        with pytest.raises(error, match=name):
            await run_process(str(tmp_path / name))


@pytest.mark.fault("R14")
async def test_endless_output_is_cut_with_a_mark_and_the_program_killed() -> None:
    async with asyncio.timeout(5):
        result = await run_process("yes", limit=10)

    assert result == ProcessResult(
        -signal.SIGINT,
        "y\n" * 5 + "\n[truncated: it said over 10 bytes]",
        "",
        "output_limit",
    )


async def test_output_of_just_the_limit_is_whole() -> None:
    async with asyncio.timeout(5):
        result = await run_process("printf", "12345", limit=5)

    assert result == ProcessResult(0, "12345", "", "exited")


async def test_a_program_past_its_time_is_stopped_and_what_it_said_is_kept() -> None:
    async with asyncio.timeout(5):
        result = await run_process("sh", "-c", "exec sleep 60", timeout=0.05)

    assert result == ProcessResult(-signal.SIGINT, "", "", "timeout")


@pytest.mark.fault("R20")
async def test_a_program_that_ignores_sigint_is_killed_after_the_grace(line: Line) -> None:
    stubborn = f"exec 3>{line.path}; trap '' INT; echo said; while :; do sleep 60; done"

    async with asyncio.timeout(5):
        result = await run_process("sh", "-c", stubborn, limit=2, grace=0.1)

    assert (result.exit_code, result.ended) == (-signal.SIGKILL, "output_limit")
    assert await line.is_dead()


@pytest.mark.fault("T29")
@pytest.mark.fault("R21")
async def test_a_grandchild_that_holds_the_pipe_holds_nobody_up_and_is_killed(line: Line) -> None:
    script = f"exec 3>{line.path}; sleep 60 & echo said"

    async with asyncio.timeout(5):
        result = await run_process("sh", "-c", script, grace=0.1)

    assert result == ProcessResult(0, "said\n", "", "exited")
    assert await line.is_dead()


@pytest.mark.fault("R19")
async def test_a_grandchild_that_holds_no_pipe_is_killed_at_the_end(line: Line) -> None:
    script = f"exec 3>{line.path}; sleep 60 >/dev/null 2>&1 & echo said"

    async with asyncio.timeout(5):
        result = await run_process("sh", "-c", script)

    assert result == ProcessResult(0, "said\n", "", "exited")
    assert await line.is_dead()


async def test_a_grandchild_in_a_session_of_its_own_is_left_but_holds_nobody_up() -> None:
    leave = "import subprocess as s; p = s.Popen(['sleep', '5'], start_new_session=True)"

    async with asyncio.timeout(5):
        result = await run_process(sys.executable, "-c", f"{leave}; print(p.pid)", grace=0.1)

    assert result.ended == "exited" and result.stdout.strip().isdigit()
    await run_process("kill", result.stdout.strip())


@pytest.mark.fault("T29")
async def test_cancelled_it_ends_the_whole_group_before_it_returns(line: Line) -> None:
    script = f"exec 3>{line.path}; sleep 60 & echo ready >&3; wait"
    running = asyncio.create_task(run_process("sh", "-c", script))
    assert await line.says() == "ready"

    running.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await running

    assert await line.is_dead()


async def test_a_second_cancellation_kills_at_once(line: Line) -> None:
    stubborn = f"exec 3>{line.path}; trap 'echo asked >&3' INT; echo ready >&3; "
    stubborn += "while :; do sleep 60 & wait; done"
    running = asyncio.create_task(run_process("sh", "-c", stubborn, grace=60))
    assert await line.says() == "ready"

    running.cancel()
    assert await line.says() == "asked"
    running.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await running

    assert await line.is_dead()


@pytest.mark.fault("R19")
@pytest.mark.fault("R20")
async def test_a_cancelled_turn_leaves_no_process_of_its_tool(line: Line) -> None:
    script = f"exec 3>{line.path}; trap '' INT; sleep 60 & echo ready >&3; wait; wait"

    async def shell() -> str:
        """Run a shell."""
        return (await run_process("sh", "-c", script, grace=0.1)).stdout

    model = ScriptedModel([reply(calls=[call("shell")]), "fine"])
    agent = Agent("a", model=model, tools=[shell], limits=Limits(grace=1.0))
    async with DebugRuntime(agent) as runtime, asyncio.timeout(5):
        output = runtime.start("go").output
        assert await line.says() == "ready"
        assert runtime.cancel() == "cancelled"
        assert await line.is_dead()
        runtime.start("next")
        while (await output.get()).type != "done":
            pass
        assert runtime.session.abandoned.tasks == 0
