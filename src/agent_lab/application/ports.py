"""What the application needs from outside; each port has two implementations at least."""

from collections.abc import AsyncIterator
from typing import Protocol, runtime_checkable

from agent_lab.domain.messages import ModelEvent, ModelRequest


@runtime_checkable
class Model(Protocol):
    """Something that answers a history.

    `stream` yields the answer as it comes: `TextDelta` and `CallDelta` pieces and one `Finish`,
    or a whole `Reply`. A stream that ends without `Finish` or `Reply` counts as cut: its text is
    void and none of its calls run. Raise `ModelError` for a fault of the provider. The task that
    iterates is cancelled when the turn is; clean up in `finally`.
    """

    @property
    def name(self) -> str:
        """The model's name, as the provider knows it."""
        ...

    @property
    def dialect(self) -> str:
        """The wire format it speaks, such as `openai_chat`."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask it; nothing happens before the first event is awaited."""
        ...


class Outside(Protocol):
    """What would make two runs differ: wall time and ids. Both come in from outside."""

    def wall_time(self) -> float:
        """Seconds since 1970, UTC; asked once a session, the loop's clock does the rest."""
        ...

    def new_id(self, prefix: str) -> str:
        """A new id that begins with `prefix`, unique in this process and hard to guess."""
        ...
