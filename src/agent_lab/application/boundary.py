"""The boundary around a tool: whatever happens inside comes out as a reply.

T12: a tool that raises SystemExit or KeyboardInterrupt inside a task kills the whole server, so
BaseException is caught here. The only thing let through is a cancellation that is ours or that
comes from outside; a tool's own CancelledError is the tool's fault (R06).
"""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from functools import partial
from threading import Thread
from typing import Any

import msgspec

from agent_lab.application.foreign import Foreign, place, said
from agent_lab.application.leftovers import Abandoned
from agent_lab.application.logs import log
from agent_lab.application.nudge import Nudge
from agent_lab.application.tools import Tool
from agent_lab.domain.messages import ReplyKind, clean


class Outcome(msgspec.Struct, frozen=True):
    """What a tool call came to: the reply's text and kind."""

    content: str
    kind: ReplyKind = "result"


def misfit(tool: Tool, arguments: dict[str, Any]) -> Outcome | None:
    """What a call with these arguments comes to if they do not fit the tool, else None."""
    try:
        tool.bind(arguments)
    except BaseException as error:  # it never awaits, so this is no cancellation
        return _bad_arguments(tool, error)
    return None


def asks(tool: Tool, arguments: dict[str, Any]) -> tuple[bool, str | None]:
    """Whether somebody has to allow this call; a `needs_approval` that raises says so, and why."""
    if isinstance(tool.needs_approval, bool):
        return tool.needs_approval, None
    try:
        own = msgspec.json.decode(msgspec.json.encode(arguments))  # what runs is what was asked
        return bool(tool.needs_approval(own)), None
    except BaseException as error:  # it never awaits, so this is no cancellation
        return True, said(error)


async def run_async(
    tool: Tool,
    arguments: dict[str, Any],
    nudge: Nudge,
    foreign: Foreign,
    context: Context,
    limit: int,
) -> Outcome:
    """Run an async tool in `context`; raises CancelledError only if we were cancelled."""
    try:
        bound = tool.bind(arguments)
    except BaseException as error:  # it never awaits, so this is no cancellation
        return _bad_arguments(tool, error)
    try:
        value = await foreign.run(tool.function(**bound), context)
        if type(value) is str and len(value) <= limit and value.isascii():
            return Outcome(value)
        return _result(value, limit)
    except asyncio.CancelledError as error:
        if nudge.is_cancelled:
            raise
        nudge.disown()
        return _failed(tool, error)
    except GeneratorExit as error:
        if not nudge.is_current:
            raise  # our own coroutine is being closed
        return _failed(tool, error)
    except BaseException as error:
        return _failed(tool, error)


async def run_in_thread(
    tool: Tool,
    arguments: dict[str, Any],
    context: Context,
    *,
    limit: int,
    abandoned: Abandoned,
    late: Callable[[Outcome], None],
) -> Outcome:
    """Run a sync tool in a daemon thread of its own.

    T30: a thread cannot be stopped. Cancelled here it goes on, counted as abandoned until it ends,
    and `late` is called on the loop with what it came to; being a daemon it holds up no exit.
    """
    done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    name = f"{tool.name}: its thread"

    def deliver(outcome: Outcome) -> None:
        if done.cancelled():
            abandoned.end("threads", name)
            late(outcome)
        else:
            done.set_result(outcome)

    work = partial(_work, tool, arguments, context, limit, done.get_loop(), deliver)
    Thread(target=work, name=f"tool {tool.name}", daemon=True).start()
    try:
        return await done
    except asyncio.CancelledError:
        if done.cancelled():
            abandoned.begin("threads", name)
        else:  # it ended in the same tick
            late(done.result())
        raise


def _work(
    tool: Tool,
    arguments: dict[str, Any],
    context: Context,
    limit: int,
    loop: asyncio.AbstractEventLoop,
    deliver: Callable[[Outcome], None],
) -> None:
    """What the thread does."""
    try:
        bound = tool.bind(arguments)
    except BaseException as error:
        outcome = _bad_arguments(tool, error)
    else:
        try:
            outcome = _result(context.run(tool.function, **bound), limit)
        except BaseException as error:
            outcome = _failed(tool, error)
    with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
        loop.call_soon_threadsafe(deliver, outcome)


def _result(value: Any, limit: int) -> Outcome:
    """The text of a result: strings as they are, None as nothing, all else as JSON."""
    if inspect.iscoroutine(value):
        value.close()
        return Outcome("Error: the tool returned a coroutine; make it an async def", "error")
    try:
        text = value if isinstance(value, str) else _as_json(value)
        if len(text) <= limit and text.isascii():
            return Outcome(text)
    except Exception as error:
        return Outcome(
            f"Error: the tool returned a {type(value).__name__}, which is not JSON: {error}",
            "error",
        )
    return Outcome(_cut(clean(text), limit))


def _as_json(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value, enc_hook=_foreign).decode()


def _foreign(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"no JSON for {type(value).__name__}")


def _failed(tool: Tool, error: BaseException) -> Outcome:
    """An exception as the model reads it; whoever debugs the tool finds the rest in the log."""
    log.info(
        "tool %s raised %s at %s", tool.name, type(error).__name__, place(error), exc_info=error
    )
    return Outcome(f"Error: {said(error)}", "error")


def _bad_arguments(tool: Tool, error: BaseException) -> Outcome:
    return Outcome(f"Error: the arguments do not fit {tool.name}: {said(error)}", "bad_arguments")


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[truncated: {len(text) - limit} of {len(text)} characters]"
