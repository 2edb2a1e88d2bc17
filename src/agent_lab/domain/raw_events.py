"""A provider's answer as it came, event by event."""

import zlib
from base64 import b64decode, b64encode

import msgspec

from agent_lab.domain.redaction import SECRETS


class RawEvents(msgspec.Struct, frozen=True):
    """The `data` of each event; of an answer that is too long `omitted` last ones are missing."""

    events: list[str] = []
    omitted: int = 0


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
    hidden = RawEvents([SECRETS.hide(event) for event in raw.events], raw.omitted)
    return msgspec.json.encode(_Packed(b64encode(pack(hidden)).decode()))


def from_store(body: bytes) -> RawEvents:
    """What `to_store` wrote."""
    return unpack(b64decode(msgspec.json.decode(body, type=_Packed).zlib))


def raw_id(epoch: str, seq: int) -> str:
    """Id of the record with what the provider sent before entry `seq` of this journal."""
    return f"{epoch} {seq}"
