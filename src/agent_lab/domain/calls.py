"""The tool calls that wait for their replies: one round at a time."""

from collections.abc import Collection, Mapping

from agent_lab.domain.messages import ChatMessage, Reply, ReplyKind, ToolCall, clean
from agent_lab.domain.payloads import (
    AnyPayload,
    Assistant,
    LateReply,
    ToolCalled,
    ToolReplied,
)
from agent_lab.domain.permission import Permissions
from agent_lab.domain.rounds import Round, closing_reply, parse_calls
from agent_lab.domain.thinking import Thinking, cleaned


class Calls:
    """Opens a round when the model asks for tools, and writes it to the history when it is whole.

    Replies stand in call order and all before anything else, because Gemini pairs by position and
    OpenAI and Anthropic refuse a message between a call and its reply.
    """

    __slots__ = ("_history", "_tools", "current", "permissions")

    def __init__(self, history: list[ChatMessage], tools: Collection[str]) -> None:
        self._history = history
        self._tools = tools  # the agent's own, which grow as its MCP servers come
        self.current: Round | None = None
        self.permissions = Permissions()

    @property
    def open(self) -> tuple[str, ...]:
        """Ids of the calls that have no reply yet, in call order."""
        return self.current.open if self.current else ()

    @property
    def round(self) -> int:
        """Number of the open round; 0 when there is none."""
        return self.current.number if self.current else 0

    def is_open(self, round_: int, call_id: str) -> bool:
        """Whether this call of this round still wants its reply."""
        current = self.current
        if current is None or current.number != round_:
            return False
        return call_id in current.calls and call_id not in current.replied

    def replies(self) -> list[ChatMessage]:
        """The replies the open round has so far, in call order."""
        return self.current.replies() if self.current else []

    def dispatched(self, call: ToolCalled) -> None:
        """The call is on `events`."""
        if self.current is not None and self.current.number == call.round:
            self.current.undispatched.pop(call.call_id, None)

    def begin(self, reply: Reply, number: int, turn: int, step: int) -> list[AnyPayload]:
        """Open the round of an answer; calls that cannot run are closed at once."""
        calls, closed = parse_calls(reply, number, self._tools)
        text = clean(reply.content) if reply.content and reply.content.strip() else None
        said = answer(self._history, turn, step, text, calls, reply.thinking)
        current = self.current = Round(number, turn, step)
        decided: list[AnyPayload] = [said]
        for call in calls:
            called = ToolCalled(
                turn=turn,
                step=step,
                call_id=call.id,
                name=call.name,
                arguments=call.arguments,
                round=number,
            )
            current.calls[call.id] = call
            current.undispatched[call.id] = called
            decided.append(called)
        if closed:
            decided += [self._close(current, reply) for reply in closed]
        return decided

    def receive(self, message: ChatMessage) -> ToolReplied | None:
        """Take a reply; None when no open call of its round wants it."""
        current, call_id = self.current, message.tool_call_id or ""
        if current is None or message.round not in (None, current.number):
            return None
        if call_id not in current.calls or call_id in current.replied:
            return None
        return self._close(current, current.completed(message))

    def close(
        self, round_: int, call_id: str, kind: ReplyKind, detail: str = ""
    ) -> list[AnyPayload]:
        """Close an open call without its tool; nothing for any other.

        Nobody can allow it any more: a permission request of it is denied.
        """
        current = self.current
        if current is None or not self.is_open(round_, call_id):
            return []
        why = "lost" if kind == "lost" else "interrupted"
        denied = self.permissions.call_closed(round_, call_id, why)
        reply = closing_reply(current.calls[call_id], kind, round_, detail=detail)
        return [*denied, self._close(current, reply)]

    def close_all(self, kind: ReplyKind) -> list[AnyPayload]:
        """Close every open call."""
        return [r for call_id in self.open for r in self.close(self.round, call_id, kind)]

    def _close(self, current: Round, reply: ChatMessage) -> ToolReplied:
        call_id = reply.tool_call_id or ""
        current.undispatched.pop(call_id, None)
        current.replied[call_id] = reply
        if len(current.replied) == len(current.calls):
            self._history += current.replies()
            self.current = None
        return ToolReplied(
            turn=current.turn,
            step=current.step,
            call_id=call_id,
            name=reply.name or "",
            content=reply.content or "",
            kind=reply.kind,
            is_error=reply.is_error,
        )


def answer(
    history: list[ChatMessage],
    turn: int,
    step: int,
    text: str | None,
    calls: tuple[ToolCall, ...],
    thinking: tuple[Thinking, ...],
    *,
    partial: bool = False,
) -> Assistant:
    """Put the model's answer into the history, and give what is told of it."""
    thinking = thinking and cleaned(thinking)
    history.append(ChatMessage("assistant", text, tool_calls=calls, thinking=thinking))
    return Assistant(
        turn=turn, step=step, content=text, tool_calls=calls, partial=partial, thinking=thinking
    )


def late(message: ChatMessage, at: Mapping[str, int | None]) -> LateReply:
    """What is said of a reply that no call waits for."""
    return LateReply(
        **at,
        call_id=message.tool_call_id or "",
        name=message.name,
        content=clean(message.content or ""),
        kind=message.kind,
        is_error=message.is_error,
    )
