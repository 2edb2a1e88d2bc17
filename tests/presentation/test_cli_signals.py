"""How `agent-lab` stops: one signal, two, with a tool that blocks everything, without a home."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from tests.presentation.test_cli import BOUND, PROGRAM, run, started

BLOCKING = """
import asyncio, time
from agent_lab import Agent, tool
from agent_lab.application.processes import run_process
from agent_lab.testing import ScriptedModel, call, reply

@tool
async def block() -> None:
    print("blocking", flush=True)
    time.sleep(1000)

@tool
def thread() -> None:
    print("blocking", flush=True)
    time.sleep(1000)

@tool
async def child() -> None:
    await run_process("sh", "-c", "echo $$ > pid; exec sleep 1000")

def make(name):
    said = [reply(calls=[call(name)])]
    return Agent(name, model=ScriptedModel(said), tools=[block, thread, child])

blocks, threads, children = make("block"), make("thread"), make("child")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with agents that do not let go."""
    (tmp_path / "bad.py").write_text(BLOCKING)
    return tmp_path


@pytest.mark.fault("O03")
@pytest.mark.fault("R10")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_two_signals_end_a_run_whose_tool_blocks_the_loop(
    folder: Path, number: signal.Signals
) -> None:
    async with started("run", "bad.py:blocks", "Go", cwd=folder) as process:
        assert process.stderr is not None
        assert await process.stderr.readline() == b"blocking\n"
        reported = (await process.stderr.readline()).decode()
        process.send_signal(number)
        heard = await process.stderr.readline()
        process.send_signal(number)
        began = time.monotonic()
        code = await process.wait()

    assert (code, time.monotonic() - began < 1) == (130, True)
    assert heard.endswith(b"once more leaves at once\n")
    assert reported.startswith("agent-lab: loop_blocked: nothing else runs for ")
    assert "at bad.py:10 block" in reported


@pytest.mark.fault("O03")
async def test_two_signals_end_a_server_whose_tool_blocks_a_thread(folder: Path) -> None:
    async with started("serve", "bad.py:threads", "--no-browser", cwd=folder) as process:
        assert process.stdout is not None and process.stderr is not None
        await ask((await process.stdout.readline()).decode())
        while await process.stderr.readline() != b"blocking\n":
            pass
        process.send_signal(signal.SIGINT)
        while b"again leaves at once" not in await process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        code = await process.wait()

    assert time.monotonic() - began < 1
    assert code in (130, 0)  # it may have been done just then


@pytest.mark.fault("O01")
@pytest.mark.fault("O02")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_one_signal_ends_a_server_in_the_middle_of_a_tool(
    folder: Path, number: signal.Signals
) -> None:
    async with started("serve", "bad.py:threads", "--no-browser", cwd=folder) as process:
        assert process.stdout is not None and process.stderr is not None
        await ask((await process.stdout.readline()).decode())
        while await process.stderr.readline() != b"blocking\n":
            pass
        process.send_signal(number)
        began = time.monotonic()
        code = await process.wait()
        rest = (await process.stderr.read()).decode()

    assert (code, time.monotonic() - began < 5) == (0, True)
    assert "again leaves at once" in rest and "Traceback" not in rest


@pytest.mark.fault("O03")
async def test_programs_of_tools_are_killed_by_the_second_signal(folder: Path) -> None:
    async with started("run", "bad.py:children", "Go", cwd=folder) as process:
        pid = await asyncio.to_thread(read_pid, folder / "pid")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)  # another number, for two of one may come as one
        code = await process.wait()

    assert code == 130
    assert await asyncio.to_thread(has_ended, pid)


@pytest.mark.fault("O10")
async def test_it_starts_without_home_terminal_and_locale(folder: Path) -> None:
    env = {"PATH": os.environ["PATH"], "LANG": "C", "TZ": "Mars/Olympus"}
    code, out, err = await run("run", "Weather?", "--json", cwd=folder, env=env)

    assert (code, out.count('"type":"done"')) == (0, 1), err
    async with started("serve", "--no-browser", cwd=folder, env=env) as process:
        assert process.stdout is not None
        assert (await process.stdout.readline()).startswith(b"http://127.0.0.1:")
        process.terminate()
        assert await process.wait() == 0


@pytest.mark.fault("O10")
def test_it_starts_with_a_home_that_cannot_be_written(folder: Path) -> None:
    home = folder / "home"
    home.mkdir(mode=0o500)
    env = os.environ | {"HOME": str(home), "LC_ALL": "C"}
    done = subprocess.run(
        [PROGRAM, "run", "Weather?"],
        cwd=folder,
        env=env,
        capture_output=True,
        timeout=BOUND,
        check=False,
    )

    assert done.returncode == 0 and b"done" in done.stdout
    assert list(home.iterdir()) == []


async def ask(url: str) -> None:
    """Give the server's only agent something to do, and go."""
    base, _, token = url.strip().partition("/#token=")
    where = f"ws{base.removeprefix('http')}/ws"
    protocols = [Subprotocol(f"agent-lab.token.{token}")]
    async with connect(where, subprotocols=protocols, proxy=None) as client:
        await client.send('{"content":"Go"}')
        await client.recv()


def read_pid(path: Path) -> int:
    """The process that the tool has started."""
    ends = time.monotonic() + BOUND
    while time.monotonic() < ends:
        if path.exists() and (said := path.read_text().strip()):
            return int(said)
        time.sleep(0.02)
    raise AssertionError("the tool started nothing")


def has_ended(pid: int) -> bool:
    """Whether that process is gone, or a body nobody has buried yet."""
    ends = time.monotonic() + 5
    while time.monotonic() < ends:
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return sys.platform == "linux"
        time.sleep(0.02)
    return False
