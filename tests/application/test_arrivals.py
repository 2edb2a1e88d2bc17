"""Anything arriving at any moment, through the runtime, under seeds: the story stays right."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_lab import Agent, DebugRuntime, Limits
from agent_lab.domain.conversation import Conversation
from agent_lab.domain.dialects import openai_chat
from agent_lab.domain.errors import MessageRejected
from agent_lab.domain.messages import MODES, ChatMessage, Mode, Reply, ToolCall
from agent_lab.presentation.encoder import Encoder
from agent_lab.testing import ScriptedModel, SeededOutside, call, fail, reply, simulate
from tests.application.data.story import TOOLS, Stage, stage

LIMITS = Limits(tool_timeout=5, model_timeout=5, retry_delay=0.5, waiting=4, steps=6)
BROKEN = "Error: no such town"
SECONDS = st.sampled_from([0.0, 0.5, 1.0, 2.0])


# -- what can arrive -----------------------------------------------------------------------------


class User(msgspec.Struct, frozen=True):
    mode: Mode
    number: int | None = None
    """A message that was sent before, sent again; None: a new one."""


class Cancel(msgspec.Struct, frozen=True):
    back: int | None
    drop_waiting: bool


class CancelTool(msgspec.Struct, frozen=True):
    number: int


class Withdraw(msgspec.Struct, frozen=True):
    number: int


class Edit(msgspec.Struct, frozen=True):
    number: int


class Answer(msgspec.Struct, frozen=True):
    """A tool reply from outside, for a call that may be open, closed, or never made."""

    number: int


Arrival = User | Cancel | CancelTool | Withdraw | Edit | Answer
NUMBERS = st.integers(0, 5)
ARRIVALS: st.SearchStrategy[list[tuple[float, Arrival]]] = st.lists(
    st.tuples(
        SECONDS,
        st.one_of(
            st.builds(User, st.sampled_from(MODES)),
            st.builds(User, st.sampled_from(MODES)),
            st.builds(User, st.just("steer"), NUMBERS),
            st.builds(Cancel, st.sampled_from([None, None, 0, 1]), st.booleans()),
            st.builds(CancelTool, NUMBERS),
            st.builds(Withdraw, NUMBERS),
            st.builds(Edit, NUMBERS),
            st.builds(Answer, NUMBERS),
        ),
    ),
    max_size=8,
)
CALLS = st.one_of(
    st.builds(lambda seconds: call("wait", seconds=seconds), SECONDS),
    st.sampled_from([call("broken"), call("never"), call("no_such_tool"), call("wait", _raw="{")]),
)


def calls_of(count: int) -> st.SearchStrategy[Any]:
    many = st.lists(CALLS, min_size=count, max_size=count)
    return st.builds(lambda calls, delay: reply("So.", calls=calls, delay=delay), many, SECONDS)


REPLIES = st.one_of(
    st.sampled_from([1, 3, 20]).flatmap(calls_of),
    st.sampled_from([1, 3]).flatmap(calls_of),
    st.sampled_from(
        [
            reply("Well.", delay=1),
            reply(deltas=["We", "ll", "."], delta_delay=0.5),
            reply(""),
            reply("We", cut_after=1),
            reply("Slow.", delay=9),
            fail(may_pass=True),
            fail(text="We", delay=0.5),
        ]
    ),
)
SCRIPTS = st.lists(REPLIES, max_size=4)


# -- playing it ----------------------------------------------------------------------------------


async def play(
    script: list[Any], arrivals: list[tuple[float, Arrival]], *, settle: bool = True
) -> Stage:
    """Let all this happen to a session, wait until it is done with it or not, and close it."""
    model = ScriptedModel([*script, reply("Well.", delay=0.5)], repeat_last=True)
    loop = asyncio.get_running_loop()
    async with stage(model=model, tools=TOOLS, limits=LIMITS) as on:
        on.say("message 0", "m0")
        sent = 1
        for gap, arrival in arrivals:
            if gap:
                await asyncio.sleep(gap)
            sent += await arrive(on, arrival, sent)
        if settle:
            await on.settled()
        at = loop.time()
    assert loop.time() == at, "the close had to wait"
    for _ in range(10):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return on


async def arrive(on: Stage, arrival: Arrival, sent: int) -> int:
    """Let it arrive; how many new messages that was."""
    runtime = on.runtime
    match arrival:
        case User(mode, again):
            number = sent if again is None else again
            message = ChatMessage("user", f"message {number}", message_id=f"m{number}", mode=mode)
            with suppress(MessageRejected):  # on record, and counted there
                await runtime.session.queues.input.put(message)
            return again is None
        case Cancel(back, drop_waiting):
            turn = None if back is None else runtime.session.conversation.turn - back
            before = len(on.said("cancelled"))
            status = runtime.cancel(turn, drop_waiting=drop_waiting)
            assert (status == "cancelled") == (len(on.said("cancelled")) > before)
        case CancelTool(number):
            runtime.cancel_tool(f"call_1_{number}")
        case Withdraw(number):
            runtime.withdraw(f"m{number}")
        case Edit(number):
            runtime.edit(f"m{number}", f"edited {number}")
        case Answer(number):
            answer = ChatMessage("tool", "from outside", tool_call_id=f"call_1_{number}")
            await runtime.session.queues.input.put(answer)
    return 0


SEEDS = st.none() | st.integers(0, 99)


@given(SCRIPTS, ARRIVALS, SEEDS)
def test_whatever_arrives_when_the_story_and_the_history_are_right(
    script: list[Any], arrivals: list[tuple[float, Arrival]], seed: int | None
) -> None:
    on = simulate(lambda: play(script, arrivals), seed=seed)

    delivered = [said.message_id for said in on.said("delivered")]
    users = [said.message_id for said in on.runtime.history if said.role == "user"]
    assert delivered == users
    assert {said.reason for said in on.said("cancelled", "withdrawn")} <= {
        "user",
        "interrupted",
        "cancelled",
    }
    # a tool may end in the tick of the cancel; one that was thrown out has nothing to say
    assert {said.kind for said in on.said("late_reply") if said.content != BROKEN} <= {"result"}


@given(SCRIPTS, ARRIVALS, SEEDS)
def test_closed_at_any_moment_everything_accepted_ends_and_nothing_is_left(
    script: list[Any], arrivals: list[tuple[float, Arrival]], seed: int | None
) -> None:
    on = simulate(lambda: play(script, arrivals, settle=False), seed=seed)

    assert on.runtime.session.is_idle


@given(SCRIPTS, st.integers(0, 30), SEEDS)
@settings(max_examples=settings().max_examples // 2)
def test_a_run_left_at_any_payload_is_over_before_the_next_statement(
    script: list[Any], payloads: int, seed: int | None
) -> None:
    async def main() -> tuple[float, set[asyncio.Task[Any]]]:
        loop = asyncio.get_running_loop()
        model = ScriptedModel([*script, reply("Well.", delay=0.5)], repeat_last=True)
        runtime = DebugRuntime(Agent("left", model=model, tools=TOOLS, limits=LIMITS))
        async with runtime.run("Oslo?") as run:
            left = payloads
            async for _ in run:
                left -= 1
                if left <= 0:
                    break
            at = loop.time()
        return loop.time() - at, asyncio.all_tasks() - {asyncio.current_task()}

    assert simulate(main, seed=seed) == (0, set())


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("ours_first", [True, False])
def test_a_cancellation_from_outside_wins_over_one_of_ours_in_the_same_tick(
    seed: int, ours_first: bool
) -> None:
    async def main() -> Stage:
        model = ScriptedModel([reply("Well.", delay=1)])
        async with stage(model=model, tools=TOOLS) as on:
            on.say("Oslo?")
            await on.until("model_request")
            (worker,) = [task for task in asyncio.all_tasks() if is_chat_agent(task)]
            cancels = [on.runtime.cancel, worker.cancel]
            for cancel in cancels if ours_first else reversed(cancels):
                cancel()
            await on.closed()
        return on

    on = simulate(main, seed=seed)
    assert [said.reason for said in on.said("cancelled")] == ["user"]


def is_chat_agent(task: asyncio.Task[Any]) -> bool:
    awaited = getattr(task.get_coro(), "cr_await", None)
    return getattr(awaited, "__qualname__", "") == "ChatAgent.run"


# -- the same again ------------------------------------------------------------------------------

BUSY: list[tuple[float, Arrival]] = [
    (0.0, User("steer")),
    (0.5, User("follow_up")),
    (0.0, User("steer")),
    (0.5, Edit(2)),
    (0.0, User("interrupt")),
    (2.0, User("steer")),
    (0.5, Cancel(None, drop_waiting=False)),
]
SCRIPT = [
    reply(calls=[call("wait", seconds=seconds) for seconds in (2, 1, 1)]),
    reply(calls=[call("wait", seconds=0) for _ in range(20)]),
    reply(deltas=["We", "ll", "."], delta_delay=0.5),
]


def lines(on: Stage) -> str:
    """The journal as it goes on the wire."""
    encoder = Encoder(on.runtime.session_id, SeededOutside.WALL_TIME)
    return "\n".join(encoder.encode(entry) for entry in on.entries)


@pytest.mark.parametrize("seed", [None, *range(5)])
def test_the_same_seed_gives_the_same_journal_byte_for_byte(seed: int | None) -> None:
    one, two = (lines(simulate(lambda: play(SCRIPT, BUSY), seed=seed)) for _ in range(2))

    assert one == two


@given(SCRIPTS, ARRIVALS, st.integers(0, 9))
@settings(max_examples=settings().max_examples // 5)
def test_any_run_is_the_same_again_under_its_seed(
    script: list[Any], arrivals: list[tuple[float, Arrival]], seed: int
) -> None:
    one, two = (lines(simulate(lambda: play(script, arrivals), seed=seed)) for _ in range(2))

    assert one == two


def test_different_seeds_differ_in_interleaving() -> None:
    orders = {
        tuple((said.type, getattr(said, "item", "")) for said in on.said())
        for on in (simulate(lambda: play(SCRIPT, BUSY), seed=seed) for seed in range(20))
    }

    assert len(orders) > 10


# -- two roads to one history --------------------------------------------------------------------


@given(st.data(), st.sampled_from([1, 3, 20]), st.none() | st.integers(0, 99))
@settings(max_examples=settings().max_examples // 2)
def test_the_same_arrivals_give_one_history_through_input_and_in_the_conversation(
    data: st.DataObject, count: int, seed: int | None
) -> None:
    ids = [f"c{number}" for number in range(count)]
    users = [f"u{number}" for number in range(data.draw(st.integers(0, 4)))]
    order = data.draw(st.permutations(ids + users))

    alone, live = (
        in_conversation(ids, order),
        simulate(lambda: through_input(ids, order), seed=seed),
    )

    assert openai_chat.render(live.runtime.history) == openai_chat.render(alone.history)
    assert [said.call_id for said in live.said("tool_reply")] == [
        name for name in order if name in ids
    ]


def of_user(name: str) -> ChatMessage:
    return ChatMessage("user", f"text {name}", message_id=name)


def in_conversation(ids: list[str], order: list[str]) -> Conversation:
    """The arrivals, one after the other, with nobody in between."""
    conversation = Conversation({"wait", "never"}, Limits())

    def said_by_user(name: str) -> None:
        conversation.accept(of_user(name))
        conversation.receive(of_user(name))

    def said_by_model(reply: Reply) -> None:
        conversation.begin_call()
        conversation.hear(conversation.call, reply)
        conversation.answered(conversation.call)

    said_by_user("first")
    said_by_model(Reply(None, tuple(ToolCall(call_id, "never", {}, "{}") for call_id in ids)))
    for name in order:
        if name in ids:
            conversation.receive(ChatMessage("tool", f"text {name}", tool_call_id=name))
        else:
            said_by_user(name)
    said_by_model(Reply("Well."))
    return conversation


async def through_input(ids: list[str], order: list[str]) -> Stage:
    """The same through a running session, whose tools never answer by themselves."""
    model = ScriptedModel([reply(calls=[call("never", call_id) for call_id in ids]), "Well."])
    async with stage(model=model, tools=TOOLS) as on:
        on.say("text first", "first")
        await on.until("tool_call", count=len(ids))
        for name in order:
            tool_reply = ChatMessage("tool", f"text {name}", tool_call_id=name)
            await on.runtime.session.queues.input.put(tool_reply if name in ids else of_user(name))
        await on.settled()
    return on
