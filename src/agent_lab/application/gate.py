"""The one gate every hop passes.

Open, it costs a test: whoever is about to cross looks whether `gate.hold` is None and goes on
without an await. Held, `hold` is asked with the hop and answers when it may pass, and with what.
A hand (a test, the debugger) and a schedule (the race explorer) are two ways to answer.
"""

from asyncio import Future, get_running_loop
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

import msgspec

from agent_lab.application.journal import item_id
from agent_lab.domain.errors import HopRefused, UnknownHop
from agent_lab.domain.inbox import At
from agent_lab.domain.messages import ChatMessage, clean
from agent_lab.domain.payloads import (
    AnyPayload,
    Dropped,
    Edited,
    Paused,
    Resumed,
    ToolCalled,
)

HopKind = Literal["put", "take", "model", "tool", "thread"]
Item = ChatMessage | ToolCalled | None


class Hop(msgspec.Struct, frozen=True):
    """One crossing: what kind, on which queue if on one, and what crosses."""

    kind: HopKind
    queue: Literal["input", "events"] | None = None
    item: Item = None

    @property
    def item_id(self) -> str:
        """The message's or call's id; `model` for a model call."""
        return item_id(self.item) if self.item is not None else "model"

    def matches(self, pattern: str) -> bool:
        """Whether `*`, a kind (`tool`) or a kind and queue (`put input`) names this hop."""
        return pattern in ("*", self.kind, f"{self.kind} {self.queue}")


class Pass(msgspec.Struct, frozen=True):
    """Go on, with this item: the same, or one that was edited."""

    item: Item


class Drop(msgspec.Struct, frozen=True):
    """Throw it away."""


Verdict = Pass | Drop
Hold = Callable[[Hop], Awaitable[Verdict]]


class Gate(Protocol):
    """What a session asks of its gate."""

    @property
    def hold(self) -> Hold | None:
        """None when nothing is held: the hop passes without an await."""
        ...

    def bind(self, session: "GatedSession") -> None:
        """Told once, by the session whose hops pass here."""
        ...

    def open(self) -> None:
        """Told when the session ends: hold nothing any more and let everybody go."""
        ...


class GatedSession(Protocol):
    """What a gate may do to its session."""

    def note(self, payload: AnyPayload) -> int:
        """Write an entry and give its seq."""
        ...

    def at(self) -> At:
        """`turn` and `step` now."""
        ...

    def rewrite(self, message_id: str, content: str, hop: int) -> None:
        """Change a user message that waits, on record."""
        ...

    def stand_still(self, still: bool) -> None:
        """Stop the clock, or let it go on."""
        ...


class OpenGate:
    """Nothing is ever held."""

    hold: Hold | None = None

    def bind(self, session: GatedSession) -> None:
        """Nothing to do."""

    def open(self) -> None:
        """Nothing to do."""


class Parked:
    """A hop that stands at the gate. `number` is the seq of its `paused` entry."""

    __slots__ = ("behind", "hop", "item", "number", "verdict", "why")

    def __init__(self, number: int, hop: Hop, verdict: "Future[Verdict]") -> None:
        self.number = number
        self.hop = hop
        self.item = hop.item
        self.verdict = verdict
        self.why = "cancelled"
        self.behind: Parked | None = None


class HandGate:
    """A gate in somebody's hand: parks the hops that match, until told what to do with each.

    Patterns are `*`, a kind (`model`, `tool`, `thread`) or a kind and a queue (`put input`,
    `take events`). While anything is parked the session's clock stands still, so no limit runs
    out because somebody thinks. Entries `paused`, `resumed`, `edited` and `dropped` tell the story.
    """

    def __init__(self, *patterns: str) -> None:
        self._patterns = patterns
        self._parked: dict[int, Parked] = {}
        self._session: GatedSession | None = None
        self._arrivals: list[Future[None]] = []

    @property
    def hold(self) -> Hold | None:
        """None while no pattern is set."""
        return self._park if self._patterns else None

    @property
    def parked(self) -> list[Parked]:
        """The hops that stand here, oldest first."""
        return list(self._parked.values())

    def bind(self, session: GatedSession) -> None:
        """Belongs to this session from now on."""
        self._session = session

    def hold_at(self, *patterns: str) -> None:
        """Hold these from now on, instead of what was held; what is parked stays parked."""
        self._patterns = patterns

    def open(self) -> None:
        """Hold nothing any more and release everything."""
        self._patterns = ()
        for parked in self.parked:
            if not parked.verdict.done():
                self._answer(parked, "released")

    async def arrival(self, pattern: str = "*") -> Parked:
        """Wait until a hop that matches is parked, and give the oldest one."""
        while True:
            for parked in self._parked.values():
                if parked.hop.matches(pattern) and not parked.verdict.done():
                    return parked
            waiter: Future[None] = get_running_loop().create_future()
            self._arrivals.append(waiter)
            await waiter

    def release(self, number: int) -> None:
        """Let the hop pass."""
        self._answer(self._get(number), "released")

    def edit(self, number: int, change: str | dict[str, Any]) -> None:
        """Let it pass with other content (a message, a reply) or other arguments (a call)."""
        parked, session = self._get(number), self._bound()
        change = clean(change) if isinstance(change, str) else change
        item, after = parked.item, edited(parked.item, change)
        if isinstance(item, ChatMessage) and item.role == "user":
            session.rewrite(item.message_id or "", str(change), number)
        else:
            before = item.arguments if isinstance(item, ToolCalled) else (item.content or "")  # type: ignore[union-attr]  # edited() refused None
            session.note(
                Edited(
                    **session.at(),
                    hop=number,
                    item=parked.hop.item_id,
                    before=before,
                    after=change,
                    why="edited at the gate",
                )
            )
        parked.item = after
        self._answer(parked, "edited")

    def drop(self, number: int) -> None:
        """Throw it away: a call or a reply closes the call as `lost`, a message is withdrawn."""
        parked, session = self._get(number), self._bound()
        if parked.hop.kind == "model":
            raise HopRefused("a model call cannot be dropped; cancel the turn instead")
        session.note(
            Dropped(
                **session.at(),
                hop=number,
                item=parked.hop.item_id,
                why="dropped at the gate",
            )
        )
        parked.why = "dropped"
        parked.verdict.set_result(Drop())
        self._leave(parked)

    def swap(self, first: int, second: int) -> None:
        """Let two parked puts to one queue pass in the other order: the second goes first."""
        one, two = self._get(first), self._get(second)
        if one is two or one.hop.kind != "put" or one.hop.queue != two.hop.queue:
            raise HopRefused("only two puts to the same queue can be swapped")
        two.behind = one  # each keeps what is its own, so that a cancelled one loses nothing else's
        self._answer(two, "swapped")

    async def _park(self, hop: Hop) -> Verdict:
        if not any(hop.matches(pattern) for pattern in self._patterns):
            return Pass(hop.item)
        session = self._bound()
        paused = Paused(**session.at(), hop=hop.kind, queue=hop.queue, item=hop.item_id)
        number = session.note(paused)
        parked = self._parked[number] = Parked(number, hop, get_running_loop().create_future())
        session.stand_still(True)
        self._tell_arrival()
        try:
            return await parked.verdict
        finally:
            if number in self._parked:  # nobody answered: its waiter was thrown out
                self._leave(parked)
            if parked.behind is not None and not parked.behind.verdict.done():
                self._answer(parked.behind, "swapped")

    def _leave(self, parked: Parked) -> None:
        session = self._bound()
        del self._parked[parked.number]
        if parked.why != "dropped":
            session.note(Resumed(**session.at(), hop=parked.number, why=parked.why))
        session.stand_still(bool(self._parked))

    def _tell_arrival(self) -> None:
        arrivals, self._arrivals = self._arrivals, []
        for waiter in arrivals:
            if not waiter.done():
                waiter.set_result(None)

    def _answer(self, parked: Parked, why: str) -> None:
        parked.why = why
        parked.verdict.set_result(Pass(parked.item))
        self._leave(parked)

    def _get(self, number: int) -> Parked:
        parked = self._parked.get(number)
        if parked is None or parked.verdict.done():
            raise UnknownHop(number)
        return parked

    def _bound(self) -> GatedSession:
        assert self._session is not None, "a gate is bound by the session it is given to"
        return self._session


def edited(item: Item, change: str | dict[str, Any]) -> Item:
    """The item with other content or arguments; anything else is refused."""
    match item, change:
        case ToolCalled(), dict():
            try:
                msgspec.json.encode(change)
            except (TypeError, ValueError, RecursionError) as error:
                raise HopRefused(f"the new arguments are no JSON: {error}") from error
            return msgspec.structs.replace(item, arguments=change)
        case ChatMessage(role="user"), str() if not change.strip():
            raise HopRefused("a user message cannot be made blank; drop it instead")
        case ChatMessage(), str():
            return msgspec.structs.replace(item, content=change)
        case _:
            raise HopRefused(
                "a message or reply takes other content (text), a call other arguments (an "
                "object), a model call neither"
            )
