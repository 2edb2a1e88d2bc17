"""Stopping an agent: a turn of it, or all of it for good. On record at once, then stored."""

from agent_lab.application.agents import Agents
from agent_lab.application.control_answers import CancelledAgent, ClosedAgent
from agent_lab.application.control_views import waiting_ids
from agent_lab.application.resting import status_of
from agent_lab.application.served import ServedSession


async def cancel(served: ServedSession, turn: int | None, *, drop_waiting: bool) -> CancelledAgent:
    """Stop this turn, or the one that runs; raises StorageError."""
    conversation = served.runtime.session.conversation
    running = conversation.turn if conversation.in_turn else conversation.turn + 1
    status = served.runtime.cancel(turn, drop_waiting=drop_waiting)
    waiting = waiting_ids(served)
    await served.stored(served.last_seq)
    return CancelledAgent(
        agent_id=served.session_id,
        status=status,
        turn=running if status == "cancelled" else None,
        still_waiting=waiting,
    )


async def close(agents: Agents, served: ServedSession) -> ClosedAgent:
    """End the session for good; raises StorageError."""
    was, waiting = status_of(served, None), waiting_ids(served)
    is_over = served.runtime.is_closed
    if not is_over:
        agents.close_session(served)
        await served.stored(served.last_seq)
    return ClosedAgent(
        agent_id=served.session_id,
        status="already_closed" if is_over else "closed",
        was=was,
        still_waiting=waiting,
    )
