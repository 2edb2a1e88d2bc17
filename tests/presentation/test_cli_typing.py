"""Typing into `agent-lab run`, on a real terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import termios
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.presentation.test_cli import started

BOUND = 10

WAITING = """
import asyncio
from pathlib import Path
from agent_lab import Agent, tool
from agent_lab.testing import ScriptedModel, call, reply

@tool
async def look(place: str) -> str:
    while not Path("door").exists():
        await asyncio.sleep(0.02)
    return f"seen {place}"

said = [reply(calls=[call("look", "c1", place="Oslo")]), "So it is."]
agent = Agent("looker", model=ScriptedModel(said, repeat_last=True), tools=[look])
"""


class Terminal:
    """A program on a terminal of ours."""

    def __init__(self, fd: int, process: Process, folder: Path) -> None:
        self._fd = fd
        self.process = process
        self._folder = folder
        self.seen = self.found = ""
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(fd, self._read)

    def _read(self) -> None:
        try:
            read = self.seen + os.read(self._fd, 4096).decode("utf-8", "ignore")
            self.seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", read)
        except OSError:  # the terminal is gone with its last writer
            asyncio.get_running_loop().remove_reader(self._fd)
        self._more.set()

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._fd, text.encode())

    async def until(self, pattern: str) -> None:
        """Read on until this is on the screen, in what came since the last time."""
        try:
            async with asyncio.timeout(BOUND):
                while not (found := re.search(pattern, self.seen)):
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(f"{pattern!r} is not in {self.seen[-3000:]!r}") from None
        self.found = found[0]
        self.seen = self.seen[found.end() :]

    def open_door(self) -> None:
        """Let the tool return."""
        (self._folder / "door").touch()


@asynccontextmanager
async def typing(folder: Path, agent: str = WAITING) -> AsyncIterator[Terminal]:
    """A run on a terminal, in its foreground, of an agent whose tool waits for its door."""
    (folder / "agent.py").write_text(agent)
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(ours)
    env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    command = ("run", "agent.py", "Look")

    def lead() -> None:
        os.setsid()
        os.close(os.open(os.ttyname(theirs), os.O_RDWR))  # which makes it our terminal

    on_terminal = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "preexec_fn": lead}
    async with started(*command, cwd=folder, env=env, **on_terminal) as process:
        os.close(theirs)
        yield Terminal(ours, process, folder)
        await process.wait()
        asyncio.get_running_loop().remove_reader(ours)
        assert termios.tcgetattr(ours)[3] == before[3], "the terminal is left as it was"
    os.close(ours)


async def test_a_line_typed_before_the_run_is_ready_is_sent(tmp_path: Path) -> None:
    async with typing(tmp_path) as terminal:
        terminal.type("And in Rome?\r")
        await terminal.until(r"you\s+Look")
        await terminal.until(r"you\s+And in Rome\?")
        terminal.open_door()


async def test_a_typed_line_is_a_steer_that_is_held_and_delivered(tmp_path: Path) -> None:
    async with typing(tmp_path) as terminal:
        await terminal.until("running")
        terminal.type("And in Rum\x7f\x7fome?")
        await terminal.until(r"> And in Rome\?▌")
        terminal.type("\r")
        await terminal.until(r"you\s+And in Rome\?")
        await terminal.until(r"held\s+“And in Rome\?” waits for look \(c1\)")
        terminal.open_door()
        await terminal.until(r"delivered\s+“And in Rome\?”")
        await terminal.until("done")
        assert await terminal.process.wait() == 0


async def test_a_waiting_message_is_edited_and_another_taken_back(tmp_path: Path) -> None:
    async with typing(tmp_path) as terminal:
        await terminal.until("running")
        terminal.type("first\rsecond\r")
        await terminal.until("held.*second")
        terminal.type("/withdraw\r/edit better\r/nonsense\r/help\r")
        await terminal.until("there is no /nonsense")
        await terminal.until("/interrupt TEXT")
        await terminal.until("withdrawn.*second")
        await terminal.until("edited.*better")
        terminal.open_door()
        await terminal.until("delivered.*better")
        await terminal.until("done")


@pytest.mark.parametrize("how", ["/cancel\r", "\x03"])
async def test_cancel_ends_the_turn_and_the_run(tmp_path: Path, how: str) -> None:
    async with typing(tmp_path) as terminal:
        await terminal.until("running")
        terminal.type(how)
        await terminal.until("cancelled")
        code = await terminal.process.wait()

    assert code == 130


async def test_one_call_can_be_cancelled(tmp_path: Path) -> None:
    async with typing(tmp_path) as terminal:
        await terminal.until("running")
        terminal.type("/cancel c9\r/cancel c1\r")
        await terminal.until("tool call c9 is not open")
        await terminal.until(r"look \[cancelled\]")
        await terminal.until("done")


async def test_a_second_signal_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    async with typing(tmp_path) as terminal:
        await terminal.until("running")
        terminal.process.send_signal(signal.SIGINT)
        terminal.process.send_signal(signal.SIGTERM)
        code = await terminal.process.wait()

    assert code == 130
