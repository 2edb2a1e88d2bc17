"""A history in a provider's format as our messages."""

from collections.abc import Callable, Iterable

from agent_lab.domain.dialects.readings import anthropic, gemini, openai_chat, openai_responses
from agent_lab.domain.dialects.readings.pieces import Read
from agent_lab.domain.dialects.rules.reading import Wire
from agent_lab.domain.dialects.rules.rule import Format

_READERS: dict[Format, Callable[[list[Wire]], Iterable[Read]]] = {
    "openai_chat": openai_chat.read,
    "openai_responses": openai_responses.read,
    "anthropic": anthropic.read,
    "gemini": gemini.read,
}


def read_wire(messages: list[Wire], wire_format: Format) -> list[Read]:
    """Our messages, each with the place it was read from and what of it we cannot hold.

    It reads whatever it is given and mends nothing: what does not pair stays so.
    """
    return list(_READERS[wire_format](messages))
