"""Answers as each provider puts them on the wire, event by event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Call = tuple[str, str, list[str]]
"""Id, name and the pieces of the arguments' text."""


def answer(
    dialect: str,
    text: Sequence[str] = (),
    calls: Sequence[Call] = (),
    *,
    finish: str | None = None,
    usage: bool = True,
    thinking: Sequence[str] = (),
) -> list[bytes]:
    """The events of one answer; `finish` is the provider's own word, `thinking` comes first."""
    return _FORMATS[dialect](text, calls, finish, usage, thinking)


SIGNED = "c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg=="
"""What proves to the provider that a thought is its own; ours to carry and not to read."""
REDACTED = "bm90IHRvIGJlIHJlYWQ="


def sse(data: Any, name: str = "") -> bytes:
    """One event."""
    head = f"event: {name}\n" if name else ""
    said = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"{head}data: {said}\n\n".encode()


def _chat(
    text: Sequence[str],
    calls: Sequence[Call],
    finish: str | None,
    usage: bool,
    thinking: Sequence[str],
) -> list[bytes]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in thinking]
    deltas += [{"content": piece} for piece in text]
    for index, (call_id, name, pieces) in enumerate(calls):
        begun = {"name": name, "arguments": ""}
        deltas.append(
            {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": begun}]}
        )
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces
        ]
    reason = finish or ("tool_calls" if calls else "stop")
    events = [_chunk([_choice(delta, None)]) for delta in deltas]
    events.append(_chunk([_choice({}, reason)]))
    if usage:
        events.append(_chunk([], CHAT_USAGE))
    return [*map(sse, events), b"data: [DONE]\n\n"]


CHAT_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "total_tokens": 107,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def _choice(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _chunk(choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_796_032_800,
        "model": "gpt-test",
        "choices": choices,
        "usage": usage,
    }


def _anthropic(
    text: Sequence[str],
    calls: Sequence[Call],
    finish: str | None,
    usage: bool,
    thinking: Sequence[str],
) -> list[bytes]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 30,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 10,
            "output_tokens": 1,
        },
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    events.append({"type": "ping"})
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if thinking:
        said = [{"type": "thinking_delta", "thinking": piece} for piece in thinking]
        said.append({"type": "signature_delta", "signature": SIGNED})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, said))
        blocks.append(({"type": "redacted_thinking", "data": REDACTED}, []))
    if text:
        deltas = [{"type": "text_delta", "text": piece} for piece in text]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for call_id, name, pieces in calls:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        blocks.append(({"type": "tool_use", "id": call_id, "name": name, "input": {}}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    reason = finish or ("tool_use" if calls else "end_turn")
    delta = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
    events.append({"type": "message_stop"})
    return [sse(event, event["type"]) for event in events]


def _responses(
    text: Sequence[str],
    calls: Sequence[Call],
    finish: str | None,
    usage: bool,
    thinking: Sequence[str],
) -> list[bytes]:
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response("in_progress", [], None)},
        {"type": "response.in_progress", "response": _response("in_progress", [], None)},
    ]
    output: list[dict[str, Any]] = []
    if thinking:
        events += _reasoning_item(thinking, output)
    if text:
        events += _message_item(text, output)
    for call in calls:
        events += _call_item(call, output)
    counted = RESPONSES_USAGE if usage else None
    ended = _response("incomplete" if finish else "completed", output, counted)
    if finish:
        ended["incomplete_details"] = {"reason": finish}
    events.append({"type": f"response.{ended['status']}", "response": ended})
    return [sse({**event, "sequence_number": n}, event["type"]) for n, event in enumerate(events)]


RESPONSES_USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 107,
}


def _reasoning_item(summary: Sequence[str], output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    index = {"output_index": len(output)}
    begun = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": SIGNED}
    part = {"type": "summary_text", "text": "".join(summary)}
    whole = {**begun, "summary": [part]}
    output.append(whole)
    at = {"item_id": "rs_1", **index, "summary_index": 0}
    name = "response.reasoning_summary"
    return [
        {"type": "response.output_item.added", **index, "item": begun},
        {"type": f"{name}_part.added", **at, "part": {**part, "text": ""}},
        *({"type": f"{name}_text.delta", **at, "delta": piece} for piece in summary),
        {"type": f"{name}_text.done", **at, "text": part["text"]},
        {"type": f"{name}_part.done", **at, "part": part},
        {"type": "response.output_item.done", **index, "item": whole},
    ]


def _message_item(text: Sequence[str], output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    at = {"output_index": len(output), "content_index": 0, "item_id": "msg_1"}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress"}
    part = {"type": "output_text", "text": "".join(text), "annotations": [], "logprobs": []}
    whole = {**item, "status": "completed", "content": [part]}
    output.append(whole)
    index = {"output_index": at["output_index"]}
    return [
        {"type": "response.output_item.added", **index, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *(
            {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
            for piece in text
        ),
        {"type": "response.output_text.done", **at, "text": "".join(text), "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", **index, "item": whole},
    ]


def _call_item(call: Call, output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    call_id, name, pieces = call
    index = {"output_index": len(output)}
    item_id = f"fc_{call_id}"
    whole = {
        "id": item_id,
        "type": "function_call",
        "status": "completed",
        "call_id": call_id,
        "name": name,
        "arguments": "".join(pieces),
    }
    output.append(whole)
    begun = {**whole, "status": "in_progress", "arguments": ""}
    arguments = "response.function_call_arguments"
    at = {"item_id": item_id, **index}
    return [
        {"type": "response.output_item.added", **index, "item": begun},
        *({"type": f"{arguments}.delta", **at, "delta": piece} for piece in pieces),
        {"type": f"{arguments}.done", **at, "name": name, "arguments": "".join(pieces)},
        {"type": "response.output_item.done", **index, "item": whole},
    ]


def _response(
    status: str, output: list[dict[str, Any]], usage: dict[str, Any] | None
) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_796_032_800,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-test",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage,
    }


def _gemini(
    text: Sequence[str],
    calls: Sequence[Call],
    finish: str | None,
    usage: bool,
    thinking: Sequence[str],
) -> list[bytes]:
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in thinking]
    parts += [{"text": piece} for piece in text]
    begun = len(parts)
    parts += [
        {"functionCall": {"id": call_id, "name": name, "args": json.loads("".join(pieces))}}
        for call_id, name, pieces in calls
    ]
    if thinking and calls:
        parts[begun]["thoughtSignature"] = SIGNED  # on the first call of a step only
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}
        for part in parts
    ]
    last = {"index": 0, "content": {"role": "model", "parts": [{"text": ""}]}}
    chunks.append({"candidates": [{**last, "finishReason": finish or "STOP"}]})
    for chunk in chunks:
        chunk["modelVersion"] = "gemini-test"
        if usage:
            chunk["usageMetadata"] = GEMINI_USAGE
    return list(map(sse, chunks))


GEMINI_USAGE = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 2,
    "totalTokenCount": 107,
}

_FORMATS = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
