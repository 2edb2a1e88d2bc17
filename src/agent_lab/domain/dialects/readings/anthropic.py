"""Anthropic `messages` as ours: results, and what the user says with them, are messages each."""

from collections.abc import Iterator

from agent_lab.domain.dialects.readings.pieces import Read, read_call, read_part, read_text
from agent_lab.domain.dialects.rules.reading import Wire, as_list, as_object, as_text
from agent_lab.domain.messages import ChatMessage, ToolCall
from agent_lab.domain.thinking import RedactedThinking, Thinking, ThinkingBlock


def read(messages: list[Wire]) -> Iterator[Read]:
    """Each message, whatever stands in it."""
    for at, wire in enumerate(messages):
        if wire.get("role") == "assistant":
            yield _assistant(at, wire)
        else:
            yield from _user(at, wire)


def _blocks(wire: Wire) -> list[Wire]:
    content = wire.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [as_object(block) for block in as_list(content)]


def _assistant(at: int, wire: Wire) -> Read:
    texts: list[str] = []
    calls: list[ToolCall] = []
    thinking: list[Thinking] = []
    left_out: list[str] = []
    for block in _blocks(wire):
        before = len(calls) + 1 if texts or calls else 0
        match block.get("type"):
            case "tool_use":
                calls.append(
                    read_call(block.get("id"), block.get("name"), block.get("input"), left_out)
                )
            case "thinking":
                text, signature = as_text(block.get("thinking")), as_text(block.get("signature"))
                thinking.append(ThinkingBlock(text, signature, before))
            case "redacted_thinking":
                thinking.append(RedactedThinking(as_text(block.get("data")), before))
            case _:
                texts.append(read_part(block, left_out))
    message = ChatMessage(
        "assistant", "".join(texts) or None, tool_calls=tuple(calls), thinking=tuple(thinking)
    )
    return Read(at, message, tuple(left_out))


def _user(at: int, wire: Wire) -> Iterator[Read]:
    """Results in their order; texts that stand together are one message."""
    role = "system" if wire.get("role") == "system" else "user"
    texts: list[str] = []
    left_out: list[str] = []
    for block in _blocks(wire):
        if block.get("type") != "tool_result":
            texts.append(read_part(block, left_out))
            continue
        if texts:
            yield Read(at, ChatMessage(role, "\n".join(texts)), tuple(left_out))
            texts, left_out = [], []
        yield _result(at, block)
    if texts or not _blocks(wire):
        yield Read(at, ChatMessage(role, "\n".join(texts)), tuple(left_out))


def _result(at: int, block: Wire) -> Read:
    left_out: list[str] = []
    failed = block.get("is_error") is True
    message = ChatMessage(
        "tool",
        read_text(block.get("content"), left_out) or "",
        tool_call_id=as_text(block.get("tool_use_id")),
        kind="error" if failed else "result",
        is_error=failed,
    )
    return Read(at, message, tuple(left_out))
