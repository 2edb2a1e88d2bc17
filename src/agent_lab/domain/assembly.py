"""A model's answer while it comes in: pieces joined by index, whatever their order."""

from agent_lab.domain.messages import (
    CallDelta,
    Finish,
    FinishReason,
    Reply,
    TextDelta,
    ToolCall,
    Usage,
    clean,
)
from agent_lab.domain.thinking import Thinking


class _PartialCall:
    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = self.name = ""
        self.arguments: list[str] = []


class Assembly:
    """Collects the events of one model call. `text` is what was said so far."""

    __slots__ = ("_calls", "_finish", "_text", "_thinking")

    def __init__(self) -> None:
        self._text: list[str] = []
        self._calls: dict[int, _PartialCall] = {}
        self._finish: Finish | None = None
        self._thinking: tuple[Thinking, ...] = ()

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    @property
    def thinking(self) -> tuple[Thinking, ...]:
        """What was thought so far."""
        return self._thinking

    def feed(self, event: TextDelta | CallDelta | Thinking | Finish) -> None:
        """Take one event of the stream."""
        match event:
            case TextDelta():
                self._text.append(clean(event.text))
            case CallDelta():
                partial = self._calls.setdefault(event.index, _PartialCall())
                partial.id = event.id or partial.id
                partial.name = event.name or partial.name
                partial.arguments.append(event.arguments)
            case Finish():
                self._finish = event
            case _:
                self._thinking += (event,)

    def reply(self) -> Reply | None:
        """The whole answer; None while the provider's last event has not come."""
        if self._finish is None:
            return None
        return self._joined(self._finish.reason, self._finish.usage)

    def _joined(self, reason: FinishReason | str, usage: Usage | None) -> Reply:
        calls = tuple(
            ToolCall(partial.id, partial.name, {}, "".join(partial.arguments))
            for _, partial in sorted(self._calls.items())
        )
        return Reply(self.text or None, calls, reason, usage, self._thinking)
