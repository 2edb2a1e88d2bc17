"""What a journal tells of the history: which entry put which message there, and how it came."""

from collections.abc import Iterable
from typing import NamedTuple

from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import (
    Accepted,
    AnyPayload,
    Assistant,
    Delivered,
    Edited,
    Imported,
    ToolReplied,
    Withdrawn,
)


class Told(NamedTuple):
    """A message, and the number of the entry that put it there."""

    seq: int
    message: ChatMessage


def history_of(entries: Iterable[tuple[int, AnyPayload]]) -> list[Told]:
    """The history as these entries made it, replies in call order.

    Without the replies of a round that is still open.
    """
    history: list[Told] = []
    texts: dict[str, str] = {}
    calls: tuple[str, ...] = ()
    replies: dict[str, Told] = {}
    for seq, payload in entries:
        match payload:
            case Accepted() | Edited():
                _listen(payload, texts)
            case Delivered():
                history.append(Told(seq, _user(payload.message_id, texts)))
            case Assistant() | Imported():
                if (told := _said(seq, payload)) is not None:
                    history.append(told)
                if isinstance(payload, Assistant):
                    calls, replies = tuple(call.id for call in payload.tool_calls), {}
            case ToolReplied() if payload.call_id in calls:
                replies[payload.call_id] = Told(seq, _reply(payload))
                if len(replies) == len(calls):
                    history += [replies[call] for call in calls]
                    calls = ()
            case _:
                pass
    return history


def as_arrived(entries: Iterable[tuple[int, AnyPayload]]) -> list[Told]:
    """The history as it would be if nothing was held: each message where it came."""
    history: list[Told] = []
    texts: dict[str, str] = {}
    for seq, payload in entries:
        match payload:
            case Accepted():
                _listen(payload, texts)
                history.append(Told(seq, _user(payload.message_id, texts)))
            case Edited():
                _listen(payload, texts)
                history = [_edited(told, payload.item, texts) for told in history]
            case Withdrawn():
                gone = payload.message_id
                history = [told for told in history if told.message.message_id != gone]
            case Assistant() | Imported():
                if (told := _said(seq, payload)) is not None:
                    history.append(told)
            case ToolReplied():
                history.append(Told(seq, _reply(payload)))
            case _:
                pass
    return history


def _listen(payload: Accepted | Edited, texts: dict[str, str]) -> None:
    if isinstance(payload, Accepted):
        texts[payload.message_id] = payload.content
    elif isinstance(payload.after, str):
        texts[payload.item] = payload.after


def _user(message_id: str, texts: dict[str, str]) -> ChatMessage:
    return ChatMessage("user", texts.get(message_id, ""), message_id=message_id)


def _edited(told: Told, message_id: str, texts: dict[str, str]) -> Told:
    if told.message.role != "user" or told.message.message_id != message_id:
        return told
    return Told(told.seq, _user(message_id, texts))


def _said(seq: int, payload: Assistant | Imported) -> Told | None:
    if isinstance(payload, Imported):
        return None if payload.fate == "dropped" else Told(seq, payload.message)
    message = ChatMessage(
        "assistant", payload.content, tool_calls=payload.tool_calls, thinking=payload.thinking
    )
    return Told(seq, message)


def _reply(payload: ToolReplied) -> ChatMessage:
    return ChatMessage(
        "tool",
        payload.content,
        tool_call_id=payload.call_id,
        name=payload.name,
        kind=payload.kind,
        is_error=payload.is_error,
    )
