"""Waiting for agents: nothing is missed, nothing is told twice, and nothing is left behind."""

from __future__ import annotations

import asyncio

import pytest

from agent_lab import Agent, tool
from agent_lab.application.aborts import Abort, WaitAborted
from agent_lab.application.cursors import BadCursor
from agent_lab.application.line import Asked
from agent_lab.application.served import UnknownSession
from agent_lab.domain.errors import AnswerRefused, MessageRejected, ModelError
from agent_lab.domain.execution import Asker
from agent_lab.domain.permission import PermissionAnswer
from agent_lab.domain.settling import Fault
from agent_lab.infrastructure.models.scripted import ScriptedReply
from agent_lab.testing import ScriptedModel, call, fail, reply
from tests.application.helpers_control import lab
from tests.application.helpers_runtime import simulated, ticks

# -- what a wait answers -------------------------------------------------------------------------


@simulated
async def test_an_agent_that_rests_is_told_at_once_with_what_it_said_last() -> None:
    async with lab() as a:
        made = await a.made("one")
        a.tell("one", "Yes.")
        first = await a.wait(made)
        again = await a.wait(made)

    assert (first.status, first.reason, first.last_message) == ("idle", "done", "one: Yes.")
    assert (first.turn, first.timed_out, first.permission) == (1, False, None)
    assert again == first


@simulated
async def test_an_agent_that_was_never_asked_rests() -> None:
    async with lab() as a:
        found = await a.wait(await a.made())

    assert (found.status, found.reason, found.last_message) == ("idle", "at_rest", None)


@simulated
async def test_an_agent_that_nobody_has_is_named() -> None:
    async with lab() as a:
        with pytest.raises(UnknownSession, match="'s_9'"):
            await a.wait("s_9")
        with pytest.raises(ValueError, match="0 agents"):
            await a.control.wait_for_agent([])


# -- aborts --------------------------------------------------------------------------------------


@simulated
@pytest.mark.scenario("S29")
async def test_an_abort_between_look_and_listen_ends_the_wait_and_leaves_nothing() -> None:
    """At each turn of the loop after the wait began, until it listens and beyond."""
    for count in range(6):
        async with lab() as a, asyncio.TaskGroup() as group:
            made, abort = await a.made("one"), Abort()
            await ticks(20)
            a.count()
            followers = a.left()
            waiter = a.begin(group, made, abort=abort)
            await ticks(count)
            abort.set("the caller has left")
            found = await waiter

            assert isinstance(found, WaitAborted)
            assert found.reason == "the caller has left"
            assert a.left(abort) == followers
            status = await a.control.get_agent_status(made)
            assert status.status == "running", "the agent goes on"


@simulated
@pytest.mark.scenario("S30")
async def test_an_abort_that_is_set_wins_over_a_result_that_is_there() -> None:
    async with lab() as a:
        made, abort = await a.made("one"), Abort()
        a.tell("one")
        assert (await a.wait(made)).status == "idle"
        abort.set("no")
        with pytest.raises(WaitAborted, match="no"):
            await a.wait(made, abort=abort)
        with pytest.raises(WaitAborted, match="no"):
            await a.control.send_agent_prompt_and_wait(made, "two", abort=abort)


@simulated
@pytest.mark.scenario("S30")
async def test_an_abort_in_the_moment_of_the_result_wins_whatever_comes_first() -> None:
    for is_first in (True, False):
        async with lab() as a, asyncio.TaskGroup() as group:
            made, abort = await a.made("one"), Abort()
            served = a.agents.session(made)
            waiter = a.begin(group, made, abort=abort)
            await ticks(20)
            if is_first:
                abort.set("no")
            served.runtime.cancel()
            abort.set("no")

            assert isinstance(await waiter, WaitAborted)


@simulated
async def test_a_cancellation_from_outside_wins_over_an_abort() -> None:
    async with lab() as a, asyncio.TaskGroup() as group:
        made, abort = await a.made("one"), Abort()
        waiter = a.begin(group, made, abort=abort)
        await ticks(20)
        followers = a.left() - 1
        abort.set("no")
        waiter.cancel()
        await asyncio.wait({waiter})

        assert waiter.cancelled()
        assert a.left(abort) == followers - 1
        assert a.agents.session(made).state == "running"


@simulated
async def test_a_server_that_stops_ends_all_waits_with_its_reason() -> None:
    async with lab() as a, asyncio.TaskGroup() as group:
        waiter = a.begin(group, await a.made("one"))
        await ticks(20)
        a.control.stop()
        found = await waiter

    assert isinstance(found, WaitAborted)
    assert found.reason == "the server stops"


# -- results -------------------------------------------------------------------------------------


@simulated
@pytest.mark.scenario("S31")
@pytest.mark.scenario("S33")
async def test_an_end_that_comes_while_the_waiter_begins_is_told_once() -> None:
    """The model answers so many turns of the loop before or after the wait begins."""
    for ahead in range(-12, 13):
        async with lab() as a, asyncio.TaskGroup() as group:
            made = await a.made("one")
            await ticks(20)
            if ahead >= 0:
                a.tell("one", "Yes.")
                await ticks(ahead)
            waiter = a.begin(group, made, timeout_seconds=1000)
            if ahead < 0:
                await ticks(-ahead)
                a.tell("one", "Yes.")
            found = await waiter

        assert (found.status, found.last_message) == ("idle", "one: Yes."), ahead


@simulated
@pytest.mark.scenario("S33")
async def test_a_turn_that_failed_is_never_told_as_idle() -> None:
    for ahead in range(-12, 13, 3):
        async with lab() as a, asyncio.TaskGroup() as group:
            made = await a.made("one")
            await ticks(20)
            error = ModelError("no such model", code="model_error", hint="another")
            if ahead >= 0:
                a.tell("one", error)
                await ticks(ahead)
            waiter = a.begin(group, made)
            if ahead < 0:
                await ticks(-ahead)
                a.tell("one", error)
            found = await waiter
            status = await a.control.get_agent_status(made)

        assert (found.status, found.reason, found.last_message) == ("error", "model_error", None)
        assert found.error == Fault("model_error", "no such model", "another")
        assert (status.status, status.reason) == ("error", "model_error")


@simulated
@pytest.mark.scenario("S34")
@pytest.mark.parametrize("wait_for_active", [False, True])
async def test_what_is_accepted_and_not_begun_is_waited_for(wait_for_active: bool) -> None:
    async with lab() as a, asyncio.TaskGroup() as group:
        made = await a.made("one")
        assert (await a.control.get_agent_status(made)).status == "initializing"
        waiter = a.begin(group, made, wait_for_active=wait_for_active)
        a.tell("one", "Yes.")

        assert (await waiter).last_message == "one: Yes."


@simulated
@pytest.mark.scenario("S34")
@pytest.mark.parametrize("wait_for_active", [False, True])
async def test_a_start_that_fails_is_an_error(wait_for_active: bool) -> None:
    async with lab() as a, asyncio.TaskGroup() as group:
        made = await a.made("one")
        waiter = a.begin(group, made, wait_for_active=wait_for_active)
        a.tell("one", ModelError("it cannot be had", code="model_unavailable"))

        assert (await waiter).status == "error"


@simulated
@pytest.mark.scenario("S34")
async def test_an_agent_that_rests_is_waited_for_until_it_works_if_that_is_asked_for() -> None:
    async with lab() as a, asyncio.TaskGroup() as group:
        made = await a.made("one")
        a.tell("one", "Yes.")
        await a.wait(made)
        waiter = a.begin(group, made, wait_for_active=True)
        await ticks(20)
        assert not waiter.done()
        await a.control.send_agent_prompt(made, "two")
        a.tell("two", "No.")
        found = await waiter

    assert (found.last_message, found.turn) == ("two: No.", 2)


@simulated
async def test_what_stands_in_the_line_of_a_conversation_is_waited_for() -> None:
    async with lab() as a, asyncio.TaskGroup() as group:
        line = a.agents.line
        assert (await a.wait("chat:a")).status == "idle"
        await line.submit("a", "chat", Asked(message="one", detached=True))
        first = a.begin(group, "chat:a")
        await ticks(20)
        second = await line.submit("a", "chat", Asked(message="two", detached=True))
        a.tell("one", "Yes.")
        assert (await first).last_message == "one: Yes."
        await ticks(20)
        await a.control.cancel_agent("chat:a")
        last = a.begin(group, "chat:a")
        await a.agents.line.until_end(second.execution)
        found = await last

    assert (found.status, found.reason) == ("idle", "cancelled")


@simulated
@pytest.mark.scenario("S35")
async def test_a_new_prompt_in_the_middle_is_told_or_waited_for_as_was_asked() -> None:
    for option in ("tell", "go_on"):
        async with lab() as a, asyncio.TaskGroup() as group:
            made = await a.made()
            control = a.control
            waits = [
                group.create_task(
                    control.send_agent_prompt_and_wait(
                        made, "one", message_id="m1", if_interrupted=option
                    )
                )
            ]
            await ticks(20)
            waits.append(a.begin(group, made, if_interrupted=option))
            await ticks(20)
            await control.send_agent_prompt(made, "two", mode="interrupt", message_id="m2")
            a.tell("two", "No.")
            found = [await one for one in waits]

        for one in found:
            if option == "tell":
                assert (one.reason, one.status, one.turn) == ("interrupted", "running", 1)
                assert (one.interrupted_by, one.last_message) == ("m2", None)
            else:
                assert (one.reason, one.status, one.turn) == ("done", "idle", 2)
                assert one.last_message == "two: No."


@simulated
@pytest.mark.scenario("S36")
async def test_closing_wakes_everybody_who_waits_with_the_reason() -> None:
    async with lab() as a, asyncio.TaskGroup() as group:
        made, other = await a.made("one"), await a.made("two")
        waits = [a.begin(group, made) for _ in range(3)]
        waits += [a.begin(group, made, other, until="any") for _ in range(2)]
        await ticks(20)
        closed = await a.control.close_agent(made)
        async with asyncio.timeout(0.001):
            found = [await one for one in waits]

    assert (closed.status, closed.was, closed.still_waiting) == ("closed", "running", ())
    assert {(one.status, one.reason) for one in found} == {("closed", "closed")}


@simulated
@pytest.mark.scenario("S36")
async def test_a_session_that_is_replaced_or_falls_over_wakes_who_waits() -> None:
    async with lab() as a, asyncio.TaskGroup() as group:
        await a.agents.line.submit("a", "chat", Asked(message="one", detached=True))
        await ticks(20)
        waiter = a.begin(group, "chat:a")
        made = await a.made("two")
        other = a.begin(group, made)
        await ticks(20)
        await a.agents.line.control.reset("a", Asker())
        for _ in range(5):
            a.agents.session(made).runtime.crashed(ZeroDivisionError("oh"))
        replaced, felled = await waiter, await other
        last = await a.wait(made, after=felled.cursor)

    assert (replaced.status, replaced.reason) == ("closed", "replaced")
    assert (felled.status, felled.reason) == ("error", "internal")
    assert (last.status, last.reason) == ("error", "session_failed")


@simulated
@pytest.mark.scenario("S38")
async def test_the_end_of_the_time_is_an_answer_and_its_cursor_resumes() -> None:
    async with lab() as a:
        made = await a.made("one")
        first = await a.wait(made, timeout_seconds=30)
        a.tell("one", "Yes.")
        second = await a.wait(made, after=first.cursor)

    assert (first.timed_out, first.status, first.last_message) == (True, "running", None)
    assert (second.timed_out, second.status, second.last_message) == (False, "idle", "one: Yes.")


@simulated
async def test_a_result_at_the_very_end_of_the_time_counts() -> None:
    async with lab() as a, asyncio.TaskGroup() as group:
        made = await a.made("one")
        waiter = a.begin(group, made, timeout_seconds=30)
        await ticks(20)
        asyncio.get_running_loop().call_at(30, a.agents.session(made).runtime.cancel)
        found = await waiter

    assert (found.timed_out, found.status, found.reason) == (False, "idle", "cancelled")


@simulated
async def test_no_time_at_all_is_a_look() -> None:
    async with lab() as a:
        made = await a.made("one")
        busy = await a.wait(made, timeout_seconds=0)
        a.tell("one")
        await ticks(20)
        done = await a.wait(made, timeout_seconds=0)

    assert (busy.timed_out, busy.status) == (True, "running")
    assert (done.timed_out, done.status) == (False, "idle")


# -- the last message ----------------------------------------------------------------------------


def talker(*said: ScriptedReply) -> Agent:
    def look() -> str:
        return "seen"

    return Agent("b", model=ScriptedModel(said), tools=[look])


@simulated
@pytest.mark.scenario("S41")
async def test_the_last_message_is_the_text_behind_the_last_tool_in_one_piece() -> None:
    script = [
        reply("Let me look.", calls=[call("look")]),
        reply(deltas=["It ", "is ", "there."], delta_delay=0.5),
        fail("model_error", text="Half an ans"),
        reply(None, calls=[call("look")]),
        reply("So."),
    ]
    async with lab(talker(*script)) as a:
        made = await a.made(from_agent="b")
        say = a.control.send_agent_prompt_and_wait
        found = [await say(made, one) for one in ("one", "two", "three")]

    assert [one.last_message for one in found] == ["It is there.", None, "So."]
    assert [one.status for one in found] == ["idle", "error", "idle"]


@simulated
@pytest.mark.scenario("S41")
async def test_what_another_turn_said_is_not_told_as_this_one_s() -> None:
    async with lab() as a:
        made = await a.made("one")
        a.tell("one", "Yes.")
        before = await a.wait(made)
        await a.control.send_agent_prompt(made, "two")
        await ticks(20)
        await a.control.cancel_agent(made)
        found = await a.wait(made, after=before.cursor)
        nothing = await a.wait(made, after=found.cursor)

    assert (found.reason, found.turn, found.last_message) == ("cancelled", 2, None)
    assert (nothing.reason, nothing.status, nothing.last_message) == ("at_rest", "idle", None)


# -- cursors -------------------------------------------------------------------------------------


@simulated
async def test_each_end_is_told_once_to_who_comes_back_with_the_cursor() -> None:
    async with lab() as a:
        made = await a.made("one")
        a.tell("one", "1")
        a.tell("two", "2")
        a.tell("three", "3")
        cursor, told = (await a.control.get_agent_status(made)).cursor, []
        for prompt in ("two", "three"):
            await a.wait(made)
            await a.control.send_agent_prompt(made, prompt)
        await a.wait(made)
        for _ in range(4):
            found = await a.wait(made, after=cursor)
            cursor = found.cursor
            told.append(found.last_message)

    assert told == ["one: 1", "two: 2", "three: 3", None]


@simulated
async def test_any_of_several_is_told_one_after_another_by_one_cursor() -> None:
    async with lab() as a:
        names = ["one", "two", "three"]
        ids = [await a.made(name) for name in names]
        cursor, told = None, []
        for name in ("two", "three", "one"):
            a.tell(name)
            found = await a.control.wait_for_agent(ids, until="any", after=cursor)
            cursor = found.cursor
            told.append([one.last_message for one in found.agents])
            assert not found.timed_out
        rest = await a.control.wait_for_agent(ids, until="any", after=cursor)

    assert told == [
        [None, "two: Well.", None],
        [None, None, "three: Well."],
        ["one: Well.", None, None],
    ]
    assert {one.reason for one in rest.agents} == {"at_rest"}, "none works, so nothing will come"


@simulated
async def test_all_of_several_are_told_together_and_again_after_the_time_was_over() -> None:
    async with lab() as a:
        ids = [await a.made("one"), await a.made("two")]
        a.tell("one")
        early = await a.control.wait_for_agent(ids, timeout_seconds=10)
        a.tell("two")
        late = await a.control.wait_for_agent(ids, after=early.cursor)

    assert [one.last_message for one in early.agents] == ["one: Well.", None]
    assert [one.timed_out for one in early.agents] == [False, True]
    assert early.timed_out and not late.timed_out
    assert [one.last_message for one in late.agents] == ["one: Well.", "two: Well."]


@simulated
async def test_a_cursor_that_is_none_is_refused() -> None:
    async with lab() as a:
        made = await a.made("one")
        epoch = a.agents.session(made).epoch
        for said in ("x", "x:", ":1", f"{epoch}:99", f"{epoch}:-1", f"{epoch}:1,x"):
            with pytest.raises(BadCursor):
                await a.wait(made, after=said)


@simulated
async def test_a_position_in_a_conversation_that_was_begun_anew_counts_for_nothing() -> None:
    async with lab() as a:
        before = await a.wait("chat:a")
        await a.agents.line.control.reset("a", Asker())
        found = await a.wait("chat:a", after=before.cursor)

    assert (found.status, found.reason) == ("idle", "at_rest")
    assert found.cursor != before.cursor


# -- one message ---------------------------------------------------------------------------------


@simulated
async def test_a_prompt_is_waited_for_to_the_end_of_its_own_turn() -> None:
    async with lab() as a, asyncio.TaskGroup() as group:
        made = await a.made("one")
        await ticks(20)
        say = a.control.send_agent_prompt_and_wait
        two = group.create_task(say(made, "two", mode="follow_up"))
        await ticks(20)
        three = group.create_task(say(made, "three", mode="follow_up"))
        await ticks(20)
        for content in ("one", "two"):
            a.tell(content)
        second = await two
        assert not three.done()
        a.tell("three")
        third = await three

    assert (second.last_message, second.turn, second.pending) == ("two: Well.", 2, 1)
    assert (third.last_message, third.turn, third.pending) == ("three: Well.", 3, 0)


@simulated
async def test_a_prompt_that_is_withdrawn_or_refused_is_no_endless_wait() -> None:
    async with lab() as a, asyncio.TaskGroup() as group:
        made = await a.made("one")
        await ticks(20)
        say = a.control.send_agent_prompt_and_wait
        waiter = group.create_task(say(made, "two", mode="follow_up", message_id="m2"))
        await ticks(20)
        a.agents.session(made).runtime.withdraw("m2")
        found = await waiter
        with pytest.raises(MessageRejected) as caught:
            await say(made, "three", mode="reject")

    assert (found.status, found.reason) == ("idle", "withdrawn")
    assert caught.value.code == "busy"


@simulated
async def test_a_prompt_that_is_sent_again_is_waited_for_and_runs_once() -> None:
    async with lab() as a:
        made = await a.made()
        say = a.control.send_agent_prompt_and_wait
        early = await say(made, "one", message_id="m1", timeout_seconds=5)
        a.tell("one", "Yes.")
        late = await say(made, "one", message_id="m1")
        last = await say(made, "one", message_id="m1")

        assert early.timed_out
        assert late == last
        assert late.last_message == "one: Yes."
        assert a.model.asked == ["one"]


@simulated
async def test_a_message_that_waits_and_is_withdrawn_leaves_no_wait_behind() -> None:
    """No end of a turn tells of it: an agent that has nothing left to do rests."""
    async with lab() as a, asyncio.TaskGroup() as group:
        made = await a.made()
        await a.control.send_agent_prompt(made, "one", message_id="m1")
        waiter = a.begin(group, made)
        await asyncio.sleep(0)
        assert a.agents.session(made).runtime.withdraw("m1")
        found = await waiter

    assert (found.status, found.reason, found.timed_out) == ("idle", "at_rest", False)


# -- permissions ---------------------------------------------------------------------------------


def asker(ran: list[str]) -> Agent:
    """An agent whose first answer calls a tool that asks."""

    @tool(needs_approval=True)
    def burn(what: str) -> str:
        ran.append(what)
        return "burnt"

    said = [reply("I will burn it.", calls=[call("burn", "c1", what="all")]), "Done."]
    return Agent("b", model=ScriptedModel(said), tools=[burn])


@simulated
@pytest.mark.scenario("S39")
async def test_a_permission_that_somebody_else_answers_is_told_and_the_next_wait_goes_on() -> None:
    ran: list[str] = []
    async with lab(asker(ran)) as a, asyncio.TaskGroup() as group:
        made = await a.made("go", from_agent="b")
        waits = [a.begin(group, made) for _ in range(2)]
        first, same = [await one for one in waits]
        late = await a.wait(made)
        listed = await a.control.list_pending_permissions()
        again = a.begin(group, made, after=first.cursor)
        await ticks(20)
        assert not again.done(), "it was told of that request"
        assert first.permission is not None
        answer = PermissionAnswer(decision="allow", sha256=first.permission.sha256)
        done = await a.control.respond_to_permission(made, first.permission.request_id, answer)
        with pytest.raises(AnswerRefused) as caught:
            await a.control.respond_to_permission(made, first.permission.request_id, answer)
        found = await again

    assert (first.status, first.reason, first.last_message) == ("running", "permission", None)
    assert (first.permission.name, first.permission.arguments) == ("burn", {"what": "all"})
    assert same == first and late.permission == first.permission
    assert [(one.agent_id, one.call_id) for one in listed] == [(made, "c1")]
    assert (done.decision, done.arguments) == ("allow", {"what": "all"})
    assert caught.value.code == "prompt_closed"
    assert (found.status, found.last_message) == ("idle", "Done.")
    assert ran == ["all"]


@simulated
async def test_a_permission_that_was_answered_before_anybody_looked_is_not_told() -> None:
    async with lab(asker([])) as a:
        made = await a.made("go", from_agent="b")
        before = (await a.control.get_agent_status(made)).cursor
        waiting = await a.wait(made)
        assert waiting.permission is not None
        answer = PermissionAnswer(decision="deny", message="No.")
        await a.control.respond_to_permission(made, waiting.permission.request_id, answer)
        found = await a.wait(made, after=before)

    assert (found.status, found.permission, found.last_message) == ("idle", None, "Done.")


@simulated
async def test_a_prompt_that_is_waited_for_tells_of_the_permission_it_needs() -> None:
    async with lab(asker([])) as a:
        made = await a.made(from_agent="b")
        found = await a.control.send_agent_prompt_and_wait(made, "go")
        snapshot = await a.control.get_agent_status(made)

    assert (found.status, found.reason) == ("running", "permission")
    assert found.permission is not None
    assert snapshot.permissions == (found.permission,)
    assert snapshot.reason == "permission"
