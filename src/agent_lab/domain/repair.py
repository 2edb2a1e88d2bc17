"""A history that was cut short made whole, and a window that never splits a round."""

from collections.abc import Sequence
from itertools import islice

from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.rounds import closing_reply


def repair(history: Sequence[ChatMessage]) -> list[ChatMessage]:
    """What may be sent of a saved history; a valid one comes back as it was.

    Pure and idempotent. Blank assistant messages go; every call gets exactly one reply, in call
    order, right after its message: the first one saved, or a made-up `lost` one; replies to no
    call go.
    """
    return _answer_calls(_drop_blank(history))


def _drop_blank(history: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Anthropic, Gemini and Mistral refuse an assistant message with neither text nor calls."""
    return [
        message
        for message in history
        if message.role != "assistant" or message.tool_calls or (message.content or "").strip()
    ]


def _answer_calls(history: Sequence[ChatMessage]) -> list[ChatMessage]:
    """A crash between a call and its reply leaves the call open, and every provider answers 400."""
    whole: list[ChatMessage] = []
    for index, message in enumerate(history):
        if message.role == "tool":
            continue
        whole.append(message)
        if message.tool_calls:
            replies = _replies_after(history, index)
            whole += [
                replies.get(call.id) or closing_reply(call, "lost", None)
                for call in message.tool_calls
            ]
    return whole


def _replies_after(history: Sequence[ChatMessage], index: int) -> dict[str | None, ChatMessage]:
    """The first reply to each call between this assistant message and the next."""
    replies: dict[str | None, ChatMessage] = {}
    for later in islice(history, index + 1, None):
        if later.role == "assistant":
            break
        if later.role == "tool":
            replies.setdefault(later.tool_call_id, later)
    return replies


def window_start(history: Sequence[ChatMessage], keep: int | None) -> int:
    """Where a history of at most `keep` messages may begin: always at a user message.

    The cut moves forward to the next user message, so that no reply is kept without its call; if
    there is none it moves back, because a request without its question is worth less than a long
    one.
    """
    if keep is None or len(history) <= keep:
        return 0
    cut = len(history) - keep
    for index in range(cut, len(history)):
        if history[index].role == "user":
            return index
    for index in range(cut - 1, -1, -1):
        if history[index].role == "user":
            return index
    return 0
