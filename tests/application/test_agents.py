"""The registry: sessions that are served, ids that run once, and an orderly end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from agent_lab import Agent, ChatMessage, Limits
from agent_lab.application.agents import Agents, AgentsClosed, UnknownAgent, UnknownSession
from agent_lab.application.served import ServedSession
from agent_lab.bootstrap import DebugRuntime, open_agents
from agent_lab.domain.errors import RuntimeClosed, SessionMismatch
from agent_lab.testing import ScriptedModel, SeededOutside, call, reply
from tests.application.helpers_runtime import simulated


def agent(name: str = "a", *said: Any, **options: Any) -> Agent:
    return Agent(name, model=ScriptedModel(said or ("Well.",), repeat_last=True), **options)


def message(content: str, message_id: str | None = None) -> ChatMessage:
    return ChatMessage("user", content, message_id=message_id)


def types(session: ServedSession) -> list[str]:
    return [entry.payload.type for entry in session.runtime.session.journal.read()[1]]


async def at_end(session: ServedSession, *, count: int = 1) -> None:
    async with asyncio.timeout(5):
        async for _ in session.runtime.follow():
            if types(session).count("done") >= count:
                return


# -- names ---------------------------------------------------------------------------------------


def test_the_only_agent_need_not_be_named_and_one_of_several_must_be() -> None:
    one, two = agent("a"), agent("b")

    assert open_agents([one]).get() is one
    assert open_agents([one, two]).get("b") is two
    assert open_agents([one, two]).names == ["a", "b"]
    with pytest.raises(UnknownAgent, match="no agent was named; name one of: a, b"):
        open_agents([one, two]).get()
    with pytest.raises(UnknownAgent, match="'c'"):
        open_agents([one]).get("c")


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="one name each"):
        open_agents([agent("a"), agent("a")])


@simulated
async def test_agents_that_are_not_open_serve_nothing() -> None:
    agents = open_agents([agent()])
    with pytest.raises(AgentsClosed):
        agents.run(None, message("Hello"))
    async with agents:
        pass
    with pytest.raises(AgentsClosed):
        agents.run(None, message("Hello"))
    with pytest.raises(AgentsClosed):
        await agents.__aenter__()


# -- sessions ------------------------------------------------------------------------------------


@simulated
async def test_a_served_session_never_waits_for_somebody_to_look() -> None:
    deltas: list[str | tuple[int, str]] = ["x"] * 300
    limits = Limits(output=1, text_interval=0)
    async with open_agents([agent("a", reply(deltas=deltas), limits=limits)]) as agents:
        session = agents.run(None, message("Hello")).session
        await at_end(session)

        assert types(session).count("text_delta") == 300
        assert session.state == "idle"
        assert session.title == "Hello"


@simulated
async def test_sessions_are_listed_newest_first_and_found_by_id() -> None:
    async with open_agents([agent("a"), agent("b")]) as agents:
        first = agents.run("a", message("one")).session
        second = agents.run("b", message("two")).session
        named = agents.open(agents.get("a"), "mine")

        assert agents.sessions() == [named, second, first]
        assert agents.session(first.session_id) is first
        assert agents.open(agents.get("a"), "mine") is named
        assert named.state == "idle"
        assert agents.is_busy(first.agent)
        with pytest.raises(UnknownSession, match="'nowhere'"):
            agents.session("nowhere")
        with pytest.raises(SessionMismatch):
            agents.open(agents.get("b"), "mine")
        with pytest.raises(SessionMismatch):
            agents.run("b", message("three"), first.session_id)


@simulated
async def test_a_run_into_a_session_goes_on_with_it() -> None:
    async with open_agents([agent("a"), agent("b")]) as agents:
        session = agents.run("a", message("one")).session
        await at_end(session)
        again = agents.run(None, message("two"), session.session_id)
        await at_end(session, count=2)

        assert again.session is session
        assert [said.content for said in session.runtime.history] == [
            "one",
            "Well.",
            "two",
            "Well.",
        ]


@simulated
async def test_of_too_many_resting_sessions_the_one_that_rested_longest_is_forgotten() -> None:
    async with open_agents([agent()], idle=3) as agents:
        kept = [agents.run(None, message("go", f"m{n}")).session for n in range(3)]
        for session in kept:
            await at_end(session)
        kept[0].viewers += 1
        await asyncio.sleep(1)
        agents.send(kept[1], message("more"))
        await at_end(kept[1], count=2)
        new = agents.open(agents.get())
        newer = agents.open(agents.get())

        assert agents.sessions() == [newer, new, kept[1], kept[0]]
        await asyncio.sleep(1)
        assert kept[2].state == "closed"
        assert not agents.run(None, message("go", "m2")).is_repeat


# -- message ids ---------------------------------------------------------------------------------


@simulated
async def test_the_same_run_again_runs_nothing_and_gives_its_session_back() -> None:
    async with open_agents([agent()]) as agents:
        first = agents.run(None, message("Hello", "m1"))
        await at_end(first.session)
        before = types(first.session)
        again = agents.run(None, message("Hello", "m1"))
        into = agents.run(None, message("Hello", "m1"), agents.open(agents.get()).session_id)

        assert (again.session, again.receipt, again.is_repeat) == (first.session, 1, True)
        assert (into.session, into.is_repeat) == (first.session, True)
        assert types(first.session) == before


@simulated
async def test_a_run_with_a_used_id_and_other_content_is_rejected_on_record() -> None:
    async with open_agents([agent()]) as agents:
        first = agents.run(None, message("Hello", "m1"))
        other = agents.run(None, message("Bye", "m1"))
        named = agents.run(None, message("Bye", "m1"), agents.open(agents.get()).session_id)

        assert other.session is first.session
        assert types(other.session)[other.receipt - 1] == "rejected"
        assert named.session is not first.session
        assert types(named.session) == ["rejected"]


@simulated
async def test_ids_of_another_agent_are_no_concern() -> None:
    async with open_agents([agent("a"), agent("b")]) as agents:
        one = agents.run("a", message("Hello", "m1"))
        two = agents.run("b", message("Bye", "m1"))

        assert one.session is not two.session
        assert not two.is_repeat


@simulated
async def test_a_message_without_an_id_gets_one_that_counts() -> None:
    async with open_agents([agent()]) as agents:
        sent = agents.run(None, message("Hello"))

        assert sent.message_id
        assert agents.run(None, message("Hello", sent.message_id)).is_repeat


@simulated
async def test_an_id_that_input_was_given_directly_is_no_second_message() -> None:
    async with open_agents([agent()]) as agents:
        session = agents.open(agents.get())
        session.runtime.start(message("Hello", "m1"))
        again = agents.send(session, message("Hello", "m1"))

        assert (again.receipt, again.is_repeat) == (0, True)


# -- the end -------------------------------------------------------------------------------------


@simulated
async def test_the_end_closes_what_runs_and_leaves_no_task() -> None:
    async with open_agents([agent("a", reply("Slow.", delay=60))]) as agents:
        busy = agents.run(None, message("Hello")).session
        idle = agents.open(agents.get())
        await asyncio.sleep(1)
        await agents.close()
        await agents.close()
        with pytest.raises(AgentsClosed):
            agents.run(None, message("Hello"))
        with pytest.raises(RuntimeClosed):
            agents.send(busy, message("More"))

    assert {busy.state, idle.state} == {"closed"}
    assert types(busy)[-1] == "cancelled"
    assert asyncio.all_tasks() == {asyncio.current_task()}


@simulated
async def test_an_error_in_the_body_comes_out_as_it_is() -> None:
    async def fall_over() -> None:
        async with open_agents([agent()]) as agents:
            agents.run(None, message("Hello"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fall_over()


@simulated
async def test_a_tool_that_ignores_its_end_holds_the_close_up_for_the_grace_only() -> None:
    let_go = asyncio.Event()

    async def deaf() -> str:
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()
        return "heard"

    made = agent("a", reply(calls=[call("deaf")]), tools=[deaf])
    async with Agents([made], DebugRuntime, SeededOutside(), grace=1) as agents:
        agents.run(None, message("Hello"))
        await asyncio.sleep(1)
        started = asyncio.get_running_loop().time()
        await agents.close()
        assert asyncio.get_running_loop().time() - started == pytest.approx(1)
        let_go.set()
