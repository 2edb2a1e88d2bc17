"""The connections to providers: one pool a loop, provider, address and key; and its breaker.

Sockets belong to a loop, so all this does too, and ends with it: a generator that waits in the
loop closes the pools when `asyncio.run` shuts its generators down.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Any
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import httpx2

from agent_lab.domain.breaker import Breaker
from agent_lab.infrastructure.models.cassette import Tape
from agent_lab.infrastructure.models.transport import Transport

KEPT = 20
"""Connections that stay open while nobody uses them."""


class Client:
    """One HTTP client and the SDK's client upon it."""

    __slots__ = ("_holders", "_http", "_retired", "sdk")

    def __init__(self, http: httpx2.AsyncClient, sdk: Any) -> None:
        self._http = http
        self.sdk = sdk
        self._holders = 0
        self._retired = False

    @property
    def is_retired(self) -> bool:
        """Whether no further call uses it."""
        return self._retired

    def take(self) -> "Client":
        """Use it; give it back with `give_back`."""
        self._holders += 1
        return self

    async def give_back(self) -> None:
        """A call is over; a retired client closes with its last one."""
        self._holders -= 1
        await self._close_if_done()

    async def retire(self) -> None:
        """No further call uses it."""
        self._retired = True
        await self._close_if_done()

    async def _close_if_done(self) -> None:
        if self._retired and not self._holders:
            await self._http.aclose()


class Pool:
    """The client for one provider, address and key, made when it is first needed."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._client: Client | None = None

    def take(self) -> Client:
        """The client, held until `give_back`."""
        if self._client is None:
            self._client = self._make()
        return self._client.take()

    async def evict(self, client: Client) -> None:
        """A stream of this client broke off: later calls use a new one, those under way go on.

        Only a holder of the client that is here now evicts it, so ten that break off together
        evict one client and not ten (S65).
        """
        if client is self._client:
            self._client = None
            await client.retire()

    async def close(self) -> None:
        """Close what is open."""
        if (client := self._client) is not None:
            self._client = None
            await client.retire()


class Connections:
    """All pools and breakers of one loop."""

    def __init__(self) -> None:
        self._pools: dict[Hashable, Pool] = {}
        self._breakers: dict[tuple[str, str], Breaker] = {}
        self._keeper = self._keep()

    def pool(self, key: Hashable, make: Callable[[], Client]) -> Pool:
        """The pool of this key."""
        return self._pools.setdefault(key, Pool(make))

    def breaker(self, provider: str, host: str) -> Breaker:
        """The breaker of a provider and host."""
        return self._breakers.setdefault((provider, host), Breaker())

    async def begin(self) -> None:
        """Have the loop close all when it ends."""
        await anext(self._keeper)

    async def _keep(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            for pool in self._pools.values():
                await pool.close()
            self._pools.clear()


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Connections] = WeakKeyDictionary()


async def connections() -> Connections:
    """Those of the running loop."""
    loop = asyncio.get_running_loop()
    found = _of_loop.get(loop)
    if found is None:
        found = _of_loop[loop] = Connections()
        await found.begin()
    return found


def http_client(url: str, tape: Tape | None) -> httpx2.AsyncClient:
    """A client that follows nothing and waits as long as we do."""
    below = tape.transport(lambda: _sockets(url)) if tape is not None else _sockets(url)
    return httpx2.AsyncClient(transport=Transport(below), follow_redirects=False, timeout=None)


def _sockets(url: str) -> httpx2.AsyncBaseTransport:
    address = httpx2.URL(url)
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    return httpx2.AsyncHTTPTransport(
        proxy=None if not proxy or proxy_bypass(address.host) else proxy,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT),
    )
