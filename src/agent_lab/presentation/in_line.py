"""A run frame into `chat:NAME`: it goes through the line, and its socket is told where it is."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from agent_lab.application.agents import Agents
from agent_lab.application.asked import Asked
from agent_lab.application.chat_sessions import chat_id
from agent_lab.application.executions import Change, Ended, Moved, Started
from agent_lab.application.served import ServedSession
from agent_lab.domain.execution import Asker, Execution
from agent_lab.presentation.encoder import hidden_text
from agent_lab.presentation.line_requests import owner
from agent_lab.presentation.upstream import attach
from agent_lab.presentation.wire import AttachFrame, ClientFrame, RunFrame

Tell = Callable[[str], object]


def is_for_line(agents: Agents, frame: ClientFrame) -> bool:
    """Whether this frame is a new message for the one conversation of an agent.

    A message that was accepted before is no new one: it finds its receipt in the session.
    """
    if not isinstance(frame, RunFrame) or frame.session_id is None:
        return False
    name = frame.session_id.removeprefix("chat:")
    is_chat = name in agents.names and frame.session_id == chat_id(name)
    return is_chat and not agents.knows(name, frame.message_id)


async def ask_in_line(
    agents: Agents, frame: RunFrame, *, viewers: int
) -> tuple[ServedSession, Execution]:
    """Submit it; the conversation it is for, and its execution.

    One of the same message id that is under way is that one, so a retry after a cut asks for
    nothing twice. Raises as `attach` and `submit`.
    """
    line, name = agents.line, (frame.session_id or "").removeprefix("chat:")
    session = line.chats.open(agents.get(name), None)
    if frame.agent not in (None, name):
        agents.open(agents.get(frame.agent), session.session_id)  # raises SessionMismatch
    attach(agents, AttachFrame(session_id=session.session_id), viewers=viewers)
    if frame.message_id is not None:
        for one in line.book.live:
            if one.message_id == frame.message_id and one.agent_name == name:
                return session, one
    by = Asker(triggered_by="ws", source_user=owner())
    asked = Asked(message=frame.content, by=by, message_id=frame.message_id)
    return session, (await line.submit(name, "chat", asked)).execution


@asynccontextmanager
async def told_of(agents: Agents, execution: Execution, tell: Tell) -> AsyncGenerator[None, None]:
    """Tell where it stands while the socket is there; if that goes while it waits, it leaves."""
    line = agents.line

    def hear(change: Change) -> None:
        text = _frame_of(change)
        if text is not None:
            tell(text)

    unwatch = line.book.watch(execution.id, hear)
    try:
        now = line.book.get(execution.id) or line.book.recent(execution.id) or execution
        position = line.book.position(execution.id)
        if position is not None:
            hear(Moved(now, position))
        elif now.status == "running":
            hear(Started(now))
        yield
    finally:
        unwatch()
        if not line.book.is_watched(execution.id):
            await line.leave(execution)


def _frame_of(change: Change) -> str | None:
    """What the socket is told; of an end only that of one that never ran, for no entry tells it."""
    match change:
        case Moved(execution, position):
            said = {"type": "queued", "execution_id": execution.id, "position": position}
        case Started(execution):
            said = {
                "type": "execution_started",
                "execution_id": execution.id,
                "session_id": execution.session_id,
                "epoch": execution.epoch,
            }
        case Ended(execution) if execution.started_at is None:
            said = {
                "type": "execution_ended",
                "execution_id": execution.id,
                "status": execution.status,
                "code": execution.error_code,
                "message": execution.error,
            }
        case _:
            return None
    return hidden_text(said)
