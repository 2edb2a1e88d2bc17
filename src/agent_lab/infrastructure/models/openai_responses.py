"""OpenAI Responses. Its last word is `response.completed`, `.incomplete` or `.failed`.

Nothing is stored at OpenAI (`store: false`), so reasoning comes back encrypted and is sent along
with the calls it led to.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import msgspec

from agent_lab.domain.messages import CallDelta, Finish, ModelEvent, ModelRequest, TextDelta, Usage
from agent_lab.domain.thinking import ReasoningItem
from agent_lab.domain.usage import cached_inside
from agent_lab.infrastructure.models.openai_chat import OpenAIChat
from agent_lab.infrastructure.models.reading import Decoder
from agent_lab.infrastructure.models.refusals import stream_error
from agent_lab.infrastructure.models.sse import ServerEvent

# Others refuse to be asked for it: "Encrypted content is not supported with this model".
_REASONS_BY_ITSELF = re.compile(r"(ft:)?(o[1-9]|gpt-[5-9]|codex)")
_LENGTH = ("max_output_tokens", "max_tokens")


class OpenAIResponses(OpenAIChat):
    """`"openai-responses:MODEL"`; needs the extra `openai`, as OpenAIChat does."""

    dialect: ClassVar[str] = "openai_responses"
    provider: ClassVar[str] = "openai-responses"
    route: ClassVar[str] = "/responses"

    def own_options(self, request: ModelRequest) -> dict[str, Any]:
        """A stream; the server is to remember nothing."""
        wanted = ["reasoning.encrypted_content"] if _REASONS_BY_ITSELF.match(self.name) else []
        options: dict[str, Any] = {"stream": True, "store": False}
        return {**options, "include": wanted} if wanted else options

    def decoder(self) -> Decoder:
        """For one answer."""
        return ResponsesDecoder()


class _Summary(msgspec.Struct):
    text: str = ""


class _Part(msgspec.Struct):
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct):
    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    summary: list[_Summary] | None = None
    encrypted_content: str | None = None
    content: list[_Part] | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    usage: Any = None
    error: Any = None
    incomplete_details: _Incomplete | None = None


class _Event(msgspec.Struct):
    type: str = ""
    output_index: int = 0
    delta: Any = None
    item: _Item | None = None
    response: _Response | None = None
    arguments: str | None = None


_decode = msgspec.json.Decoder(_Event).decode


class ResponsesDecoder(Decoder):
    """Events of a response."""

    def __init__(self) -> None:
        self._finish: Finish | None = None
        self._calls: dict[int, int] = {}
        self._told: set[int] = set()
        self._done: set[int] = set()

    @property
    def finish(self) -> Finish | None:
        """Once the response has ended."""
        return self._finish

    def feed(self, event: ServerEvent) -> Iterator[ModelEvent]:
        """One event; types that are not known say nothing to us."""
        if not event.data.strip() or event.data.startswith("[DONE]"):
            return
        said = _decode(event.data)
        place = said.output_index
        match said.type:
            case "response.output_text.delta" | "response.refusal.delta":
                if isinstance(said.delta, str) and said.delta:
                    self._told.add(place)
                    yield TextDelta(said.delta)
            case "response.output_item.added" if said.item is not None:
                if said.item.type == "function_call":
                    yield self._begun(place, said.item)
            case "response.function_call_arguments.delta":
                yield from self._arguments(place, said.delta)
            case "response.output_item.done" if said.item is not None:
                yield from self._item(place, said.item)
            case "response.completed" | "response.incomplete" | "response.failed" | "error":
                self._end(said, event)
            case _:
                pass

    def _begun(self, place: int, item: _Item) -> CallDelta:
        slot = self._calls.setdefault(place, len(self._calls))
        return CallDelta(slot, item.call_id, item.name)

    def _arguments(self, place: int, delta: Any) -> Iterator[ModelEvent]:
        if isinstance(delta, str) and place not in self._done:
            self._told.add(place)
            yield CallDelta(self._calls.setdefault(place, len(self._calls)), arguments=delta)

    def _item(self, place: int, item: _Item) -> Iterator[ModelEvent]:
        """A whole item: what its deltas did not say is said now, and nothing twice."""
        if place in self._done:
            return
        self._done.add(place)
        if item.type == "reasoning" and item.id:
            before = len(self._calls) + 1 if self._calls or self._told else 0
            summary = tuple(part.text for part in item.summary or ())
            yield ReasoningItem(item.id, summary, item.encrypted_content, before)
        elif item.type == "function_call":
            if place not in self._calls:
                yield self._begun(place, item)
            if place not in self._told:
                yield CallDelta(self._calls[place], arguments=item.arguments or "")
        elif item.type == "message" and place not in self._told:
            self._told.add(place)
            for part in item.content or ():
                if text := part.text or part.refusal:
                    yield TextDelta(text)

    def _end(self, said: _Event, event: ServerEvent) -> None:
        response = said.response or _Response()
        if said.type in ("response.failed", "error"):
            raise stream_error(response.error or msgspec.json.decode(event.data))
        self.is_over = True
        reason = "tool_calls" if self._calls else "stop"
        if said.type == "response.incomplete":
            why = (response.incomplete_details or _Incomplete()).reason or "incomplete"
            reason = "length" if why in _LENGTH else why
        self._finish = Finish(reason, _usage(response.usage))


def _usage(said: Any) -> Usage | None:
    if not isinstance(said, dict):
        return None
    fields = cast("dict[str, Any]", said)
    details = [fields.get(f"{side}_tokens_details") for side in ("input", "output")]
    read, made = (cast("dict[str, Any]", d) if isinstance(d, dict) else {} for d in details)
    return cached_inside(
        fields.get("input_tokens"),
        fields.get("output_tokens"),
        cached=read.get("cached_tokens"),
        reasoning=made.get("reasoning_tokens"),
    )
