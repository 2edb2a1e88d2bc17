"""The pool of connections under a model, after all that can be cancelled was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import cast

import httpx2
import pytest

from agent_lab.domain.messages import Finish
from agent_lab.infrastructure.models.clients import KEPT, connections
from tests.infrastructure.models.helpers_formats import answer
from tests.infrastructure.models.helpers_provider import ProviderServer, ask, import_sdks

BODY = b"".join(answer("openai_chat", ["Hel", "lo"]))
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"


class Brief(asyncio.Protocol):
    """One connection to a server that costs next to nothing: each request comes in one piece."""

    def __init__(self, open_: set[Brief]) -> None:
        self._open = open_

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._open.add(self)

    def data_received(self, data: bytes) -> None:
        self._transport.write(HEAD % len(BODY) + BODY[:100])
        asyncio.get_running_loop().call_soon(self._transport.write, BODY[100:])

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)


@asynccontextmanager
async def brief_server() -> AsyncIterator[tuple[str, set[Brief]]]:
    """Its address, and the connections that are open."""
    import_sdks()
    open_: set[Brief] = set()
    server = await asyncio.get_running_loop().create_server(lambda: Brief(open_), "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", open_


async def send(below: httpx2.AsyncBaseTransport, url: str) -> None:
    """One request, its answer read to the end."""
    response = await below.handle_async_request(httpx2.Request("POST", url, content=b"{}"))
    async with aclosing(response):
        async for _ in cast("httpx2.AsyncByteStream", response.stream):
            pass


@pytest.mark.fault("P27")
@pytest.mark.timeout(240)  # a minute on a busy machine
async def test_ten_thousand_cancelled_requests_leave_nothing_in_the_pool() -> None:
    """On the sockets that a model uses, below its SDK, at each point of the request."""
    async with brief_server() as (url, open_):
        model = ProviderServer.model_at("openai_chat", url)
        await ask(model)
        (pool,) = [one for key, one in (await connections()).pools.items() if url in str(key)]
        sockets = pool.current()
        below = sockets.take()
        cancelled = 0
        for count in range(10_000):
            task = asyncio.ensure_future(send(below, url))
            for _ in range(count % 12):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            cancelled += task.cancelled()
        await sockets.give_back()
        assert cancelled > 9_000, "few were done before"
        assert pool.current() is sockets

        async with asyncio.timeout(10):
            answers = await asyncio.gather(*(ask(model) for _ in range(30)))
            assert all(isinstance(said[-1], Finish) for said in answers)
            while len(open_) > KEPT:  # noqa: ASYNC110  # the kernel tells the server a little later
                await asyncio.sleep(0)
