"""The line before an agent: who is let in, who waits, and how each request ends. Once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from agent_lab import tool
from agent_lab.application.asked import Asked
from agent_lab.application.executions import Ended
from agent_lab.application.served import AgentsClosed
from agent_lab.domain.activity import ActivityQuery
from agent_lab.domain.admission import Lease, Room, Ticket
from agent_lab.domain.errors import ModelError, NotAdmitted, UnknownExecution
from agent_lab.domain.execution import Asker, Broken, Execution, ExecutionQuery, Outcome, ToolUse
from agent_lab.domain.limits import LineLimits
from agent_lab.domain.messages import ModelRequest, Reply, ToolCall
from agent_lab.infrastructure.line_memory import MemoryExecutions
from agent_lab.infrastructure.store_memory import MemoryStore
from tests.application.helpers_line import BEHIND, Gates, held
from tests.application.helpers_runtime import simulated

ME = Asker(triggered_by="test")


@pytest.fixture(params=["memory", "store"], autouse=True)
def _behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each of these with executions in memory, and with sessions and executions in a store."""
    made: Callable[[], MemoryStore | None] = MemoryStore if request.param == "store" else _nothing
    token = BEHIND.set(made)
    yield
    BEHIND.reset(token)


def _nothing() -> None:
    """No store."""


async def ticks(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# -- one after another ---------------------------------------------------------------------------


@simulated
async def test_a_chat_is_answered_and_its_record_tells_all() -> None:
    async with held() as a:
        one = await a.ask("hi", by=Asker(source="mcp", triggered_by="mcp", mcp_key_name="laptop"))
        a.model.open("hi", "Hello.")
        done = await a.end(one)

        assert done.status == "completed"
        assert (done.response, done.error, done.tool_calls) == ("hi: Hello.", None, ())
        assert (done.session_id, done.turn) == ("chat:a", 1)
        assert (done.context_used, done.context_max, done.cost_usd) == (30, None, None)
        assert (done.source, done.mcp_key_name) == ("mcp", "laptop")
        assert a.told(one) == ["Started", "Ended"]


@pytest.mark.scenario("S3")
@simulated
async def test_who_is_queued_waits_and_its_clock_starts_at_the_grant() -> None:
    async with held() as a:
        one = await a.ask("one")
        await a.asked("one")
        two = await a.ask("two")
        await asyncio.sleep(60)
        assert a.model.asked == ["one"]
        assert (two.status, two.was_queued, two.started_at) == ("queued", True, None)
        a.model.open("one")
        a.model.open("two")
        done = await a.end(two)

        assert a.told(two) == ["Queued 1", "Started", "Ended"]
        assert done.started_at == (await a.end(one)).finished_at == one.queued_at + 60
        assert done.response == "two: Well."
        assert done.was_queued


@pytest.mark.scenario("S8")
@simulated
async def test_waiting_spends_nothing_of_the_run_limit() -> None:
    async with held(limits=LineLimits(run=100, wait=1000)) as a:
        await a.ask("one", run_limit=300.0)
        two = await a.ask("two")
        await asyncio.sleep(250)
        a.model.open("one")
        await a.asked("one", "two")
        await asyncio.sleep(90)
        a.model.open("two")
        done = await a.end(two)

        assert done.status == "completed"
        assert (done.finished_at or 0) - (done.started_at or 0) == 90


@pytest.mark.scenario("S2")
@simulated
async def test_a_full_line_refuses_and_leaves_no_record() -> None:
    async with held() as a:
        asked = [a.ask(str(number)) for number in range(9)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [one for one in answers if isinstance(one, NotAdmitted)]

        assert [type(one) for one in answers] == [Execution] * 4 + [NotAdmitted] * 5
        assert {(one.code, one.queue_length, one.retry_after) for one in refused} == {
            ("capacity", 3, 30.0)
        }
        assert len(await a.line.book.page(ExecutionQuery())) == 4


@simulated
async def test_who_may_not_wait_is_refused_at_once_when_busy() -> None:
    async with held() as a:
        await a.ask("one")

        with pytest.raises(NotAdmitted, match="runs 1 and 0 wait") as caught:
            await a.ask("two", may_wait=False)
        assert caught.value.code == "capacity"


@pytest.mark.scenario("S16")
@simulated
async def test_a_wait_that_is_too_long_ends_and_a_late_grant_is_ignored() -> None:
    async with held() as a:
        one = await a.ask("one")
        two = await a.ask("two")
        done = await a.end(two)

        assert (done.status, done.error_code) == ("timeout", "queued_timeout")
        assert done.started_at is None
        assert (done.finished_at or 0) - done.queued_at == 120
        a.model.open("one")
        await a.end(one)
        await ticks()
        assert a.model.asked == ["one"]
        assert (await a.line.control.state("a", "chat")).running == []


@pytest.mark.scenario("S14")
@simulated
async def test_who_leaves_while_queued_never_runs_and_the_others_are_told_where_they_stand() -> (
    None
):
    async with held() as a:
        one = await a.ask("one")
        two, three, four = [await a.ask(name) for name in ("two", "three", "four")]

        assert await a.line.leave(two)
        assert (a.now(two).status, a.now(two).error_code) == ("cancelled", "left")
        assert a.told(three) == ["Queued 2", "Moved 1"]
        assert a.told(four) == ["Queued 3", "Moved 2"]
        for name in ("one", "three", "four"):
            a.model.open(name)
        await a.end(four)
        assert a.model.asked == ["one", "three", "four"]
        assert not await a.line.leave(one), "it ran"


@simulated
async def test_a_caller_that_stops_waiting_stops_nothing() -> None:
    async with held() as a:
        one = await a.ask("one")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await a.line.until_end(one)
        assert a.line.book.waiters == 0
        a.model.open("one")

        assert (await a.end(one)).status == "completed"
        assert await a.line.until_end(one) == await a.end(one)


@simulated
async def test_users_go_before_agents_and_these_before_schedules() -> None:
    async with held() as a:
        await a.ask("first")
        for source in ("schedule", "agent", "user"):
            last = await a.ask(source, by=Asker(source=source))
        assert a.line.book.position(last.id) == 1
        for name in ("first", "user", "agent", "schedule"):
            a.model.open(name)
        await ticks(200)

        assert a.model.asked == ["first", "user", "agent", "schedule"]


# -- ends ----------------------------------------------------------------------------------------


@pytest.mark.fault("R18")
@simulated
async def test_a_run_that_takes_too_long_is_stopped_and_its_slot_is_free() -> None:
    async with held() as a:
        one = await a.ask("one")
        two = await a.ask("two", run_limit=5.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(119):
                await a.line.until_end(two)
        a.model.open("two", "Yes.")
        await a.line.control.terminate("a", two.id, ME)
        done = await a.end(one)

        assert (done.status, done.error_code) == ("timeout", "run_timeout")
        assert done.error == "it ran longer than 600 s and was stopped"
        assert (done.finished_at or 0) - (done.started_at or 0) == 600
        assert (done.by_watchdog, done.turn) == (True, 1)
        await ticks()
        assert (await a.line.control.state("a", "chat")).running == []


@pytest.mark.parametrize(
    ("error", "said"),
    [(ModelError("no", code="provider_auth", hint="key"), "no"), (ValueError(), "ValueError")],
)
@pytest.mark.scenario("S70")
def test_a_failed_turn_says_why(error: Exception, said: str) -> None:
    @simulated
    async def test() -> None:
        async with held() as a:
            one = await a.ask("one")
            a.model.open("one", error)
            done = await a.end(one)

            assert done.status == "failed"
            assert done.error_code == getattr(error, "code", "model_error")
            assert said in (done.error or "")
            assert done.response is None

    test()


@pytest.mark.scenario("S13")
@simulated
async def test_ending_one_of_many_leaves_the_others_and_the_line() -> None:
    async with held() as a:
        tasks = [await a.ask(name, "task") for name in ("one", "two", "three", "four")]
        await a.asked("one", "two", "three")
        status = await a.line.control.terminate("a", tasks[1].id, ME)
        state = await a.line.control.state("a", "task")

        assert status == "terminated"
        assert [one.message for one in state.running] == ["one", "three"]
        await a.asked("one", "two", "three", "four")
        state = await a.line.control.state("a", "task")
        assert [one.message for one in state.running] == ["one", "three", "four"]
        assert a.now(tasks[1]).status == "cancelled"


@pytest.mark.scenario("S22")
@simulated
async def test_clearing_ends_who_waits_and_nobody_hangs() -> None:
    async with held() as a:
        one, two, three = [await a.ask(name) for name in ("one", "two", "three")]
        waits = asyncio.gather(a.end(two), a.end(three))
        await ticks(2)
        gone = await a.line.control.clear("a", ME)
        ends = await waits

        assert [execution.id for execution in gone] == [two.id, three.id]
        assert [(done.status, done.error_code) for done in ends] == [("cancelled", "cleared")] * 2
        assert ends[0].error == "the queue was cleared (test)"
        assert a.now(one).status == "running"


@pytest.mark.scenario("S58")
@simulated
async def test_what_is_ended_while_it_waits_is_never_asked_of_a_model() -> None:
    async with held() as a:
        await a.ask("one")
        two = await a.ask("two")

        assert await a.line.control.terminate("a", two.id, ME) == "cancelled_while_queued"
        assert await a.line.control.terminate("a", two.id, ME) == "already_terminal"
        assert a.now(two).cost_usd is a.now(two).tool_calls is None
        a.model.open("one")
        await ticks(100)
        assert a.model.asked == ["one"]


@pytest.mark.scenario("S58")
@simulated
async def test_what_is_ended_before_it_started_is_never_asked_of_a_model() -> None:
    async with held() as a:
        one = await a.ask("one")

        assert await a.line.control.terminate("a", one.ticket, ME) == "cancelled_before_start"
        await ticks(100)
        assert a.model.asked == []
        assert (await a.line.control.state("a", "chat")).running == []


@pytest.mark.scenario("S58")
@pytest.mark.fault("C28")
@pytest.mark.parametrize("wait", range(10))
def test_at_whatever_moment_it_is_ended_a_model_is_asked_or_it_is_not(wait: int) -> None:
    @simulated
    async def test() -> None:
        async with held() as a:
            one = await a.ask("one")
            await ticks(wait)
            said = await a.line.control.terminate("a", one.id, ME)
            await ticks(100)

            begun = a.model.asked == ["one"]
            has_turn = a.now(one).turn is not None  # with a store the model may still wait for it
            assert said == ("terminated" if has_turn else "cancelled_before_start")
            assert has_turn or not begun
            assert (a.now(one).tool_calls is None) == (said == "cancelled_before_start")
            assert a.now(one).status == "cancelled"

    test()


@simulated
async def test_what_has_ended_is_not_ended_again() -> None:
    async with held() as a:
        one = await a.ask("one")
        a.model.open("one")
        await a.end(one)
        await ticks()

        assert await a.line.control.terminate("a", one.id, ME) == "already_finished"
        assert await a.line.control.terminate("a", one.ticket, ME) == "already_finished"
        with pytest.raises(UnknownExecution, match="agent 'a' has no execution 'nobody'"):
            await a.line.control.terminate("a", "nobody", ME)


@pytest.mark.scenario("S56")
@pytest.mark.parametrize("wait", range(12))
def test_a_cancel_and_the_answer_in_one_moment_have_one_winner(wait: int) -> None:
    @simulated
    async def test() -> None:
        async with held() as a:
            one = await a.ask("one")
            await a.asked("one")
            a.model.open("one")
            await ticks(wait)
            said = await a.line.control.terminate("a", one.id, ME)
            done = await a.end(one)

            assert (said, done.status) in {
                ("terminated", "cancelled"),
                ("already_terminal", "completed"),
                ("already_finished", "completed"),
            }
            assert a.told(one).count("Ended") == 1
            assert (done.response is None) == (done.status == "cancelled")

    test()


@pytest.mark.scenario("S60")
@pytest.mark.scenario("S25")
@simulated
async def test_ending_one_does_not_end_the_turn_that_begins_in_the_same_moment() -> None:
    async with held() as a:
        one, two = await a.ask("one"), await a.ask("two")
        await a.asked("one")
        a.model.open("one")
        said: set[str] = set()
        for _ in range(20):
            await ticks(1)
            said.add(await a.line.control.terminate("a", one.id, ME))
        a.model.open("two")

        assert (await a.end(two)).status == "completed"
        assert said <= {"terminated", "already_terminal", "already_finished"}


@pytest.mark.scenario("S59")
@simulated
async def test_a_model_that_ignores_its_cancellation_holds_no_slot_and_is_not_heard() -> None:
    class Stubborn(Gates):
        async def stream(self, request: ModelRequest) -> Reply:
            if request.call > 1:
                return Reply("Next.")
            self.asked.append("stubborn")
            for _ in range(4):
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    continue
            return Reply("Too late.")

    async with held(model=Stubborn()) as a:
        one, two = await a.ask("one"), await a.ask("two")
        await a.asked("stubborn")
        assert await a.line.control.terminate("a", one.id, ME) == "terminated"
        assert a.now(one).status == "cancelled"
        done = await a.end(two)

        assert done.response == "Next."
        assert (done.started_at or 0) - one.queued_at < 3, "the grace, not the model's will"
        await asyncio.sleep(200)
        assert a.now(one).response is None
        texts = [message.content for message in a.agents.session("chat:a").runtime.history]
        assert "Too late." not in texts


@pytest.mark.scenario("S59")
@pytest.mark.fault("R07")
@simulated
async def test_terminating_one_whose_tool_ignores_it_frees_its_slot_and_no_other() -> None:
    @tool
    async def deaf() -> str:
        """Hears nothing for a while."""
        for _ in range(3):
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                continue
        return "at last"

    class Deaf(Gates):
        async def stream(self, request: ModelRequest) -> Reply:
            said = request.history()[-1].content or ""
            if said.startswith("deaf"):
                self.asked.append(said)
                return Reply(None, (ToolCall("c1", "deaf", {}),))
            return await super().stream(request)

    async with held(limits=LineLimits(tasks=2), model=Deaf(), tools=[deaf]) as a:
        stuck, other = await a.ask("deaf", "task"), await a.ask("other", "task")
        third = await a.ask("third", "task", detached=True)
        await a.asked("deaf", "other")
        await ticks()
        assert await a.line.control.terminate("a", stuck.id, ME) == "terminated"
        await a.asked("deaf", "other", "third")

        state = await a.line.control.state("a", "task")
        assert [one.id for one in state.running] == [other.id, third.id]
        assert a.agents.kept.haunted == []
        await asyncio.sleep(2.1)
        (haunted,) = a.agents.kept.haunted
        assert haunted.runtime.session.abandoned.names == ["deaf: its call c1"]
        assert (a.now(stuck).status, a.now(other).status) == ("cancelled", "running")
        await asyncio.sleep(60)
        assert a.agents.kept.haunted == []


@pytest.mark.scenario("S12")
@simulated
async def test_a_slot_released_by_force_is_the_next_ones_and_the_old_run_is_not_heard() -> None:
    async with held() as a:
        one, two = await a.ask("one"), await a.ask("two")
        await a.asked("one")
        released = await a.line.control.release("a", ME)
        a.model.open("one", "Late.")
        await a.asked("one", "two")

        assert [execution.id for execution in released] == [one.id]
        assert (a.now(one).status, a.now(one).error_code) == ("cancelled", "released")
        await ticks(100)
        state = await a.line.control.state("a", "chat")
        assert [execution.id for execution in state.running] == [two.id]
        assert a.now(one).response is None


@simulated
async def test_a_list_of_tool_calls_is_on_the_record_and_on_the_timeline() -> None:
    @tool
    def look(place: str) -> str:
        """Look there."""
        return f"seen {place}"

    class Looking(Gates):
        async def stream(self, request: ModelRequest) -> Reply:
            if request.call == 1:
                return Reply(None, (ToolCall("c1", "look", {"place": "Oslo"}),))
            return await super().stream(request)

    async with held(model=Looking(), tools=[look]) as a:
        one = await a.ask("go")
        await a.asked("go")
        so_far = a.line.runs.so_far(a.now(one))
        await ticks()
        a.model.open("go")
        done = await a.end(one)

        use = ToolUse(call_id="c1", name="look", arguments={"place": "Oslo"}, kind="result")
        assert (so_far.status, so_far.turn, so_far.tool_calls) == ("running", 1, (use,))
        assert done.tool_calls == (use,)
        lines = await a.line.timeline.read(ActivityQuery(agent_name="a"))
        assert [(one.kind, one.text, one.status) for one in lines] == [
            ("chat", "go", "completed"),
            ("tool_call", "look: result", "result"),
        ]


# -- the conversation ----------------------------------------------------------------------------


@simulated
async def test_chats_share_a_conversation_and_tasks_have_one_each() -> None:
    async with held() as a:
        for name in ("one", "two", "three", "four"):
            a.model.open(name)
        chats = [await a.end(await a.ask(name)) for name in ("one", "two")]
        tasks = [await a.end(await a.ask(name, "task")) for name in ("three", "four")]

        assert {done.session_id for done in chats} == {"chat:a"}
        assert [done.turn for done in chats] == [1, 2]
        assert len({done.session_id for done in tasks} | {"chat:a"}) == 3
        assert [done.turn for done in tasks] == [1, 1]


@pytest.mark.scenario("S25")
@simulated
async def test_a_reset_cuts_the_turn_off_and_who_waits_runs_in_the_fresh_session() -> None:
    async with held() as a:
        one, two = await a.ask("one"), await a.ask("two")
        await a.asked("one")
        old = a.agents.session("chat:a")
        generation, cut = await a.line.control.reset("a", ME)
        a.model.open("one", "Late.")
        a.model.open("two")
        done = await a.end(two)
        fresh = a.agents.session("chat:a")

        assert (generation, [execution.id for execution in cut]) == (2, [one.id])
        assert (a.now(one).status, a.now(one).error_code) == ("cancelled", "reset")
        assert fresh is not old
        assert (done.status, done.turn) == ("completed", 1)
        assert [message.content for message in fresh.runtime.history] == ["two", "two: Well."]
        assert old.state == "closed"


@simulated
async def test_who_has_the_slot_and_has_not_begun_runs_in_the_fresh_session() -> None:
    async with held() as a:
        one = await a.ask("one")
        _, cut = await a.line.control.reset("a", ME)
        a.model.open("one")

        assert cut == []
        assert (await a.end(one)).status == "completed"


@simulated
async def test_another_model_begins_a_fresh_conversation_and_none_goes_on_with_it() -> None:
    from agent_lab import Agent

    other = Gates("other")
    async with held(others=[Agent("b", model=other)]) as a:
        for name in ("one", "two", "three"):
            a.model.open(name)
            other.open(name, "Other.")
        first = await a.end(await a.ask("one"))
        second = await a.end(await a.ask("two", model="other"))
        third = await a.end(await a.ask("three"))

        assert [one.response for one in (first, second, third)] == [
            *("one: Well.", "two: Other.", "three: Other."),
        ]
        assert [one.turn for one in (first, second, third)] == [1, 1, 2]
        assert a.line.chats.generation("a") == 2


@simulated
async def test_naming_the_model_that_it_has_goes_on_with_the_conversation() -> None:
    async with held() as a:
        for name in ("one", "two", "three"):
            a.model.open(name)
        turns = [
            (await a.end(await a.ask(name, model=model))).turn
            for name, model in (("one", None), ("two", "gates"), ("three", "gates"))
        ]

        assert turns == [1, 2, 3]


@pytest.mark.fault("SEC-33")
@pytest.mark.parametrize("model", ["scripted:/etc/passwd", "openai:", "nobody", "", "file:x"])
def test_a_request_may_not_name_a_file_as_its_model(model: str) -> None:
    @simulated
    async def test() -> None:
        async with held() as a:
            with pytest.raises(NotAdmitted, match="may not name the model") as caught:
                await a.ask("one", model=model)
            assert caught.value.code == "model_not_allowed"

    test()


# -- keys ----------------------------------------------------------------------------------------


@simulated
async def test_a_key_that_was_used_is_answered_with_its_execution() -> None:
    async with held() as a:
        a.model.open("one")
        asked = Asked(message="one", key="k", digest="d")
        first = await a.line.submit("a", "chat", asked)
        done = await a.end(first.execution)
        again = await a.line.submit("a", "chat", asked)

        assert not first.is_replay
        assert again.is_replay
        assert again.execution == done
        assert a.model.asked == ["one"]


@pytest.mark.scenario("S76")
@simulated
async def test_a_refusal_and_a_wait_that_ran_out_free_the_key() -> None:
    async with held() as a:
        one = await a.ask("one")
        with pytest.raises(NotAdmitted):
            await a.ask("two", key="k", digest="d", may_wait=False)
        two = await a.ask("two", key="k", digest="d")
        assert (await a.end(two)).status == "timeout"
        a.model.open("one")
        a.model.open("two")
        await a.end(one)
        again = await a.ask("two", key="k", digest="d")

        assert again.id != two.id
        assert (await a.end(again)).status == "completed"


@pytest.mark.scenario("S77")
@simulated
async def test_a_retry_in_flight_is_refused_with_the_executions_id() -> None:
    async with held() as a:
        one = await a.ask("one", key="k", digest="d")
        two = await a.ask("two", key="l", digest="d")
        for key, first in (("k", one), ("l", two)):
            with pytest.raises(NotAdmitted) as caught:
                await a.ask("one", key=key, digest="d")
            assert (caught.value.code, caught.value.execution_id) == (
                "request_in_progress",
                first.id,
            )


@pytest.mark.scenario("S77")
@simulated
async def test_of_two_with_one_key_in_one_moment_one_runs() -> None:
    async with held() as a:
        asked = [a.ask("one", key="k", digest="d") for _ in range(5)]
        answers = await asyncio.gather(*asked, return_exceptions=True)

        assert sum(isinstance(one, Execution) for one in answers) == 1
        assert {one.code for one in answers if isinstance(one, NotAdmitted)} == {
            "request_in_progress"
        }


@pytest.mark.scenario("S78")
@simulated
async def test_a_key_with_another_body_is_refused() -> None:
    async with held() as a:
        one = await a.ask("one", key="k", digest="d")
        for _ in range(2):  # while it runs, and when it has ended
            with pytest.raises(NotAdmitted) as caught:
                await a.ask("one", key="k", digest="other")
            assert (caught.value.code, caught.value.execution_id) == ("key_reused", one.id)
            if not a.now(one).is_terminal:
                a.model.open("one")
                await a.end(one)
        elsewhere = await a.ask("one", "task", key="k", digest="other")
        assert elsewhere.id != one.id


@pytest.mark.scenario("S79")
@simulated
async def test_a_key_that_cannot_be_looked_up_runs_and_says_so() -> None:
    from agent_lab.domain.errors import StorageError

    class Deaf(MemoryExecutions):
        async def by_key(self, agent_name: str, kind: str, key: str) -> Execution | None:
            raise StorageError("storage_busy", "somebody else reads", "wait")

    async with held(executions=Deaf()) as a:
        a.model.open("one")
        one = await a.ask("one", key="k", digest="d")
        plain = await a.ask("one")

        assert (await a.end(one)).status == "completed"
        assert one.idempotency_unchecked
        assert not plain.idempotency_unchecked


# -- over restarts -------------------------------------------------------------------------------


@pytest.mark.scenario("S18")
@pytest.mark.scenario("S11")
@simulated
async def test_what_a_process_left_is_run_once_or_ended() -> None:
    store = MemoryExecutions()

    def record(number: int, **fields: object) -> Execution:
        said = {"id": f"e{number}", "ticket": f"t{number}", "agent_name": "a", "kind": "task"}
        given = {**said, "message": f"m{number}", "detached": True, **fields}
        return Execution(**{"queued_at": 1_796_032_800.0 - 100 + number, **given})  # type: ignore[arg-type]  # checked at run time

    store.put_execution(record(1, status="running", started_at=5.0, session_id="s"))
    for number in range(2, 7):
        store.put_execution(record(number, wait_limit=86_400.0))
    store.put_execution(record(7, queued_at=1_796_032_800.0 - 86_500))
    store.put_execution(record(8, detached=False))
    store.put_execution(record(9, agent_name="gone"))
    async with held(executions=store) as a:
        for number in range(2, 7):
            a.model.open(f"m{number}")
        ends = {}
        for number in range(1, 10):
            found = await a.line.book.find("gone" if number == 9 else "a", f"e{number}")
            ends[number] = (await a.end(found)).status

        assert sorted(a.model.asked) == ["m2", "m3", "m4", "m5", "m6"]
        assert a.model.asked[:3] == ["m2", "m3", "m4"], "first come, first served"
        assert [ends[number] for number in range(2, 7)] == ["completed"] * 5
        assert ends[1] == ends[8] == ends[9] == "interrupted"
        assert ends[7] == "failed"
    assert await store.unfinished() == []


class Disk(MemoryExecutions):
    """What is on the disk is what was committed; while it is stuck, nothing is."""

    def __init__(self) -> None:
        super().__init__()
        self.works = asyncio.Event()
        self.works.set()
        self.kept: list[Execution] = []

    async def committed(self) -> None:
        await self.works.wait()
        self.kept = [one for one in await self.unfinished() if isinstance(one, Execution)]


@pytest.mark.scenario("S28")
@simulated
async def test_what_was_taken_and_not_begun_when_the_process_died_runs_once_afterwards() -> None:
    disk, asked = Disk(), list[str]()
    async with held(executions=disk) as a:
        one = await a.ask("one", "task", detached=True)
        disk.works.clear()
        await ticks(100)
        asked += a.model.asked
        left = disk.kept
        disk.works.set()
        a.model.open("one")
        await a.end(one)  # the process that died would not have got here
    after = MemoryExecutions()
    for record in left:
        after.put_execution(record)
    async with held(executions=after) as a:
        a.model.open("one")
        done = await a.end(one)
        asked += a.model.asked

        assert [record.status for record in left] == ["queued"]
        assert asked == ["one"], "not before its beginning was on the disk"
        assert (done.id, done.status) == (one.id, "completed")


@pytest.mark.scenario("S28")
@simulated
async def test_no_model_is_asked_before_the_beginning_is_stored() -> None:
    class Late(Disk):
        async def committed(self) -> None:
            if [one for one in await self.unfinished() if getattr(one, "started_at", None)]:
                await self.works.wait()

    disk = Late()
    disk.works.clear()
    async with held(executions=disk) as a:
        one = await a.ask("one")
        await ticks(100)
        assert (a.now(one).status, a.model.asked) == ("running", [])
        disk.works.set()
        a.model.open("one")
        assert (await a.end(one)).status == "completed"


@simulated
async def test_who_gives_up_before_his_request_is_stored_leaves_nothing_behind() -> None:
    disk = Disk()
    async with held(executions=disk) as a:
        await a.ask("one")
        disk.works.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await a.ask("two")
        disk.works.set()
        a.model.open("one")
        await ticks(100)

        assert a.model.asked == ["one"]
        assert a.line.book.live == []


@simulated
async def test_a_line_that_is_not_open_takes_nothing_and_nobody_waits_for_ever() -> None:
    async with held() as a:
        one = await a.ask("one")
        await a.asked("one")
        a.line.close()
        with pytest.raises(NotAdmitted, match="the server stops"):
            await a.ask("two")
        with pytest.raises(AgentsClosed):
            await a.end(one)
    assert a.now(one).status == "interrupted"


@pytest.mark.scenario("S20")
@simulated
async def test_two_wake_ups_for_one_record_run_it_once() -> None:
    async with held() as a:
        one, two = await a.ask("one"), await a.ask("two")
        (lease,) = a.line.queue.leases
        a.line.runs.start(one.id, lease)
        await a.asked("one")
        a.line.runs.start(one.id, lease)
        await ticks()

        assert (a.now(one).status, a.now(two).status) == ("running", "queued")
        a.model.open("one")
        a.model.open("two")
        assert (await a.end(two)).status == (await a.end(one)).status == "completed"
        assert a.model.asked == ["one", "two"]


@pytest.mark.scenario("S11")
@simulated
async def test_a_late_dispatch_of_what_has_its_end_keeps_no_slot() -> None:
    async with held() as a:
        one = await a.ask("one")
        await a.line.control.terminate("a", one.id, ME)
        await ticks()
        answer = await a.line.keeper.ask(Ticket("late", "chat:a", "user", 0.0), Room(1, 3))
        assert isinstance(answer, Lease)
        a.line.runs.start(one.id, answer)
        await ticks()

        assert a.model.asked == []
        assert await a.line.check() == []


@pytest.mark.scenario("S57")
@pytest.mark.fault("R20")
@simulated
async def test_a_late_success_corrects_a_limit_once_and_is_marked() -> None:
    async with held() as a:
        one = await a.ask("one")
        await a.asked("one")
        limit = Outcome(status="timeout", by_watchdog=True)
        a.line.book.end(one.id, limit)
        told = await a.end(one)
        a.model.open("one", "Late.")
        await ticks(100)

        assert (told.status, a.now(one).status) == ("timeout", "completed")
        assert (a.now(one).superseded, a.now(one).response) == ("timeout", "one: Late.")
        ends = [change for change in a.changes if isinstance(change, Ended)]
        assert [change.supersedes for change in ends] == [False, True]


@pytest.mark.scenario("S19")
@simulated
async def test_a_record_that_cannot_be_read_fails_with_the_reason_and_holds_nobody_up() -> None:
    class Torn(MemoryExecutions):
        async def unfinished(self) -> list[Execution | Broken]:
            return [Broken("torn", "a", "its checksum is wrong"), *await super().unfinished()]

    store = Torn()
    waits = Execution(
        id="e", ticket="t", agent_name="a", kind="task", message="m", detached=True,
        queued_at=1_796_032_800.0, wait_limit=10.0,
    )  # fmt: skip
    store.put_execution(waits)
    async with held(executions=store, limits=LineLimits(tasks=1)) as a:
        a.model.open("m")
        assert (await a.end(waits)).status == "completed"
        torn = await a.line.book.find("a", "torn")

        assert (torn.status, torn.error) == ("failed", "its checksum is wrong")
        assert torn.error_code == "storage_corrupt"


@pytest.mark.scenario("S25")
@simulated
async def test_closing_ends_who_runs_and_who_waits_for_a_caller() -> None:
    store = MemoryExecutions()
    async with held(executions=store) as a:
        one, two = await a.ask("one"), await a.ask("two")
        three = await a.ask("three", detached=True)
        await a.asked("one")
    ends = [await store.execution(execution.id) for execution in (one, two, three)]

    assert [done.status for done in ends if done is not None] == [
        *("interrupted", "interrupted", "queued"),
    ]
    assert a.model.asked == ["one"]


@simulated
async def test_a_change_that_a_listener_falls_over_reaches_the_others() -> None:
    async with held() as a:
        heard: list[object] = []

        def fall(_: object) -> None:
            raise RuntimeError

        a.line.book.listen(fall)
        a.line.book.listen(heard.append)
        one = await a.ask("one")
        a.model.open("one")
        await a.end(one)
        await ticks()

        assert heard == a.changes[-len(heard) :]
        assert isinstance(heard[-1], Ended)
        assert a.line.book.faults == len(heard)
