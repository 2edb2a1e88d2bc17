"""The command line in processes of its own: what it prints where, and how it ends."""

import asyncio
import json
import os
import pty
import re
import signal
import sys
import urllib.request
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(sys.executable).with_name("agent-lab"))
BOUND = 40
"""Seconds; a start takes one of them, on a busy machine several."""

QUICK = """
from agent_lab import Agent, tool
from agent_lab.testing import ScriptedModel, call, fail, reply

@tool
async def get_weather(city: str) -> str:
    print("a tool prints")
    return f"4 degrees in {city} \\x1b]0;owned\\x07"

answer = reply("It is \\x1b[2J 4 degrees.")
said = [reply("I look.", calls=[call("get_weather", "c1", city="Oslo")]), answer]
agent = Agent("weather", model=ScriptedModel(said), tools=[get_weather])
broken = Agent("broken", model=ScriptedModel([fail("no_credit", "no money", hint="pay")]))
print("the file prints")
"""
STUBBORN = """
import asyncio
from agent_lab import Agent, Limits, tool
from agent_lab.testing import ScriptedModel, call, reply

@tool
async def wait() -> None:
    await asyncio.Event().wait()

@tool
async def ignore() -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

def make(name):
    said = [reply(calls=[call(name)])]
    return Agent(name, model=ScriptedModel(said), tools=[wait, ignore], limits=Limits(grace=0.1))

waits, ignores = make("wait"), make("ignore")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the agents that these tests run."""
    (tmp_path / "quick.py").write_text(QUICK)
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    return tmp_path


@asynccontextmanager
async def started(*args: str, cwd: Path, **options: Any) -> AsyncIterator[Process]:
    """The program, and its end if the test has not seen to that."""
    given: dict[str, Any] = {"stdin": DEVNULL, "stdout": PIPE, "stderr": PIPE} | options
    process = await asyncio.create_subprocess_exec(PROGRAM, *args, cwd=cwd, **given)
    try:
        async with asyncio.timeout(BOUND):
            yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def run(*args: str, cwd: Path, **options: Any) -> tuple[int | None, str, str]:
    """Exit status, standard output and standard error."""
    async with started(*args, cwd=cwd, **options) as process:
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def until(process: Process, entry_type: str) -> list[dict[str, Any]]:
    """The entries of `--json` up to the first of this type."""
    assert process.stdout is not None
    entries: list[dict[str, Any]] = []
    while not entries or entries[-1]["type"] != entry_type:
        line = await process.stdout.readline()
        assert line, entries
        entries.append(json.loads(line))
    return entries


def rows(out: str) -> list[str]:
    """Rows without their times: label, two spaces, text."""
    return [f"{line[9:18].rstrip()}  {line[27:]}".rstrip() for line in out.splitlines()]


# -- run -----------------------------------------------------------------------------------------


async def test_run_tells_the_story_in_rows(folder: Path) -> None:
    code, out, err = await run("run", "quick.py:agent", "Weather in Oslo?", cwd=folder)

    assert code == 0
    assert rows(out) == [
        "you  Weather in Oslo?",
        "model  I look.",
        'call  get_weather(city="Oslo")',
        "reply  get_weather: 4 degrees in Oslo ␛]0;owned␇",
        "model  It is ␛[2J 4 degrees.",
        "done  2 model calls, 1 tool call",
    ]
    assert err.split("\n") == ["the file prints", "a tool prints", ""]


async def test_run_json_prints_each_entry_and_nothing_else(folder: Path) -> None:
    code, out, _ = await run("run", "quick.py:agent", "Weather?", "--json", cwd=folder)

    entries = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert entries[0]["type"] == "accepted" and entries[-1]["type"] == "done"
    assert {entry["session_id"] for entry in entries} == {entries[0]["session_id"]}
    assert "\x1b" not in out


async def test_run_without_a_file_is_the_demo(folder: Path) -> None:
    async with started("run", "Trains to Rome?", "--json", cwd=folder) as process:
        entries = await until(process, "tool_started")

    assert entries[0]["content"] == "Trains to Rome?"
    assert entries[-1]["name"] == "get_weather"


async def test_run_of_a_turn_that_fails_ends_with_1(folder: Path) -> None:
    code, out, _ = await run("run", "quick.py:broken", "Hello", cwd=folder)

    assert code == 1
    assert rows(out)[-1] == "error  no_credit: no money; pay"


async def test_ctrl_c_cancels_the_turn(folder: Path) -> None:
    async with started("run", "stubborn.py:waits", "Go", "--json", cwd=folder) as process:
        await until(process, "tool_started")
        process.send_signal(signal.SIGINT)
        entries = await until(process, "cancelled")
        code = await process.wait()

    assert code == 130
    assert [entry["kind"] for entry in entries if entry["type"] == "tool_reply"] == ["cancelled"]


async def test_a_tool_that_ignores_its_cancellation_is_left(folder: Path) -> None:
    async with started("run", "stubborn.py:ignores", "Go", "--json", cwd=folder) as process:
        await until(process, "tool_started")
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()

    assert process.returncode == 130
    assert "ignores its cancellation; left without waiting" in err.decode()
    assert "Traceback" not in err.decode()


async def test_a_second_ctrl_c_leaves_at_once(folder: Path) -> None:
    async with started("run", "stubborn.py:ignores", "Go", "--json", cwd=folder) as process:
        await until(process, "tool_started")
        process.send_signal(signal.SIGINT)
        await until(process, "cancelled")
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()

    assert process.returncode == 130
    assert "left without waiting" not in err.decode()


async def test_a_reader_that_goes_away_ends_the_run_quietly(folder: Path) -> None:
    shell = f"'{PROGRAM}' run quick.py:agent Hello --json | head -n 1; echo ${{PIPESTATUS[0]}}"
    bash = await asyncio.create_subprocess_exec(
        "bash", "-c", shell, cwd=folder, stdout=PIPE, stderr=PIPE
    )
    async with asyncio.timeout(BOUND):
        out, err = await bash.communicate()

    assert json.loads(out.splitlines()[0])["seq"] == 1
    assert b"Traceback" not in err and b"Broken" not in err


async def test_on_a_terminal_what_runs_stands_below_the_rows(folder: Path) -> None:
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    async with started(
        "run", "stubborn.py:waits", "Go", cwd=folder, stdin=theirs, stdout=theirs, env=env
    ) as process:
        os.close(theirs)
        seen = b""
        while b"running" not in seen:
            seen += await asyncio.to_thread(os.read, ours, 4096)
        process.send_signal(signal.SIGINT)
        while b"cancelled" not in seen.partition(b"running")[2]:
            seen += await asyncio.to_thread(os.read, ours, 4096)
        code = await process.wait()
    os.close(ours)

    assert code == 130
    assert b"call" in seen and b"wait()" in seen


async def test_terminal_escapes_are_shown_on_a_terminal_too(folder: Path) -> None:
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    async with started(
        "run", "quick.py:agent", "Go", cwd=folder, stdin=theirs, stdout=theirs, env=env
    ) as process:
        os.close(theirs)
        seen = b""
        with suppress(OSError):  # the terminal is gone with its last writer
            while chunk := await asyncio.to_thread(os.read, ours, 4096):
                seen += chunk
        code = await process.wait()
    os.close(ours)

    assert code == 0
    assert b"\x1b]0;" not in seen
    assert "␛]0;owned␇".encode() in seen and "␛[2J".encode() in seen


# -- serve ---------------------------------------------------------------------------------------


async def test_serve_prints_its_address_and_nothing_else(folder: Path) -> None:
    async with started("serve", "quick.py:agent", "--no-browser", cwd=folder) as process:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/#token=([\w-]{43})\n", line)
        assert found, line
        base, token = found.groups()

        page = await asyncio.to_thread(fetch, f"{base}/")
        agents = await asyncio.to_thread(fetch, f"{base}/api/agents", token)
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()

    assert b"<html" in page.lower()
    assert b"weather" in agents
    assert process.returncode == 0
    assert out == b""
    assert err.decode().splitlines() == [
        "the file prints",
        "agent-lab: serving weather; Ctrl-C stops",
        "agent-lab: stopping; Ctrl-C again leaves at once",
    ]


def fetch(url: str, token: str = "") -> bytes:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


async def test_serve_without_a_file_is_the_demo_and_sigterm_ends_it(folder: Path) -> None:
    async with started("serve", "--no-browser", cwd=folder) as process:
        assert process.stdout is not None and process.stderr is not None
        await process.stdout.readline()
        assert await process.stderr.readline() == b"agent-lab: serving demo; Ctrl-C stops\n"
        process.terminate()
        out, err = await process.communicate()

    assert (process.returncode, out) == (0, b"")
    assert err == b"agent-lab: stopping; Ctrl-C again leaves at once\n"


async def test_serve_opens_a_history_as_a_session(folder: Path) -> None:
    (folder / "history.json").write_text('{"messages": [{"role": "user", "content": "Oslo?"}]}')
    async with started("serve", "--no-browser", "--history", "history.json", cwd=folder) as process:
        assert process.stderr is not None
        line = (await process.stderr.readline()).decode()
        process.terminate()
        await process.communicate()

    assert re.fullmatch(r"agent-lab: history.json is session s_\w+ of demo\n", line)


async def test_serve_on_a_port_in_use_names_a_free_one(folder: Path) -> None:
    async with started("serve", "--no-browser", cwd=folder) as first:
        assert first.stdout is not None
        address = (await first.stdout.readline()).decode()
        port = address.partition("127.0.0.1:")[2].partition("/")[0]

        code, out, err = await run("serve", "--no-browser", "--port", port, cwd=folder)

    assert (code, out) == (2, "")
    assert re.fullmatch(rf"agent-lab: port {port} on 127\.0\.0\.1 is in use .* is free\n", err)


# -- what cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run", "nowhere.py", "Hello"], "no file 'nowhere.py'; give a Python file"),
        (["run", "quick.py"], "nothing to ask; say agent-lab run quick.py 'PROMPT'"),
        (["run", "quick.py", "Hello", "you"], "3 words are too many; put the prompt in quotes"),
        (["run", ""], "blank"),
        (["run", "--what"], "No such option: --what; see agent-lab run --help"),
        (["runn"], "Did you mean 'run'? Else see agent-lab --help"),
        (["serve", "quick.py:agent", "quick.py:agent"], "two agents are named 'weather'"),
        (["serve", "--host", "0.0.0.0"], "use 127.0.0.1"),
        (["serve", "--port", "70000"], "see agent-lab serve --help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_what_cannot_be_is_one_line_and_2(folder: Path, args: list[str], says: str) -> None:
    code, out, err = await run(*args, cwd=folder)

    assert (code, out) == (2, "")
    (line,) = (line for line in err.splitlines() if line != "the file prints")
    assert line.startswith("agent-lab: ") and says in line


async def test_a_prompt_that_is_not_utf_8_is_refused(folder: Path) -> None:
    code, out, err = await run("run", os.fsdecode(b"caf\xe9"), "--json", cwd=folder)

    assert (code, out) == (2, "")
    assert err == "agent-lab: the prompt is not UTF-8; say it in UTF-8\n"


async def test_debug_adds_the_traceback(folder: Path) -> None:
    code, _, err = await run("run", "nowhere.py", "Hello", "--debug", cwd=folder)

    assert code == 2
    assert err.startswith("Traceback") and "agent-lab: there is no file" in err


async def test_version_and_help(folder: Path) -> None:
    code, out, err = await run("--version", cwd=folder)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"agent-lab \d+\.\d+\.\d+\n", out)

    code, out, err = await run(cwd=folder)
    assert (code, err) == (0, "")
    assert all(command in out for command in ("serve", "run", "check"))
