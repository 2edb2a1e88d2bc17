"""The demo shows what it promises, for any number of messages, the same each time."""

import asyncio
from collections.abc import Sequence

import pytest

from agent_lab import ChatMessage, DebugRuntime, ToolCall
from agent_lab.domain.payloads import AnyPayload
from agent_lab.presentation.demo import demo_agent, next_step


async def turn(
    runtime: DebugRuntime, said: str, *, steer: str | None = None, on: str = "tool_call"
) -> list[AnyPayload]:
    """The payloads of one turn; `steer` is said when the first `on` comes."""
    told: list[AnyPayload] = []
    async with asyncio.timeout(5), runtime.run(said) as run:
        async for payload in run:
            told.append(payload)
            if steer is not None and payload.type == on:
                await run.queues.input.put(ChatMessage("user", steer))
                steer = None
    return told


def tools(told: Sequence[AnyPayload]) -> list[tuple[str, str]]:
    replies = (payload.as_dict() for payload in told if payload.type == "tool_reply")
    return [(reply["name"], reply["kind"]) for reply in replies]


def answer(runtime: DebugRuntime) -> str:
    return runtime.history[-1].content or ""


async def test_the_demo_runs_two_tools_at_once_then_one_that_fails_and_streams_its_answer() -> None:
    async with DebugRuntime(demo_agent(pace=0)) as runtime:
        told = await turn(runtime, "How do I get to Rome?")

    types = [payload.type for payload in told]
    calls = [payload.as_dict()["step"] for payload in told if payload.type == "tool_call"]
    assert calls == [1, 1, 2]
    assert sorted(tools(told)) == [
        ("book_seat", "error"),
        ("find_trains", "result"),
        ("get_weather", "result"),
    ]
    assert types.count("text_delta") >= 3
    assert types[-1] == "done"


async def test_one_tool_is_slow_enough_to_type_meanwhile() -> None:
    slept: list[float] = []

    async def sleep(delay: float) -> None:
        slept.append(delay)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent_lab.presentation.demo.asyncio.sleep", sleep)
        await demo_agent().tools["find_trains"](city="Rome")

    assert slept == [4.0]


@pytest.mark.parametrize("on", ["text_delta", "tool_call"])
async def test_a_steer_before_the_tools_are_back_is_quoted_and_looked_up(on: str) -> None:
    async with DebugRuntime(demo_agent(pace=0)) as runtime:
        told = await turn(runtime, "Weather in Oslo?", steer="And in Rome?", on=on)

        assert "Rome: 12 degrees" in answer(runtime)
        assert "“And in Rome?”" in answer(runtime)
    assert told[-1].type == "done"


async def test_a_first_class_seat_is_asked_about_before_it_is_booked() -> None:
    async with DebugRuntime(demo_agent(pace=0)) as runtime:
        runtime.start("First class to Rome, please")
        async with asyncio.timeout(5):
            async for _ in runtime.follow():
                if runtime.permissions.pending:
                    break
            (asked,) = runtime.permissions.pending
            assert asked.arguments == {"train": "10:43 to Rome, first class"}
            runtime.permissions.answer(asked.request_id, "allow")
            while "booked" not in answer(runtime):
                await runtime.session.queues.output.get()

    assert "booked: a seat on the 10:43 to Rome, first class" in answer(runtime)


async def test_it_answers_any_number_of_messages_with_call_ids_that_never_repeat() -> None:
    async with DebugRuntime(demo_agent(pace=0)) as runtime:
        for number in range(12):
            assert (await turn(runtime, f"Question {number}"))[-1].type == "done"
        ids = [call.id for message in runtime.history for call in message.tool_calls]

    assert len(ids) == len(set(ids)) == 36


async def test_it_goes_on_after_a_cancel() -> None:
    async with DebugRuntime(demo_agent(pace=0)) as runtime:
        async with asyncio.timeout(5), runtime.run("Weather in Oslo?") as run:
            async for payload in run:
                if payload.type == "tool_call":
                    runtime.cancel()
        told = await turn(runtime, "Weather in Lisbon?")

        assert told[-1].type == "done"
        assert "Lisbon" in answer(runtime) and "Oslo" not in answer(runtime)


async def test_the_same_messages_give_the_same_history() -> None:
    async def history() -> list[ChatMessage]:
        async with DebugRuntime(demo_agent(pace=0)) as runtime:
            for said in ("Weather in Oslo?", "Hello", "to Ålesund, please"):
                await turn(runtime, said)
            return [
                ChatMessage(message.role, message.content, tool_calls=message.tool_calls)
                for message in runtime.history
            ]

    assert await history() == await history()


@pytest.mark.parametrize(
    "history",
    [
        [],
        [ChatMessage("user", "")],
        [ChatMessage("user", "x" * 1_000_000)],
        [
            ChatMessage("user", "Hello"),
            ChatMessage("assistant", "I look.", tool_calls=(ToolCall("a", "other"),)),
            ChatMessage("tool", "done", tool_call_id="a"),
        ],
    ],
    ids=["empty", "blank", "long", "of-another-agent"],
)
def test_any_history_has_a_next_step(history: list[ChatMessage]) -> None:
    text, _ = next_step(history)

    assert text and len(text) < 1000
