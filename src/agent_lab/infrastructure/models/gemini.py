"""Gemini's generateContent. Its last word is a `finishReason`, or that the prompt was blocked."""

import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar

import httpx2
import msgspec

from agent_lab.domain.messages import CallDelta, Finish, ModelEvent, ModelRequest, TextDelta, Usage
from agent_lab.domain.thinking import Thought, ThoughtSignature
from agent_lab.domain.usage import cached_inside, count
from agent_lab.infrastructure.models.provider import ProviderModel
from agent_lab.infrastructure.models.reading import Decoder
from agent_lab.infrastructure.models.refusals import stream_error
from agent_lab.infrastructure.models.sse import ServerEvent

_REASONS = {
    "STOP": "stop",
    "FUNCTION_CALL": "stop",  # what servers say that only look like Gemini, such as aimock
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
}


# The SDK's own default is v1; many compatible servers know v1beta only.
_VERSIONED = re.compile(r"(.+)/(v\d+[a-z]*\d*)")


class Gemini(ProviderModel):
    """`"gemini:MODEL"`; needs the extra `gemini`, and GEMINI_API_KEY or GOOGLE_API_KEY.

    `base_url` may end in the API's version, such as `/v1beta`.
    """

    dialect: ClassVar[str] = "gemini"
    provider: ClassVar[str] = "gemini"
    package: ClassVar[str] = "google.genai"
    extra: ClassVar[str] = "gemini"
    key_variables: ClassVar[tuple[str, ...]] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    default_url: ClassVar[str] = "https://generativelanguage.googleapis.com"
    route: ClassVar[str] = ""  # the SDK makes it, of the model's name

    def own_options(self, request: ModelRequest) -> dict[str, Any]:
        """Nothing: that it streams is in the address."""
        return {}

    def connect(self, sdk: ModuleType, http: httpx2.AsyncClient, key: str) -> Any:
        """The SDK's client; one that is given an HTTP client of its own does not retry."""
        options: dict[str, Any] = {"base_url": self.base_url, "httpx_async_client": http}
        if versioned := _VERSIONED.fullmatch(self.base_url):
            options["base_url"], options["api_version"] = versioned.groups()
        return sdk.Client(api_key=key, vertexai=False, http_options=options)

    async def send(self, client: Any, body: bytes) -> object:
        """POST it. The SDK has no door for a body that is ready, so ours takes its place."""
        stream = await client.aio.models.generate_content_stream(
            model=self.name,
            contents="(the transport sends what the dialect rendered)",
            config={"automatic_function_calling": {"disable": True}},
        )
        return [chunk async for chunk in stream]  # it sends when asked; the transport keeps all

    def decoder(self) -> Decoder:
        """For one answer."""
        return GeminiDecoder()


class _Call(msgspec.Struct):
    name: str = ""
    args: Any = None
    id: str | None = None


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    index: int = 0
    content: _Content | None = None
    finish_reason: str | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class _Usage(msgspec.Struct, rename="camel"):
    prompt_token_count: Any = None
    candidates_token_count: Any = None
    thoughts_token_count: Any = None
    cached_content_token_count: Any = None


class _Chunk(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class GeminiDecoder(Decoder):
    """Chunks of a response."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._calls = 0
        self._has_text = False
        self._thought: list[str] = []
        self._thought_signature: str | None = None

    @property
    def finish(self) -> Finish | None:
        """As soon as a reason was given."""
        return Finish(self._reason, self._usage) if self._reason is not None else None

    def feed(self, event: ServerEvent) -> Iterator[ModelEvent]:
        """One chunk."""
        if not event.data.strip() or event.data.startswith("[DONE]"):
            return
        chunk = _decode(event.data)
        if chunk.error:
            raise stream_error(chunk.error)
        if chunk.usage_metadata is not None:
            self._usage = _usage(chunk.usage_metadata)
        for candidate in chunk.candidates or ():
            if candidate.index == 0:
                yield from self._candidate(candidate)
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._reason = "content_filter"

    def _candidate(self, candidate: _Candidate) -> Iterator[ModelEvent]:
        for part in (candidate.content.parts if candidate.content else None) or ():
            yield from self._part(part)
        if (reason := candidate.finish_reason) is not None:
            yield from self._whole_thought()
            ended = _REASONS.get(reason, reason.lower())
            self._reason = "tool_calls" if ended == "stop" and self._calls else ended

    def _part(self, part: _Part) -> Iterator[ModelEvent]:
        if part.thought:
            self._thought.append(part.text or "")
            self._thought_signature = part.thought_signature or self._thought_signature
            return
        yield from self._whole_thought()
        if (call := part.function_call) is not None:
            self._calls += 1
            arguments = msgspec.json.encode(call.args).decode() if call.args is not None else ""
            yield CallDelta(self._calls - 1, call.id or None, call.name, arguments)
        elif part.text:
            self._has_text = True
            yield TextDelta(part.text)
        if part.thought_signature:
            yield ThoughtSignature(part.thought_signature, self._calls)

    def _whole_thought(self) -> Iterator[ModelEvent]:
        if self._thought:
            before = self._calls + 1 if self._calls or self._has_text else 0
            yield Thought("".join(self._thought), self._thought_signature, before)
            self._thought.clear()
            self._thought_signature = None


def _usage(said: _Usage) -> Usage:
    """Thoughts are counted beside the candidates, and are output too."""
    made = [count(said.candidates_token_count), count(said.thoughts_token_count)]
    told = [tokens for tokens in made if tokens is not None]
    return cached_inside(
        said.prompt_token_count,
        sum(told) if told else None,
        cached=said.cached_content_token_count,
        reasoning=said.thoughts_token_count,
    )
