"""The boundary around a tool: whatever happens inside comes out as a reply.

T12: a tool that raises SystemExit or KeyboardInterrupt inside a task kills the whole server, so
BaseException is caught here. The only thing let through is a cancellation that is ours or that
comes from outside; a tool's own CancelledError is the tool's fault (R06).
"""

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine, Generator
from threading import Thread
from typing import Any

import msgspec

from agent_lab.application.nudge import Nudge
from agent_lab.application.tools import Tool
from agent_lab.domain.messages import ReplyKind, clean


class Outcome(msgspec.Struct, frozen=True):
    """What a tool call came to: the reply's text and kind."""

    content: str
    kind: ReplyKind = "result"


async def run_async(tool: Tool, arguments: dict[str, Any], nudge: Nudge, *, limit: int) -> Outcome:
    """Run an async tool in its own context; raises CancelledError only if we were cancelled."""
    try:
        bound = tool.bind(arguments)
    except Exception as error:
        return _bad_arguments(tool, error)
    try:
        return _result(await _InOwnContext(tool.function(**bound)), limit)
    except asyncio.CancelledError as error:
        if nudge.is_cancelled:
            raise
        nudge.disown()
        return _failed(error)
    except GeneratorExit as error:
        if not nudge.is_current:
            raise  # our own coroutine is being closed
        return _failed(error)
    except BaseException as error:
        return _failed(error)


async def run_in_thread(
    tool: Tool,
    arguments: dict[str, Any],
    *,
    limit: int,
    left: Callable[[], None],
    late: Callable[[Outcome], None],
) -> Outcome:
    """Run a sync tool in a daemon thread of its own.

    T30: a thread cannot be stopped. Cancelled here, `left` is called, the thread goes on, and
    `late` is called on the loop with what it came to; being a daemon it holds up no exit.
    """
    try:
        bound = tool.bind(arguments)
    except Exception as error:
        return _bad_arguments(tool, error)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Outcome] = loop.create_future()

    def deliver(outcome: Outcome) -> None:
        if done.cancelled():
            late(outcome)
        else:
            done.set_result(outcome)

    def work() -> None:
        try:
            outcome = _result(context.run(tool.function, **bound), limit)
        except BaseException as error:
            outcome = _failed(error)
        try:
            loop.call_soon_threadsafe(deliver, outcome)
        except RuntimeError:
            return  # the loop is closed: nobody is left to tell

    context = contextvars.copy_context()
    Thread(target=work, name=f"tool {tool.name}", daemon=True).start()
    try:
        return await done
    except asyncio.CancelledError:
        if done.cancelled():
            left()
        raise


class _InOwnContext:
    """Awaits a coroutine step by step in a copy of the context.

    Runners live long, so without this a context variable set by one call is seen by the next.
    """

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        run, coroutine = contextvars.copy_context().run, self._coroutine
        step: Callable[..., Any] = coroutine.send
        value: Any = None
        while True:
            try:
                waits_for = run(step, value)
            except StopIteration as stop:
                return stop.value
            try:
                value, step = (yield waits_for), coroutine.send
            except BaseException as error:
                value, step = error, coroutine.throw


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


def _failed(error: BaseException) -> Outcome:
    """An exception as the model reads it; never blank (S70)."""
    try:
        text = str(error)
    except Exception:
        text = ""
    named = type(error).__name__
    plain = isinstance(error, Exception) and text
    detail = text if plain else f"{named}: {text}" if text else named
    return Outcome(_cut(clean(f"Error: {detail}"), 10_000), "error")


def _bad_arguments(tool: Tool, error: Exception) -> Outcome:
    return Outcome(f"Error: the arguments do not fit {tool.name}: {error}", "bad_arguments")


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[truncated: {len(text) - limit} of {len(text)} characters]"
