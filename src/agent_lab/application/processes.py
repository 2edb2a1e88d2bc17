"""Programs that tools start: bounded, in a session of their own, and gone when the tool is.

T29: a signal to a shell spares its children, and who waits for the end of their output waits for
ever. So the whole process group is signalled, and a pipe that somebody still holds is closed.
(asyncio's subprocess_exec hangs when it is cancelled while it starts, so it is not used.)
"""

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import partial
from signal import SIGINT, SIGKILL, Signals
from subprocess import PIPE, Popen
from threading import Thread
from typing import Literal

import msgspec

from agent_lab.application.leftovers import DOING
from agent_lab.application.strays import INTERRUPT, KILL, KNOWN

_RUNNING: set[int] = set()
"""Programs that run now: what the operating system knows, for a process that leaves at once."""


def kill_all() -> None:
    """Kill what tools have running; for a process that ends without its loop."""
    for pid in tuple(_RUNNING):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, SIGKILL)
    for stray in tuple(KNOWN):
        stray.kill()


class ProcessResult(msgspec.Struct, frozen=True):
    """What a program came to. `exit_code` is minus the signal's number if a signal ended it.

    `ended` says who ended it: itself, `timeout`, or `output_limit`.
    """

    exit_code: int | None
    stdout: str
    stderr: str
    ended: Literal["exited", "timeout", "output_limit"]


async def run_process(
    *argv: str,
    input: str | bytes = b"",  # noqa: A002 - as subprocess.run names it
    timeout: float | None = None,
    limit: int = 1 << 20,
    grace: float = INTERRUPT,
) -> ProcessResult:
    """Run a program, without a shell, and give its output as text.

    Cancelled, after `timeout` seconds, or past `limit` bytes of one stream, its process group gets
    SIGINT and after `grace` seconds SIGKILL; a second cancellation kills at once. What it leaves
    running in its group is killed, after the `grace` if it holds a pipe. Text past the limit is
    cut, with a mark; bytes that are not UTF-8 are replaced. Raises OSError if it cannot start.
    """
    program = _Program(argv, input.encode() if isinstance(input, str) else input, limit)
    over = {program.exited, program.full}
    with _patience(grace + KILL):
        try:
            done, _ = await asyncio.wait(over, timeout=timeout, return_when="FIRST_COMPLETED")
        finally:
            await program.end(grace)
    ended = "output_limit" if program.full.done() else "exited" if done else "timeout"
    return ProcessResult(program.process.returncode, program.text(1), program.text(2), ended)


@contextmanager
def _patience(seconds: float) -> Generator[None]:
    """Have the tool that waits here given this long to end, and not just the grace."""
    doing = DOING.get()
    patience = doing.patience if doing is not None else []
    patience.append(seconds)
    try:
        yield
    finally:
        patience.remove(seconds)


class _Program:
    """A program that runs; knows when it exited, said too much and let go of its output."""

    def __init__(self, argv: tuple[str, ...], given: bytes, limit: int) -> None:
        start = partial(Popen, argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True)
        self.process = Context().run(start)  # nobody's leftover: it is ended here
        _RUNNING.add(self.process.pid)
        self._loop = loop = asyncio.get_running_loop()
        self.exited, self.full, self.silent = (loop.create_future() for _ in range(3))
        self._given, self._limit = memoryview(given), limit
        self._said = {1: bytearray(), 2: bytearray()}
        pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        self._pipes = {number: pipe for number, pipe in enumerate(pipes) if pipe}
        for pipe in self._pipes.values():
            os.set_blocking(pipe.fileno(), False)
        loop.add_writer(self._pipes[0], self._write)
        for number in (1, 2):
            loop.add_reader(self._pipes[number], self._read, number)
        Thread(target=self._wait, name=f"wait for {argv[0]}", daemon=True).start()

    def text(self, number: int) -> str:
        said, limit = self._said[number], self._limit
        text = said[:limit].decode("utf-8", "replace")
        return text if len(said) <= limit else f"{text}\n[truncated: it said over {limit} bytes]"

    async def end(self, grace: float) -> None:
        try:
            if not self.exited.done():
                self._signal_group(SIGINT)
            await asyncio.wait({self.exited, self.silent}, timeout=grace)
        finally:
            self._signal_group(SIGKILL)
            for number in (0, 1, 2):
                self._close(number)
            await asyncio.wait({self.exited}, timeout=KILL)

    def _read(self, number: int) -> None:
        said, data = self._said[number], os.read(self._pipes[number].fileno(), 1 << 16)
        if len(said) + len(data) > self._limit and not self.full.done():
            self.full.set_result(None)
        said += data[: self._limit - len(said) + 1]  # one more tells text() to cut
        if not data:
            self._close(number)

    def _write(self) -> None:
        with suppress(BrokenPipeError):  # it does not want to read it all
            self._given = self._given[os.write(self._pipes[0].fileno(), self._given) :]
            if self._given:
                return
        self._close(0)

    def _close(self, number: int) -> None:
        if pipe := self._pipes.pop(number, None):
            (self._loop.remove_reader if number else self._loop.remove_writer)(pipe)
            pipe.close()
        if not self._pipes.keys() & {1, 2} and not self.silent.done():
            self.silent.set_result(None)

    def _wait(self) -> None:
        self.process.wait()
        _RUNNING.discard(self.process.pid)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.exited.set_result, None)

    def _signal_group(self, signal: Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nobody is left
            os.killpg(self.process.pid, signal)
