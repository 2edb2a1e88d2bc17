"""The base of all payloads; the closed union of them is in payloads.py."""

from typing import Any, ClassVar

import msgspec


class Payload(msgspec.Struct, frozen=True, gc=False, tag_field="type", kw_only=True):
    """Base of the closed union. `turn` and `step` count from 1; None outside a turn."""

    type: ClassVar[str]
    """The payload's name on the wire."""
    on_output: ClassVar[bool] = False
    """Whether it goes to the `output` queue too."""
    turn: int | None = None
    step: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The payload as it goes on the wire."""
        return msgspec.json.decode(msgspec.json.encode(self))
