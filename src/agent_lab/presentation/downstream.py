"""The one writer of a socket: a cursor on the journal, and answers to this client alone."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from agent_lab.application.journal import Entry, Gap
from agent_lab.application.nudge import Nudge
from agent_lab.application.served import Sent, ServedSession
from agent_lab.domain.errors import AgentLabError, RuntimeFailed, StorageError
from agent_lab.presentation.encoder import Encoder
from agent_lab.presentation.views import gap_frame, refused_by, repeated
from agent_lab.presentation.wire import error_frame

Found = Sequence[Entry] | Gap | StorageError
Cursor = AsyncIterator[Found]


class SocketLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Every wait and bound of a socket; times in seconds."""

    first_frame: float = 5.0
    """Longest wait for a frame before one has attached the socket."""
    progress: float = 10.0
    """Longest time one send may stand still."""
    backlog: int = 512
    """Entries a cursor may lag before entries are sent several at a time."""
    batch: int = 32
    """Entries sent together then, as one JSON array."""
    batch_size: int = 256 << 10
    """Characters at which such an array is full."""
    answers: int = 256
    """Answers that may wait for a client who does not read."""
    sockets: int = 64
    """Open at once, of one server; the next is refused with 503."""
    viewers: int = 8
    """Sockets of one session; the next is closed with 1013."""
    messages: float = 50.0
    """User messages and edits a second of one socket, on the long run; more are `rate_limited`."""
    message_burst: int = 100
    """As many at once."""
    frames: float = 500.0
    """Frames of any kind a second; who sends more is closed with 1008."""
    frame_burst: int = 1000
    """As many at once."""
    watch_interval: float = 0.1
    """Shortest time between two `changed` frames."""
    closing: float = 0.5
    """What a socket gets to close, and all of them together when the server stops."""


class Ended(Exception):
    """The socket's end, to be closed with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Downstream:
    """Tells one client a session's story from behind `after`, as it goes on.

    It follows the journal, so a slow client is a cursor that lags and costs the agent nothing.
    Entries go out one by one; behind a backlog, several as one JSON array. `send` writes one text
    frame.
    """

    def __init__(
        self,
        session: ServedSession,
        encoder: Encoder,
        after: int,
        send: Callable[[str], Awaitable[None]],
        limits: SocketLimits,
    ) -> None:
        self._session = session
        self._encoder = encoder
        self._after = after
        self._send = send
        self._limits = limits
        self._answers: deque[str] = deque()
        self._nudge: Nudge | None = None
        self._is_waiting = self._is_over = False

    def tell(self, frame: str) -> None:
        """Tell this client, and nobody else, something that is no part of the story."""
        self._answer(frame)

    def refuse(self, error: AgentLabError) -> None:
        """Tell this client, and nobody else, that its frame was not obeyed."""
        self._answer(error_frame(refused_by(error)))

    def acknowledge(self, sent: Sent) -> None:
        """Tell a client that sent a message again its receipt, unless it is on its way to him."""
        if sent.is_repeat and sent.receipt <= self._after:
            self._answer(repeated(sent, self._encoder))

    async def run(self) -> None:
        """Write until cancelled. After the end of the story only answers are left to tell."""
        task = asyncio.current_task()
        assert task is not None
        nudge = self._nudge = Nudge(task, bool)
        cursor = self._session.follow(self._after)
        try:
            while True:
                await self._tell_answers()
                found = await self._next(cursor, nudge)
                if found is not None:
                    await self._tell(found)
                elif self._is_over:
                    cursor = _silence()
                else:
                    cursor = self._session.follow(self._after)
        finally:
            await _finish(cursor)

    def _answer(self, text: str) -> None:
        """Leave it with the one writer, and throw that out of a wait for entries."""
        if len(self._answers) >= self._limits.answers:
            raise Ended(1008, "reads none of its answers")
        self._answers.append(text)
        if self._is_waiting and self._nudge is not None:
            self._is_waiting = False
            self._nudge()

    async def _next(self, cursor: Cursor, nudge: Nudge) -> Found | None:
        """What the cursor finds; None when it is spent: the story is over, or answers wait."""
        self._is_waiting = True
        try:
            return await anext(cursor)
        except asyncio.CancelledError:
            if not nudge.absorb():
                raise
        except StopAsyncIteration:
            self._is_over = True
        except RuntimeFailed as error:
            self._is_over = True
            self._answers.append(error_frame(refused_by(error)))
        finally:
            self._is_waiting = False
        return None

    async def _tell(self, found: Found) -> None:
        if isinstance(found, Gap):
            await self._send(gap_frame(self._session, found))
            self._after = found.last
            return
        if isinstance(found, StorageError):  # what is not stored is not told
            await self._send(error_frame(refused_by(found)))
            return
        at = 0
        while at < len(found):
            at += await self._tell_some(found, at)
            self._after = found[at - 1].seq
            await self._tell_answers()
            await asyncio.sleep(0)  # a long story must not keep the loop to itself

    async def _tell_some(self, found: Sequence[Entry], start: int) -> int:
        """Send one entry, or several when the client is behind; how many."""
        encode, limits = self._encoder.encode, self._limits
        if self._session.last_seq - self._after <= limits.backlog:
            await self._send(encode(found[start]))
            return 1
        texts: list[str] = []
        room = limits.batch_size
        for entry in found[start : start + limits.batch]:
            texts.append(encode(entry))
            room -= len(texts[-1])
            if room <= 0:
                break
        await self._send(f"[{','.join(texts)}]")
        return len(texts)

    async def _tell_answers(self) -> None:
        while self._answers:
            await self._send(self._answers.popleft())


async def _silence() -> Cursor:
    """What follows the end of a story: nothing, until the client leaves."""
    await asyncio.get_running_loop().create_future()
    yield ()


async def _finish(cursor: Cursor) -> None:
    """End a cursor that is left in the middle now, not when it is collected."""
    if close := getattr(cursor, "aclose", None):
        await close()
