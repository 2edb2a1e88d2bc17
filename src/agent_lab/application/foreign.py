"""Running foreign code in a task of ours: its context, its cancellations, what it raises."""

from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import Any, TypeVar, cast

from agent_lab.application.nudge import Nudge
from agent_lab.domain.messages import clean
from agent_lab.domain.redaction import SECRETS

T = TypeVar("T")

_DONE = object()
LONGEST = 10_000
"""Characters kept of what an exception says."""


class Foreign:
    """Where a worker runs foreign coroutines, one after the other, each in a context of its own.

    Workers live long, so without this a context variable set by one call is seen by the next.
    After each step the nudge is told of cancellations that foreign code left in the count: on 3.11
    a TaskGroup whose child fails does.

    The steps go through one generator that outlives the calls and yields when a call is done: a
    coroutine that is sent into by hand ends with StopIteration, which costs more than all the rest.
    """

    __slots__ = ("_nudge", "_result", "_steps")

    def __init__(self, nudge: Nudge) -> None:
        self._nudge = nudge
        self._result: Any = None
        self._steps: Generator[Any, Any, None] | None = None

    @coroutine
    def run(self, foreign: Coroutine[Any, Any, T], context: Context) -> Generator[Any, Any, T]:
        """Await a coroutine step by step in this context."""
        steps, self._steps = self._steps, None  # a call that raises leaves none behind
        if steps is None:
            steps = cast("Generator[Any, Any, None]", self._one_by_one())
            next(steps)
        nudge, run = self._nudge, context.run
        cancelling = nudge.task.cancelling
        step: Callable[..., Any] = steps.send
        value: Any = foreign
        while True:
            try:
                waits_for = run(step, value)
            except CancelledError:
                raise  # whose it is, the nudge knows
            except BaseException:
                nudge.seen()
                raise
            if cancelling() or nudge.foreign:
                nudge.seen()
            if waits_for is _DONE:
                self._steps = steps
                result, self._result = self._result, None
                return result
            try:
                value, step = (yield waits_for), steps.send
            except BaseException as error:
                value, step = error, steps.throw

    @coroutine
    def _one_by_one(self) -> Generator[Any, Any, None]:
        foreign: Coroutine[Any, Any, Any] = yield
        while True:
            self._result = yield from foreign
            foreign = yield _DONE


def said(error: BaseException) -> str:
    """What an exception says: never blank (S70), never more than LONGEST, clean, no secrets.

    Its name stands before it where it is none that a program expects, such as SystemExit.
    """
    named = type(error).__name__
    try:
        text = str(error).strip()
    except BaseException:  # its own fault, and T12
        text = ""
    plain = isinstance(error, Exception)
    whole = text if plain and text else f"{named}: {text}" if text else named
    return SECRETS.redact(clean(whole[:LONGEST]))


def place(error: BaseException) -> str:
    """`file:line` of the innermost frame that raised it; empty if it was never raised."""
    traceback, found = error.__traceback__, ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        found = f"{code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found
