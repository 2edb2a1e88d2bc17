"""Recordings of what went over the wire, and playing them again without a network.

A folder holds one JSON file an exchange, `0001.json` and on: method, path and body of the request,
status, headers that matter and body of the answer. No address and no request header is kept, so a
recording made against one server plays for another; secrets that the process holds are taken out
of the rest.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Literal, cast

import httpx2
import msgspec

from agent_lab.domain.errors import ModelError
from agent_lab.domain.redaction import SECRETS

Mode = Literal["record", "replay"]

_NAME = "[0-9][0-9][0-9][0-9].json"
_HEADERS = ("content-type", "content-encoding", "retry-after", "retry-after-ms", "date")
_SHOWN = 120


class _Asked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    method: str
    path: str
    body: Any


class _Answered(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`body` is text, an event a line of the file; `cut` says how it broke off, if it did."""

    status: int
    headers: dict[str, str]
    body: list[str] = []
    body_base64: bytes | None = None
    cut: str = ""


class Recording(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One exchange."""

    request: _Asked
    response: _Answered


class Tape:
    """A folder of recordings, written (`record`) or read (`replay`).

    Recording wants a folder without recordings. Replaying, each recording answers one request,
    equal requests in the order they were made; no socket is opened. Raises ModelError
    `cassette_unusable`.
    """

    def __init__(self, folder: str | Path, mode: Mode) -> None:
        self.folder = Path(folder)
        self.mode = mode
        found = sorted(self.folder.glob(_NAME))
        if mode == "record":
            if found:
                raise _unusable(
                    f"{str(self.folder)!r} holds recordings", "remove them, or name another folder"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
        elif not found:
            raise _unusable(
                f"{str(self.folder)!r} holds no recordings", "record a run with --record first"
            )
        self._left = [(path.name, _read(path)) for path in found] if mode == "replay" else []
        self._used: list[tuple[str, Recording]] = []
        self._count = 0

    def transport(
        self, sockets: Callable[[], httpx2.AsyncBaseTransport]
    ) -> httpx2.AsyncBaseTransport:
        """What stands below a client in place of its sockets, or over them."""
        return _Recorder(self, sockets()) if self.mode == "record" else _Player(self)

    @property
    def unused(self) -> list[str]:
        """Names of the recordings that no request asked for."""
        return [name for name, _ in self._left]

    def keep(self, recording: Recording) -> None:
        """Write one down."""
        self._count += 1
        path = self.folder / f"{self._count:04}.json"
        said = msgspec.json.format(msgspec.json.encode(recording), indent=1)
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(said + b"\n")
        unfinished.replace(path)

    def find(self, asked: _Asked) -> Recording:
        """The next recording of this request; raises ModelError `cassette_mismatch`."""
        for place, (name, recording) in enumerate(self._left):
            if recording.request == asked:
                self._used.append((name, recording))
                del self._left[place]
                return recording
        raise self._mismatch(asked)

    def _mismatch(self, asked: _Asked) -> ModelError:
        near = [
            (len(found := list(_differences(recording.request, asked))), name, found)
            for name, recording in self._left or self._used
        ]
        what = f"no recording in {str(self.folder)!r} matches {asked.method} {asked.path}"
        if not near:
            said = what
        else:
            count, name, found = min(near, key=lambda one: one[0])
            if not found:
                said = f"{what}: {name} was played already"
            else:
                where, recorded, now = found[0]
                said = (
                    f"{what}; the nearest, {name}, differs in {count} "
                    f"{'place' if count == 1 else 'places'}, first at {where}: "
                    f"recorded {_shown(recorded)}, asked {_shown(now)}"
                )
        return ModelError(
            said, code="cassette_mismatch", hint="mend what changed the request, or record it anew"
        )


class _Recorder(httpx2.AsyncBaseTransport):
    def __init__(self, tape: Tape, sockets: httpx2.AsyncBaseTransport) -> None:
        self._tape = tape
        self._sockets = sockets

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = _asked(request)
        response = await self._sockets.handle_async_request(request)
        headers = {name: response.headers[name] for name in _HEADERS if name in response.headers}
        stream = cast("httpx2.AsyncByteStream", response.stream)
        answered = _Answered(status=response.status_code, headers=headers)
        told = _Told(stream, lambda body, cut: self._keep(asked, answered, body, cut))
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=told,
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._sockets.aclose()

    def _keep(self, asked: _Asked, answered: _Answered, body: bytes, cut: str) -> None:
        answered.cut = cut
        try:
            text = SECRETS.hide(body.decode())
            answered.body = re.findall(r"[^\n]*\n+|[^\n]+", text)
        except UnicodeDecodeError:
            answered.body_base64 = body
        self._tape.keep(Recording(request=asked, response=answered))


class _Told(httpx2.AsyncByteStream):
    """A stream whose whole body is told when it ends, breaks off or is left."""

    def __init__(self, stream: httpx2.AsyncByteStream, tell: Callable[[bytes, str], None]) -> None:
        self._stream = stream
        self._tell = tell
        self._body = bytearray()
        self._ended = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                self._body += piece
                yield piece
        except httpx2.TransportError as error:
            self._end(str(error) or type(error).__name__)
            raise
        self._end("")

    async def aclose(self) -> None:
        await self._stream.aclose()
        self._end("nobody listened any further")

    def _end(self, cut: str) -> None:
        if not self._ended:
            self._ended = True
            self._tell(bytes(self._body), cut)


class _Player(httpx2.AsyncBaseTransport):
    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answered = self._tape.find(_asked(request)).response
        body = "".join(answered.body).encode()
        if answered.body_base64 is not None:
            body = answered.body_base64
        return httpx2.Response(
            answered.status, headers=answered.headers, stream=_Played(body, answered.cut)
        )


class _Played(httpx2.AsyncByteStream):
    def __init__(self, body: bytes, cut: str) -> None:
        self._body = body
        self._cut = cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
        if self._cut:
            raise httpx2.ReadError(self._cut)


def _asked(request: httpx2.Request) -> _Asked:
    path = request.url.raw_path.decode()
    body = SECRETS.hide_in(msgspec.json.decode(request.content))
    return _Asked(method=request.method, path=SECRETS.hide(path), body=body)


def _read(path: Path) -> Recording:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Recording)
    except (OSError, msgspec.MsgspecError) as error:
        raise _unusable(f"{str(path)!r} cannot be read: {error}", "record it anew") from error


def _unusable(what: str, hint: str) -> ModelError:
    return ModelError(what, code="cassette_unusable", hint=hint)


def _differences(recorded: _Asked, asked: _Asked) -> Iterator[tuple[str, Any, Any]]:
    """Where two requests differ: the place, what was recorded and what is asked."""
    for part in ("method", "path"):
        if getattr(recorded, part) != getattr(asked, part):
            yield part, getattr(recorded, part), getattr(asked, part)
    yield from _walk("", recorded.body, asked.body)


_MISSING = object()


def _walk(where: str, recorded: Any, asked: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(recorded, dict) and isinstance(asked, dict):
        old, new = cast("dict[str, Any]", recorded), cast("dict[str, Any]", asked)
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{where}.{key}" if where else key
            yield from _walk(inner, old.get(key, _MISSING), new.get(key, _MISSING))
    elif isinstance(recorded, list) and isinstance(asked, list):
        before, now = cast("list[Any]", recorded), cast("list[Any]", asked)
        for place in range(max(len(before), len(now))):
            pair = [side[place] if place < len(side) else _MISSING for side in (before, now)]
            yield from _walk(f"{where}[{place}]", *pair)
    elif recorded is _MISSING or asked is _MISSING or recorded != asked:
        yield where or "the body", recorded, asked


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
