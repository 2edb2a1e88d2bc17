"""What tools leave behind: tasks and programs that are still there when their turn is over.

A tool runs in a context that names its call, and what it starts inherits that. So a task that it
made, and a program that it started with `subprocess` or asyncio's, are known to be its own however
it started them. When the turn is over they are ended, by the ladder of `strays`; a task that is to
outlive its turn is started with a context of its own: `create_task(..., context=Context())`.
"""

import asyncio
import sys
from asyncio import AbstractEventLoop, Task
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from functools import partial
from inspect import currentframe
from pathlib import Path
from subprocess import Popen
from typing import Any, cast

import msgspec

from agent_lab.application.logs import log
from agent_lab.application.strays import Kind, Stray, StrayProgram, StrayTask

_PACKAGE = str(Path(__file__).parents[1])
_SOON, _LOOKS = 0.05, 20
"""Seconds between two looks at a program that has no number yet, and how many; then it failed."""
_PROCESSES = str(Path(__file__).with_name("processes.py"))


class Abandoned(msgspec.Struct):
    """Work that ignored its end and may still run: tasks, threads and programs, and of which tool.

    `left` counts what tools left behind, however it ended.
    """

    tasks: int = 0
    threads: int = 0
    programs: int = 0
    left: int = 0
    names: list[str] = []

    def begin(self, kind: Kind, name: str) -> None:
        """One more, under this name."""
        setattr(self, kind, getattr(self, kind) + 1)
        self.names.append(name)

    def end(self, kind: Kind, name: str) -> None:
        """It has ended after all."""
        setattr(self, kind, getattr(self, kind) - 1)
        self.names.remove(name)

    @property
    def total(self) -> int:
        """How much of it there is now."""
        return self.tasks + self.threads + self.programs


class Doing:
    """One tool call at work, as what it starts knows it. `patience` has the seconds that its
    programs may take to end, one for each that runs in `run_process`."""

    __slots__ = ("is_over", "leftovers", "patience", "tool", "turn")

    def __init__(self, tool: str, turn: int | None, leftovers: "Leftovers") -> None:
        self.tool = tool
        self.turn = turn
        self.leftovers = leftovers
        self.patience: list[float] = []
        self.is_over = False


DOING: ContextVar[Doing | None] = ContextVar("agent_lab_doing", default=None)


class Leftovers:
    """What the tools of one session started beside themselves and that has not ended."""

    __slots__ = ("_abandoned", "_grace", "_loop", "_session_id", "_waiters", "held")

    def __init__(
        self, session_id: str, loop: AbstractEventLoop, abandoned: Abandoned, grace: float
    ) -> None:
        """`grace`: seconds that a cancelled task has."""
        self.held: dict[Stray, Doing] = {}
        self._session_id = session_id
        self._loop = loop
        self._abandoned = abandoned
        self._grace = grace
        self._waiters: list[asyncio.Future[None]] = []

    def add_task(self, doing: Doing, task: "Task[Any]") -> None:
        """The tool made this task."""
        stray = StrayTask(task, self._grace)
        self.held[stray] = doing
        task.add_done_callback(lambda _: self._gone(stray))

    def add_program(self, doing: Doing, program: "Popen[Any]") -> None:
        """The tool started this program; called in whatever thread it runs in."""
        for stray in list(self.held):
            if isinstance(stray, StrayProgram) and stray.is_reaped:
                self.held.pop(stray, None)
        self.held[StrayProgram(program)] = doing

    def sweep(self, turn: int | None) -> None:
        """End what was left, but for the turn that runs and calls that are still cleaning up."""
        for stray, doing in list(self.held.items()):
            if doing.is_over and doing.turn != turn and not stray.is_ending:
                stray.is_ending = True
                self._end(stray, doing, _LOOKS)

    def _end(self, stray: Stray, doing: Doing, looks: int) -> None:
        """Begin with its ladder; a program that is just being started is looked at again."""
        if not stray.is_there and looks:
            self._loop.call_later(_SOON, self._end, stray, doing, looks - 1)
        elif stray.watch(self._loop, partial(self._gone, stray)):
            self._abandoned.left += 1
            said = "session %s: tool %s left %s behind; it is ended"
            log.warning(said, self._session_id, doing.tool, stray.name)
            self._climb(stray, 0)
        else:
            self._gone(stray)

    async def gone(self) -> None:
        """Wait until all is gone that can be ended. Cancelled, it kills the programs at once."""
        while any(one.is_ending and not one.is_abandoned for one in self.held):
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                for stray in self.held:
                    stray.kill()
                raise

    def _climb(self, stray: Stray, step: int) -> None:
        """The next step of its ladder, unless it is gone."""
        if stray not in self.held:
            return
        if step < len(stray.ladder):
            act, seconds = stray.ladder[step]
            act()
            self._loop.call_later(seconds, self._climb, stray, step + 1)
            return
        stray.is_abandoned = True
        name = _named(self.held[stray], stray)
        self._abandoned.begin(stray.kind, name)
        log.error("session %s: %s does not end and is abandoned", self._session_id, name)
        self._wake()

    def _gone(self, stray: Stray) -> None:
        doing = self.held.pop(stray, None)
        if doing is not None and stray.is_abandoned:
            self._abandoned.end(stray.kind, _named(doing, stray))
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _named(doing: Doing, stray: Stray) -> str:
    return f"{doing.tool}: {stray.name}"


# -- how they are noticed ------------------------------------------------------------------------


def notice(loop: AbstractEventLoop) -> None:
    """From now on notice what tools start on this loop, and programs in the whole process."""
    before = loop.get_task_factory()
    if not isinstance(before, _Factory):
        loop.set_task_factory(cast("Any", _Factory(before)))
    if not _heard:
        _heard.append(True)
        sys.addaudithook(_hear)


_heard: list[bool] = []
"""Whether the hook is in place: one cannot be taken out again."""


class _Factory:
    """Makes tasks as the loop did before, and remembers those that a tool made."""

    def __init__(self, before: Callable[..., Any] | None) -> None:
        self._make = before

    def __call__(
        self, loop: AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any
    ) -> "Task[Any]":
        doing = DOING.get()
        if doing is not None and _is_ours(coro) and options.get("context") is None:
            context = options["context"] = copy_context()
            context.run(DOING.set, None)  # a session that a tool opens, and all that it starts
        make = self._make
        task: Task[Any] = (
            Task(coro, loop=loop, **options) if make is None else make(loop, coro, **options)
        )
        if doing is not None and not _is_adopted(options):
            doing.leftovers.add_task(doing, task)
        return task


def _is_adopted(options: dict[str, Any]) -> bool:
    """Whether it lives on by itself: it has a context of its own."""
    context = options.get("context")
    return context is not None and context.get(DOING) is None


def _is_ours(coro: Coroutine[Any, Any, Any]) -> bool:
    code = getattr(coro, "cr_code", None)
    file = code.co_filename if code is not None else ""
    return file.startswith(_PACKAGE) and file != _PROCESSES


def _hear(event: str, _: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        doing = DOING.get()
        if doing is not None:  # the event has all but the object: that is who tells it
            caller = frame.f_back if (frame := currentframe()) is not None else None
            program = caller.f_locals.get("self") if caller is not None else None
            if isinstance(program, Popen):
                doing.leftovers.add_program(doing, cast("Popen[Any]", program))
