"""The connections to providers: one pool a loop, provider, address and key; and its breaker.

Sockets belong to a loop, so all this does too, and ends with it: a generator that waits in the
loop closes the pools when `asyncio.run` shuts its generators down.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Hashable
from functools import cache
from typing import Any
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import httpx2

from agent_lab.domain.breaker import Breaker
from agent_lab.infrastructure.models.cassette import Tape
from agent_lab.infrastructure.models.transport import Transport

KEPT = 20
"""Connections that stay open while nobody uses them."""


class Sockets:
    """One pool of connections, which its holders keep open."""

    __slots__ = ("_below", "_holders", "_retired", "is_closed")

    def __init__(self, below: httpx2.AsyncBaseTransport) -> None:
        self._below = below
        self._holders = 0
        self._retired = False
        self.is_closed = False

    def take(self) -> httpx2.AsyncBaseTransport:
        """Use it; give it back with `give_back`."""
        self._holders += 1
        return self._below

    async def give_back(self) -> None:
        """A call is over; what is retired closes with its last one."""
        self._holders -= 1
        await self._close_if_done()

    async def retire(self) -> None:
        """No further call uses it."""
        self._retired = True
        await self._close_if_done()

    async def _close_if_done(self) -> None:
        if self._retired and not self._holders and not self.is_closed:
            self.is_closed = True
            await self._below.aclose()


class Pool:
    """The SDK's client for one provider, address and key, and the sockets it stands on now."""

    def __init__(self, sdk: Any, make: Callable[[], httpx2.AsyncBaseTransport]) -> None:
        self.sdk = sdk
        self._make = make
        self.sockets: Sockets | None = None
        """What the next call uses, if it is open."""

    def current(self) -> Sockets:
        """The sockets for a call."""
        if self.sockets is None:
            self.sockets = Sockets(self._make())
        return self.sockets

    async def evict(self, sockets: Sockets) -> None:
        """A stream on them broke off: later calls use new ones, those under way go on.

        Only a holder of the sockets that are here now evicts them, so ten that break off together
        evict once and not ten times (S65).
        """
        if sockets is self.sockets:
            self.sockets = None
            await sockets.retire()

    async def close(self) -> None:
        """Close what is open."""
        if (sockets := self.sockets) is not None:
            await self.evict(sockets)


class Connections:
    """All pools and breakers of one loop."""

    def __init__(self) -> None:
        self.pools: dict[Hashable, Pool] = {}
        """By provider, address, key and tape."""
        self._breakers: dict[tuple[str, str], Breaker] = {}
        self._keeper = self._keep()

    def pool(self, key: Hashable, make: Callable[[], Pool]) -> Pool:
        """The pool of this key."""
        if (found := self.pools.get(key)) is None:
            found = self.pools[key] = make()
        return found

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
            for pool in self.pools.values():
                await pool.close()
            self.pools.clear()


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Connections] = WeakKeyDictionary()


async def connections() -> Connections:
    """Those of the running loop."""
    loop = asyncio.get_running_loop()
    found = _of_loop.get(loop)
    if found is None:
        found = _of_loop[loop] = Connections()
        await found.begin()
    return found


def http_client() -> httpx2.AsyncClient:
    """For an SDK: it follows nothing, and waits as long as we do."""
    return httpx2.AsyncClient(transport=Transport(), follow_redirects=False, timeout=None)


def open_sockets(url: str, tape: Tape | None) -> httpx2.AsyncBaseTransport:
    """Connections to an address, by the environment's proxy if it names one; or a cassette."""
    return tape.transport(lambda: _network(url)) if tape is not None else _network(url)


def _network(url: str) -> httpx2.AsyncBaseTransport:
    address = httpx2.URL(url)
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    return httpx2.AsyncHTTPTransport(
        verify=_certificates(),
        proxy=None if not proxy or proxy_bypass(address.host) else proxy,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT),
    )


@cache
def _certificates() -> ssl.SSLContext:
    """Made once: reading them takes as long as many requests."""
    return httpx2.create_ssl_context()
