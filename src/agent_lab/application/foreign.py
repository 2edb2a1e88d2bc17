"""Running foreign code in a task of ours: its context, its cancellations, what it raises."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any

from agent_lab.application.nudge import Nudge
from agent_lab.domain.messages import clean
from agent_lab.domain.redaction import SECRETS

LONGEST = 10_000
"""Characters kept of what an exception says."""


class InContext:
    """Awaits a coroutine step by step in a context that is not the task's own.

    Workers live long, so without this a context variable set by one call is seen by the next.
    After each step the nudge is told, because foreign code may leave cancellations in the count:
    on 3.11 a TaskGroup whose child fails does.
    """

    __slots__ = ("_context", "_coroutine", "_nudge")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], nudge: Nudge, context: Context) -> None:
        self._coroutine = coroutine
        self._nudge = nudge
        self._context = context

    def __await__(self) -> Generator[Any, Any, Any]:
        run, coroutine, nudge = self._context.run, self._coroutine, self._nudge
        step: Callable[..., Any] = coroutine.send
        value: Any = None
        while True:
            try:
                waits_for = run(step, value)
            except StopIteration as stop:
                nudge.seen()
                return stop.value
            except asyncio.CancelledError:
                raise  # whose it is, the nudge knows
            except BaseException:
                nudge.seen()
                raise
            nudge.seen()
            try:
                value, step = (yield waits_for), coroutine.send
            except BaseException as error:
                value, step = error, coroutine.throw


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
