"""What the models of all providers share: one call, from the rendered request to the last event.

A subclass knows its SDK (how a request is sent) and its dialect (what an event means).
"""

import asyncio
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import httpx2

from agent_lab.domain.breaker import Breaker
from agent_lab.domain.dialects import encode_body
from agent_lab.domain.errors import ModelError
from agent_lab.domain.limits import Limits
from agent_lab.domain.messages import ModelEvent, ModelRequest, Wire
from agent_lab.domain.redaction import SECRETS
from agent_lab.infrastructure.models.cassette import Tape
from agent_lab.infrastructure.models.clients import Pool, connections, http_client, open_sockets
from agent_lab.infrastructure.models.reading import Decoder, read, too_slow
from agent_lab.infrastructure.models.transport import Dropped, Exchange, Unreachable, current

_HEADERS = {"content-type": "application/json"}


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
    route: ClassVar[str]
    """Where to POST, below the address."""

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
        self._key = self._find_key(own_server=base_url is not None or _plays(tape))

    # -- what a subclass knows -------------------------------------------------------------------

    @abstractmethod
    def own_options(self, request: ModelRequest) -> dict[str, Any]:
        """What the body has besides model, history and tools, without the user's options."""

    @abstractmethod
    def connect(self, sdk: ModuleType, http: httpx2.AsyncClient, key: str) -> Any:
        """The SDK's client, without retries of its own."""

    async def send(self, client: Any, body: bytes) -> object:
        """Have the SDK's client make and send the request."""
        return await client.post(
            self.route,
            cast_to=httpx2.Response,
            content=body,
            options={"headers": _HEADERS},
            stream=True,
        )

    @abstractmethod
    def decoder(self) -> Decoder:
        """A decoder for one answer."""

    # -- one call --------------------------------------------------------------------------------

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The answer as it comes; raises ModelError."""
        options = {**self.own_options(request), **self._options}
        body = encode_body(request, options)
        # Before the first await, so that whoever reads the entry sees it.
        wire = Wire(hashlib.sha256(body).hexdigest(), options)
        request.goes_out(wire)
        loop = asyncio.get_running_loop()
        all_ = await connections()
        host = httpx2.URL(self.base_url).netloc.decode()
        breaker = all_.breaker(self.provider, host)
        ticket = breaker.admit(loop.time())
        if ticket is None:
            raise _open_circuit(host, breaker, loop.time())
        pool = all_.pool((self.provider, self.base_url, self._key, self._tape), self._pool)
        sockets = pool.current()
        exchange = Exchange(body, sockets.take())
        try:
            async with aclosing(self._ask(pool.sdk, exchange, wire, breaker)) as events:
                async for event in events:
                    yield event
        except Unreachable as error:
            breaker.unreachable(ticket, loop.time(), str(error))
            raise
        except Dropped:
            breaker.dropped(loop.time())
            await pool.evict(sockets)
            raise
        finally:
            breaker.returned(ticket)
            await sockets.give_back()

    async def _ask(
        self, sdk: Any, exchange: Exchange, wire: Wire, breaker: Breaker
    ) -> AsyncGenerator[ModelEvent, None]:
        loop, limits = asyncio.get_running_loop(), self._limits
        first_by = loop.time() + limits.model_first_byte
        try:
            async with asyncio.timeout_at(first_by):
                await self._send(sdk, exchange)
        except TimeoutError:
            raise too_slow("provider_timeout", "no answer", limits.model_first_byte) from None
        finally:
            if exchange.was_answered:
                breaker.reached()  # a refusal is an answer too
        response = exchange.response
        assert response is not None, "the transport keeps each answer that it lets through"
        try:
            reading = read(response, self.decoder(), wire, limits, first_by)
            async with aclosing(reading) as events:
                async for event in events:
                    yield event
        finally:
            await response.aclose()

    async def _send(self, sdk: Any, exchange: Exchange) -> None:
        """In a coroutine of its own, so that the context variable is set and reset in one task."""
        token = current.set(exchange)
        try:
            await self.send(sdk, exchange.body)
        except Exception:
            if exchange.fault is not None:
                raise exchange.fault from exchange.fault.__cause__
            raise
        finally:
            current.reset(token)

    # -- what it stands on -----------------------------------------------------------------------

    def _pool(self) -> Pool:
        sdk = self.connect(self._sdk, http_client(), self._key)
        return Pool(sdk, lambda: open_sockets(self.base_url, self._tape))

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
                SECRETS.add(key)
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


def _plays(tape: Tape | None) -> bool:
    return tape is not None and tape.mode == "replay"


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
