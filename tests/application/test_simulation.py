"""The simulated loop: virtual time, chosen order, real threads, and no silent standstill."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from agent_lab.application.simulation import SimulatedLoop
from agent_lab.testing import (
    Deadlock,
    ScriptedModel,
    SeededOutside,
    assert_provider_valid,
    open_runtime,
    reply,
    simulate,
)

SEEDS = range(20)


async def workers(count: int = 4, rounds: int = 5) -> list[int]:
    """What `count` tasks write, each `rounds` times, in the order they came to it."""
    written: list[int] = []

    async def work(number: int) -> None:
        for _ in range(rounds):
            written.append(number)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(work(number))
    return written


def test_time_passes_only_when_nothing_else_can() -> None:
    async def main() -> list[float]:
        times = [asyncio.get_running_loop().time()]
        for seconds in (3600, 0.25, 0):
            await asyncio.sleep(seconds)
            times.append(asyncio.get_running_loop().time())
        return times

    assert simulate(main) == [0, 3600, 3600.25, 3600.25]


def test_timers_ring_in_their_order() -> None:
    async def main() -> list[tuple[float, str]]:
        loop, rung = asyncio.get_running_loop(), list[tuple[float, str]]()
        for delay, name in ((3, "c"), (1, "a"), (2, "cancelled"), (2, "b")):
            timer = loop.call_later(delay, lambda n=name: rung.append((loop.time(), n)))
            if name == "cancelled":
                timer.cancel()
        await asyncio.sleep(3)
        return rung

    assert simulate(main) == [(1, "a"), (2, "b"), (3, "c")]


def test_without_a_seed_callbacks_go_first_in_first_out() -> None:
    assert simulate(workers) == [0, 1, 2, 3] * 5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_seed_is_the_same_interleaving_each_time(seed: int) -> None:
    assert simulate(workers, seed=seed) == simulate(workers, seed=seed)


def test_seeds_differ_in_interleaving() -> None:
    assert len({tuple(simulate(workers, seed=seed)) for seed in SEEDS}) == len(SEEDS)


def test_no_callback_is_lost_or_run_twice_whatever_is_chosen() -> None:
    whole = sorted([0, 1, 2, 3] * 5)

    assert all(sorted(simulate(workers, seed=seed)) == whole for seed in SEEDS)


def test_a_choice_is_asked_for_only_where_there_is_one() -> None:
    asked: list[int] = []

    def last(count: int) -> int:
        asked.append(count)
        return count - 1

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(last)) as runner:
        written = runner.run(workers(2, 2))

    assert (sorted(written), min(asked)) == ([0, 0, 1, 1], 2)


def test_a_deadlock_says_what_each_task_waits_for() -> None:
    async def stuck(queue: asyncio.Queue[int]) -> None:
        await queue.get()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(stuck(asyncio.Queue()), name="taker")

    with pytest.raises(Deadlock) as caught:
        simulate(main)

    said = str(caught.value)
    assert "'taker' at " in said and "stuck:" in said and "> Queue.get:" in said
    assert "TaskGroup.__aexit__:" in said


def test_the_loop_is_closed_after_a_deadlock_too() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        simulate(main)

    assert [loop.is_closed() for loop in loops] == [True]


def test_a_timer_that_was_rounded_away_does_not_stop_time() -> None:
    async def main() -> bool:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        start = loop.time()

        def look_again() -> None:
            if loop.time() > start:
                done.set()
            else:
                loop.call_at(start, look_again)

        loop.call_at(start, look_again)
        await done.wait()
        return loop.time() < start + 1e-6

    assert simulate(main)


# -- threads -------------------------------------------------------------------------------------


def in_thread(work: Callable[[], object]) -> None:
    threading.Thread(target=work, daemon=True).start()


def test_a_living_thread_is_waited_for_and_no_time_passes() -> None:
    async def main() -> tuple[float, str]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()
        loop.call_later(60, done.set_exception, TimeoutError())
        go = threading.Event()
        in_thread(lambda: go.wait() and loop.call_soon_threadsafe(done.set_result, "rung"))
        loop.call_soon(go.set)
        return loop.time(), await done

    assert simulate(main) == (0, "rung")


def test_to_thread_works_and_its_idle_thread_holds_nothing_up() -> None:
    async def main() -> tuple[int, int, float]:
        first = await asyncio.to_thread(len, "four")
        await asyncio.sleep(5)
        return first, await asyncio.to_thread(len, "ten"), asyncio.get_running_loop().time()

    assert simulate(main) == (4, 3, 5)


def test_a_stuck_thread_holds_the_clock_no_longer_than_patience() -> None:
    never = threading.Event()

    async def main() -> float:
        in_thread(never.wait)
        await asyncio.sleep(60)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(patience=0.02)) as runner:
        assert runner.run(main()) == 60
    never.set()


def test_a_deadlock_names_the_threads_that_live() -> None:
    never = threading.Event()

    async def main() -> None:
        threading.Thread(target=never.wait, name="tool slow", daemon=True).start()
        await asyncio.Event().wait()

    with (
        pytest.raises(Deadlock, match="thread 'tool slow' lives"),
        asyncio.Runner(loop_factory=lambda: SimulatedLoop(patience=0.02)) as runner,
    ):
        runner.run(main())
    never.set()


# -- what tests are given ------------------------------------------------------------------------


def test_seeded_ids_count_each_prefix() -> None:
    outside = SeededOutside(7)

    ids = [outside.new_id(prefix) for prefix in ("m", "s", "m")]

    assert (ids, outside.wall_time()) == (["m_7_1", "s_7_1", "m_7_2"], SeededOutside.WALL_TIME)


def test_a_runtime_opened_in_a_simulation_has_seeded_ids() -> None:
    async def main() -> str:
        async with open_runtime(model=ScriptedModel([reply("Hello")])) as runtime:
            return runtime.session_id

    assert [simulate(main, seed=seed) for seed in (None, 3)] == ["s_0_1", "s_3_1"]


async def test_open_runtime_takes_an_agent_or_a_model() -> None:
    with pytest.raises(TypeError, match="an agent, or a model"):
        async with open_runtime():
            pass


def test_an_invalid_history_is_named_with_its_fix() -> None:
    orphan = {"role": "tool", "tool_call_id": "c1", "content": "4 degrees"}

    with pytest.raises(AssertionError, match="tool_reply_orphan at 0"):
        assert_provider_valid([orphan], "openai_chat", "deepseek")


def test_a_valid_history_passes() -> None:
    assert_provider_valid([{"role": "user", "content": "Hello"}], "openai_chat", "mistral")
