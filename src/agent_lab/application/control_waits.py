"""A wait for agents, from what it begins with to the answer for each."""

from collections.abc import Awaitable, Callable, Collection, Mapping

import msgspec

from agent_lab.application.aborts import Abort, Patience
from agent_lab.application.agents import Agents
from agent_lab.application.control_answers import AgentWait, Prompted
from agent_lab.application.control_views import line_of, row
from agent_lab.application.cursors import position
from agent_lab.application.resting import pending
from agent_lab.application.served import ServedSession
from agent_lab.application.waiting import Until, Watch, last_look, settled
from agent_lab.domain.limits import ControlLimits
from agent_lab.domain.settling import Settling


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a wait is for: see Settling and Watch."""

    goes_on: bool
    for_active: bool


def seconds(limits: ControlLimits, said: float | None) -> float:
    """How long a wait may take, if its caller said so much."""
    return limits.wait if said is None else min(said, limits.longest_wait)


def watch_from(
    agents: Agents, served: ServedSession, found: Mapping[str, int], how: Wanted
) -> Watch:
    """A watch of an agent from its position in a cursor; raises BadCursor."""
    return Watch(
        served,
        line_of(agents, served),
        after=position(found, served),
        settling=Settling(goes_on=how.goes_on),
        for_active=how.for_active,
    )


def for_message(
    agents: Agents, served: ServedSession, prompted: Prompted, *, goes_on: bool
) -> Watch:
    """A watch of what becomes of one message, from its acceptance on."""
    settling = Settling(message_id=prompted.message_id, goes_on=goes_on)
    settling.asks |= pending(served)
    accepted = position({served.epoch: int(prompted.cursor.rpartition(":")[2])}, served) or 0
    after = max(accepted - 1, 0)
    return Watch(served, line_of(agents, served), after=after, settling=settling)


async def wait(
    agents: Agents,
    watches: Callable[[], Awaitable[list[Watch]]],
    until: Until,
    seconds: float,
    aborts: Collection[Abort],
) -> tuple[list[AgentWait], bool]:
    """The answer for each, and whether the time was over before it was enough of them."""
    is_enough, watched = False, list[Watch]()
    async with Patience(aborts) as patience:
        watched = await watches()
        patience.begin(seconds)
        await settled(watched, until)
        is_enough = True
    if not is_enough:
        is_enough = last_look(watched, until)
    return [row(agents, watch, is_over=not is_enough) for watch in watched], not is_enough
