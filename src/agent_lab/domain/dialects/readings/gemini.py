"""Gemini `contents` as ours: each response is a message, paired as Gemini pairs, by its place."""

from collections.abc import Iterator

from agent_lab.domain.dialects.gemini import NO_SIGNATURE
from agent_lab.domain.dialects.readings.pieces import Read, read_call, read_part
from agent_lab.domain.dialects.repairs.passes import as_json
from agent_lab.domain.dialects.rules.gemini_checks import CALL, RESPONSE, SIGNATURE
from agent_lab.domain.dialects.rules.reading import Wire, as_object, as_text, either, objects
from agent_lab.domain.messages import ChatMessage, ToolCall
from agent_lab.domain.thinking import Thinking, Thought, ThoughtSignature


def read(contents: list[Wire]) -> Iterator[Read]:
    """Each content, whatever stands in it. Calls without an id get one that counts."""
    calls: list[ToolCall] = []
    for at, content in enumerate(contents):
        if content.get("role") in ("model", "assistant"):
            said = _model(at, objects(content.get("parts")))
            calls = list(said.message.tool_calls)
            yield said
        else:
            yield from _user(at, objects(content.get("parts")), calls)


def _model(at: int, parts: list[Wire]) -> Read:
    texts: list[str] = []
    calls: list[ToolCall] = []
    thinking: list[Thinking] = []
    left_out: list[str] = []
    for part in parts:
        signature = as_text(either(part, *SIGNATURE)) or None
        if (said := either(part, *CALL)) is not None:
            function = as_object(said)
            call_id = function.get("id") or f"call_{at}_{len(calls)}"
            call = read_call(call_id, function.get("name"), function.get("args"), left_out)
            calls.append(call)
            if signature not in (None, NO_SIGNATURE):
                thinking.append(ThoughtSignature(signature, len(calls)))
        elif part.get("thought") is True:
            before = len(calls) + 1 if texts or calls else 0
            thinking.append(Thought(as_text(part.get("text")), signature, before))
        else:
            texts.append(read_part(part, left_out))
            if signature is not None:
                thinking.append(ThoughtSignature(signature))
    text = "".join(texts) or None
    message = ChatMessage("assistant", text, tool_calls=tuple(calls), thinking=tuple(thinking))
    return Read(at, message, tuple(left_out))


def _user(at: int, parts: list[Wire], calls: list[ToolCall]) -> Iterator[Read]:
    """Each part is a message: that is how two user messages are joined in one content."""
    for part in parts or [{"text": ""}]:
        if (said := either(part, *RESPONSE)) is not None:
            yield Read(at, _reply(as_object(said), calls))
        else:
            left_out: list[str] = []
            message = ChatMessage("user", read_part(part, left_out))
            yield Read(at, message, tuple(left_out))


def _reply(response: Wire, calls: list[ToolCall]) -> ChatMessage:
    """The reply to the open call it names, by id, by function or by its turn, in that order."""
    name, call_id = as_text(response.get("name")), as_text(response.get("id"))
    named = [call for call in calls if call.id == call_id]
    alike = [call for call in calls if call.name == name]
    answered = next(iter([*named, *([] if call_id else [*alike, *calls])]), None)
    if answered is not None:
        calls.remove(answered)
    text, failed = _said(response)
    return ChatMessage(
        "tool",
        text,
        tool_call_id=answered.id if answered else call_id,
        name=name or None,
        kind="error" if failed else "result",
        is_error=failed,
    )


def _said(response: Wire) -> tuple[str, bool]:
    """What a tool answered, and whether that was an error; JSON text if it is no text."""
    said = response.get("response")
    fields = as_object(said)
    for field in ("result", "output", "error"):
        if set(fields) == {field}:
            value = fields[field]
            return value if isinstance(value, str) else as_json(value), field == "error"
    return as_json(said), False
