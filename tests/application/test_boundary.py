"""Whatever a tool does comes out as its reply, and the session lives on."""

from __future__ import annotations

import asyncio
import contextvars
import math
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

import pytest
from pydantic import BaseModel

from agent_lab import DebugRuntime, Limits, tool
from agent_lab.application.tools import Tool
from agent_lab.domain.payloads import ToolReplied
from agent_lab.testing import ScriptedModel, call, open_runtime, reply
from tests.application.helpers_runtime import (
    assert_valid,
    said,
    simulated,
    story,
    take_turn,
    ticks,
    turn,
    until,
)

AnyTool = Tool | Callable[..., Any]


def model(*names: str) -> ScriptedModel:
    """Calls these tools, answers; and does so in each turn."""
    calls = [call(name, f"c{number}") for number, name in enumerate(names, 1)]
    return ScriptedModel([reply(calls=calls), "ok"] * 9)


async def outcome(function: AnyTool, *, limits: Limits | None = None) -> ToolReplied:
    """The reply of a tool that is called once, in a session that can then do it again."""
    name = function.name if isinstance(function, Tool) else function.__name__
    async with open_runtime(model=model(name), tools=[function], limits=limits) as runtime:
        for _ in range(2):
            assert (await turn(runtime))[-1] == "done"
        assert_valid(runtime)
        first, second = said(runtime, "tool_reply")
        assert (first.content, first.kind) == (second.content, second.kind)
        return first


# -- what a tool raises --------------------------------------------------------------------------

RAISED: dict[str, tuple[BaseException, str]] = {
    "an exception": (ValueError("no such city"), "Error: no such city"),
    "a blank exception": (ValueError(), "Error: ValueError"),
    "SystemExit": (SystemExit(3), "Error: SystemExit: 3"),
    "KeyboardInterrupt": (KeyboardInterrupt(), "Error: KeyboardInterrupt"),
    "GeneratorExit": (GeneratorExit(), "Error: GeneratorExit"),
    "a bare BaseException": (BaseException("odd"), "Error: BaseException: odd"),
    "its own CancelledError": (asyncio.CancelledError(), "Error: CancelledError"),
    "an ExceptionGroup": (
        ExceptionGroup("both", [ValueError("a"), TypeError("b")]),
        "Error: both (2 sub-exceptions)",
    ),
    "a BaseExceptionGroup": (
        BaseExceptionGroup("both", [KeyboardInterrupt(), ValueError("b")]),
        "Error: BaseExceptionGroup: both (2 sub-exceptions)",
    ),
    "StopIteration": (StopIteration("x"), "Error: coroutine raised StopIteration"),
    "StopAsyncIteration": (StopAsyncIteration("x"), "Error: x"),
    "MemoryError": (MemoryError(), "Error: MemoryError"),
    "lone surrogates": (ValueError("bad \udc80"), "Error: bad ?"),
}


@pytest.mark.fault("T12")
@pytest.mark.fault("R02")
@pytest.mark.fault("R03")
@pytest.mark.fault("R04")
@pytest.mark.fault("R05")
@pytest.mark.fault("R06")
@pytest.mark.parametrize("name", RAISED)
@simulated
async def test_what_an_async_tool_raises_is_its_reply(name: str) -> None:
    error, text = RAISED[name]

    async def fails() -> None:
        """Fails."""
        raise error

    result = await outcome(fails)
    assert (result.content, result.kind, result.is_error) == (text, "error", True)


@pytest.mark.fault("T12")
@pytest.mark.fault("R03")
@pytest.mark.fault("R05")
@pytest.mark.parametrize("name", [name for name in RAISED if name != "StopIteration"])
@simulated
async def test_what_a_sync_tool_raises_is_its_reply(name: str) -> None:
    error, text = RAISED[name]

    def fails() -> None:
        """Fails."""
        raise error

    result = await outcome(fails)
    assert (result.content, result.kind, result.is_error) == (text, "error", True)


@simulated
async def test_an_exception_that_cannot_be_read_is_named() -> None:
    class Unreadable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    async def fails() -> None:
        """Fails."""
        raise Unreadable

    assert (await outcome(fails)).content == "Error: Unreadable"


@pytest.mark.fault("R06")
@simulated
async def test_a_tool_that_cancels_its_own_task_fails_alone() -> None:
    async def fails() -> None:
        """Cancels the task it runs in."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    result = await outcome(fails)
    assert (result.content, result.kind) == ("Error: CancelledError", "error")


@simulated
async def test_a_time_limit_inside_a_tool_is_the_tools_own() -> None:
    async def impatient() -> None:
        """Gives up."""
        async with asyncio.timeout(1):
            await asyncio.sleep(2)

    assert (await outcome(impatient)).content == "Error: TimeoutError"


@pytest.mark.fault("R15")
@simulated
async def test_a_recursion_error_is_a_failed_tool() -> None:
    async def deep() -> None:
        """Never ends."""

        def down() -> None:
            down()

        down()

    assert (await outcome(deep)).content.startswith("Error: maximum recursion depth exceeded")


@pytest.mark.fault("R35")
@simulated
async def test_siblings_of_a_tool_that_fails_finish_and_stand_in_call_order() -> None:
    async def slow() -> str:
        """Slow."""
        await asyncio.sleep(2)
        return "slow"

    async def fails() -> str:
        """Fails."""
        raise SystemExit

    async def quick() -> str:
        """Quick."""
        return "quick"

    names = ("slow", "fails", "quick")
    async with open_runtime(model=model(*names), tools=[slow, fails, quick]) as runtime:
        await turn(runtime)

        assert [p.call_id for p in said(runtime, "tool_reply")][-1] == "c1"
        assert [m.content for m in runtime.history if m.role == "tool"] == [
            "slow",
            "Error: SystemExit",
            "quick",
        ]
        assert_valid(runtime)


# -- what it returns -----------------------------------------------------------------------------


@dataclass
class Point:
    x: int
    y: float


class City(BaseModel):
    name: str
    size: int = 3


def cycle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


RETURNED: dict[str, tuple[Any, str]] = {
    "text": ("grüße", "grüße"),
    "nothing": (None, ""),
    "a number": (4, "4"),
    "a list": ([1, "a", None], '[1,"a",null]'),
    "an object": ({"a": {"b": True}}, '{"a":{"b":true}}'),
    "a dataclass": (Point(1, 2.5), '{"x":1,"y":2.5}'),
    "a pydantic model": (City(name="Oslo"), '{"name":"Oslo","size":3}'),
    "pydantic models in a list": ([City(name="Oslo")], '[{"name":"Oslo","size":3}]'),
    "a set of one": ({1}, "[1]"),
    "bytes": (b"\x00\x01", '"AAE="'),
    "no number": (math.nan, "null"),
    "a lone surrogate": ("bad \udc80", "bad ?"),
}


@pytest.mark.fault("R12")
@pytest.mark.parametrize("name", RETURNED)
@simulated
async def test_what_a_tool_returns_is_text_or_json(name: str) -> None:
    value, text = RETURNED[name]

    async def gives() -> Any:
        """Gives."""
        return value

    result = await outcome(gives)
    assert (result.content, result.kind, result.is_error) == (text, "result", False)


UNFIT: dict[str, Any] = {
    "an object of no kind": object(),
    "a cycle": cycle(),
    "a deep nest": nested(5000),
    "a generator": (n for n in [1]),
    "a function": len,
    "a surrogate in a list": ["bad \udc80"],
    "an odd key": {object(): 1},
}


@pytest.mark.fault("R12")
@pytest.mark.parametrize("name", UNFIT)
@simulated
async def test_what_is_no_json_is_a_failed_tool_that_names_the_type(name: str) -> None:
    async def gives() -> Any:
        """Gives."""
        return UNFIT[name]

    result = await outcome(gives)
    kind = type(UNFIT[name]).__name__
    assert result.content.startswith(f"Error: the tool returned a {kind}, which is not JSON: ")
    assert (result.kind, result.is_error) == ("error", True)


@pytest.mark.fault("R12")
@simulated
async def test_a_coroutine_that_a_sync_tool_returns_is_no_result_and_no_warning() -> None:
    async def inner() -> str:
        return "never"

    def gives() -> Any:
        """Gives a coroutine."""
        return inner()

    result = await outcome(gives)
    assert result.kind == "error" and "coroutine" in result.content


@pytest.mark.fault("R13")
@pytest.mark.parametrize("wrap", [str, lambda text: [text]])
@simulated
async def test_50_mb_of_output_is_cut_with_a_mark(wrap: Callable[[str], Any]) -> None:
    async def chatter() -> Any:
        """Says a lot."""
        return wrap("x" * 50_000_000)

    async with open_runtime(model=model("chatter"), tools=[chatter]) as runtime:
        tracemalloc.start()
        await turn(runtime)
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        (result,) = said(runtime, "tool_reply")
        assert len(result.content) < (1 << 20) + 100
        assert result.content.startswith("xxx" if wrap is str else '["xxx')
        assert "[truncated: 4" in result.content[-60:]
        assert kept < 8_000_000


# -- how long it takes ---------------------------------------------------------------------------


@pytest.mark.fault("R01")
@simulated
async def test_a_tool_that_never_returns_times_out_and_the_model_is_told() -> None:
    async def never() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    async with open_runtime(
        model=model("never"), tools=[never], limits=Limits(tool_timeout=5)
    ) as runtime:
        await turn_in(runtime, 5)
        (result,) = said(runtime, "tool_reply")

        assert (result.content, result.kind) == ("Error: timed out after 5 s", "timeout")
        assert runtime.session.abandoned.tasks == 0
        assert_valid(runtime)


async def turn_in(runtime: DebugRuntime, seconds: float) -> None:
    """A turn that takes this long, a tenth more at most."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    runtime.start("go")
    async for _ in runtime.follow():
        if runtime.session.is_idle:
            break
    assert seconds <= loop.time() - began <= seconds + 0.1


@simulated
async def test_a_tools_own_limit_counts_before_the_sessions() -> None:
    @tool(timeout=0.5)
    async def quick() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    async with open_runtime(
        model=model("quick"), tools=[quick], limits=Limits(tool_timeout=60)
    ) as runtime:
        await turn_in(runtime, 0.5)

        assert [p.timeout for p in said(runtime, "tool_started")] == [0.5]
        assert said(runtime, "tool_reply")[0].content == "Error: timed out after 0.5 s"


@pytest.mark.fault("R07")
@simulated
async def test_a_tool_that_swallows_one_cancellation_is_late_and_not_abandoned() -> None:
    async def clings() -> str:
        """Swallows a cancellation."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(1)
        return "after all"

    limits = Limits(tool_timeout=5, grace=2)
    async with open_runtime(model=model("clings"), tools=[clings], limits=limits) as runtime:
        await turn_in(runtime, 5)
        await asyncio.sleep(10)

        assert [p.kind for p in said(runtime, "tool_reply")] == ["timeout"]
        assert [p.content for p in said(runtime, "late_reply")] == ["after all"]
        assert runtime.session.abandoned.tasks == 0
        assert (await turn(runtime))[0] == "model_request"
        assert_valid(runtime)


@pytest.mark.fault("R07")
@pytest.mark.fault("R08")
@simulated
async def test_a_tool_that_ignores_its_cancellation_is_abandoned_and_its_place_freed() -> None:
    let_go = asyncio.Event()

    async def deaf() -> str:
        """Hears nothing."""
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    limits = Limits(tool_timeout=5, grace=2, parallel_tools=1)
    async with open_runtime(model=model("deaf"), tools=[deaf], limits=limits) as runtime:
        await turn_in(runtime, 5)
        assert runtime.session.abandoned.tasks == 0
        await asyncio.sleep(2.1)
        assert runtime.session.abandoned.tasks == 1

        await turn_in(runtime, 5)
        let_go.set()
        await ticks()
        late = [(p.call_id, p.content) for p in said(runtime, "late_reply")]
        assert late == [("c1", "at last")] * 2
        assert runtime.session.abandoned.tasks == 0
        assert_valid(runtime)


@pytest.mark.fault("R06")
@pytest.mark.fault("R07")
@simulated
async def test_a_cancellation_that_a_tool_swallowed_is_not_laid_to_the_next_call() -> None:
    async def clings() -> str:
        """Swallows a cancellation."""
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "after all"

    async def fails() -> None:
        """Raises what is not its own."""
        raise asyncio.CancelledError

    script = [reply(calls=[call(name)]) for name in ("clings", "fails")]
    limits = Limits(tool_timeout=1, parallel_tools=1)
    async with open_runtime(
        model=ScriptedModel([script[0], "ok", script[1], "ok"]),
        tools=[clings, fails],
        limits=limits,
    ) as runtime:
        for _ in range(2):
            assert (await turn(runtime))[-1] == "done"
            await asyncio.sleep(10)

        assert [p.kind for p in said(runtime, "tool_reply")] == ["timeout", "error"]
        assert runtime.session.abandoned.tasks == 0


@pytest.mark.fault("R08")
@simulated
async def test_a_tool_that_awaits_while_it_is_cancelled_has_the_grace() -> None:
    cleaned: list[float] = []

    async def tidy() -> None:
        """Cleans up."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(1.5)
            cleaned.append(asyncio.get_running_loop().time())

    limits = Limits(tool_timeout=5, grace=2)
    async with open_runtime(model=model("tidy"), tools=[tidy], limits=limits) as runtime:
        await turn_in(runtime, 5)
        await asyncio.sleep(10)

        assert cleaned == [6.5]
        assert runtime.session.abandoned.tasks == 0
        assert said(runtime, "late_reply") == []


@simulated
async def test_one_call_is_cancelled_and_its_sibling_goes_on() -> None:
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(3)
        return "waited"

    async with open_runtime(model=model("wait", "wait"), tools=[wait]) as runtime:
        runtime.start("go")
        await until(runtime, "tool_started", count=2)
        assert runtime.cancel_tool("c1") == "cancelled"
        assert runtime.cancel_tool("c1") == runtime.cancel_tool("c9") == "not_running"
        await take_turn(runtime)

        assert [(p.call_id, p.kind, p.content) for p in said(runtime, "tool_reply")] == [
            ("c1", "cancelled", "Error: cancelled by the user"),
            ("c2", "result", "waited"),
        ]
        assert_valid(runtime)


@simulated
async def test_a_tool_may_cancel_its_own_turn() -> None:
    holder: list[DebugRuntime] = []

    async def stop() -> str:
        """Stop."""
        assert holder[0].cancel() == "cancelled"
        await asyncio.sleep(60)
        return "never"

    async with open_runtime(model=model("stop"), tools=[stop]) as runtime:
        holder.append(runtime)
        assert (await turn(runtime))[-1] == "cancelled"
        await asyncio.sleep(1)

        assert runtime.session.abandoned.tasks == 0
        assert [p.kind for p in said(runtime, "tool_reply")] == ["cancelled"]
        assert (await turn(runtime))[-1] == "done"
        assert_valid(runtime)


# -- threads -------------------------------------------------------------------------------------


class Blocker:
    """A sync tool that blocks until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.began = threading.Event()

    def block(self) -> str:
        """Block."""
        self.began.set()
        assert self.let_go.wait(5)
        return "late"


@pytest.mark.fault("T30")
@pytest.mark.fault("R09")
async def test_a_sync_tool_past_its_limit_is_abandoned_counted_and_late_when_it_ends() -> None:
    blocker = Blocker()
    limits = Limits(tool_timeout=0.01)
    async with open_runtime(model=model("block"), tools=[blocker.block], limits=limits) as runtime:
        assert (await turn(runtime))[-1] == "done"
        assert [p.kind for p in said(runtime, "tool_reply")] == ["timeout"]
        assert runtime.session.abandoned.threads == 1
        assert said(runtime, "late_reply") == []

        blocker.let_go.set()
        late = await until(runtime, "late_reply")
        assert (late.call_id, late.content) == ("c1", "late")
        assert runtime.session.abandoned.threads == 0
        assert_valid(runtime)


@pytest.mark.fault("R09")
async def test_a_cancelled_turn_does_not_wait_for_its_thread() -> None:
    blocker = Blocker()
    async with open_runtime(model=model("block"), tools=[blocker.block]) as runtime:
        runtime.start("go")
        await until(runtime, "tool_started")
        runtime.cancel()
        await take_turn(runtime)
        await ticks()
        assert runtime.session.abandoned.threads == 1

        blocker.let_go.set()
        await until(runtime, "late_reply")
        assert runtime.session.abandoned.threads == 0


@pytest.mark.fault("R09")
async def test_sync_tools_run_side_by_side_up_to_the_limit() -> None:
    running = threading.Barrier(4)

    def meet() -> str:
        """Meet the others."""
        running.wait(5)
        return "met"

    limits = Limits(parallel_tools=4)
    names = ["meet"] * 4
    async with open_runtime(model=model(*names), tools=[meet], limits=limits) as runtime:
        await turn(runtime)

        assert [p.content for p in said(runtime, "tool_reply")] == ["met"] * 4


@pytest.mark.fault("T30")
@pytest.mark.fault("R09")
def test_a_sync_tool_that_never_returns_does_not_hold_up_the_end_of_the_program() -> None:
    script = """
        import asyncio, threading
        from agent_lab import Agent, DebugRuntime, Limits
        from agent_lab.testing import ScriptedModel, call, reply

        def hang():
            "Never ends."
            threading.Event().wait()

        async def main():
            model = ScriptedModel([reply(calls=[call("hang")]), "ok"])
            limits = Limits(tool_timeout=0.01)
            agent = Agent("a", model=model, tools=[hang], limits=limits)
            async with DebugRuntime(agent) as runtime:
                async for payload in runtime.run("go"):
                    print(payload.type)

        asyncio.run(main())
    """
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", dedent(script)],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split()[-1] == "done"


# -- what is around it ---------------------------------------------------------------------------


@pytest.mark.fault("R34")
@pytest.mark.parametrize("is_async", [True, False])
@simulated
async def test_a_context_variable_of_one_call_is_not_seen_by_another(is_async: bool) -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")

    async def look(name: str) -> str:
        """Look who was here."""
        seen = who.get()
        who.set(name)
        await asyncio.sleep(1)
        return f"{seen}, {who.get()}"

    def look_in_thread(name: str) -> str:
        """Look who was here."""
        seen = who.get()
        who.set(name)
        return f"{seen}, {who.get()}"

    name = "look" if is_async else "look_in_thread"
    calls = [reply(calls=[call(name, name=f"{turn}.{n}") for n in range(10)]) for turn in range(2)]
    model = ScriptedModel([calls[0], "ok", calls[1], "ok"])
    async with open_runtime(model=model, tools=[look, look_in_thread]) as runtime:
        for _ in range(2):
            await turn(runtime)

        assert [m.content for m in runtime.history if m.role == "tool"] == [
            f"nobody, {turn}.{n}" for turn in range(2) for n in range(10)
        ]


@pytest.mark.fault("R34")
@simulated
async def test_sessions_side_by_side_do_not_see_each_others_context() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")

    async def look() -> str:
        """Look whose context this is."""
        await asyncio.sleep(0.1)
        return who.get()

    async def one(number: int) -> str:
        who.set(f"session {number}")
        async with open_runtime(model=model("look"), tools=[look]) as runtime:
            await turn(runtime)
            return said(runtime, "tool_reply")[0].content

    async with asyncio.TaskGroup() as group:
        sessions = [group.create_task(one(number)) for number in range(100)]

    assert [task.result() for task in sessions] == [f"session {n}" for n in range(100)]


@simulated
async def test_arguments_that_do_not_fit_are_told_to_the_model_and_the_tool_is_not_run() -> None:
    ran: list[int] = []

    @tool
    async def add(number: int) -> int:
        """Add."""
        ran.append(number)
        return number

    wrong: list[dict[str, Any]] = [{}, {"number": "x"}, {"number": 1, "more": 2}, {"nomber": 1}]
    calls = [call("add", f"c{n}", **arguments) for n, arguments in enumerate(wrong)]
    calls.append(call("add", "c9", _raw="{number: 1}"))
    async with open_runtime(
        model=ScriptedModel([reply(calls=calls), "ok"]), tools=[add]
    ) as runtime:
        await turn(runtime)

        replies = [m for m in runtime.history if m.role == "tool"]
        assert [(m.kind, m.is_error) for m in replies] == [("bad_arguments", True)] * 5
        assert all(m.content and m.content.startswith("Error: the arguments") for m in replies)
        assert ran == []
        assert story(runtime)[-1] == "done"
        assert_valid(runtime)
