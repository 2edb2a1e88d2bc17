"""OpenAI Chat Completions, and the many servers that speak it: vLLM, llama.cpp, Ollama, LM Studio.

The last word is `[DONE]`; a stream that ends behind a `finish_reason` without it is whole too,
since not every server sends it.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar, cast

import httpx2
import msgspec

from agent_lab.domain.errors import ModelError
from agent_lab.domain.messages import CallDelta, Finish, ModelEvent, ModelRequest, TextDelta, Usage
from agent_lab.domain.thinking import ReasoningText
from agent_lab.domain.usage import cached_inside
from agent_lab.infrastructure.models.provider import ProviderModel
from agent_lab.infrastructure.models.reading import Decoder
from agent_lab.infrastructure.models.refusals import stream_error
from agent_lab.infrastructure.models.sse import ServerEvent

_REASONS = {"function_call": "tool_calls", "end_turn": "stop", "max_tokens": "length"}


class OpenAIChat(ProviderModel):
    """`"openai:MODEL"`; needs the extra `openai`, and OPENAI_API_KEY unless `base_url` is given."""

    dialect: ClassVar[str] = "openai_chat"
    provider: ClassVar[str] = "openai"
    package: ClassVar[str] = "openai"
    extra: ClassVar[str] = "openai"
    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    default_url: ClassVar[str] = "https://api.openai.com/v1"
    route: ClassVar[str] = "/chat/completions"

    def own_options(self, request: ModelRequest) -> dict[str, Any]:
        """A stream, with the usage at its end."""
        return {"stream": True, "stream_options": {"include_usage": True}}

    def connect(self, sdk: ModuleType, http: httpx2.AsyncClient, key: str) -> Any:
        """The SDK's client."""
        return sdk.AsyncOpenAI(api_key=key, base_url=self.base_url, http_client=http, max_retries=0)

    def decoder(self) -> Decoder:
        """For one answer."""
        return ChatDecoder()


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: Any = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class ChatDecoder(Decoder):
    """Chunks of a chat completion."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._reasoning: list[str] = []
        self._field = "reasoning_content"
        self._ids: list[str | None] = []
        self._slots: dict[int, int] = {}
        self._heard = False

    @property
    def finish(self) -> Finish | None:
        """As soon as a reason was given."""
        return Finish(self._reason, self._usage) if self._reason is not None else None

    def feed(self, event: ServerEvent) -> Iterator[ModelEvent]:
        """One chunk, or `[DONE]`."""
        if event.data.startswith("[DONE]"):
            yield from self._done()
            return
        if not event.data.strip():
            return
        chunk = _decode(event.data)
        if chunk.error or event.name == "error":
            raise stream_error(chunk.error or event.data)
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage)
        for choice in chunk.choices or ():
            if choice.index != 0:
                continue  # only one was asked for
            if choice.delta is not None:
                yield from self._delta(choice.delta)
            if choice.finish_reason is not None:
                yield from self._thought()
                self._reason = _REASONS.get(choice.finish_reason, choice.finish_reason)

    def _done(self) -> Iterator[ModelEvent]:
        yield from self._thought()
        self.is_over = True
        if self._reason is None:
            if not self._heard:
                raise ModelError(
                    "the provider ended its answer without having begun one",
                    code="provider_empty",
                    hint="send the message again; look at the raw events",
                    may_pass=True,
                )
            self._reason = "tool_calls" if self._ids else "stop"

    def _delta(self, delta: _Delta) -> Iterator[ModelEvent]:
        reasoning = delta.reasoning_content or delta.reasoning
        if isinstance(reasoning, str) and reasoning:
            self._heard = True
            self._field = "reasoning_content" if delta.reasoning_content else "reasoning"
            self._reasoning.append(reasoning)
        if text := _text(delta.content) or delta.refusal:
            self._heard = True
            yield from self._thought()
            yield TextDelta(text)
        if delta.tool_calls:
            self._heard = True
            yield from self._thought()
            yield from map(self._call, delta.tool_calls)

    def _call(self, call: _Call) -> CallDelta:
        function = call.function or _Function()
        arguments = function.arguments
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):  # some servers send the object itself
            arguments = msgspec.json.encode(arguments).decode()
        return CallDelta(self._slot(call, function), call.id or None, function.name, arguments)

    def _slot(self, call: _Call, function: _Function) -> int:
        """Which call a piece belongs to, for servers that give each the index 0, or none."""
        index = call.index if call.index is not None else -1
        slot = self._slots.get(index)
        begins = bool(function.name) and bool(call.id)
        if slot is None and index == -1 and self._ids and not begins:
            slot = len(self._ids) - 1
        if slot is None or (begins and self._ids[slot] not in (None, call.id)):
            slot = self._slots[index] = len(self._ids)
            self._ids.append(call.id or None)
        elif self._ids[slot] is None:
            self._ids[slot] = call.id or None
        return slot

    def _thought(self) -> Iterator[ModelEvent]:
        if self._reasoning:
            yield ReasoningText(
                "".join(self._reasoning), field=cast("Any", self._field), before=len(self._ids)
            )
            self._reasoning.clear()


def _text(content: Any) -> str:
    """Text as a string, or as the parts that Mistral sends while it reasons."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [
        cast("dict[str, Any]", part)
        for part in cast("list[Any]", content)
        if isinstance(part, dict)
    ]
    return "".join(str(part.get("text", "")) for part in parts)


def _usage(said: Any) -> Usage | None:
    if not isinstance(said, dict):
        return None
    fields = cast("dict[str, Any]", said)
    usage = cached_inside(
        fields.get("prompt_tokens"),
        fields.get("completion_tokens"),
        cached=_detail(fields, "prompt_tokens_details", "cached_tokens"),
        reasoning=_detail(fields, "completion_tokens_details", "reasoning_tokens"),
    )
    cost = fields.get("cost")  # OpenRouter says it in US dollars
    if isinstance(cost, int | float) and 0 <= cost < 1e6:
        return msgspec.structs.replace(usage, cost_usd=float(cost))
    return usage


def _detail(fields: dict[str, Any], group: str, name: str) -> Any:
    details = fields.get(group)
    return cast("dict[str, Any]", details).get(name) if isinstance(details, dict) else None
