"""What stands between an SDK and the socket: sends our bytes, judges the answer's head.

The SDK knows the address, the key and the headers; what the body says is the dialect's, so the
bytes that were rendered and hashed are the bytes that go out. An answer that is no stream becomes
a `ModelError` here, whatever SDK is above. The open answer is kept for whoever reads it, and the
SDK is given an empty one.
"""

import zlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from contextvars import ContextVar
from typing import cast

import httpx2

from agent_lab.domain.errors import ModelError
from agent_lab.infrastructure.models.refusals import excerpt, refusal

CONNECT_TIMEOUT = 10.0
"""Seconds to make a connection."""
BODY_SIZE = 64 << 10
"""Bytes read of a refusal."""
STREAM_SIZE = 64 << 20
"""Bytes of one answer, unpacked."""
_BLOCK = 1 << 20

_TIMEOUT = {"connect": CONNECT_TIMEOUT, "read": None, "write": None, "pool": None}
_UNREACHABLE = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)


class Unreachable(ModelError):
    """No connection to the provider: the one fault that the breaker counts."""


class Dropped(ModelError):
    """The connection broke in the middle."""


class Exchange:
    """One request and its answer: `body` goes out, `response` is open when the SDK returns.

    `fault` is what went wrong instead; an SDK may hide it behind an exception of its own.
    """

    __slots__ = ("below", "body", "fault", "response", "was_answered")

    def __init__(self, body: bytes, below: httpx2.AsyncBaseTransport) -> None:
        self.body = body
        self.below = below
        self.was_answered = False
        self.fault: ModelError | None = None
        self.response: httpx2.Response | None = None


current: ContextVar[Exchange] = ContextVar("agent_lab_exchange")
"""The exchange that the task in the SDK's call is about."""


class Transport(httpx2.AsyncBaseTransport):
    """Stands under an SDK's client and over the sockets, or a cassette, of the exchange."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send it; raises ModelError for anything but a stream of events."""
        exchange = current.get()
        headers = request.headers.copy()
        headers.pop("content-length", None)
        headers["accept-encoding"] = "identity"  # T28: 300 kB of gzip are 67 MB
        headers["accept"] = "text/event-stream"
        sent = httpx2.Request(
            request.method,
            request.url,
            headers=headers,
            content=exchange.body,
            extensions={**request.extensions, "timeout": _TIMEOUT},
        )
        try:
            response = await _ask(exchange.below, sent)
            exchange.was_answered = True
            try:
                await _judge(response)
            except BaseException:
                await response.aclose()
                raise
        except ModelError as error:
            exchange.fault = error
            raise
        exchange.response = response
        return httpx2.Response(200, headers={"content-type": "text/event-stream"})


async def _ask(below: httpx2.AsyncBaseTransport, request: httpx2.Request) -> httpx2.Response:
    try:
        return await below.handle_async_request(request)
    except _UNREACHABLE as error:
        raise unreachable(request.url.host, error) from error
    except httpx2.LocalProtocolError:
        # T39: its text shows the header's value, and with it the key
        raise ModelError(
            "the request has a header that HTTP does not allow",
            code="provider_auth",
            hint="the API key holds characters such as a line end",
        ) from None
    except httpx2.TransportError as error:
        raise dropped(error) from error


async def _judge(response: httpx2.Response) -> None:
    """Raise what the head of an answer says, unless it is a stream of events."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status_code == 200 and kind in ("text/event-stream", ""):
        return
    body = (await _beginning(response)).decode(errors="replace")
    if response.status_code != 200:
        raise refusal(response.status_code, response.headers, body)
    raise ModelError(
        f"the provider answered with {kind} and not with a stream of events: {excerpt(body)}",
        code="provider_bad_content",
        hint="check base_url; a login page or a proxy may stand in between",
    )


async def _beginning(response: httpx2.Response) -> bytes:
    read = bytearray()
    try:
        async with aclosing(unpacked(response)) as blocks:
            async for block in blocks:
                read += block
                if len(read) >= BODY_SIZE:
                    break
    except ModelError:  # the status says more than its body
        pass
    return bytes(read[:BODY_SIZE])


async def unpacked(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """The body's bytes, unpacked a block at a time; raises ModelError."""
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip", "x-gzip", "deflate", ""):
        raise ModelError(
            f"the provider packed its answer as {coding!r}, though it was asked not to",
            code="provider_bad_content",
            hint="look at what stands between you and the provider",
        )
    plain = coding in ("identity", "")
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by its head
    size = 0
    try:
        async for piece in cast("httpx2.AsyncByteStream", response.stream):
            while piece:
                block = piece if plain else unzip.decompress(piece, _BLOCK)
                piece = b"" if plain else unzip.unconsumed_tail  # noqa: PLW2901  # what is left
                size += len(block)
                if size > STREAM_SIZE:
                    raise ModelError(
                        f"the provider's answer is longer than {STREAM_SIZE} bytes",
                        code="provider_too_large",
                        hint="look at what stands between you and the provider",
                    )
                if block:
                    yield block
    except zlib.error as error:
        raise ModelError(
            f"the provider's answer says it is {coding} and is not: {error}",
            code="provider_bad_content",
            hint="look at what stands between you and the provider",
        ) from error
    except httpx2.TransportError as error:
        raise dropped(error) from error


def unreachable(host: str, error: Exception) -> Unreachable:
    """No connection; says why, with the kind of error where that has no text (S70)."""
    why = str(error).strip() or type(error).__name__
    return Unreachable(
        f"no connection to {host}: {why}",
        code="provider_unreachable",
        hint="check base_url, the network and whether the server runs",
        may_pass=True,
    )


def dropped(error: Exception) -> Dropped:
    """The answer was cut off."""
    why = str(error).strip() or type(error).__name__
    return Dropped(
        f"the provider's answer was cut off: {why}",
        code="provider_cut",
        hint="nothing of it was kept; send the message again",
        may_pass=True,
    )
