"""S42 to S48: tool calls and user messages that cross."""

from __future__ import annotations

import threading

import pytest

from agent_lab import ChatMessage, Limits, tool
from agent_lab.application.gate import Hop, OpenGate, Pass, Verdict
from agent_lab.testing import ScriptedModel, call, reply, simulate
from tests.application.data.story import TOOLS, Stage, stage


@pytest.mark.scenario("S42")
def test_a_user_message_during_a_tool_is_held_and_follows_the_reply() -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply(calls=[call("wait", "c1", seconds=3)]), reply("Both.")])
        async with stage(model=model, tools=TOOLS) as on:
            on.say("Oslo?", "u1")
            await on.until("tool_started")
            on.say("And Rome?", "u2")
            await on.settled()
        return on

    on = simulate(main)
    assert on.story == [
        ("user", "Oslo?"),
        ("assistant", "c1"),
        ("tool", "c1", "result"),
        ("user", "And Rome?"),
        ("assistant", "Both."),
    ]
    receipts = on.said("accepted", "held", "delivered")
    assert [(said.type, said.message_id) for said in receipts] == [
        ("accepted", "u1"),
        ("delivered", "u1"),
        ("accepted", "u2"),
        ("held", "u2"),
        ("delivered", "u2"),
    ]
    assert (receipts[3].blocked_by, receipts[4].position) == (("c1",), 3)


@pytest.mark.scenario("S43")
def test_replies_stand_in_call_order_and_users_after_them_in_order_of_arrival() -> None:
    async def main() -> Stage:
        calls = [call("wait", f"c{n}", seconds=seconds) for n, seconds in ((1, 3), (2, 1), (3, 2))]
        model = ScriptedModel([reply(calls=calls), reply("Well.")])
        async with stage(model=model, tools=TOOLS) as on:
            on.say("Three towns?")
            for count in (1, 2):
                await on.until("tool_reply", count=count)
                on.say(f"between {count}")
            await on.settled()
        return on

    on = simulate(main)
    assert [said.call_id for said in on.said("tool_reply")] == ["c2", "c3", "c1"]
    assert [said.blocked_by for said in on.said("held")] == [("c1", "c3"), ("c1",)]
    assert on.story[1:] == [
        ("assistant", "c1", "c2", "c3"),
        ("tool", "c1", "result"),
        ("tool", "c2", "result"),
        ("tool", "c3", "result"),
        ("user", "between 1"),
        ("user", "between 2"),
        ("assistant", "Well."),
    ]


@pytest.mark.scenario("S44")
@pytest.mark.parametrize("call_id", ["c1", "never_made"])
def test_a_duplicate_or_unknown_reply_is_reported_and_stays_out_of_the_history(
    call_id: str,
) -> None:
    async def main() -> Stage:
        calls = [call("wait", "c1", seconds=1), call("wait", "c2", seconds=9)]
        async with stage(model=ScriptedModel([reply(calls=calls), "Well."]), tools=TOOLS) as on:
            on.say("Two towns?")
            await on.until("tool_reply")
            stray = ChatMessage("tool", "again", tool_call_id=call_id)
            await on.runtime.session.queues.input.put(stray)
            await on.settled()
        return on

    on = simulate(main)
    assert [(said.call_id, said.content) for said in on.said("late_reply")] == [(call_id, "again")]
    assert on.story[2:] == [
        ("tool", "c1", "result"),
        ("tool", "c2", "result"),
        ("assistant", "Well."),
    ]


@pytest.mark.scenario("S45")
def test_a_tool_that_never_answers_is_closed_at_its_limit_and_the_held_message_goes() -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply(calls=[call("never", "c1")]), reply("Well.")])
        async with stage(model=model, tools=TOOLS, limits=Limits(tool_timeout=7)) as on:
            on.say("Oslo?")
            await on.until("tool_started")
            on.say("And Rome?")
            await on.settled()
        return on

    on = simulate(main)
    (closed,) = on.said("tool_reply")
    assert (closed.kind, closed.content) == ("timeout", "Error: timed out after 7 s")
    assert on.story[2:] == [
        ("tool", "c1", "timeout"),
        ("user", "And Rome?"),
        ("assistant", "Well."),
    ]
    assert on.entries[-1].at == 7


class CrashingGate(OpenGate):
    """A gate that falls over the first time a hop of this kind comes to it: a fault of ours."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.hold = self._hold

    async def _hold(self, hop: Hop) -> Verdict:
        if hop.matches(self._pattern):
            self._pattern = "nothing any more"
            raise RuntimeError("a fault of ours")
        return Pass(hop.item)


@pytest.mark.scenario("S45")
def test_a_worker_that_crashes_leaves_no_call_open_and_the_held_message_goes() -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply(calls=[call("wait", "c1", seconds=1)]), reply("Well.")])
        async with stage(model=model, tools=TOOLS) as on:
            on.say("Oslo?")
            await on.until("tool_started")
            on.runtime.session.gate = CrashingGate("put input")
            on.say("And Rome?")
            await on.settled()
        return on

    on = simulate(main)
    (failed,) = on.said("error")
    assert (failed.code, failed.pending) == ("internal", 1)
    assert on.story[2:] == [
        ("tool", "c1", "lost"),
        ("user", "And Rome?"),
        ("assistant", "Well."),
    ]


@pytest.mark.scenario("S46")
def test_cancel_during_tools_answers_each_open_call_and_the_next_request_is_valid() -> None:
    async def main() -> Stage:
        calls = [call("wait", "c1", seconds=1), call("wait", "c2", seconds=9), call("never", "c3")]
        async with stage(model=ScriptedModel([reply(calls=calls), "Well."]), tools=TOOLS) as on:
            on.say("Three towns?")
            await on.until("tool_reply")
            assert on.runtime.cancel() == "cancelled"
            on.say("Never mind.")
            await on.settled()
        return on

    on = simulate(main)
    assert on.story[1:] == [
        ("assistant", "c1", "c2", "c3"),
        ("tool", "c1", "result"),
        ("tool", "c2", "cancelled"),
        ("tool", "c3", "cancelled"),
        ("user", "Never mind."),
        ("assistant", "Well."),
    ]


@pytest.mark.scenario("S46")
def test_a_thread_that_ends_after_the_cancel_is_a_late_reply() -> None:
    go_on = threading.Event()

    @tool
    def block() -> str:
        """Blocks its thread, whatever is cancelled."""
        go_on.wait()
        return "at last"

    async def main() -> Stage:
        model = ScriptedModel([reply(calls=[call("block", "c1")]), reply("Well.")])
        async with stage(model=model, tools=[block]) as on:
            on.say("Oslo?")
            await on.until("tool_started")
            on.runtime.cancel()
            on.say("Never mind.")
            await on.settled()
            go_on.set()
            await on.until("late_reply")
        return on

    on = simulate(main)
    assert on.story[2:] == [
        ("tool", "c1", "cancelled"),
        ("user", "Never mind."),
        ("assistant", "Well."),
    ]
    assert [said.content for said in on.said("late_reply")] == ["at last"]


@pytest.mark.scenario("S48")
@pytest.mark.parametrize("window", range(1, 12))
def test_a_window_never_splits_a_call_from_its_replies(window: int) -> None:
    async def main() -> Stage:
        calls = [call("wait", "c1", seconds=1), call("wait", "c2", seconds=2)]
        model = ScriptedModel([reply(calls=calls), reply("Well.")] * 3)
        async with stage(model=model, tools=TOOLS, limits=Limits(window=window)) as on:
            for turn in range(3):
                on.say(f"question {turn}")
                await on.settled()
        return on

    on = simulate(main)
    assert len(on.requests) == 6  # and stage() has checked each
    assert all(request[0]["role"] == "user" for request in on.requests)
    assert on.requests[-1][-1]["role"] == "tool"
