"""The commands on agents: create, prompt, list, look, cancel and close, as every face has them."""

from __future__ import annotations

import asyncio

import pytest

from agent_lab import Agent, Limits
from agent_lab.application.asking import TakesTheLine, TooManyAgents
from agent_lab.application.control_answers import CancelledAgent, ClosedAgent
from agent_lab.application.line import Asked
from agent_lab.application.served import UnknownAgent, UnknownSession
from agent_lab.domain.errors import MessageRejected, ModelError, RuntimeClosed
from agent_lab.domain.limits import ControlLimits
from agent_lab.domain.payloads import Withdrawn
from agent_lab.domain.settling import MessageReceipt
from agent_lab.infrastructure.store_memory import MemoryStore
from agent_lab.testing import ScriptedModel, call, reply
from tests.application.helpers_control import lab
from tests.application.helpers_line import Gates
from tests.application.helpers_runtime import simulated, ticks

# -- create --------------------------------------------------------------------------------------


@simulated
async def test_a_created_agent_runs_a_definition_under_its_own_instructions() -> None:
    async with lab() as a:
        made = await a.control.create_agent("helper", from_agent="a", instructions="Be long.")
        same = await a.control.create_agent("helper")
        session = a.agents.session(made.agent_id).runtime.session
        snapshot = await a.control.get_agent_status(made.agent_id)

    assert (made.status, made.agent, made.prompted) == ("idle", "a", None)
    assert made.agent_id != same.agent_id
    assert session.agent.instructions == "Be long."
    assert a.agents.get("a").instructions == "Be brief."
    assert a.agents.session(same.agent_id).agent.instructions == "Be brief."
    assert (snapshot.name, snapshot.agent, snapshot.is_created) == ("helper", "a", True)


@simulated
async def test_a_created_agent_works_in_the_background_and_takes_no_slot() -> None:
    async with lab() as a:
        made = await a.control.create_agent("helper", initial_prompt="one", message_id="m1")
        await ticks(20)
        a.tell("two", "Yes.")
        chat = await a.agents.line.submit("a", "chat", Asked(message="two"))
        done = await a.agents.line.until_end(chat.execution)

    assert made.status == "initializing"
    assert made.prompted is not None
    assert made.prompted.receipt == MessageReceipt(message_id="m1", state="accepted", seq=1)
    assert done.response == "two: Yes."


@simulated
async def test_create_and_wait_gives_the_answer() -> None:
    async with lab() as a:
        a.tell("one", "Yes.")
        found = await a.control.create_agent_and_wait("helper", "one")

    assert (found.status, found.last_message) == ("idle", "one: Yes.")


@simulated
async def test_what_cannot_be_created_leaves_nothing() -> None:
    broken = Agent("broken", model="nobody:nothing")
    async with lab(broken, limits=ControlLimits(created=1)) as a:
        with pytest.raises(UnknownAgent, match="'nobody'"):
            await a.control.create_agent("helper", from_agent="nobody")
        with pytest.raises(ModelError):
            await a.control.create_agent("helper", from_agent="broken")
        with pytest.raises(MessageRejected, match="says nothing"):
            await a.control.create_agent("helper", from_agent="a", initial_prompt=" ")
        assert a.agents.sessions() == []
        made = await a.control.create_agent("helper", from_agent="a")
        with pytest.raises(TooManyAgents, match="close_agent"):
            await a.control.create_agent("helper", from_agent="a")
        await a.control.close_agent(made.agent_id)
        await a.control.create_agent("helper", from_agent="a")


@simulated
async def test_a_created_agent_is_kept_however_long_it_rests() -> None:
    async with lab() as a:
        made = await a.made()
        for _ in range(300):
            a.agents.open(a.agents.get("a"))
            await asyncio.sleep(1)

        assert a.agents.session(made).state == "idle"
        assert len(a.agents.sessions()) == 201


# -- prompt --------------------------------------------------------------------------------------


@simulated
async def test_a_busy_agent_takes_a_prompt_in_each_of_the_four_ways() -> None:
    async with lab() as a:
        made = await a.made("one")
        await ticks(20)
        say = a.control.send_agent_prompt
        steer = await say(made, "two", message_id="m2")
        later = await say(made, "three", mode="follow_up", message_id="m3")
        refused = await say(made, "four", mode="reject", message_id="m4")
        cut = await say(made, "five", mode="interrupt", message_id="m5")
        await ticks(20)
        now = await say(made, "two", message_id="m2")

    assert (steer.receipt.state, steer.receipt.blocked_by) == ("held", ("model",))
    assert (later.receipt.state, later.receipt.blocked_by) == ("held", ("turn",))
    assert (refused.accepted, refused.receipt.code) == (False, "busy")
    assert refused.receipt.retry_after == 1.0
    assert (cut.accepted, cut.receipt.state) == (True, "accepted")
    assert (now.is_repeat, now.receipt.state, now.receipt.turn) == (True, "delivered", 2)
    assert now.cursor == steer.cursor


@simulated
@pytest.mark.scenario("S54")
async def test_a_prompt_that_is_sent_again_has_the_same_receipt_and_runs_once() -> None:
    async with lab() as a:
        made, other = await a.made(), await a.made()
        say = a.control.send_agent_prompt
        first = await say(made, "one", message_id="m1")
        again = await say(made, "one", message_id="m1")
        reused = await say(made, "two", message_id="m1")
        once_more = await say(made, "one", message_id="m1")
        elsewhere = await say(other, "one", message_id="m1")
        a.tell("one")
        await a.wait(made, other)

    assert (again.is_repeat, again.receipt) == (True, first.receipt)
    assert (reused.accepted, reused.receipt.code) == (False, "id_reused")
    assert once_more.receipt.state == "accepted"
    assert not elsewhere.is_repeat, "each created agent has ids of its own"
    assert a.model.asked == ["one", "one"]


@simulated
async def test_an_agent_s_one_conversation_is_steered_but_asked_through_its_line() -> None:
    async with lab() as a:
        say = a.control.send_agent_prompt
        with pytest.raises(TakesTheLine, match="chat_with_agent"):
            await say("chat:a", "one")
        await a.agents.line.submit("a", "chat", Asked(message="one"))
        await ticks(20)
        steer = await say("chat:a", "two", message_id="m2")
        for mode in ("follow_up", "interrupt", "reject"):
            with pytest.raises(TakesTheLine):
                await say("chat:a", "three", mode=mode)
        a.tell("one")
        await ticks(20)
        a.tell("two")
        await a.wait("chat:a")
        again = await say("chat:a", "two", message_id="m2")

    assert steer.receipt.state == "held"
    assert (again.is_repeat, again.receipt.state) == (True, "delivered")


@simulated
async def test_a_session_that_a_page_opened_is_an_agent_too() -> None:
    async with lab() as a:
        from agent_lab import ChatMessage

        sent = a.agents.run("a", ChatMessage("user", "one"))
        a.tell("one", "Yes.")
        found = await a.wait(sent.session.session_id)
        snapshot = await a.control.get_agent_status(sent.session.session_id)

    assert found.last_message == "one: Yes."
    assert (snapshot.name, snapshot.is_created, snapshot.title) == ("a", False, "one")


# -- look ----------------------------------------------------------------------------------------


@simulated
async def test_agents_are_listed_newest_first_by_status() -> None:
    async with lab() as a:
        busy, idle, failed, gone = [await a.made(one) for one in ("one", "two", "three", "four")]
        a.tell("two")
        a.tell("three", ModelError("no", code="model_error"))
        await ticks(50)
        await a.control.close_agent(gone)
        fresh = await a.made("five")
        every = await a.control.list_agents()
        some = await a.control.list_agents(statuses=["running", "error"])
        two = await a.control.list_agents(limit=2)

    assert [(one.agent_id, one.status) for one in every] == [
        (fresh, "initializing"),
        (gone, "closed"),
        (failed, "error"),
        (idle, "idle"),
        (busy, "running"),
    ]
    assert [one.reason for one in every] == [None, "closed", "model_error", "done", None]
    assert [one.agent_id for one in some] == [failed, busy]
    assert [one.agent_id for one in two] == [fresh, gone]


@simulated
async def test_activity_tells_the_newest_items_in_few_words() -> None:
    def look(place: str) -> str:
        """Look there."""
        return f"seen {place} " + "x" * 600

    script = [reply("Let me look.", calls=[call("look", place="Oslo")]), "It is there."]
    talker = Agent("b", model=ScriptedModel(script), tools=[look])
    async with lab(talker) as a:
        made = await a.made("Where is it?", from_agent="b")
        await a.wait(made)
        all_of_it = await a.control.get_agent_activity(made)
        last = await a.control.get_agent_activity(made, limit=1)
        found = await a.control.wait_for_agent([made], include_activity=True)

    said = all_of_it.content.splitlines()
    assert said[:3] == [
        "[User] Where is it?",
        "[Assistant] Let me look.",
        '[Call] look {"place": "Oslo"}',
    ]
    assert said[3].startswith("[Reply, result] look: seen Oslo xxx")
    assert said[3].endswith("more characters)")
    assert said[4:] == ["[Assistant] It is there."]
    assert (all_of_it.format, all_of_it.update_count, all_of_it.current_mode_id) == (
        "curated",
        5,
        None,
    )
    assert (last.content, last.update_count) == ("[Assistant] It is there.", 1)
    assert found.agents[0].activity == all_of_it


# -- stop ----------------------------------------------------------------------------------------


@simulated
async def test_cancel_stops_this_turn_and_says_who_still_waits() -> None:
    async with lab() as a:
        made = await a.made("one")
        await ticks(20)
        await a.control.send_agent_prompt(made, "two", mode="follow_up", message_id="m2")
        cancelled = await a.control.cancel_agent(made, turn=1)
        await ticks(20)
        again = await a.control.cancel_agent(made, turn=1)
        await a.control.send_agent_prompt(made, "three", mode="follow_up", message_id="m3")
        dropped = await a.control.cancel_agent(made, drop_waiting=True)
        nothing = await a.control.cancel_agent(made)

    status = [one.status for one in (cancelled, again, dropped, nothing)]
    assert cancelled == CancelledAgent(
        agent_id=made, status="cancelled", turn=1, still_waiting=("m2",)
    )
    assert status == ["cancelled", "not_running", "cancelled", "not_running"]
    assert (dropped.turn, dropped.still_waiting) == (2, ())


@simulated
@pytest.mark.scenario("S25")
async def test_close_withdraws_what_waits_and_takes_nothing_more() -> None:
    async with lab() as a:
        made = await a.made("one")
        await ticks(20)
        await a.control.send_agent_prompt(made, "two", mode="follow_up", message_id="m2")
        closed = await a.control.close_agent(made)
        again = await a.control.close_agent(made)
        with pytest.raises(RuntimeClosed):
            await a.control.send_agent_prompt(made, "three")
        entries = a.agents.session(made).runtime.session.journal.read()[1]
        status = await a.control.get_agent_status(made)

    assert closed == ClosedAgent(
        agent_id=made, status="closed", was="running", still_waiting=("m2",)
    )
    assert (again.status, again.was) == ("already_closed", "closed")
    gone = [one.payload for one in entries if isinstance(one.payload, Withdrawn)]
    assert [(one.message_id, one.reason) for one in gone] == [("m2", "closed")]
    assert (status.status, status.reason) == ("closed", "closed")


@simulated
async def test_an_agent_s_one_conversation_is_reset_and_not_closed() -> None:
    async with lab() as a:
        with pytest.raises(TakesTheLine, match="reset"):
            await a.control.close_agent("chat:a")


@simulated
async def test_close_does_not_wait_for_a_tool_that_does_not_listen() -> None:
    started = asyncio.Event()

    async def deaf() -> str:
        started.set()
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                if asyncio.get_running_loop().time() > 100:
                    raise

    agent = Agent("b", model=ScriptedModel([reply(calls=[call("deaf")])]), tools=[deaf])
    agent.limits = Limits(tool_timeout=1e6)
    async with lab(agent) as a:
        made = await a.made("one", from_agent="b")
        await started.wait()
        now = asyncio.get_running_loop().time()
        await a.control.close_agent(made)
        assert asyncio.get_running_loop().time() == now
        assert (await a.wait(made)).status == "closed"
        await asyncio.sleep(200)


# -- over a restart ------------------------------------------------------------------------------


class Kept(MemoryStore):
    """A store that the next process finds as it was left."""

    async def close(self) -> None:
        """Stay open."""


@simulated
async def test_created_agents_are_there_again_after_a_restart() -> None:
    store = Kept()
    async with lab(store=store) as a:
        fresh = await a.made(instructions="Be new.")
        talked, failed, gone = [await a.made(one, one) for one in ("one", "two", "three")]
        await a.control.send_agent_prompt(talked, "more", message_id="m1", mode="follow_up")
        for content in ("one", "more", "three"):
            a.tell(content)
        a.tell("two", ModelError("no", code="model_error"))
        before = [await a.wait(one) for one in (talked, failed, gone)]
        await a.control.close_agent(gone)
    async with lab(store=store, model=Gates(), seed=1) as b:
        listed = await b.control.list_agents()
        after = [await b.wait(one) for one in (talked, failed, gone)]
        again = await b.control.send_agent_prompt(talked, "more", message_id="m1")
        resumed = await b.wait(talked, after=before[0].cursor)
        instructions = b.agents.session(talked).agent.instructions
        await b.control.send_agent_prompt(fresh, "Hello")
        b.tell("Hello")
        said = await b.wait(fresh)
        with pytest.raises(RuntimeClosed):
            await b.control.send_agent_prompt(gone, "Hello")

        assert b.agents.session(fresh).agent.instructions == "Be new."
    assert {(one.agent_id, one.name, one.status) for one in listed} == {
        (fresh, "helper", "idle"),
        (talked, "one", "idle"),
        (failed, "two", "error"),
        (gone, "three", "closed"),
    }
    assert [one.status for one in after] == ["idle", "error", "closed"]
    assert after[0].last_message == before[0].last_message == "more: Well."
    assert (again.is_repeat, again.receipt.state) == (True, "delivered")
    assert (resumed.reason, resumed.last_message) == ("at_rest", None)
    assert (said.last_message, instructions) == ("Hello: Well.", "Be brief.")


@simulated
async def test_a_store_that_fails_is_told_and_no_agent_is_made() -> None:
    from agent_lab.domain.errors import StorageError

    store = Kept()
    async with lab(store=store) as a:
        store.fault = StorageError("storage_full", "the disk is full", "make room")
        with pytest.raises(StorageError, match="full"):
            await a.made()
        store.fault = None

        assert a.agents.sessions() == []
        with pytest.raises(UnknownSession):
            await a.wait("s_0_1")
