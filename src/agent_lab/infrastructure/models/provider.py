"""What the models of all providers share: one call, from the rendered request to the last event.

A subclass knows its SDK (how a request is sent) and its dialect (what an event means).
"""

import asyncio
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import httpx2
import msgspec

from agent_lab.domain.breaker import Breaker
from agent_lab.domain.dialects import encode_body
from agent_lab.domain.errors import ModelError
from agent_lab.domain.limits import Limits
from agent_lab.domain.messages import Finish, ModelEvent, ModelRequest, Sent
from agent_lab.infrastructure.models.cassette import Tape
from agent_lab.infrastructure.models.clients import Client, Pool, connections, http_client
from agent_lab.infrastructure.models.sse import EventSplitter, ServerEvent
from agent_lab.infrastructure.models.transport import (
    Dropped,
    Exchange,
    Unreachable,
    current,
    unpacked,
)

RAW_SIZE = 1 << 20
"""Characters of raw events kept of one answer."""
TAIL = 2.0
"""Seconds for what may come behind the end, such as the usage."""
DRAIN = 0.1
"""Seconds for the end of the body behind the last event, so that its connection is kept."""


class Decoder(ABC):
    """What the events of one answer mean."""

    is_over: bool = False
    """Whether nothing more will come."""

    @property
    @abstractmethod
    def finish(self) -> Finish | None:
        """The answer's end, once the provider has said it."""

    @abstractmethod
    def feed(self, event: ServerEvent) -> Iterable[ModelEvent]:
        """The model's events in one of the provider's.

        Raises ModelError for an error event, msgspec.MsgspecError for one that cannot be read.
        """


class ProviderModel(ABC):
    """A model behind HTTP. Cheap to make; connections are shared by all of one loop.

    `base_url` names a compatible server; `options` go into each request's body as they are, such
    as `{"temperature": 0}`. The key comes from the provider's usual environment variable. Raises
    ModelError when the SDK is not installed, the key is missing or the address is none.
    """

    dialect: ClassVar[str]
    provider: ClassVar[str]
    """The kind of model, as it stands before the colon in `"openai:MODEL"`; also its extra."""
    package: ClassVar[str]
    """The SDK's import name."""
    extra: ClassVar[str]
    key_variables: ClassVar[tuple[str, ...]]
    default_url: ClassVar[str]

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        options: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        tape: Tape | None = None,
    ) -> None:
        """`tape` records what goes over the wire, or plays it again."""
        self.name = name
        self.base_url = _address(base_url or self.default_url)
        self._options = dict(options or {})
        self._limits = limits or Limits()
        self._tape = tape
        self._sdk = self._import()
        self._key = self._find_key(own_server=base_url is not None or tape is not None and tape.mode == "replay")

    # -- what a subclass knows -------------------------------------------------------------------

    @abstractmethod
    def own_options(self, request: ModelRequest) -> dict[str, Any]:
        """What the body has besides model, history and tools, without the user's options."""

    @abstractmethod
    def connect(self, sdk: ModuleType, http: httpx2.AsyncClient, key: str) -> Any:
        """The SDK's client, without retries of its own."""

    @abstractmethod
    async def send(self, client: Any, body: bytes) -> object:
        """Have the SDK's client make and send the request."""

    @abstractmethod
    def decoder(self) -> Decoder:
        """A decoder for one answer."""

    # -- one call --------------------------------------------------------------------------------

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The answer as it comes; raises ModelError."""
        options = {**self.own_options(request), **self._options}
        body = encode_body(request, options)
        # Before the first await, so that whoever reads the entry sees it.
        request.sent_as(Sent(hashlib.sha256(body).hexdigest(), options))
        loop = asyncio.get_running_loop()
        all_ = await connections()
        host = httpx2.URL(self.base_url).netloc.decode()
        breaker = all_.breaker(self.provider, host)
        ticket = breaker.admit(loop.time())
        if ticket is None:
            raise _open_circuit(host, breaker, loop.time())
        pool = all_.pool((self.provider, self.base_url, self._key, self._tape), self._client)
        client = pool.take()
        try:
            async with aclosing(self._ask(client, Exchange(body), breaker)) as events:
                async for event in events:
                    yield event
        except Unreachable as error:
            breaker.unreachable(ticket, loop.time(), str(error))
            raise
        except Dropped:
            breaker.dropped(loop.time())
            await pool.evict(client)
            raise
        finally:
            breaker.returned(ticket)
            await client.give_back()

    async def _ask(
        self, client: Client, exchange: Exchange, breaker: Breaker
    ) -> AsyncGenerator[ModelEvent, None]:
        loop, limits = asyncio.get_running_loop(), self._limits
        first_by = loop.time() + limits.model_first_byte
        try:
            async with asyncio.timeout_at(first_by):
                await self._send(client, exchange)
        except TimeoutError:
            raise _too_slow("provider_timeout", "no answer", limits.model_first_byte) from None
        finally:
            if exchange.was_answered:
                breaker.reached()  # a refusal is an answer too
        response = exchange.response
        assert response is not None, "the transport keeps each answer that it lets through"
        try:
            async with aclosing(self._events(response, first_by)) as events:
                async for event in events:
                    yield event
        finally:
            await response.aclose()

    async def _send(self, client: Client, exchange: Exchange) -> None:
        """In a coroutine of its own, so that the context variable is set and reset in one task."""
        token = current.set(exchange)
        try:
            await self.send(client.sdk, exchange.body)
        finally:
            current.reset(token)

    async def _events(
        self, response: httpx2.Response, first_by: float
    ) -> AsyncGenerator[ModelEvent, None]:
        decoder, raw = self.decoder(), RawEvents()
        try:
            async with aclosing(self._server_events(response, decoder, first_by)) as events:
                async for event in events:
                    raw.add(event.data)
                    for said in _read(decoder, event) if not decoder.is_over else ():
                        yield said
        except ModelError as error:
            # What comes behind the provider's own last word can neither add to it nor void it.
            if decoder.finish is None:
                error.raw = raw.taken
                raise
        if decoder.finish is None:
            return  # cut: whoever hears a stream end without Finish says so
        finish = decoder.finish
        yield Finish(finish.reason, finish.usage, raw.taken)

    async def _server_events(
        self, response: httpx2.Response, decoder: Decoder, first_by: float
    ) -> AsyncGenerator[ServerEvent, None]:
        """The events, each in time: a comment or half an event moves no deadline (T25)."""
        loop, stall = asyncio.get_running_loop(), self._limits.model_stall
        splitter = EventSplitter()
        deadline, heard = first_by, False
        async with aclosing(_as_generator(unpacked(response))) as pieces:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    break
                except TimeoutError:
                    if heard:
                        raise _too_slow("provider_stalled", "no further event", stall) from None
                    limit = self._limits.model_first_byte
                    raise _too_slow("provider_timeout", "no first event", limit) from None
                told = False
                for event in splitter.feed(piece):
                    heard = told = True
                    yield event
                if told:  # counted from when we listen again, not from when we were told
                    tail = TAIL if decoder.finish is not None else stall
                    deadline = loop.time() + (DRAIN if decoder.is_over else tail)
        if (event := splitter.flush()) is not None:
            yield event

    # -- what it stands on -----------------------------------------------------------------------

    def _client(self) -> Client:
        http = http_client(self.base_url, self._tape)
        return Client(http, self.connect(self._sdk, http, self._key))

    def _import(self) -> ModuleType:
        try:
            return import_module(self.package)
        except ModuleNotFoundError as error:
            raise ModelError(
                f"{self.provider}:{self.name} needs the package {self.package.replace('.', '-')}",
                code="model_unavailable",
                hint=f'pip install "agent-lab[{self.extra}]"',
            ) from error

    def _find_key(self, *, own_server: bool) -> str:
        for variable in self.key_variables:
            if key := os.environ.get(variable, "").strip():
                if key.isascii() and key.isprintable():
                    return key
                raise ModelError(
                    f"{variable} holds characters that no HTTP header takes",
                    code="provider_auth",
                    hint="set it anew, without line ends and quotes",
                )
        if own_server:
            return "none"  # local servers ask for none
        raise ModelError(
            f"{self.provider}:{self.name} needs an API key, and {self.key_variables[0]} is not set",
            code="provider_auth",
            hint=f"set {self.key_variables[0]}, or base_url for a server of your own",
        )


class RawEvents:
    """The provider's events as they came, up to RAW_SIZE characters."""

    def __init__(self) -> None:
        self._events: list[str] = []
        self._room = RAW_SIZE

    def add(self, data: str) -> None:
        """Keep one, if there is room."""
        self._room -= len(data)
        if self._room >= 0:
            self._events.append(data)

    @property
    def taken(self) -> tuple[str, ...]:
        """All that were kept, in order."""
        return tuple(self._events)


def _read(decoder: Decoder, event: ServerEvent) -> Iterable[ModelEvent]:
    try:
        yield from decoder.feed(event)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise ModelError(
            f"the provider's stream has an event that cannot be read: {error}: {event.data:.200}",
            code="provider_bad_stream",
            hint="the raw events show what came; is this server of the kind you named?",
        ) from error


async def _as_generator(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        yield piece


def _too_slow(code: str, what: str, limit: float) -> ModelError:
    return ModelError(
        f"the provider gave {what} within {limit:g} s",
        code=code,
        hint="raise Limits.model_first_byte or Limits.model_stall, or look at the provider",
        may_pass=True,
    )


def _open_circuit(host: str, breaker: Breaker, now: float) -> ModelError:
    wait = breaker.wait(now)
    return ModelError(
        f"{host} is not asked: {breaker.reason}",
        code="circuit_open",
        hint=f"the next try is in {wait:.0f} s" if wait else "a first try is under way",
        retry_after=wait,
    )


def _address(url: str) -> str:
    try:
        parsed = httpx2.URL(url)
        well = parsed.scheme in ("http", "https") and bool(parsed.host)
    except (httpx2.InvalidURL, TypeError):
        well = False
    if not well:
        raise ModelError(
            f"base_url {url!r} is no address",
            code="model_unknown",
            hint='write it whole, such as "http://127.0.0.1:8000/v1"',
        )
    return url.rstrip("/")
