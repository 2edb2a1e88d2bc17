"""Anthropic Messages. Its last word is `message_stop`; a stop reason alone is not the end."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar

import httpx2
import msgspec

from agent_lab.domain.messages import CallDelta, Finish, ModelEvent, ModelRequest, TextDelta
from agent_lab.domain.thinking import RedactedThinking, ThinkingBlock
from agent_lab.domain.usage import cached_beside
from agent_lab.infrastructure.models.provider import ProviderModel
from agent_lab.infrastructure.models.reading import Decoder
from agent_lab.infrastructure.models.refusals import stream_error
from agent_lab.infrastructure.models.sse import ServerEvent

MAX_TOKENS = 8192
"""Tokens of one answer; the API has no default. More by `options={"max_tokens": …}`."""

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class Anthropic(ProviderModel):
    """`"anthropic:MODEL"`; needs the extra `anthropic`, and ANTHROPIC_API_KEY or `base_url`."""

    dialect: ClassVar[str] = "anthropic"
    provider: ClassVar[str] = "anthropic"
    package: ClassVar[str] = "anthropic"
    extra: ClassVar[str] = "anthropic"
    key_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)
    default_url: ClassVar[str] = "https://api.anthropic.com"
    route: ClassVar[str] = "/v1/messages"

    def own_options(self, request: ModelRequest) -> dict[str, Any]:
        """A stream of so many tokens at most."""
        return {"max_tokens": MAX_TOKENS, "stream": True}

    def connect(self, sdk: ModuleType, http: httpx2.AsyncClient, key: str) -> Any:
        """The SDK's client."""
        return sdk.AsyncAnthropic(
            api_key=key, base_url=self.base_url, http_client=http, max_retries=0
        )

    def decoder(self) -> Decoder:
        """For one answer."""
        return MessagesDecoder()


class _Delta(msgspec.Struct):
    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class _Block(msgspec.Struct):
    type: str = ""
    id: str | None = None
    name: str | None = None
    input: Any = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _Usage(msgspec.Struct):
    input_tokens: Any = None
    output_tokens: Any = None
    cache_read_input_tokens: Any = None
    cache_creation_input_tokens: Any = None


class _Message(msgspec.Struct):
    usage: _Usage | None = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class _Open:
    """A block that is not whole yet."""

    __slots__ = ("before", "block", "signature", "slot", "text", "told")

    def __init__(self, block: _Block, slot: int, before: int) -> None:
        self.block = block
        self.slot = slot
        self.before = before
        self.text = [block.thinking or ""]
        self.signature = block.signature or ""
        self.told = False


class MessagesDecoder(Decoder):
    """Events of a message."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Open] = {}
        self._calls = 0
        self._has_text = False
        self._reason = "stop"
        self._counts: dict[str, Any] = {}

    @property
    def finish(self) -> Finish | None:
        """Once the message has stopped."""
        if not self.is_over:
            return None
        said = self._counts.get
        usage = cached_beside(
            said("input_tokens"),
            said("output_tokens"),
            read=said("cache_read_input_tokens"),
            written=said("cache_creation_input_tokens"),
        )
        return Finish(self._reason, usage if self._counts else None)

    def feed(self, event: ServerEvent) -> Iterator[ModelEvent]:
        """One event; types that are not known say nothing to us."""
        if not event.data.strip():
            return
        said = _decode(event.data)
        match said.type or event.name:
            case "message_start":
                self._count(said.message.usage if said.message else None)
            case "content_block_start" if said.content_block is not None:
                yield from self._begin(said.index, said.content_block)
            case "content_block_delta" if said.delta is not None:
                yield from self._delta(said.index, said.delta)
            case "content_block_stop":
                yield from self._whole(said.index)
            case "message_delta":
                self._count(said.usage)
                if said.delta is not None and said.delta.stop_reason is not None:
                    self._reason = _REASONS.get(said.delta.stop_reason, said.delta.stop_reason)
            case "message_stop":
                self.is_over = True
            case "error":
                raise stream_error(said.error or event.data)
            case _:
                pass

    def _begin(self, index: int, block: _Block) -> Iterator[ModelEvent]:
        if index in self._blocks:
            return  # begun already
        before = self._calls + 1 if self._calls or self._has_text else 0
        open_ = self._blocks[index] = _Open(block, self._calls, before)
        if block.type == "tool_use":
            self._calls += 1
            yield CallDelta(open_.slot, block.id, block.name)
        elif block.type == "text":
            self._has_text = True
            if block.text:
                yield TextDelta(block.text)

    def _delta(self, index: int, delta: _Delta) -> Iterator[ModelEvent]:
        open_ = self._blocks.get(index)
        if delta.text:
            self._has_text = True
            yield TextDelta(delta.text)
        if open_ is None:
            return
        if delta.partial_json and open_.block.type == "tool_use":
            open_.told = True
            yield CallDelta(open_.slot, arguments=delta.partial_json)
        open_.text.append(delta.thinking or "")
        open_.signature += delta.signature or ""

    def _whole(self, index: int) -> Iterator[ModelEvent]:
        open_ = self._blocks.get(index)
        if open_ is None or open_.block.type == "":
            return
        kind, open_.block.type = open_.block.type, ""  # a second stop says nothing
        if kind == "tool_use" and not open_.told and open_.block.input:
            arguments = msgspec.json.encode(open_.block.input).decode()
            yield CallDelta(open_.slot, arguments=arguments)
        elif kind == "thinking":
            yield ThinkingBlock("".join(open_.text), open_.signature, open_.before)
        elif kind == "redacted_thinking":
            yield RedactedThinking(open_.block.data or "", open_.before)

    def _count(self, usage: _Usage | None) -> None:
        """The numbers of `message_delta` are totals, and take the place of the first ones."""
        if usage is not None:
            said = msgspec.structs.asdict(usage)
            self._counts |= {name: value for name, value in said.items() if value is not None}
