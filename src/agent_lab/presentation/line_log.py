"""The log of one execution: the entries of its turn, as on the wire."""

from agent_lab.application.agents import Agents
from agent_lab.application.journal import Entry
from agent_lab.application.served import ServedSession, UnknownSession
from agent_lab.domain.execution import Execution
from agent_lab.presentation.encoder import hidden_text
from agent_lab.presentation.views import Encoders


def log_of(agents: Agents, encoders: Encoders, execution: Execution) -> str:
    """JSON of LogView: receipts of its message, and all entries of its turn that are kept."""
    session = _session_of(agents, execution)
    entries: list[str] = []
    if session is not None:
        _, found = session.runtime.session.journal.read()
        encode = encoders.of(session).encode
        entries = [encode(entry) for entry in found if _is_of(execution, entry)]
    head = hidden_text(
        {
            "execution_id": execution.id,
            "session_id": execution.session_id,
            "turn": execution.turn,
            "available": session is not None,
        }
    )
    return f'{head[:-1]},"entries":[{",".join(entries)}]}}'


def _session_of(agents: Agents, execution: Execution) -> ServedSession | None:
    """The session it ran in; None if that is gone, or was begun anew under the same id."""
    try:
        session = agents.session(execution.session_id or "")
    except UnknownSession:
        return None
    return session if session.epoch == execution.epoch else None


def _is_of(execution: Execution, entry: Entry) -> bool:
    payload = entry.payload
    if payload.turn is not None and execution.turn is not None:
        return payload.turn == execution.turn
    return getattr(payload, "message_id", None) == execution.message_id
