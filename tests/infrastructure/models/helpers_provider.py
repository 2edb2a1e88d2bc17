"""A provider in the test's own loop: real sockets, and every byte as the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType
from typing import Any, Literal, Self

import pytest

from agent_lab.bootstrap import resolve_model
from agent_lab.domain.limits import Limits
from agent_lab.domain.messages import ChatMessage, ModelEvent, ModelRequest, ToolSchema
from agent_lab.infrastructure.models.cassette import Tape
from agent_lab.infrastructure.models.provider import ProviderModel

MODELS = {
    "openai_chat": "openai:gpt-test",
    "openai_responses": "openai-responses:gpt-test",
    "anthropic": "anthropic:claude-test",
    "gemini": "gemini:gemini-test",
}
DIALECTS = list(MODELS)
EVENT_STREAM = {"content-type": "text/event-stream"}


@dataclass
class Answer:
    """What the server says to one request, and how.

    `size` cuts the body into pieces, each flushed by itself; `cut` ends the connection after so
    many bytes of it; `wait` is awaited before the head, `pause` after the body was sent.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: dict(EVENT_STREAM))
    framing: Literal["chunked", "close", "length"] = "chunked"
    size: int | None = None
    cut: int | None = None
    wait: Callable[[], Any] | None = None
    pause: Callable[[], Any] | None = None
    head: bytes | None = None


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ProviderServer:
    """Plays its answers in order, the last one again and again; a function makes one of a request.

    `open` are the connections that are open now; `closed` is set anew each time one ends.
    """

    def __init__(self, *answers: Answer | Callable[[Asked], Answer]) -> None:
        self.answers: list[Any] = list(answers)
        self.asked: list[Asked] = []
        self.open = 0
        self.accepted = 0
        self.ended = asyncio.Event()
        self._came = asyncio.Event()
        self.writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        import_sdks()  # which takes seconds: outside of what a test measures
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        for writer in list(self.writers):
            writer.transport.abort()

    async def until_asked(self, count: int) -> None:
        """Return when so many requests have come."""
        async with asyncio.timeout(5):
            while len(self.asked) < count:
                self._came.clear()
                await self._came.wait()

    def url(self, dialect: str) -> str:
        """The `base_url` for a dialect's model."""
        path = "/v1" if dialect.startswith("openai") else ""
        return f"http://127.0.0.1:{self.port}{path}"

    def model(self, dialect: str, *, limits: Limits | None = None, **options: Any) -> ProviderModel:
        """A model of this dialect that asks this server."""
        return self.model_at(dialect, self.url(dialect), limits=limits, **options)

    @staticmethod
    def model_at(
        dialect: str,
        url: str,
        *,
        limits: Limits | None = None,
        tape: Tape | None = None,
        **options: Any,
    ) -> ProviderModel:
        """A model of this dialect at any address."""
        model = resolve_model(
            MODELS[dialect], base_url=url, limits=limits, options=options, tape=tape
        )
        assert isinstance(model, ProviderModel)
        return model

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.accepted += 1
        self.writers.add(writer)
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                self._came.set()
                told: Any = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                answer: Any = told(asked) if callable(told) else told
                if not await self._answer(answer, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            self.writers.discard(writer)
            writer.close()
            self.ended.set()

    async def _answer(
        self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Play it; False if the connection ends with it. A peer that leaves ends it at once."""
        async with asyncio.TaskGroup() as group:
            gone = group.create_task(_until_gone(reader))
            play = group.create_task(self._play(answer, writer))
            await asyncio.wait((gone, play), return_when=asyncio.FIRST_COMPLETED)
            finished = play.done()
            gone.cancel()
            play.cancel()
        return finished and answer.framing != "close" and answer.cut is None

    async def _play(self, answer: Answer, writer: asyncio.StreamWriter) -> None:
        if answer.wait is not None:
            await answer.wait()
        writer.write(answer.head or _head(answer))
        body = answer.body if answer.cut is None else answer.body[: answer.cut]
        size = answer.size or max(len(body), 1)
        with suppress(ConnectionError):
            for at in range(0, len(body), size):
                piece = body[at : at + size]
                if answer.framing == "chunked":
                    piece = b"%x\r\n%s\r\n" % (len(piece), piece)
                writer.write(piece)
                await writer.drain()
                if answer.size:
                    await asyncio.sleep(0)
            if answer.pause is not None:
                await answer.pause()
            if answer.framing == "chunked" and answer.cut is None:
                writer.write(b"0\r\n\r\n")
            await writer.drain()


@cache
def import_sdks() -> None:
    """Import what the models of all dialects import when they are made."""
    for dialect, name in MODELS.items():
        resolve_model(name, base_url=f"http://127.0.0.1:1/{dialect}")


async def _until_gone(reader: asyncio.StreamReader) -> None:
    while not reader.at_eof() and reader.exception() is None:  # noqa: ASYNC110  # it has no event
        await asyncio.sleep(0.002)


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {
        name.lower(): value.strip() for name, _, value in (li.partition(":") for li in lines if li)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body)


def _head(answer: Answer) -> bytes:
    headers = dict(answer.headers)
    match answer.framing:
        case "chunked":
            headers["transfer-encoding"] = "chunked"
        case "length":
            headers.setdefault("content-length", str(len(answer.body)))
        case "close":
            headers["connection"] = "close"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {answer.status} Said So\r\n{lines}\r\n".encode()


# -- asking --------------------------------------------------------------------------------------

TOOL = ToolSchema(
    "get_weather",
    "The weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def request(
    model: ProviderModel, messages: Sequence[ChatMessage] = (), *, tools: bool = False
) -> ModelRequest:
    """A request of a session's first call."""
    history = list(messages) or [ChatMessage("user", "Hello?")]
    return ModelRequest(
        "s_1",
        model.name,
        model.dialect,
        "Be brief.",
        (TOOL,) if tools else (),
        history,
        0,
        len(history),
        1,
        0,
    )


async def ask(model: ProviderModel, *messages: ChatMessage) -> list[ModelEvent]:
    """All events of one answer."""
    return [event async for event in model.stream(request(model, messages))]


by_dialect = pytest.mark.parametrize("dialect", DIALECTS)
