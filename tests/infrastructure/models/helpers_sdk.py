"""What the providers' SDKs declare of a request and of an event of its answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from tests.domain.dialects.test_sdk_shapes import read_whole

Dict = dict[str, Any]


def request_faults(dialect: str, body: Dict) -> list[str]:
    """Where a request is none that the SDK's own types allow."""
    return list(_REQUESTS[dialect](body))


def event_faults(dialect: str, data: str) -> list[str]:
    """Where an event is none that the SDK's own types allow."""
    if data == "[DONE]" or '"type": "ping"' in data:
        return []  # the SDKs take these two before any type
    return [said for said in [_fault(_event(dialect), data, is_json=True)] if said]


def _chat(body: Dict) -> Iterator[str]:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    yield from _params(CompletionCreateParamsStreaming, body)


def _anthropic(body: Dict) -> Iterator[str]:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    yield from _params(MessageCreateParamsStreaming, body)


def _responses(body: Dict) -> Iterator[str]:
    """Items one by one and member by member: pydantic chooses among a union's members before it
    has read their `Iterable` fields.
    """
    from openai.types.responses import ResponseInputItemParam
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    yield from _params(ResponseCreateParamsStreaming, {**body, "input": []})
    kinds = get_args(ResponseInputItemParam)
    for item in body["input"]:
        if all(_fault(_adapter(kind), item) for kind in kinds):
            yield f"no item: {item}"


def _gemini(body: Dict) -> Iterator[str]:
    """The SDK has no type of the whole body; these are the types of its fields."""
    from google.genai import types

    known = {
        "contents": list[types.Content],
        "systemInstruction": types.Content,
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "generationConfig": types.GenerationConfig,
    }
    for name, value in body.items():
        if name not in known:
            yield f"no such field: {name}"
        elif said := _fault(_adapter(known[name]), value):
            yield f"{name}: {said}"


_REQUESTS = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}


def _params(kind: Any, body: Dict) -> Iterator[str]:
    """A TypedDict's fields, and no others: pydantic lets others be."""
    yield from (f"no such field: {name}" for name in body.keys() - _fields(kind))
    if said := _fault(_adapter(kind), body):
        yield said


@cache
def _fields(kind: Any) -> frozenset[str]:
    return frozenset(get_type_hints(kind))


@cache
def _event(dialect: str) -> TypeAdapter[Any]:
    if dialect == "openai_chat":
        from openai.types.chat import ChatCompletionChunk

        return TypeAdapter(ChatCompletionChunk)
    if dialect == "openai_responses":
        from openai.types.responses import ResponseStreamEvent

        return TypeAdapter(ResponseStreamEvent)
    if dialect == "anthropic":
        from anthropic.types import RawMessageStreamEvent

        return TypeAdapter(RawMessageStreamEvent)
    from google.genai.types import GenerateContentResponse

    return TypeAdapter(GenerateContentResponse)


def _adapter(kind: Any) -> TypeAdapter[Any]:
    found = _adapters.get(id(kind))
    if found is None or found[0] is not kind:
        found = _adapters[id(kind)] = (kind, TypeAdapter(kind))
    return found[1]


_adapters: dict[int, tuple[Any, TypeAdapter[Any]]] = {}


def _fault(adapter: TypeAdapter[Any], value: Any, *, is_json: bool = False) -> str:
    try:
        read_whole(adapter.validate_json(value) if is_json else adapter.validate_python(value))
    except ValidationError as error:
        return f"{error}: {value}"
    return ""
