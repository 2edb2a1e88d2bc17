"""The log of one execution: the entries of its turn, as on the wire."""

from collections.abc import Sequence

from agent_lab.application.agents import Agents
from agent_lab.application.journal import Entry
from agent_lab.application.served import ServedSession, UnknownSession
from agent_lab.domain.execution import Execution
from agent_lab.presentation.encoder import Encoder, hidden_text
from agent_lab.presentation.views import Encoders


async def log_of(agents: Agents, encoders: Encoders, execution: Execution) -> str:
    """JSON of LogView: receipts of its message, and all entries of its turn that are kept.

    From memory, or from the store when its session is not there any more. Raises StorageError.
    """
    found, encoder = await _entries(agents, encoders, execution)
    entries = [encoder.encode(entry) for entry in found or () if _is_of(execution, entry)]
    head = hidden_text(
        {
            "execution_id": execution.id,
            "session_id": execution.session_id,
            "turn": execution.turn,
            "available": found is not None,
        }
    )
    return f'{head[:-1]},"entries":[{",".join(entries)}]}}'


async def _entries(
    agents: Agents, encoders: Encoders, execution: Execution
) -> tuple[Sequence[Entry] | None, Encoder]:
    session_id = execution.session_id or ""
    session = _session_of(agents, execution)
    gap, kept = session.runtime.session.journal.read() if session is not None else (None, None)
    archive = agents.kept.archive
    if archive is not None and (session is None or gap is not None):
        stored = await archive.past(session_id, execution.epoch or "")
        if stored is not None:
            return stored, Encoder(session_id, 0.0)
    return kept, Encoder(session_id, 0.0) if session is None else encoders.of(session)


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
