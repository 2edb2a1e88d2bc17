"""A thousand agents are created, prompted and waited for at once, on a real loop."""

from __future__ import annotations

from bench.control import crowd


async def test_a_thousand_agents_are_waited_for_and_a_tenth_of_the_waits_is_aborted() -> None:
    told = await crowd(1000)

    assert (told["answered"], told["aborted"]) == (900, 100)
    assert (told["waiters"], told["tasks"]) == (0, 0), "something of a wait was left"
