"""What a watcher is told: names, as few as there are."""

from __future__ import annotations

import asyncio

from agent_lab.application.changes import MOST, Changed, Changes


async def test_many_changes_of_one_session_are_one_name() -> None:
    changes = Changes()
    with changes.watch() as watcher:
        for _ in range(1000):
            changes.session("s1", "a")
        changes.agent("b")
        await asyncio.wait_for(watcher.wait(), 1)

        assert watcher.take() == Changed(frozenset({"s1"}), frozenset("ab"))
        assert watcher.take() is None


async def test_a_watcher_who_takes_nothing_keeps_a_bounded_number_of_names() -> None:
    changes = Changes()
    with changes.watch() as watcher:
        for number in range(3 * MOST):
            changes.session(f"s{number}", "a")

        assert watcher.take() == Changed(frozenset(), frozenset("a"), all=True)
        changes.session("s1", "a")
        assert watcher.take() == Changed(frozenset({"s1"}), frozenset("a"))


async def test_each_watcher_has_a_memory_of_its_own_and_none_when_he_is_gone() -> None:
    changes = Changes()
    with changes.watch() as one:
        with changes.watch() as two:
            changes.session("s1", "a")
            assert one.take() == two.take()
        changes.session("s2", "a")

        assert two.take() is None
        assert one.take() == Changed(frozenset({"s2"}), frozenset("a"))
