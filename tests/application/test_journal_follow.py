"""Reading a journal: any number of cursors, from anywhere, at any time, none in another's way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from agent_lab import ChatMessage, Limits
from agent_lab.application.journal import Gap
from agent_lab.testing import ScriptedModel, call, reply, simulate
from tests.application.data.story import TOOLS, Stage, stage

ROUND = reply(calls=[call("wait", seconds=seconds % 4) for seconds in range(20)])
LONG = ScriptedModel([ROUND, ROUND, reply("Well.")])


async def read(on: Stage, after: int) -> list[int | Gap]:
    """Everything a reader is told, to the end."""
    told: list[int | Gap] = []
    async for batch in on.runtime.follow(after):
        told += [batch] if isinstance(batch, Gap) else [entry.seq for entry in batch]
    return told


async def watched(
    watch: Callable[[Stage, asyncio.TaskGroup], object],
) -> Stage:
    """A long run; `watch` is called after each batch of entries, with a group for its readers."""
    async with (
        asyncio.TaskGroup() as group,
        stage(model=LONG, tools=TOOLS) as on,
    ):
        on.say("Many towns?")
        watch(on, group)
        while not on.runtime.session.is_idle:
            await anext(on.runtime.follow(on.runtime.session.journal.last_seq))
            watch(on, group)
    return on


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_follow_from_every_seq_while_it_runs_equals_the_tail(seed: int | None) -> None:
    readers: list[tuple[int, asyncio.Task[list[int | Gap]]]] = []
    reached = [-1]

    def read_from_each(on: Stage, group: asyncio.TaskGroup) -> None:
        now = on.runtime.session.journal.last_seq
        starts = (*range(reached[-1] + 1, now + 1), *range(0, now, 29))
        readers.extend((after, group.create_task(read(on, after))) for after in starts)
        reached.append(now)

    on = simulate(lambda: watched(read_from_each), seed=seed)

    last = len(on.entries)
    assert {after for after, _ in readers} == set(range(reached[-1] + 1))
    assert last >= reached[-1] > 200
    for after, reader in readers:
        assert reader.result() == list(range(after + 1, last + 1))


@pytest.mark.parametrize("seed", range(5))
def test_readers_cancelled_at_random_disturb_nobody(seed: int) -> None:
    chance = Random(seed)
    faithful: list[asyncio.Task[list[int | Gap]]] = []
    fickle: list[asyncio.Task[list[int | Gap]]] = []

    def come_and_go(on: Stage, group: asyncio.TaskGroup) -> None:
        if not faithful:
            faithful.extend(group.create_task(read(on, 0)) for _ in range(3))
        fickle.extend(group.create_task(read(on, chance.randrange(50))) for _ in range(3))
        for reader in chance.sample(fickle, len(fickle) // 3):
            reader.cancel()

    on = simulate(lambda: watched(come_and_go), seed=seed)

    whole = list(range(1, len(on.entries) + 1))
    assert sum(reader.cancelled() for reader in fickle) > 20
    assert [reader.result() for reader in faithful] == [whole] * 3
    for reader in fickle:
        if not reader.cancelled():
            assert reader.result() == whole[reader.result()[0] - 1 :]  # type: ignore[operator]  # no gap here


def test_a_run_is_the_same_with_readers_and_without() -> None:
    def crowd(on: Stage, group: asyncio.TaskGroup) -> None:
        for _ in range(3):
            group.create_task(read(on, 0))

    alone = simulate(lambda: watched(lambda on, group: None))
    crowded = simulate(lambda: watched(crowd))

    assert crowded.said() == alone.said()


def test_a_reader_that_memory_has_overtaken_is_told_of_the_gap_and_goes_on() -> None:
    readers: list[asyncio.Task[list[int | Gap]]] = []

    async def main() -> Stage:
        async with stage(model=LONG, tools=TOOLS, limits=Limits(journal_entries=64)) as on:
            on.say("Many towns?")
            await on.settled()
            loop = asyncio.get_running_loop()
            readers.extend(loop.create_task(read(on, after)) for after in (0, 10))
            on.checks = False  # what memory let go of cannot be checked
        await asyncio.wait(readers)
        return on

    on = simulate(main)
    first, last = on.entries[0].seq, on.entries[-1].seq
    assert first > 64
    assert [reader.result() for reader in readers] == [
        [Gap(after + 1, first - 1), *range(first, last + 1)] for after in (0, 10)
    ]


def test_a_reader_that_comes_after_the_close_is_told_everything_and_ends() -> None:
    async def main() -> tuple[Stage, list[int | Gap]]:
        async with stage(model=ScriptedModel(["Well."]), tools=TOOLS) as on:
            on.say("Oslo?")
            await on.settled()
        return on, await read(on, 0)

    on, told = simulate(main)
    assert told == [entry.seq for entry in on.entries]


@pytest.mark.parametrize("seed", [None, *range(10)])
def test_a_reply_that_lies_in_input_at_the_close_is_on_record_before_the_end(
    seed: int | None,
) -> None:
    async def main() -> tuple[Stage, list[int | Gap]]:
        async with (
            asyncio.TaskGroup() as group,
            stage(model=ScriptedModel(["Well."]), tools=TOOLS) as on,
        ):
            reader = group.create_task(read(on, 0))
            on.say("Oslo?")
            await on.settled()
            late = ChatMessage("tool", "late", tool_call_id="c1")
            on.runtime.session.queues.input.put_nowait(late)
        return on, reader.result()

    on, told = simulate(main, seed=seed)
    assert on.said()[-1].type == "late_reply"
    assert told == [entry.seq for entry in on.entries]
