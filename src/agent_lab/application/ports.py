"""What the application needs from outside; each port has two implementations at least."""

from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Protocol, runtime_checkable

from agent_lab.domain.messages import ModelEvent, ModelRequest, Reply


@runtime_checkable
class Model(Protocol):
    """Something that answers a history.

    `stream` gives the answer as it comes, an iterator of `TextDelta` and `CallDelta` pieces and
    one `Finish`, or of a whole `Reply`; a model that does not stream gives the `Reply` from a
    coroutine instead (`async def stream(self, request): return Reply(...)`). A stream that ends
    without `Finish` or `Reply` counts as cut: its text is void and none of its calls run. Raise
    `ModelError` for a fault of the provider. The task that iterates is cancelled when the turn
    is; clean up in `finally`.
    """

    @property
    def name(self) -> str:
        """The model's name, as the provider knows it."""
        ...

    @property
    def dialect(self) -> str:
        """The wire format it speaks, such as `openai_chat`."""
        ...

    def stream(
        self, request: ModelRequest
    ) -> AsyncIterator[ModelEvent] | Coroutine[Any, Any, Reply]:
        """Ask it; nothing happens before the first event is awaited."""
        ...


class Outside(Protocol):
    """What would make two runs differ: wall time and ids. Both come in from outside."""

    def wall_time(self) -> float:
        """Seconds since 1970, UTC; asked once a session, the loop's clock does the rest."""
        ...

    def clock(self, loop: AbstractEventLoop) -> Callable[[], float]:
        """`loop.time`, or something cheaper that gives the same."""
        ...

    def new_id(self, prefix: str) -> str:
        """A new id that begins with `prefix`, unique in this process and hard to guess."""
        ...
