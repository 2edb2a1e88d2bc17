"""The built-in demo: an agent that needs no file, no key and no network.

Its model is a small program that reads the history as a provider would. Each message begins with
two tools at once, one of them slow, so that there is time to type; what was typed meanwhile is
taken up in the next step, next to a booking that always fails; then the answer is streamed. Who
says “first class” is asked before that is booked, and gets it.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence

import msgspec

from agent_lab.application.agent import Agent
from agent_lab.application.tools import Tool, tool
from agent_lab.domain.messages import (
    CallDelta,
    ChatMessage,
    Finish,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ToolCall,
    Usage,
)

_CITIES = ("Oslo", "Rome", "Lisbon", "Vienna")
_SKIES = ("clear sky", "light rain", "snow showers", "fog until noon", "a fresh wind")
_CITY = re.compile(r"(?:\b(?:in|to|for|from|at|about)\s+)([A-ZÀ-Þ][\w'-]+)")


def demo_agent(*, pace: float = 1.0) -> Agent:
    """A fresh demo agent; `pace` scales every wait, 0 waits for nothing."""
    return Agent(
        name="demo",
        instructions="You plan trips. Look things up before you answer, and be brief.",
        model=DemoModel(pace=pace),
        tools=_tools(pace),
    )


class DemoModel:
    """Plans a trip for every message; keeps nothing, so it serves any number of sessions."""

    name = "demo"
    dialect = "openai_chat"

    def __init__(self, *, pace: float = 1.0) -> None:
        self._pace = pace

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The plan's next step, word by word."""
        history = request.history()
        text, calls = next_step(history)
        await asyncio.sleep(0.3 * self._pace)
        words = re.findall(r"\s*\S+", text)
        for word in words:
            yield TextDelta(word)
            await asyncio.sleep(0.04 * self._pace)
        for index, call in enumerate(calls):
            yield CallDelta(index, call.id, call.name, msgspec.json.encode(call.arguments).decode())
        read = sum(len((message.content or "").split()) for message in history)
        yield Finish("tool_calls" if calls else "stop", Usage(read, len(words)))


def next_step(history: Sequence[ChatMessage]) -> tuple[str, list[ToolCall]]:
    """What the demo says next, and the tools it asks for; a function of the history alone."""
    asked, rounds = _since_last_answer(history)
    said = [_shorter(message.content or "") for message in asked]
    number = sum(len(message.tool_calls) for message in history) + 1
    if rounds == 0 and said:
        return _look_up(said[-1], _CITIES[_answers(history) % len(_CITIES)], number)
    if rounds == 1:
        first_class = any("first class" in (message.content or "").lower() for message in asked)
        return _book(_destination(history), said[1:], number, first_class=first_class)
    return _answer(history, said[1:]), []


def _look_up(said: str, otherwise: str, number: int) -> tuple[str, list[ToolCall]]:
    city = _city(said)
    text = f"I look up the weather and the trains for {city}."
    if city is None:
        city = otherwise
        text = f"You name no city, so I take {city}, and look up its weather and trains."
    calls = [_call(number, "get_weather", city=city), _call(number + 1, "find_trains", city=city)]
    return f"{text} The trains take a few seconds: go on typing.", calls


def _book(
    city: str, steers: Sequence[str], number: int, *, first_class: bool
) -> tuple[str, list[ToolCall]]:
    train = _trains(city)[1]
    calls = [_call(number, "book_seat", train=f"{train}, first class" if first_class else train)]
    if not steers:
        return "There are trains. I try to book a seat.", calls
    also = _city(steers[-1]) or city
    calls.append(_call(number + 1, "get_weather", city=also))
    text = f"Meanwhile you said “{steers[-1]}”. I look at {also} while I try to book a seat."
    return text, calls


def _answer(history: Sequence[ChatMessage], steers: Sequence[str]) -> str:
    lines = [f"- {_finding(reply)}" for reply in _last_replies(history)]
    text = "\n".join(["Here is what I found:", "", *lines] if lines else ["I found nothing yet."])
    if steers:
        quoted = ", ".join(f"“{steer}”" for steer in steers)
        text += f"\n\nIt takes in what you said while I worked: {quoted}."
    return text


def _finding(reply: ChatMessage) -> str:
    if reply.is_error:
        return f"{reply.name} failed: {(reply.content or '').removeprefix('Error: ')}"
    return reply.content or ""


# -- reading the history -------------------------------------------------------------------------


def _since_last_answer(history: Sequence[ChatMessage]) -> tuple[list[ChatMessage], int]:
    """User messages and tool rounds of the plan that is under way.

    A plan begins after an answer without calls, or after a call that was cancelled.
    """
    start = 0
    for index, message in enumerate(history):
        if message.kind == "cancelled" or (message.role == "assistant" and not message.tool_calls):
            start = index + 1
    plan = history[start:]
    asked = [message for message in plan if message.role == "user"]
    return asked, sum(1 for message in plan if message.role == "assistant")


def _last_replies(history: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The tool replies since the last answer without calls."""
    replies: list[ChatMessage] = []
    for message in history:
        if message.role == "assistant" and not message.tool_calls:
            replies.clear()
        elif message.role == "tool":
            replies.append(message)
    return replies


def _destination(history: Sequence[ChatMessage]) -> str:
    """The city the plan under way began with."""
    cities = [
        str(call.arguments["city"])
        for message in history
        for call in message.tool_calls
        if call.name == "find_trains"
    ]
    return cities[-1] if cities else _CITIES[0]


def _answers(history: Sequence[ChatMessage]) -> int:
    return sum(1 for message in history if message.role == "assistant" and not message.tool_calls)


def _city(text: str) -> str | None:
    found = _CITY.findall(text)
    return found[-1] if found else None


def _shorter(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


def _trains(city: str) -> list[str]:
    minute = sum(map(ord, city)) % 60
    return [f"{hour}:{minute:02d} to {city}" for hour in (8, 10, 13)]


def _call(number: int, name: str, **arguments: str) -> ToolCall:
    return ToolCall(f"call_{number}", name, arguments)


# -- tools ---------------------------------------------------------------------------------------


def _tools(pace: float) -> list[Tool]:
    @tool
    async def get_weather(city: str) -> str:
        """The weather in a city today."""
        await asyncio.sleep(0.8 * pace)
        letters = sum(map(ord, city))
        return f"{city}: {letters % 23} degrees, {_SKIES[letters % len(_SKIES)]}"

    @tool
    async def find_trains(city: str) -> str:
        """Trains to a city; asks a slow timetable."""
        await asyncio.sleep(4 * pace)
        return f"trains: {', '.join(_trains(city))}"

    @tool(needs_approval=lambda arguments: "first class" in arguments["train"])
    async def book_seat(train: str) -> str:
        """Book a seat on a train."""
        await asyncio.sleep(0.5 * pace)
        if "first class" in train:
            return f"booked: a seat on the {train}"
        raise ConnectionError(f"the booking desk answered 503 for {train!r}")

    return [get_weather, find_trains, book_seat]
