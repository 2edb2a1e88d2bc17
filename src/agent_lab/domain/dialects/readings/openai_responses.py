"""An OpenAI Responses `input` as ours: the items of one answer are one message.

Outputs may stand anywhere behind their call; here they follow the message with the calls.
"""

from collections import deque
from collections.abc import Iterator

from agent_lab.domain.dialects.readings.pieces import Read, read_call, read_text
from agent_lab.domain.dialects.rules.reading import Wire, as_text, objects
from agent_lab.domain.dialects.rules.responses_checks import kind_of_item
from agent_lab.domain.messages import ChatMessage, ToolCall
from agent_lab.domain.thinking import ReasoningItem, Thinking

OUTPUT = "function_call_output"


class _Answer:
    """The items of one answer of the model, while they come."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.id: str | None = None
        self.text: str | None = None
        self.calls: list[ToolCall] = []
        self.thinking: list[Thinking] = []
        self.waiting: list[Wire] = []  # reasoning, until it is clear what it led to
        self.left_out: list[str] = []

    def take(self, at: int) -> None:
        """Something was said at this place: the reasoning before it led to it."""
        self.at = at if self.at is None else self.at
        before = len(self.calls) + 1 if self.calls or self.text is not None else 0
        self.thinking += [_reasoning(item, before) for item in self.waiting]
        self.waiting = []

    def read(self) -> Read | None:
        if self.at is None:
            return None
        message = ChatMessage(
            "assistant",
            self.text,
            tool_calls=tuple(self.calls),
            thinking=tuple(self.thinking),
            message_id=self.id,
        )
        return Read(self.at, message, tuple(self.left_out))


def read(items: list[Wire]) -> Iterator[Read]:
    """Each item, whatever stands in it; items that our messages have no place for are left out."""
    reader = _Reader(items)
    for at, item in enumerate(items):
        yield from reader.take(at, item)
    yield from reader.end()


class _Reader:
    def __init__(self, items: list[Wire]) -> None:
        self._answer = _Answer()
        self._outputs: dict[str, deque[int]] = {}
        self._items = items
        for at, item in enumerate(items):
            if kind_of_item(item) == OUTPUT:
                self._outputs.setdefault(as_text(item.get("call_id")), deque()).append(at)
        self._told: set[int] = set()

    def take(self, at: int, item: Wire) -> Iterator[Read]:
        answer = self._answer
        match kind_of_item(item):
            case "reasoning":
                answer.waiting.append(item)
            case "assistant":
                if answer.text is not None or answer.calls:
                    waiting = answer.waiting
                    yield from self.end()
                    answer = self._answer
                    answer.waiting = waiting
                answer.take(at)
                answer.text = read_text(item.get("content"), answer.left_out, "") or ""
                answer.id = as_text(item.get("id")).removeprefix("msg_") or None
            case "function_call":
                answer.take(at)
                name, arguments = item.get("name"), item.get("arguments")
                call = read_call(item.get("call_id"), name, arguments, answer.left_out)
                answer.calls.append(call)
            case kind:
                yield from self.end()
                if kind != OUTPUT:
                    yield _other(at, item, kind)
                elif at not in self._told:
                    yield self._output(at)

    def end(self) -> Iterator[Read]:
        """The answer is whole: itself, and the outputs of its calls."""
        answer, self._answer = self._answer, _Answer()
        if (read := answer.read()) is not None:
            yield read
        for call in answer.calls:
            if waiting := self._outputs.get(call.id):
                yield self._output(waiting.popleft())

    def _output(self, at: int) -> Read:
        self._told.add(at)
        item = self._items[at]
        left_out: list[str] = []
        text = read_text(item.get("output"), left_out) or ""
        message = ChatMessage("tool", text, tool_call_id=as_text(item.get("call_id")))
        return Read(at, message, tuple(left_out))


def _reasoning(item: Wire, before: int) -> ReasoningItem:
    summary = tuple(as_text(part.get("text")) for part in objects(item.get("summary")))
    encrypted = item.get("encrypted_content")
    kept = encrypted if isinstance(encrypted, str) else None
    return ReasoningItem(as_text(item.get("id")), summary, kept, before)


def _other(at: int, item: Wire, kind: str) -> Read:
    """A message that is not the model's; or an item of another kind, in brackets."""
    left_out: list[str] = []
    if kind in ("tool", "function"):
        text = read_text(item.get("content"), left_out) or ""
        message = ChatMessage("tool", text, tool_call_id=as_text(item.get("tool_call_id")))
    elif "role" in item or not kind:
        role = "system" if kind in ("system", "developer") else "user"
        message = ChatMessage(role, read_text(item.get("content"), left_out))
    else:
        message = ChatMessage("assistant", f"[{kind}]")
        left_out.append(f"an item of type {kind}")
    return Read(at, message, tuple(left_out))
