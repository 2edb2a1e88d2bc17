"""A task or a program that is to end, and its ladder: what is done to it, and how long that takes.

A program's group, or without one of its own the program and all that descends from it, gets SIGINT,
5 s, SIGKILL, 2 s. A task is cancelled and has the grace.
"""

import os
from asyncio import AbstractEventLoop, Task
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGSTOP, Signals
from subprocess import Popen
from threading import Thread
from typing import Any, Literal, Protocol
from weakref import WeakSet

INTERRUPT = 5.0
"""Seconds from SIGINT to SIGKILL."""
KILL = 2.0
"""Seconds that the system has to end what was killed."""
Step = tuple[Callable[[], object], float]


Kind = Literal["tasks", "threads", "programs"]


class Stray(Protocol):
    """Something that is to end."""

    kind: Kind
    ladder: tuple[Step, ...]
    is_ending: bool
    is_abandoned: bool

    @property
    def name(self) -> str:
        """How it is told of."""
        ...

    @property
    def is_there(self) -> bool:
        """Whether it has begun."""
        ...

    def watch(self, loop: AbstractEventLoop, gone: Callable[[], object], /) -> bool:
        """Have `gone` called on the loop at its end; False if it has ended."""
        ...

    def kill(self) -> None:
        """End it at once, if that can be done."""
        ...


class StrayTask:
    """A task; its end is told by whoever has it."""

    def __init__(self, task: "Task[Any]", grace: float) -> None:
        self.kind: Kind = "tasks"
        self._task = task
        self.ladder: tuple[Step, ...] = ((task.cancel, grace),)
        self.is_ending = self.is_abandoned = False

    @property
    def is_there(self) -> bool:
        """A task is, once it is made."""
        return True

    @property
    def name(self) -> str:
        """Its name and what it runs."""
        what = getattr(self._task.get_coro(), "__qualname__", "?")
        return f"task {self._task.get_name()} ({what})"

    def watch(self, _: AbstractEventLoop, __: Callable[[], object]) -> bool:
        """Its done callback is set already."""
        return not self._task.done()

    def kill(self) -> None:
        """A task cannot be."""


class StrayProgram:
    """A program that was started with Popen, by whomever. It is never reaped here: that is for
    its owner, whom it would confuse."""

    def __init__(self, program: "Popen[Any]") -> None:
        self.kind: Kind = "programs"
        KNOWN.add(self)
        self._program = program
        self._tree: dict[int, str] = {}
        self._has_group = False
        self.ladder: tuple[Step, ...] = ((self._interrupt, INTERRUPT), (self.kill, KILL))
        self.is_ending = self.is_abandoned = False

    @property
    def is_there(self) -> bool:
        """Whether it has a number: it may speak before the thread that started it knows that."""
        return getattr(self._program, "pid", None) is not None

    @property
    def is_reaped(self) -> bool:
        """Whether its owner knows that it has ended."""
        return self._program.returncode is not None

    @property
    def name(self) -> str:
        """What was started, and its number."""
        argv = self._program.args
        said = argv if isinstance(argv, str | bytes | os.PathLike) else next(iter(argv), "")
        return f"program {os.fsdecode(said)[:80]!r} ({getattr(self._program, 'pid', None)})"

    def watch(self, loop: AbstractEventLoop, gone: Callable[[], object]) -> bool:
        """A thread waits for its end; then what it leaves running is killed too."""
        pid = getattr(self._program, "pid", None)  # none if it could not be started
        if pid is None or self.is_reaped or _has_ended(pid):
            return False

        def wait() -> None:
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            self._signal(SIGKILL)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(gone)

        Thread(target=wait, name=f"end {pid}", daemon=True).start()
        return True

    def kill(self) -> None:
        """SIGKILL to all of it. Who is stopped first starts nobody else meanwhile."""
        known = -1
        while not self.is_reaped and known < len(self._tree):
            known = len(self._tree)
            self._note_tree()
            self._signal(SIGSTOP)
        self._signal(SIGKILL)

    def _interrupt(self) -> None:
        self._note_tree()
        self._signal(SIGINT)

    def _note_tree(self) -> None:
        """Who belongs to it now: once it is gone nothing tells that they did."""
        pid = self._program.pid
        with suppress(ProcessLookupError, PermissionError):
            self._has_group = os.getpgid(pid) == pid
        for one in _tree(pid):
            self._tree.setdefault(one, _born(one))

    def _signal(self, signal: Signals) -> None:
        if self._has_group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._program.pid, signal)
            return
        for one, born in self._tree.items():
            if born == _born(one):  # else the number is another's by now
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(one, signal)


KNOWN: "WeakSet[StrayProgram]" = WeakSet()
"""Programs of tools that nobody took care of yet, for a process that leaves at once."""


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _tree(pid: int) -> Iterator[int]:
    """The process and its descendants; itself alone where the system does not tell."""
    yield pid
    for task in _listed(Path(f"/proc/{pid}/task")):
        for child in _read(task / "children").split():
            yield from _tree(int(child))


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _born(pid: int) -> str:
    """When it was started, in the system's ticks: number and birth together name a process."""
    return " ".join(_read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[19:20])


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
