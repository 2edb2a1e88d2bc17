"""Sessions as the answers of the commands tell them."""

from collections.abc import Callable, Collection, Iterable

import msgspec

from agent_lab.application.agents import Agents
from agent_lab.application.archive import Dormant
from agent_lab.application.chat_sessions import chat_id
from agent_lab.application.control_answers import (
    Activity,
    AgentSnapshot,
    AgentWait,
    PendingPermission,
)
from agent_lab.application.cursors import cursor
from agent_lab.application.executions import Change
from agent_lab.application.resting import at_rest, closed, last_message, newest, pending, status_of
from agent_lab.application.served import ServedSession
from agent_lab.application.waiting import Watch
from agent_lab.domain.curated import item
from agent_lab.domain.payloads import Receipt, Rejected
from agent_lab.domain.settling import AgentStatus, MessageReceipt, receipt


class InLine:
    """What stands in the line of an agent's conversation, and is no message of its session yet."""

    def __init__(self, agents: Agents, agent_name: str) -> None:
        self._agents = agents
        self._name = agent_name

    def is_busy(self) -> bool:
        """Whether there is any."""
        live = self._agents.line.book.live
        return any(
            one.agent_name == self._name
            and one.kind == "chat"
            and not self._agents.knows(self._name, one.message_id or one.id)
            for one in live
        )

    def listen(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Tell when an execution of the agent changes, until what is given back is called."""

        def hear(change: Change) -> None:
            tell()

        return self._agents.line.book.listen(hear)


def line_of(agents: Agents, served: ServedSession) -> InLine | None:
    """The line before a session; only an agent's one conversation has one."""
    name = served.agent.name
    is_chat = served.created is None and served.session_id == chat_id(name)
    return InLine(agents, name) if is_chat else None


def waiting_ids(served: ServedSession) -> tuple[str, ...]:
    """Ids of messages that are accepted and not delivered, in order."""
    return tuple(one.message_id or "" for one in served.runtime.session.conversation.inbox)


def receipt_of(served: ServedSession, message_id: str, first: int) -> MessageReceipt:
    """What became of a message; its `accepted` or `rejected` is entry `first`."""
    found = MessageReceipt(message_id=message_id, state="accepted", seq=first)
    _, entries = served.runtime.session.journal.read(max(first - 1, 0))
    for entry in entries:
        said = entry.payload
        if not isinstance(said, Receipt) or said.message_id != message_id:
            continue
        if isinstance(said, Rejected):
            if entry.seq == first:
                return receipt(entry.seq, said)
            continue  # other content under its id
        found = receipt(entry.seq, said)
    return found


# -- agents --------------------------------------------------------------------------------------


def snapshot(agents: Agents, served: ServedSession) -> AgentSnapshot:
    """An agent in memory."""
    status = status_of(served, line_of(agents, served))
    rests = closed(served) if served.runtime.is_closed else at_rest(served)
    asks = pending(served)
    is_over = status in ("idle", "error", "closed")
    return AgentSnapshot(
        agent_id=served.session_id,
        name=served.created.name if served.created else served.agent.name,
        agent=served.agent.name,
        is_created=served.created is not None,
        status=status,
        reason=rests.reason if is_over else "permission" if asks else None,
        error=rests.error if is_over else None,
        turn=served.runtime.session.conversation.turn,
        waiting=waiting_ids(served),
        permissions=tuple(asks.values()),
        title=served.title,
        started_at=served.started_at,
        cursor=cursor(served, served.last_seq),
    )


def dormant(session: Dormant) -> AgentSnapshot:
    """An agent that is stored and not in memory."""
    body = session.body
    status = "closed" if body.gone else "error" if body.failed else "idle"
    return AgentSnapshot(
        agent_id=session.session_id,
        name=body.created.name if body.created else session.agent,
        agent=session.agent,
        is_created=body.created is not None,
        status=status,
        reason=body.gone or "at_rest",
        error=None,
        turn=body.turn,
        waiting=(),
        permissions=(),
        title=body.title,
        started_at=body.started_at,
        cursor=f"{body.epoch}:{body.last_seq}",
    )


async def listed(
    agents: Agents, statuses: Collection[AgentStatus], most: int
) -> list[AgentSnapshot]:
    """Agents in memory newest first, then those that are only stored; raises StorageError."""
    found: list[AgentSnapshot] = []
    for served in agents.sessions():
        if len(found) == most:
            return found
        found += _of(statuses, snapshot(agents, served))
    for stored in await agents.dormant():
        found += _of(statuses, dormant(stored))
    return found[:most]


def _of(statuses: Collection[AgentStatus], one: AgentSnapshot) -> list[AgentSnapshot]:
    return [one] if not statuses or one.status in statuses else []


def pending_permissions(sessions: Iterable[ServedSession]) -> list[PendingPermission]:
    """What the calls of these sessions wait for."""
    return [
        PendingPermission(agent_id=served.session_id, **msgspec.structs.asdict(one))
        for served in sessions
        for one in pending(served).values()
    ]


def activity(served: ServedSession, limit: int) -> Activity:
    """The newest `limit` items, oldest first."""
    items: list[str] = []
    for entry in newest(served, served.told):
        if len(items) == limit:
            break
        if (told := item(entry.payload)) is not None:
            items.append(told)
    return Activity(update_count=len(items), content="\n".join(reversed(items)))


def row(agents: Agents, watch: Watch, *, is_over: bool) -> AgentWait:
    """What became of one that was waited for; `is_over`: the time is, and it was not enough."""
    served, found = watch.served, watch.found
    if found is None:
        return AgentWait(
            agent_id=served.session_id,
            status=status_of(served, line_of(agents, served)),
            timed_out=is_over,
            cursor=cursor(served, watch.position),
        )
    # over, it keeps its place before what it settled to, so that a resumed wait tells it again
    seq = max(found.seq, watch.position)
    if is_over:
        seq = min(found.seq - 1, watch.position) if watch.has_news else watch.position
    return AgentWait(
        agent_id=served.session_id,
        status=found.status,
        reason=found.reason,
        permission=found.permission,
        last_message=last_message(served, found),
        cursor=cursor(served, max(seq, 0)),
        turn=found.turn,
        pending=found.pending,
        interrupted_by=found.by,
        error=found.error,
    )
