"""OpenAI Responses: how a conversation is written for it, as the `input`.

An assistant's text and each of its calls are items of their own, outputs stand behind the calls
and in their order. Reasoning items stand in front of what they led to. Calls carry no item id: with
one the server would ask for the reasoning it stored beside it (mastra-ai/mastra#8738).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from agent_lab.domain.dialects.openai_chat import arguments_text
from agent_lab.domain.dialects.wire_ids import CallIds, runs, wire_name
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.thinking import ReasoningItem

WireItem = dict[str, Any]

LONGEST_ID = 64
TAIL = 8  # room for what tells repeats apart


def render(messages: Sequence[ChatMessage]) -> list[WireItem]:
    """A whole history as input items. Instructions go into the request's `instructions`."""
    return [item for _, item in placed(messages)]


def placed(messages: Sequence[ChatMessage]) -> Iterator[tuple[int, WireItem]]:
    """The same, each with the place of the message that it is of."""
    ids = CallIds(_fit)
    thought: set[str] = set()
    for place, is_reply, run in runs(messages):
        if is_reply:
            for wire_id, reply in ids.in_call_order(run):
                yield place + run.index(reply), _output(wire_id, reply)
            continue
        for n, message in enumerate(run, place):
            for item in _items(message, ids, thought, n):
                yield n, item


def _fit(call_id: str) -> str:
    return call_id[: LONGEST_ID - TAIL] if len(call_id) > LONGEST_ID else call_id or "call"


def _items(message: ChatMessage, ids: CallIds, thought: set[str], place: int) -> Iterator[WireItem]:
    """`thought` are the ids of reasoning items so far: none may come twice (vercel/ai#13307)."""
    text = message.content or ""
    if message.role != "assistant":
        content = [{"type": "input_text", "text": text}]
        yield {"type": "message", "role": message.role, "content": content}
        return
    if text.strip():
        yield from _reasoning(message, 0, thought)
        yield _said(text, message.message_id or str(place))
    calls = ids.open_round(message.tool_calls) if message.tool_calls else ()
    for n, (wire_id, call) in enumerate(calls, 1):
        if n == 1 and not text.strip():
            yield from _reasoning(message, 0, thought)
        yield from _reasoning(message, n, thought)
        yield {
            "type": "function_call",
            "call_id": wire_id,
            "name": wire_name(call.name),
            "arguments": arguments_text(call),
        }


def _reasoning(message: ChatMessage, before: int, thought: set[str]) -> Iterator[WireItem]:
    for said in message.thinking:
        if type(said) is ReasoningItem and said.before == before and said.id not in thought:
            thought.add(said.id)
            summary = [{"type": "summary_text", "text": text} for text in said.summary]
            item: WireItem = {"type": "reasoning", "id": said.id, "summary": summary}
            if said.encrypted_content is not None:
                item["encrypted_content"] = said.encrypted_content
            yield item


def _said(text: str, name: str) -> WireItem:
    return {
        "type": "message",
        "role": "assistant",
        "id": f"msg_{name}",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def _output(wire_id: str, reply: ChatMessage) -> WireItem:
    return {"type": "function_call_output", "call_id": wire_id, "output": reply.content or ""}
