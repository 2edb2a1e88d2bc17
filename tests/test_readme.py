"""README and docs/architecture.md, run: what they show is what happens."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_lab import Agent, ChatMessage, DebugRunRequest, DebugRuntime, tool
from agent_lab.presentation.terminal import one_line
from agent_lab.testing import ScriptedModel, call, open_runtime, reply, simulate

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INVALID = "agent-lab check history.json --dialect openai_chat"


class Block(NamedTuple):
    kind: str
    text: str


def blocks(text: str) -> list[Block]:
    return [Block(*found.groups()) for found in BLOCK.finditer(text)]


def commands() -> list[str]:
    return [line for kind, text in blocks(README) if kind == "sh" for line in text.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader stands who saved each block under the name it has in its first line."""
    made = tmp_path_factory.mktemp("readme")
    for kind, text in blocks(README):
        if kind == "python":
            name = text.partition("\n")[0].removeprefix("# ")
            (made / name).write_text(text, encoding="utf-8")
        elif kind == "json":
            (made / "history.json").write_text(text, encoding="utf-8")
    return made


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run as the reader does, with `.venv/bin` on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def without_times(text: str) -> str:
    return re.sub(r"\d+\.\d+|\b\d+ ms", "0", re.sub(r" +", " ", text))


SERVES = [line for line in commands() if "serve" in line]
MAKES = [line for line in commands() if line.startswith("make ")]
ENDS = [line for line in commands() if line not in (*SERVES, *MAKES)]


@pytest.mark.parametrize("command", ENDS)
def test_a_command_does_what_is_said(command: str, folder: Path) -> None:
    done = shell(command, folder)

    assert done.returncode == (1 if command == INVALID else 0), done.stdout + done.stderr


@pytest.mark.parametrize("command", MAKES)
def test_a_make_target_is_there(command: str) -> None:
    done = shell(f"{command} --dry-run", ROOT)

    assert done.returncode == 0
    assert {"make run": "agent-lab serve", "make test": "bin/pytest"}[command] in done.stdout


@pytest.mark.parametrize("command", SERVES)
async def test_a_server_is_there_under_the_address_it_prints(command: str, folder: Path) -> None:
    program, *args = command.split()
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name(program),
        *args,
        "--no-browser",
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(40):
            line = await process.stdout.readline()
    finally:
        process.terminate()
        await process.communicate()

    assert re.fullmatch(rb"http://127\.0\.0\.1:\d+/#token=\S+\n", line)


def test_the_run_in_the_terminal_looks_as_shown(folder: Path) -> None:
    (shown,) = (text for kind, text in blocks(README) if kind == "text")

    done = shell('agent-lab run weather.py "Weather in Oslo?"', folder)

    assert without_times(done.stdout) == without_times(shown)


def test_every_file_and_link_of_the_readme_is_there() -> None:
    links = re.findall(r"\]\(([^):]+)\)", README)

    assert [link for link in links if not (ROOT / link.partition("#")[0]).is_file()] == []
    assert "docs/images/page-light.png" in links


def test_every_public_name_of_the_readme_is_there() -> None:
    """The methods in the table, and what it names of agent_lab.testing."""
    import agent_lab.testing as testing

    (row,) = (line for line in README.splitlines() if line.startswith("| `DebugRuntime`"))
    methods = re.findall(r"`(\w+)\(\)`", row)
    (row,) = (line for line in README.splitlines() if line.startswith("| `agent_lab.testing`"))
    names = re.findall(r"`(\w+)`", row)

    assert len(methods) == 8 and len(names) == 7
    assert [name for name in methods if not hasattr(DebugRuntime, name)] == []
    assert [name for name in names if not hasattr(testing, name)] == []


def test_the_journal_in_the_docs_is_the_one_that_happens() -> None:
    """The session of docs/architecture.md, to the millisecond of its virtual clock."""

    @tool
    async def get_weather(city: str) -> str:
        await asyncio.sleep(2)
        return f"4 degrees in {city}"

    said = [
        reply(calls=[call("get_weather", "call_1", city="Oslo")]),
        reply("4 degrees in Oslo; of Rome I know nothing."),
    ]
    agent = Agent("weather", tools=[get_weather], model=ScriptedModel(said))

    async def session() -> list[str]:
        async with open_runtime(agent) as runtime:
            request = DebugRunRequest(content="Weather in Oslo?", message_id="m_1")
            async with runtime.run(request) as run:
                async for payload in run:
                    if payload.type == "tool_call":
                        await asyncio.sleep(0.5)
                        steer = ChatMessage("user", "And in Rome?", message_id="m_2")
                        await run.queues.input.put(steer)
            _, entries = runtime.session.journal.read()
        return [one_line(entry, entries[0].at) for entry in entries]

    (shown,) = (text for kind, text in blocks(ARCHITECTURE) if kind == "text")
    assert "\n".join(simulate(session)) + "\n" == shown
