"""Any order of arrivals, against Conversation alone: the story and the history stay right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_lab.domain.actions import CallModel, EndTurn, RunTools, Wait
from agent_lab.domain.conversation import Conversation
from agent_lab.domain.dialects import openai_chat
from agent_lab.domain.limits import Again, Limits
from agent_lab.domain.messages import (
    MODES,
    CallDelta,
    ChatMessage,
    Finish,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCall,
)
from agent_lab.domain.payloads import AnyPayload, ModelRequested, ToolCalled
from agent_lab.domain.repair import repair
from tests.application.data.story import openai_faults, story_faults

TEXTS = ["Oslo?", "Rome?", "Cairo?", " x ", "", "  "]
NAMES = ["wait", "wait", "wait", "wait", "no_such_tool"]
CALL_IDS = ["", "c1", "c1", "c2", "c1-2", "call_1_0"]
RAW = [None, None, "{}", '{"seconds": 1}', "", "null", '{"seconds', "[1]", '"{}"']
FINISHES = [None, None, None, "tool_calls", "stop", "length", "content_filter"]
COUNTS = [1, 1, 3, 3, 20]
RECEIPTS = {"accepted", "held", "delivered", "withdrawn", "rejected", "edited"}
MODEL = {"model_request", "model_response", "retrying", "assistant"}
TOOLS = {"tool_call", "tool_reply", "late_reply"}
ENDS = {"done", "error", "cancelled"}


class Arrivals:
    """A conversation with its worker and its queues, each of whose steps chance may take."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        pick = chance.choice
        limits = Limits(waiting=pick([2, 99]), window=pick([None, None, 1, 3]), steps=6, calls=20)
        self.conversation = Conversation({"wait"}, limits)
        self.queue: list[ChatMessage] = []
        self.events: list[ToolCalled] = []
        self.story: list[AnyPayload] = []
        self.seen: list[ChatMessage] = []
        self.sent = 0

    def go(self, steps: int) -> None:
        """Take so many steps, look after each whether all is well, close, and look at the whole."""
        for _ in range(steps):
            self.chance.choice(list(self.moves()))()
            self.check()
        self.decide(self.conversation.close())
        self.check()
        assert list(story_faults(self.story)) == []
        assert list(openai_faults(openai_chat.render(self.conversation.history))) == []
        assert (len(self.conversation.inbox), self.conversation.close()) == (0, [])

    def moves(self) -> Iterator[Callable[[], object]]:
        """What may happen now; what happens more often comes more often."""
        yield from [self.user, self.user, self.withdraw, self.edit, self.stray_reply]
        yield self.cancel
        if self.queue:
            yield from [self.take] * 4
        if self.events:
            yield from [self.tool_replies] * 6
            yield self.call_closes
        if self.conversation.calling:
            yield from [self.model_calls] * 4
            yield from [self.model_streams_calls] * 2
            yield from [self.model_says, self.model_answers, self.model_is_cut, self.model_fails]
        elif not self.queue:
            yield from [self.work] * 6

    def check(self) -> None:
        """The history has only grown, and what would be saved now is valid."""
        history = self.conversation.history
        assert history[: len(self.seen)] == self.seen
        self.seen = list(history)
        saved = openai_chat.render(repair(self.conversation.snapshot()))
        assert list(openai_faults(saved)) == []

    def decide(self, decided: Any) -> list[AnyPayload]:
        self.story += decided
        return list(decided)

    # -- what comes in ---------------------------------------------------------------------------

    def message_id(self) -> str:
        """One that was sent lately."""
        return f"m{self.sent - self.chance.randrange(4)}"

    def user(self) -> None:
        if self.chance.randrange(6):
            self.sent += 1
            message_id = f"m{self.sent}"
        else:
            message_id = self.message_id()
        text, mode = self.chance.choice(TEXTS), self.chance.choice(MODES)
        message = ChatMessage("user", text, mode=mode, message_id=message_id)
        decided = self.decide(self.conversation.accept(message))
        if decided and decided[0].type == "accepted":
            self.queue.append(message)

    def take(self) -> None:
        self.decide(self.conversation.receive(self.queue.pop(0)))

    def tool_replies(self) -> None:
        at = self.chance.randrange(len(self.events))
        again = self.chance.randrange(8) == 0
        called = self.events[at] if again else self.events.pop(at)
        reply = ChatMessage(
            "tool", "4 degrees", tool_call_id=called.call_id, name="wait", round=called.round
        )
        self.queue.append(reply)

    def stray_reply(self) -> None:
        call_id = self.chance.choice(CALL_IDS)
        self.queue.append(ChatMessage("tool", "stray", tool_call_id=call_id))

    # -- control ---------------------------------------------------------------------------------

    def cancel(self) -> None:
        back = self.chance.choice([None, 0, 1])
        turn = None if back is None else self.conversation.turn - back
        self.decide(self.conversation.cancel(turn, drop_waiting=self.chance.random() < 0.5))

    def withdraw(self) -> None:
        self.decide(self.conversation.withdraw(self.message_id()))

    def edit(self) -> None:
        text = self.chance.choice(TEXTS)
        self.decide(self.conversation.edit(self.message_id(), text, hop=None, why="edited"))

    def call_closes(self) -> None:
        called = self.chance.choice(self.events)
        self.decide(self.conversation.close_call(called.round, called.call_id, "timeout", "2"))

    # -- the worker ------------------------------------------------------------------------------

    def work(self) -> None:
        conversation = self.conversation
        match conversation.next_action():
            case CallModel():
                self.decide(conversation.begin_call())
                if conversation.calling:
                    self.decide([ModelRequested(**conversation.at, request=self.request())])
            case RunTools(calls):
                conversation.calls.dispatched(calls[0])
                self.events.append(calls[0])
            case Wait():
                conversation.waited()
            case EndTurn():
                self.decide(conversation.end_turn())
            case _:
                pass

    def request(self) -> ModelRequest:
        now = self.conversation
        counts = (now.start, len(now.history), now.call, now.answers)
        return ModelRequest("s", "m", "openai_chat", None, (), now.history, *counts)

    # -- the model -------------------------------------------------------------------------------

    def calls(self) -> tuple[ToolCall, ...]:
        pick = self.chance.choice
        return tuple(
            ToolCall(pick(CALL_IDS), pick(NAMES), {}, pick(RAW)) for _ in range(pick(COUNTS))
        )

    def model_says(self) -> None:
        text = TextDelta(self.chance.choice(TEXTS))
        assert self.conversation.hear(self.conversation.call, text)

    def model_answers(self) -> None:
        self.answer(Reply(self.chance.choice(TEXTS)))

    def model_calls(self) -> None:
        text, finish = self.chance.choice(TEXTS), self.chance.choice(FINISHES)
        self.answer(Reply(text, self.calls(), finish))

    def model_streams_calls(self) -> None:
        pieces = [CallDelta(i, c.id, c.name, c.raw or "") for i, c in enumerate(self.calls())]
        self.chance.shuffle(pieces)
        for piece in pieces:
            self.conversation.hear(self.conversation.call, piece)
        self.answer(Finish("tool_calls"))

    def answer(self, last: Reply | Finish) -> None:
        call = self.conversation.call
        assert self.conversation.hear(call, last)
        decided = self.conversation.answered(call)
        assert decided is not None
        self.decide(decided)
        assert not self.conversation.hear(call, TextDelta("after the end"))
        assert self.conversation.answered(call) == ()

    def model_is_cut(self) -> None:
        assert self.conversation.answered(self.conversation.call) is None
        self.decide(
            self.conversation.call_failed(
                self.conversation.call, "cut", "cut", "again", again=Again()
            )
        )

    def model_fails(self) -> None:
        call = self.conversation.call
        self.decide(self.conversation.call_failed(call, "failed", "it failed", "mend it"))


@given(st.randoms(use_true_random=False), st.integers(0, 100))
@settings(max_examples=settings().max_examples // 2)
def test_story_and_history_are_right_in_any_order_of_arrivals(chance: Random, steps: int) -> None:
    Arrivals(chance).go(steps)


def test_chance_gets_everywhere() -> None:
    """Or the test above would show nothing."""
    told = Counter[str]()
    for seed in range(20):
        arrivals = Arrivals(Random(seed))
        arrivals.go(120)
        told.update(said.type for said in arrivals.story)

    assert set(told) == RECEIPTS | MODEL | TOOLS | ENDS
    assert min(told.values()) >= 5, told
