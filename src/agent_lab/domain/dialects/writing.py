"""Our messages in a wire format, each wire message with the place of ours that it (first) tells."""

from collections.abc import Callable, Iterable, Sequence

from agent_lab.domain.dialects import anthropic, gemini, openai_chat, openai_responses
from agent_lab.domain.dialects.rules.reading import Wire
from agent_lab.domain.dialects.rules.rule import Format
from agent_lab.domain.messages import ChatMessage

Placed = tuple[int, Wire]

_WRITERS: dict[Format, Callable[[Sequence[ChatMessage], str], Iterable[Placed]]] = {
    "openai_chat": lambda messages, _: enumerate(openai_chat.render(messages)),
    "openai_responses": lambda messages, _: openai_responses.placed(messages),
    "anthropic": lambda messages, _: anthropic.placed(messages),
    "gemini": lambda messages, model: gemini.placed(messages, model=model),
}


def write_wire(
    messages: Sequence[ChatMessage], wire_format: Format, *, model: str = ""
) -> list[Placed]:
    """The messages as this format has them, with their faults if they have any."""
    return list(_WRITERS[wire_format](messages, model))
