"""A tool that needs approval asks, waits without holding anybody up, and is answered once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any

import pytest

from agent_lab import ChatMessage, DebugRuntime, Limits, tool
from agent_lab.application.tools import Tool
from agent_lab.domain.errors import AnswerRefused, ToolDefinitionError
from agent_lab.domain.hand_payloads import Decision, PermissionRequested
from agent_lab.testing import HandGate, ScriptedModel, call, open_runtime, reply, simulate
from tests.application.helpers_runtime import (
    assert_valid,
    said,
    settled,
    simulated,
    story,
    ticks,
    until,
)


class Till:
    """A tool that takes money, and how often it did."""

    def __init__(self, needs_approval: bool | Callable[[dict[str, Any]], bool] = True) -> None:
        self.paid: list[int] = []

        @tool(needs_approval=needs_approval)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        self.pay = pay

    def open(
        self,
        *amounts: int,
        tools: tuple[Tool | Callable[..., Any], ...] = (),
        limits: Limits | None = None,
        gate: HandGate | None = None,
        only_pays: bool = False,
    ) -> Any:
        """A runtime whose model pays these amounts at once, in each turn; or does nothing else."""
        calls = [call("pay", f"c{n}", amount=amount) for n, amount in enumerate(amounts, 1)]
        calls += [call(getattr(one, "name", "?"), f"t{n}") for n, one in enumerate(tools, 1)]
        pays = reply(calls=calls)
        model = ScriptedModel([pays] * 9 if only_pays else [pays, "ok"] * 9)
        return open_runtime(model=model, tools=[self.pay, *tools], limits=limits, gate=gate)


async def asked(runtime: DebugRuntime, count: int = 1) -> PermissionRequested:
    """The newest request, when there were so many."""
    return await until(runtime, "permission_requested", count=count)


async def replied(runtime: DebugRuntime) -> tuple[str, str]:
    """Kind and text of the first tool reply, at the end of the turn."""
    await settled(runtime)
    assert_valid(runtime)
    answered = said(runtime, "tool_reply")[0]
    return answered.kind, answered.content


# -- asking --------------------------------------------------------------------------------------


@simulated
async def test_a_call_asks_before_it_runs_and_runs_when_it_is_allowed() -> None:
    till = Till()
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)

        assert runtime.permissions.pending == [request]
        assert (request.call_id, request.name, request.arguments) == ("c1", "pay", {"amount": 5})
        assert request.sha256 == sha256(b'{"amount":5}').hexdigest()
        assert (request.turn, request.step, request.timeout, request.error) == (1, 1, 3600, None)
        assert till.paid == []

        resolved = runtime.permissions.answer(request.request_id, "allow")
        assert said(runtime, "permission_resolved") == [resolved]
        assert (resolved.decision, resolved.reason) == ("allow", "answered")
        assert (resolved.arguments, resolved.turn, resolved.step) == ({"amount": 5}, 1, 1)
        assert runtime.permissions.pending == []
        assert await replied(runtime) == ("result", "paid 5")
        assert till.paid == [5]
        wanted = ("permission_requested", "permission_resolved", "tool_started", "tool_reply")
        assert story(runtime, *wanted) == list(wanted)


@simulated
async def test_a_tool_that_needs_none_and_a_predicate_that_says_no_are_not_asked_about() -> None:
    till = Till(needs_approval=lambda arguments: arguments["amount"] > 100)
    async with till.open(5, 500) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        await ticks()

        assert (request.call_id, till.paid) == ("c2", [5])
        assert len(runtime.permissions.pending) == 1


@simulated
async def test_a_predicate_that_raises_asks_and_shows_the_error() -> None:
    def broken(arguments: dict[str, Any]) -> bool:
        raise SystemExit(f"no price for {arguments['amount']}")

    till = Till(needs_approval=broken)
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)

        assert request.error == "SystemExit: no price for 5"
        assert till.paid == []


@simulated
async def test_a_predicate_cannot_change_what_runs() -> None:
    def greedy(arguments: dict[str, Any]) -> bool:
        arguments["amount"] = 1_000_000
        return False

    till = Till(needs_approval=greedy)
    async with till.open(5) as runtime:
        runtime.start("go")

        assert await replied(runtime) == ("result", "paid 5")


async def _yes(arguments: dict[str, Any]) -> bool:
    return bool(arguments)


@pytest.mark.parametrize("wrong", ["yes", None, 1, _yes])
def test_needs_approval_that_cannot_be_asked_is_refused_at_the_definition(wrong: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=r"'pay': needs_approval"):
        Till(needs_approval=wrong)


@simulated
async def test_nobody_is_asked_about_a_call_that_cannot_run() -> None:
    till = Till()
    model = ScriptedModel([reply(calls=[call("pay", "c1", amount="much")]), "ok"])
    async with open_runtime(model=model, tools=[till.pay]) as runtime:
        runtime.start("go")

        assert (await replied(runtime))[0] == "bad_arguments"
        assert story(runtime, "permission_requested") == []


# -- answering -----------------------------------------------------------------------------------


@simulated
async def test_allowed_with_other_arguments_the_call_runs_with_these() -> None:
    till = Till()
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        changed = {"amount": 3}
        resolved = runtime.permissions.answer(request.request_id, "allow", arguments=changed)
        changed["amount"] = 7

        assert resolved.arguments == {"amount": 3}
        assert await replied(runtime) == ("result", "paid 3")


@simulated
@pytest.mark.parametrize("wrong", [{"amount": "much"}, {"sum": 3}, {}, {"amount": object()}])
async def test_other_arguments_that_do_not_fit_are_refused_and_the_request_waits(
    wrong: dict[str, Any],
) -> None:
    till = Till()
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        with pytest.raises(AnswerRefused) as refused:
            runtime.permissions.answer(request.request_id, "allow", arguments=wrong)

        assert refused.value.code == "bad_arguments"
        assert runtime.permissions.pending == [request]
        assert story(runtime, "permission_resolved") == []


@simulated
async def test_allowed_always_the_tool_asks_no_more_and_what_waits_is_allowed_too() -> None:
    till = Till()
    async with till.open(5, 6) as runtime:
        runtime.start("go")
        second = await asked(runtime, 2)
        runtime.permissions.answer(second.request_id, "allow_always")

        ended = said(runtime, "permission_resolved")
        assert [(one.call_id, one.reason) for one in ended] == [
            ("c2", "answered"),
            ("c1", "always"),
        ]
        await settled(runtime)
        runtime.start("again")
        await settled(runtime)
        assert sorted(till.paid) == [5, 5, 6, 6]
        assert len(said(runtime, "permission_requested")) == 2


@simulated
async def test_allowed_once_the_next_call_asks_again() -> None:
    till = Till()
    async with till.open(5) as runtime:
        for turn in (1, 2):
            runtime.start("go")
            request = await asked(runtime, turn)
            runtime.permissions.answer(request.request_id, "allow")
            await settled(runtime)

        assert till.paid == [5, 5]


@simulated
@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("too dear", "Error: denied by the user, who says: too dear"),
        (None, "Error: denied by the user. Do not try this call again as it is"),
        ("  ", "Error: denied by the user. Do not try this call again as it is"),
    ],
)
async def test_denied_the_model_reads_why_and_the_turn_goes_on(
    message: str | None, told: str
) -> None:
    till = Till()
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        runtime.permissions.answer(request.request_id, "deny", message=message)

        kind, text = await replied(runtime)
        assert kind == "error"
        assert text.startswith(told)
        assert till.paid == []
        assert story(runtime, "done", "cancelled") == ["done"]


@simulated
async def test_denied_and_interrupted_the_turn_ends_and_the_session_lives_on() -> None:
    till = Till()
    async with till.open(5, 6, only_pays=True) as runtime:
        runtime.start("go")
        request = await asked(runtime, 2)
        runtime.permissions.answer(request.request_id, "deny_and_interrupt", message="stop")

        told = ("permission_resolved", "tool_reply", "cancelled")
        assert story(runtime, *told) == [
            *("permission_resolved", "tool_reply"),
            *("permission_resolved", "tool_reply", "cancelled"),
        ]
        assert [r.reason for r in said(runtime, "permission_resolved")] == [
            "answered",
            "interrupted",
        ]
        assert [r.kind for r in said(runtime, "tool_reply")] == ["error", "cancelled"]
        await settled(runtime)
        assert_valid(runtime)
        assert runtime.permissions.pending == []
        runtime.start("again")
        await asked(runtime, 4)


@pytest.mark.fault("SEC-34")
@simulated
async def test_one_answer_counts_and_every_other_is_told_so() -> None:
    till = Till()
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        answer = partial(runtime.permissions.answer, request.request_id)
        answer("deny")
        for decision in ("allow", "deny", "allow_always"):
            with pytest.raises(AnswerRefused, match="has its answer already: deny") as refused:
                answer(decision)
            assert refused.value.code == "prompt_closed"
        with pytest.raises(AnswerRefused) as refused:
            runtime.permissions.answer("ask_9_9", "allow")
        assert refused.value.code == "prompt_unknown"

        await settled(runtime)
        assert till.paid == []
        assert len(said(runtime, "permission_resolved")) == 1


@pytest.mark.scenario("S39")
@simulated
async def test_two_that_allow_at_once_run_the_tool_once() -> None:
    till = Till()
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        barrier = asyncio.Barrier(2)

        async def allow() -> str:
            await barrier.wait()
            try:
                return runtime.permissions.answer(request.request_id, "allow").decision
            except AnswerRefused as refused:
                return refused.code

        assert sorted(await asyncio.gather(allow(), allow())) == ["allow", "prompt_closed"]
        await settled(runtime)
        assert till.paid == [5]


@simulated
async def test_what_is_no_decision_is_refused() -> None:
    till = Till()
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        wrong: Any = "maybe"
        with pytest.raises(AnswerRefused, match="'maybe' is no answer") as refused:
            runtime.permissions.answer(request.request_id, wrong)

        assert refused.value.code == "bad_decision"
        assert runtime.permissions.pending == [request]


@pytest.mark.fault("SEC-34")
@simulated
async def test_an_answer_to_other_arguments_than_were_shown_is_refused() -> None:
    till = Till()
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        with pytest.raises(AnswerRefused) as refused:
            runtime.permissions.answer(request.request_id, "allow", sha256="0" * 64)
        assert refused.value.code == "arguments_changed"
        assert till.paid == []

        runtime.permissions.answer(request.request_id, "allow", sha256=request.sha256)
        assert await replied(runtime) == ("result", "paid 5")


@pytest.mark.fault("SEC-34")
@simulated
@pytest.mark.parametrize("pattern", ["take events", "tool"])
async def test_arguments_changed_after_they_were_allowed_are_asked_about_anew(
    pattern: str,
) -> None:
    till, gate = Till(), HandGate("model")
    async with till.open(5, gate=gate) as runtime:
        runtime.start("go")
        gate.release((await gate.arrival("model")).number)
        gate.hold_at()
        first = await asked(runtime)
        gate.hold_at(pattern)
        runtime.permissions.answer(first.request_id, "allow")
        parked = await gate.arrival(pattern)
        gate.hold_at()
        gate.edit(parked.number, {"amount": 500})

        second = await asked(runtime, 2)
        assert (second.arguments, till.paid) == ({"amount": 500}, [])
        assert second.sha256 != first.sha256
        runtime.permissions.answer(second.request_id, "allow")
        assert await replied(runtime) == ("result", "paid 500")
        assert till.paid == [500]


# -- not answered --------------------------------------------------------------------------------


@pytest.mark.fault("C33")
@simulated
async def test_what_nobody_answers_is_denied_when_its_time_is_over() -> None:
    till = Till()
    async with till.open(5, limits=Limits(permission=60)) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        before = runtime.session.loop.time()
        await settled(runtime, seconds=100)

        assert runtime.session.loop.time() - before == 60
        (resolved,) = said(runtime, "permission_resolved")
        assert (resolved.decision, resolved.reason) == ("deny", "timeout")
        kind, text = await replied(runtime)
        assert (kind, "nobody answered" in text, "60 s" in text) == ("error", True, True)
        with pytest.raises(AnswerRefused, match="deny"):
            runtime.permissions.answer(request.request_id, "allow")
        assert till.paid == []


@simulated
async def test_paused_time_does_not_count_against_the_one_who_thinks() -> None:
    till, gate = Till(), HandGate()
    async with till.open(5, limits=Limits(permission=60), gate=gate) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        gate.hold_at("put input")
        putting = asyncio.ensure_future(runtime.session.queues.input.put(ChatMessage("user", "?")))
        parked = await gate.arrival()
        await asyncio.sleep(1_000)
        assert runtime.permissions.pending == [request]

        gate.hold_at()
        gate.release(parked.number)
        await putting
        runtime.permissions.answer(request.request_id, "allow")
        assert await replied(runtime) == ("result", "paid 5")


@simulated
async def test_the_tools_own_time_begins_when_it_runs() -> None:
    @tool(needs_approval=True, timeout=1)
    async def slow() -> str:
        """Slow."""
        await asyncio.sleep(0.5)
        return "done"

    model = ScriptedModel([reply(calls=[call("slow", "c1")]), "ok"])
    async with open_runtime(model=model, tools=[slow]) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        await asyncio.sleep(100)
        runtime.permissions.answer(request.request_id, "allow")

        assert await replied(runtime) == ("result", "done")


ENDINGS: dict[str, Callable[[DebugRuntime], Any]] = {
    "the turn is cancelled": lambda runtime: runtime.cancel(),
    "the call is cancelled": lambda runtime: runtime.cancel_tool("c1"),
    "a message interrupts": lambda runtime: runtime.start(
        ChatMessage("user", "stop", mode="interrupt")
    ),
    "the session is closed": lambda runtime: runtime.close(),
    "it is replied to by hand": lambda runtime: runtime.session.queues.input.put(
        ChatMessage("tool", "by hand", tool_call_id="c1")
    ),
}


@simulated
@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_call_that_ends_otherwise_is_denied_as_interrupted(ending: str) -> None:
    till = Till()
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        if asyncio.iscoroutine(waits := ENDINGS[ending](runtime)):
            await waits
        await ticks()

        (resolved,) = said(runtime, "permission_resolved")
        assert (resolved.request_id, resolved.decision) == (request.request_id, "deny")
        assert (resolved.reason, resolved.turn) == ("interrupted", 1)
        assert runtime.permissions.pending == []
        assert runtime.permissions.alarms == {}
        with pytest.raises(AnswerRefused) as refused:
            runtime.permissions.answer(request.request_id, "allow")
        assert refused.value.code == "prompt_closed"
        assert till.paid == []


@simulated
async def test_a_cancel_between_the_answer_and_the_run_wins() -> None:
    till = Till()
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        runtime.permissions.answer(request.request_id, "allow")
        runtime.cancel()
        await settled(runtime)
        await ticks()

        assert till.paid == []
        assert said(runtime, "tool_reply")[0].kind == "cancelled"


# -- nobody is held up ---------------------------------------------------------------------------


@simulated
async def test_calls_that_wait_for_permission_keep_no_runner() -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    till = Till()
    async with till.open(*range(20), tools=(look,), limits=Limits(parallel_tools=2)) as runtime:
        runtime.start("go")
        await asked(runtime, 20)
        seen = await until(runtime, "tool_reply")

        assert seen.content == "seen"
        for request in runtime.permissions.pending:
            runtime.permissions.answer(request.request_id, "allow")
        await settled(runtime)
        assert sorted(till.paid) == list(range(20))


@simulated
async def test_a_message_that_comes_meanwhile_is_no_answer_and_asks_nothing_twice() -> None:
    till = Till()
    async with till.open(5) as runtime:
        runtime.start("go")
        request = await asked(runtime)
        runtime.start("yes, allow it")
        runtime.start(ChatMessage("user", "then?", mode="follow_up"))
        await ticks()

        assert runtime.permissions.pending == [request]
        assert [held.blocked_by for held in said(runtime, "held")] == [("c1",), ("turn",)]
        runtime.permissions.answer(request.request_id, "allow")
        await asked(runtime, 2)
        assert till.paid == [5]


@simulated
async def test_the_same_call_id_in_the_next_turn_is_another_request() -> None:
    till = Till()
    async with till.open(5, only_pays=True) as runtime:
        runtime.start("go")
        first = await asked(runtime)
        runtime.cancel()
        runtime.start("again")
        second = await asked(runtime, 2)
        with pytest.raises(AnswerRefused):
            runtime.permissions.answer(first.request_id, "allow")

        assert runtime.permissions.pending == [second]
        assert till.paid == []


@pytest.mark.parametrize("seed", range(20))
def test_answers_and_cancels_in_any_order_leave_nothing_open(seed: int) -> None:
    decisions: list[Decision] = ["allow", "deny", "allow_always", "deny_and_interrupt"]

    async def main() -> None:
        till = Till()
        async with till.open(1, 2, 3) as runtime:
            runtime.start("go")
            await asked(runtime, 1)

            async def answer(decision: Decision) -> None:
                await asyncio.sleep(0)
                for request in runtime.permissions.pending[:1]:
                    runtime.permissions.answer(request.request_id, decision)

            async def cancel() -> None:
                await asyncio.sleep(0)
                runtime.cancel_tool("c2")

            await asyncio.gather(*map(answer, decisions), cancel())
            if not runtime.session.is_idle:
                runtime.cancel()
            await settled(runtime)
            assert_valid(runtime)
            assert runtime.check() == []
            ids = [one.request_id for one in said(runtime, "permission_requested")]
            assert sorted(one.request_id for one in said(runtime, "permission_resolved")) == ids
            assert runtime.permissions.alarms == {}

    simulate(main, seed=seed)
