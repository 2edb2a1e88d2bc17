"""Any order of arrivals, against Conversation alone: the story and the history stay right."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from agent_lab.domain.actions import CallModel, EndTurn, RunTools
from agent_lab.domain.conversation import Conversation
from agent_lab.domain.dialects import openai_chat
from agent_lab.domain.limits import Limits
from agent_lab.domain.messages import (
    MODES,
    CallDelta,
    ChatMessage,
    Finish,
    FinishReason,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCall,
)
from agent_lab.domain.payloads import AnyPayload, ModelRequested, ToolCalled
from agent_lab.domain.repair import repair
from tests.application.data.story import openai_faults, story_faults

TEXTS = st.sampled_from(["Oslo?", "Rome?", " x ", "", "  "])
NAMES = st.sampled_from(["wait", "wait", "wait", "no_such_tool"])
CALL_IDS = st.sampled_from(["", "c1", "c1", "c2", "c1-2", "call_1_0"])
RAW = st.sampled_from([None, "", "null", "{}", '{"seconds": 1}', '{"seconds', "[1]", '"{}"'])
CALLS = st.builds(ToolCall, CALL_IDS, NAMES, st.just({}), RAW)
ANSWERS = st.sampled_from([1, 1, 3, 3, 20]).flatmap(
    lambda count: st.lists(CALLS, min_size=count, max_size=count)
)
FINISHES: st.SearchStrategy[FinishReason | None] = st.sampled_from(
    [None, None, "tool_calls", "stop", "length", "content_filter"]
)


class Arrivals(RuleBasedStateMachine):
    """A worker with its queue, whose every step hypothesis takes when it likes."""

    @initialize(waiting=st.sampled_from([2, 100]), window=st.sampled_from([None, 1, 3]))
    def begin(self, waiting: int, window: int | None) -> None:
        limits = Limits(waiting=waiting, window=window, steps=6, calls=21)
        self.conversation = Conversation({"wait"}, limits)
        self.queue: list[ChatMessage] = []
        self.events: list[ToolCalled] = []
        self.story: list[AnyPayload] = []
        self.seen: list[ChatMessage] = []

    def decide(self, decided: Any) -> list[AnyPayload]:
        self.story += decided
        return list(decided)

    # -- what comes in ---------------------------------------------------------------------------

    @rule(content=TEXTS, mode=st.sampled_from(MODES), number=st.integers(1, 30))
    def user(self, content: str, mode: Any, number: int) -> None:
        message = ChatMessage("user", content, mode=mode, message_id=f"m{number}")
        decided = self.decide(self.conversation.accept(message))
        if decided and decided[0].type == "accepted":
            self.queue.append(message)

    @precondition(lambda self: self.queue)
    @rule()
    def take(self) -> None:
        self.decide(self.conversation.receive(self.queue.pop(0)))

    @precondition(lambda self: self.events)
    @rule(data=st.data(), again=st.sampled_from([False, False, False, True]))
    def tool_replies(self, data: st.DataObject, again: bool) -> None:
        at = data.draw(st.integers(0, len(self.events) - 1))
        called = self.events[at] if again else self.events.pop(at)
        reply = ChatMessage(
            "tool", "4 degrees", tool_call_id=called.call_id, name="wait", round=called.round
        )
        self.queue.append(reply)

    @rule(call_id=CALL_IDS)
    def stray_reply(self, call_id: str) -> None:
        self.queue.append(ChatMessage("tool", "stray", tool_call_id=call_id))

    # -- control ---------------------------------------------------------------------------------

    @rule(back=st.sampled_from([None, None, 0, 1]), drop=st.booleans())
    def cancel(self, back: int | None, drop: bool) -> None:
        turn = None if back is None else self.conversation.turn - back
        self.decide(self.conversation.cancel(turn, drop_waiting=drop))

    @rule(number=st.integers(1, 30))
    def withdraw(self, number: int) -> None:
        self.decide(self.conversation.withdraw(f"m{number}"))

    @rule(number=st.integers(1, 30), content=TEXTS)
    def edit(self, number: int, content: str) -> None:
        self.decide(self.conversation.edit(f"m{number}", content, hop=None, why="edited"))

    @precondition(lambda self: self.conversation.calls.open)
    @rule(data=st.data(), kind=st.sampled_from(["timeout", "cancelled", "lost"]))
    def close_call(self, data: st.DataObject, kind: Any) -> None:
        calls = self.conversation.calls
        call_id = data.draw(st.sampled_from(calls.open))
        self.decide(self.conversation.close_call(calls.round, call_id, kind, "2"))

    # -- the worker ------------------------------------------------------------------------------

    @precondition(lambda self: not self.queue and not self.conversation.calling)
    @rule()
    def act(self) -> None:
        conversation = self.conversation
        match conversation.next_action():
            case CallModel():
                self.decide(conversation.begin_call())
                if conversation.calling:
                    self.decide([ModelRequested(**conversation.at, request=self.request())])
            case RunTools(calls):
                conversation.calls.dispatched(calls[0])
                self.events.append(calls[0])
            case EndTurn():
                self.decide(conversation.end_turn())
            case _:
                pass

    def request(self) -> ModelRequest:
        now = self.conversation
        stop = len(now.history)
        counts = (now.start, stop, now.call, now.answers)
        return ModelRequest("s", "m", "openai_chat", None, (), now.history, *counts)

    @precondition(lambda self: self.conversation.calling)
    @rule(text=TEXTS)
    def model_says(self, text: str) -> None:
        assert self.conversation.hear(self.conversation.call, TextDelta(text))

    @precondition(lambda self: self.conversation.calling)
    @rule(text=TEXTS, calls=ANSWERS, finish=FINISHES)
    def model_calls(self, text: str, calls: list[ToolCall], finish: FinishReason | None) -> None:
        self.answer(Reply(text, tuple(calls), finish))

    @precondition(lambda self: self.conversation.calling)
    @rule(text=TEXTS)
    def model_answers(self, text: str) -> None:
        self.answer(Reply(text))

    @precondition(lambda self: self.conversation.calling)
    @rule(calls=ANSWERS, data=st.data())
    def model_streams_calls(self, calls: list[ToolCall], data: st.DataObject) -> None:
        call = self.conversation.call
        pieces = [CallDelta(i, made.id, made.name, made.raw or "") for i, made in enumerate(calls)]
        for piece in data.draw(st.permutations(pieces)):
            self.conversation.hear(call, piece)
        self.answer(Finish("tool_calls"))

    def answer(self, last: Reply | Finish) -> None:
        call = self.conversation.call
        assert self.conversation.hear(call, last)
        decided = self.conversation.answered(call)
        assert decided is not None
        self.decide(decided)
        assert not self.conversation.hear(call, TextDelta("after the end"))
        assert self.conversation.answered(call) == ()

    @precondition(lambda self: self.conversation.calling)
    @rule()
    def model_is_cut(self) -> None:
        if self.conversation.answered(self.conversation.call) is None:
            self.model_fails(passes=True)

    @precondition(lambda self: self.conversation.calling)
    @rule(passes=st.booleans())
    def model_fails(self, passes: bool) -> None:
        call = self.conversation.call
        if passes:
            again = self.conversation.retry(call, attempt=1, delay=1, code="x", message="x")
            self.decide(again)
        else:
            self.decide(self.conversation.failed(call, "x", "it failed", "mend it"))

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def history_only_grows_and_is_valid(self) -> None:
        history = self.conversation.history
        assert history[: len(self.seen)] == self.seen
        self.seen = list(history)
        saved = openai_chat.render(repair(self.conversation.snapshot()))
        assert list(openai_faults(saved)) == []

    def teardown(self) -> None:
        if not hasattr(self, "conversation"):
            return
        self.decide(self.conversation.close())
        assert list(story_faults(self.story)) == []
        assert len(self.conversation.inbox) == 0
        assert list(openai_faults(openai_chat.render(self.conversation.history))) == []
        assert self.conversation.close() == []


Arrivals.TestCase.settings = settings(
    max_examples=settings().max_examples // 2, stateful_step_count=40
)
TestArrivalsInAnyOrder = Arrivals.TestCase
