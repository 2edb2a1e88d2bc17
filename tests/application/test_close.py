"""Whoever opens, closes: what ends, in which order, and what each waiter then sees."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
from textwrap import dedent, indent

import pytest

from agent_lab import Agent, DebugRuntime, Limits
from agent_lab.application.journal import Gap
from agent_lab.domain.errors import QueueClosed, RuntimeClosed
from agent_lab.testing import ScriptedModel, call, open_runtime, reply, simulate
from tests.application.helpers_runtime import (
    assert_valid,
    briefly,
    said,
    settled,
    simulated,
    story,
    ticks,
    turn,
    until,
)


def alone() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


class Work:
    """A tool that waits, and takes `cleaning` seconds when it is cancelled.

    A stubborn one lets nobody disturb it at that.
    """

    def __init__(self, cleaning: float = 0.0, *, stubborn: bool = False) -> None:
        self.cleaning = cleaning
        self.stubborn = stubborn
        self.cleaned = 0

    async def work(self) -> None:
        """Work for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._clean(asyncio.get_running_loop().time() + self.cleaning)
            self.cleaned += 1

    async def _clean(self, until: float) -> None:
        while (left := until - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise

    def runtime(self, **limits: float) -> DebugRuntime:
        model = ScriptedModel([reply(calls=[call("work", "c1")]), "ok"], repeat_last=True)
        return DebugRuntime(
            Agent("a", model=model, tools=[self.work], limits=Limits(**limits))  # type: ignore[arg-type]  # any limit
        )


@simulated
async def test_close_while_a_tool_runs_ends_everything_accepted() -> None:
    work = Work(cleaning=1)
    runtime = work.runtime()
    output = runtime.start("go").output
    await until(runtime, "tool_started")
    runtime.start("more")
    await runtime.close()

    assert work.cleaned == 1 and alone()
    assert story(runtime)[-3:] == ["tool_reply", "withdrawn", "cancelled"]
    assert [(p.reason, p.pending) for p in said(runtime, "cancelled")] == [("closed", 0)]
    assert [p.reason for p in said(runtime, "withdrawn")] == ["closed"]
    rest = [output.get_nowait().type for _ in range(output.qsize())]
    assert rest == [p.type for p in said(runtime) if p.on_output]
    with pytest.raises(QueueClosed):
        await output.get()
    assert_valid(runtime)


@simulated
async def test_close_before_a_message_was_taken_withdraws_it() -> None:
    runtime = Work().runtime()
    runtime.start("go")
    await runtime.close()

    assert story(runtime, "accepted", "delivered", "withdrawn") == ["accepted", "withdrawn"]
    assert alone()


@simulated
async def test_close_tells_every_waiter() -> None:
    runtime = Work().runtime()
    queues = runtime.start("go")
    await until(runtime, "tool_started")
    followed: list[int] = []

    async def follower() -> None:
        async for batch in runtime.follow():
            assert not isinstance(batch, Gap)
            followed.extend(entry.seq for entry in batch)

    async def taker() -> str:
        try:
            while True:
                await queues.output.get()
        except QueueClosed as closed:
            return closed.queue

    async with asyncio.TaskGroup() as group:
        takers = [group.create_task(taker()) for _ in range(2)]
        for _ in range(2):
            group.create_task(follower())
        await ticks()
        await runtime.close()

    assert [task.result() for task in takers] == ["output", "output"]
    assert sorted(followed) == sorted(2 * list(range(1, runtime.session.journal.last_seq + 1)))
    for queue in (queues.input, queues.events):
        with pytest.raises(QueueClosed):
            queue.put_nowait(None)  # type: ignore[arg-type]  # refused before it is looked at
    assert [batch async for batch in runtime.follow(runtime.session.journal.last_seq)] == []


@simulated
async def test_close_twice_is_closing_once() -> None:
    runtime = Work().runtime()
    runtime.start("go")
    await until(runtime, "tool_started")
    await runtime.close()
    entries = story(runtime)
    await runtime.close()

    assert story(runtime) == entries
    with pytest.raises(RuntimeClosed, match=runtime.session_id):
        runtime.start("more")


@simulated
async def test_each_of_several_closers_returns_when_the_work_is_gone() -> None:
    work = Work(cleaning=1)
    runtime = work.runtime()
    runtime.start("go")
    await until(runtime, "tool_started")

    async def closer() -> tuple[int, float]:
        await runtime.close()
        return work.cleaned, asyncio.get_running_loop().time()

    async with asyncio.TaskGroup() as group:
        closers = [group.create_task(closer()) for _ in range(3)]

    assert [task.result() for task in closers] == [(1, 1.0)] * 3


@simulated
async def test_a_closer_that_is_cancelled_leaves_the_closing_to_go_on() -> None:
    work = Work(cleaning=1)
    runtime = work.runtime()
    runtime.start("go")
    await until(runtime, "tool_started")
    async with asyncio.TaskGroup() as group:
        first = group.create_task(runtime.close())
        await ticks()
        first.cancel()
    assert first.cancelled() and runtime.is_closed
    await runtime.close()

    assert work.cleaned == 1 and alone()


@simulated
async def test_a_tool_that_ignores_its_cancellation_holds_up_a_close_for_two_graces() -> None:
    work = Work(cleaning=1000, stubborn=True)
    runtime = work.runtime(grace=2)
    runtime.start("go")
    await until(runtime, "tool_started")
    await runtime.close()

    assert asyncio.get_running_loop().time() <= 4
    assert runtime.session.abandoned.tasks >= 1
    await asyncio.sleep(2000)
    assert work.cleaned == 1 and alone()


@simulated
async def test_work_left_by_a_run_does_not_close_the_session_when_it_ends() -> None:
    work = Work(cleaning=100, stubborn=True)
    async with work.runtime(grace=1) as runtime:
        async with runtime.run("go"):
            await until(runtime, "tool_started")
        for _ in range(4):
            assert [p.type async for p in runtime.run("next")][-1] == "done"
            await asyncio.sleep(60)

        assert work.cleaned == 1
        assert not runtime.is_closed
        assert_valid(runtime)


@simulated
async def test_a_root_task_cancelled_by_somebody_ends_the_session_for_every_waiter() -> None:
    work = Work(cleaning=1)
    runtime = work.runtime()
    output = runtime.start("go").output
    await until(runtime, "tool_started")
    (root,) = [t for t in asyncio.all_tasks() if t.get_name().endswith(runtime.session_id)]
    root.cancel()
    await asyncio.wait({root})

    assert root.cancelled() and work.cleaned == 1
    assert runtime.is_closed and story(runtime)[-1] == "cancelled"
    while output.qsize():
        output.get_nowait()
    with pytest.raises(QueueClosed):
        await output.get()
    await runtime.close()
    assert alone()


@simulated
async def test_a_root_task_cancelled_before_its_first_step_ends_the_session_too() -> None:
    runtime = Work().runtime()
    output = runtime.start("go").output
    root = next(t for t in asyncio.all_tasks() if t.get_name().endswith(runtime.session_id))
    root.cancel()
    await ticks()

    assert runtime.is_closed
    assert story(runtime, "accepted", "withdrawn") == ["accepted", "withdrawn"]
    with pytest.raises(QueueClosed):
        await output.get()


@pytest.mark.parametrize("seed", range(100))
def test_an_outside_cancellation_wins_over_a_nudge(seed: int) -> None:
    """Both come in one tick, in either order, at any moment of a turn: the outside one is kept."""

    async def main() -> None:
        chance = random.Random(seed)
        work = Work()
        runtime = work.runtime()
        runtime.start("go")
        await ticks(chance.randrange(15))
        root = next(t for t in asyncio.all_tasks() if t.get_name().endswith(runtime.session_id))
        acts = [lambda: runtime.cancel() and None, lambda: root.cancel() and None]
        chance.shuffle(acts)
        for act in acts:
            act()
        await asyncio.wait({root})

        assert root.cancelled() and alone()
        assert asyncio.get_running_loop().time() == 0
        assert_valid(runtime)

    simulate(main, seed=seed)


@pytest.mark.parametrize("seed", range(50))
def test_a_worker_cancelled_from_outside_and_nudged_in_one_tick_ends_the_session(seed: int) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        runtime = Work().runtime()
        runtime.start("go")
        await ticks(1 + chance.randrange(15))
        workers = asyncio.all_tasks() - {asyncio.current_task()}
        victim = chance.choice(sorted(workers, key=lambda task: task.get_name()))
        acts = [lambda: runtime.cancel() and None, lambda: victim.cancel() and None]
        chance.shuffle(acts)
        for act in acts:
            act()
        await asyncio.sleep(5)

        assert runtime.is_closed and alone()
        with pytest.raises(RuntimeClosed):
            runtime.start("more")

    simulate(main, seed=seed)


@simulated
async def test_a_thread_that_outlives_its_session_says_nothing_more() -> None:
    ends = threading.Event()

    def block() -> str:
        """Block."""
        ends.wait(5)
        return "late"

    model = ScriptedModel([reply(calls=[call("block")])])
    async with open_runtime(model=model, tools=[block]) as runtime:
        runtime.start("go")
        await until(runtime, "tool_started")
    entries = story(runtime)
    assert runtime.session.abandoned.threads == 1
    ends.set()
    await asyncio.sleep(1)

    assert story(runtime) == entries
    assert runtime.session.abandoned.threads == 0


# -- the end of the program ----------------------------------------------------------------------


HEAD = """
import asyncio, gc, sys
from agent_lab import Agent, DebugRuntime
from agent_lab.testing import ScriptedModel, call, reply

async def work():
    "Work for ever."
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)

def new(script=("ok",)):
    return DebugRuntime(Agent("a", model=ScriptedModel(script), tools=[work]))

WORKS = [reply(calls=[call("work")]), "ok"]
kept = []
"""

ENDINGS = {
    "in the middle of a tool": """
        async def main():
            output = new(WORKS).start("go").output
            while (await output.get()).type != "tool_call":
                pass
            await asyncio.sleep(0)
    """,
    "with the session kept": """
        async def main():
            kept.append(new())
            async for payload in kept[0].run("go"):
                pass
            kept[0].start("more")
            await asyncio.sleep(0.01)
    """,
    "right after start": """
        async def main():
            new().start("go")
    """,
    "with a run broken off": """
        async def main():
            async for payload in new().run("go"):
                break
    """,
    "with a run kept": """
        async def main():
            kept.append(new(WORKS).run("go"))
            await anext(kept[-1])
    """,
    "with an error": """
        async def main():
            new(WORKS).start("go")
            await asyncio.sleep(0)
            raise SystemExit(0)
    """,
    "with a session forgotten": """
        async def forget():
            output = new().start("go").output
            while (await output.get()).type != "done":
                pass

        async def main():
            await forget()
            gc.collect()
            await asyncio.sleep(0)
            gc.collect()
    """,
    "with a run forgotten": """
        async def forget():
            async for payload in new(WORKS).run("go"):
                if payload.type == "tool_call":
                    await asyncio.sleep(0)
                    break

        async def main():
            await forget()
            gc.collect()
            await asyncio.sleep(0.01)
            gc.collect()
    """,
    "after a close": """
        async def main():
            async with new(WORKS) as runtime:
                runtime.start("go")
                await asyncio.sleep(0.01)
    """,
}


@pytest.fixture(scope="module")
def complaints() -> dict[str, list[str]]:
    """What one program that ends its loop in each of these ways writes on standard error.

    That a callback took long, which debug mode says of a garbage collection, is no complaint.
    """
    script = HEAD
    for number, (name, body) in enumerate(ENDINGS.items()):
        script += f"def ending_{number}():\n" + indent(dedent(body), "    ")
        script += "    try: asyncio.run(main())\n    except SystemExit: pass\n"
        script += f"print('== {name}', file=sys.stderr)\n"
        script += f"ending_{number}()\ngc.collect()\n"
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script + "print(len(kept))"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "2\n"), ended.stderr
    said = dict[str, list[str]]()
    for line in ended.stderr.splitlines():
        if line.startswith("== "):
            said[line.removeprefix("== ")] = []
        elif not line.startswith("Executing <"):
            said[list(said)[-1]].append(line)
    return said


@pytest.mark.fault("R32")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_that_ends_says_nothing_of_tasks(
    ending: str, complaints: dict[str, list[str]]
) -> None:
    assert complaints[ending] == []


async def test_a_session_whose_loop_was_closed_is_closed_and_can_be_read() -> None:
    def lived() -> DebugRuntime:
        runtime = Work().runtime()

        async def main() -> None:
            await anext(runtime.run("go"))

        asyncio.run(main())
        return runtime

    runtime = await asyncio.to_thread(lived)

    assert runtime.is_closed
    assert briefly(runtime.history)[0] == ("user", "go")
    assert_valid(runtime)
    with pytest.raises(RuntimeClosed):
        runtime.start("more")


@simulated
async def test_a_closed_session_can_still_be_read() -> None:
    async with open_runtime(model=ScriptedModel(["ok"])) as runtime:
        await turn(runtime)
        await settled(runtime)

    assert [message.role for message in runtime.history] == ["user", "assistant"]
    assert not runtime.withdraw("x") and runtime.cancel() == "not_running"
