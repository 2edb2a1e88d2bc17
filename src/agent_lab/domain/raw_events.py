"""A provider's answer as it came, event by event."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from agent_lab.domain.redaction import SECRETS


class RawEvents(msgspec.Struct, frozen=True):
    """The `data` of each event; of an answer that is too long `omitted` last ones are missing."""

    events: list[str] = []
    omitted: int = 0


_Place = tuple[str | int, ...]
"""Keys and indices that lead to a text in an event."""


class _Packed(msgspec.Struct, frozen=True):
    zlib: str


_decode = msgspec.json.Decoder(RawEvents).decode


def pack(raw: RawEvents) -> bytes:
    """A tenth of their size, for the events of one answer are alike."""
    return zlib.compress(msgspec.json.encode(raw), 1)


def unpack(packed: bytes) -> RawEvents:
    """What was packed."""
    return _decode(zlib.decompress(packed))


def to_store(raw: RawEvents) -> bytes:
    """The body of their record, JSON as all bodies are. Secrets go before it is packed."""
    return msgspec.json.encode(_Packed(b64encode(pack(hidden(raw))).decode()))


def from_store(body: bytes) -> RawEvents:
    """What `to_store` wrote."""
    return unpack(b64decode(msgspec.json.decode(body, type=_Packed).zlib))


def hidden(raw: RawEvents) -> RawEvents:
    """Without the secrets of this process, whole ones and those told in pieces.

    Texts at the same place of one event after the other are one text: a provider streams it so.
    What has no secret in it stays as it came, to the byte.
    """
    if not SECRETS.forms:
        return raw
    events = [SECRETS.hide(event) for event in raw.events]
    said = [_read(event) for event in events]
    places: dict[_Place, list[tuple[int, str]]] = {}
    for number, event in enumerate(said):
        for place, text in _texts(event, ()):
            places.setdefault(place, []).append((number, text))
    for place, texts in places.items():
        if SECRETS.are_in("".join(text for _, text in texts)):
            for number, text in _veiled(texts):
                _put(said[number], place, text)
                events[number] = msgspec.json.encode(said[number]).decode()
    return RawEvents(events, raw.omitted)


def _veiled(texts: list[tuple[int, str]]) -> list[tuple[int, str]]:
    stream = SECRETS.stream()
    assert stream is not None
    clear = [(number, stream.push(text)) for number, text in texts]
    number, last = clear[-1]
    return [*clear[:-1], (number, last + stream.end())]


def _read(event: str) -> Any:
    try:
        return msgspec.json.decode(event)
    except (msgspec.DecodeError, RecursionError):
        return None


def _texts(value: Any, place: _Place) -> Iterator[tuple[_Place, str]]:
    if isinstance(value, str) and place:  # an event that is nothing but a text was looked at
        yield place, value
    elif isinstance(value, dict | list):
        parts = cast("dict[str, Any] | list[Any]", value)
        for key, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
            yield from _texts(part, (*place, key))


def _put(value: Any, place: _Place, text: str) -> None:
    for key in place[:-1]:
        value = value[key]
    value[place[-1]] = text


def raw_id(epoch: str, seq: int) -> str:
    """Id of the record with what the provider sent before entry `seq` of this journal."""
    return f"{epoch} {seq}"
