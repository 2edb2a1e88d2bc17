"""What agents and sessions look like from outside: the JSON that `/ws` and `/api` share."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

import msgspec

from agent_lab.application.agent import Agent
from agent_lab.application.agents import (
    Agents,
    AgentsClosed,
    UnknownAgent,
    UnknownSession,
)
from agent_lab.application.archive import Dormant
from agent_lab.application.journal import Gap
from agent_lab.application.served import Sent, ServedSession
from agent_lab.domain.errors import (
    AgentLabError,
    AnswerRefused,
    ModelError,
    NotAdmitted,
    QueueClosed,
    RuntimeClosed,
    SessionMismatch,
    StorageError,
)
from agent_lab.presentation.encoder import Encoder, hidden_text
from agent_lab.presentation.strict import Refused
from agent_lab.presentation.wire import FrameCode

_CODES: dict[type[AgentLabError], tuple[FrameCode, str]] = {
    UnknownAgent: ("unknown_agent", "GET /api/agents lists them"),
    UnknownSession: ("unknown_session", "GET /api/sessions lists them"),
    SessionMismatch: ("session_mismatch", "GET /api/sessions says whose it is"),
    RuntimeClosed: ("session_closed", "what it did can still be read; open a new one to go on"),
    QueueClosed: ("session_closed", "what it did can still be read; open a new one to go on"),
    AgentsClosed: ("closing", "the server stops; come back when it is up again"),
}


class Encoders:
    """One encoder a session, shared by all its readers, for as long as the session is kept."""

    def __init__(self) -> None:
        self._encoders: WeakKeyDictionary[ServedSession, Encoder] = WeakKeyDictionary()

    def of(self, session: ServedSession) -> Encoder:
        """The session's encoder."""
        encoder = self._encoders.get(session)
        if encoder is None:
            encoder = self._encoders[session] = Encoder(session.session_id, session.offset)
        return encoder


def refused_by(error: AgentLabError) -> Refused:
    """The error as its sender is told."""
    match error:
        case Refused():
            return error
        case NotAdmitted():
            return Refused(error.code, str(error), error.hint, retry_after=error.retry_after or 0)
        case ModelError():
            return Refused("bad_model", f"{error} ({error.code})", error.hint)
        case StorageError() | AnswerRefused():
            return Refused(error.code, str(error), error.hint)
        case _:
            code, hint = _CODES.get(type(error), ("session_failed", "open a new session"))
            return Refused(code, str(error), hint)


def timestamp(wall: float) -> str:
    """UTC to the millisecond, with `Z`."""
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


# -- frames without a number ---------------------------------------------------------------------


def session_frame(session: ServedSession) -> str:
    """The first frame of a socket: where it is, and who answers."""
    runtime = session.runtime.session
    return hidden_text(
        {
            "type": "session",
            "session_id": session.session_id,
            "agent": _agent(session.agent, runtime.model.name, runtime.model.dialect),
            "epoch": session.epoch,
            "state": session.state,
            "last_seq": session.last_seq,
            "started_at": timestamp(session.started_at),
            "now": timestamp(session.offset + runtime.loop.time()),
        }
    )


def gap_frame(session: ServedSession, gap: Gap) -> str:
    """Entries that memory let go of; without a store, nobody has them."""
    where = quote(session.session_id, safe=":")
    stored = f"/api/sessions/{where}/entries?after={gap.first - 1}"
    read_at = stored if session.recorder is not None else None
    return hidden_text({"type": "gap", "from": gap.first, "to": gap.last, "read_at": read_at})


def repeated(sent: Sent, encoder: Encoder) -> str:
    """The receipt of a message that was sent again: its entry with `repeat_of` for `seq`."""
    _, found = sent.session.runtime.session.journal.read(sent.receipt - 1, 1)
    if found and found[0].seq == sent.receipt:
        return '{"repeat_of":' + encoder.encode(found[0]).removeprefix('{"seq":')
    said = {"repeat_of": sent.receipt, "session_id": sent.session.session_id, "type": "accepted"}
    return hidden_text({**said, "message_id": sent.message_id})


# -- lists ---------------------------------------------------------------------------------------


def agent_view(agents: Agents, agent: Agent) -> dict[str, Any]:
    """One agent of `GET /api/agents`; `dialect` is null when its model cannot be had."""
    try:
        model = agents.probe(agent).session.model
        name, dialect = model.name, model.dialect
    except ModelError:
        name, dialect = str(agent.model), None
    return {**_agent(agent, name, dialect), "is_busy": agents.is_busy(agent)}


def session_view(session: ServedSession) -> dict[str, Any]:
    """One session of `GET /api/sessions`."""
    return {
        "session_id": session.session_id,
        "agent": session.agent.name,
        "title": session.title,
        "state": session.state,
        "turn": session.runtime.session.conversation.turn,
        "last_seq": session.last_seq,
        "epoch": session.epoch,
        "started_at": timestamp(session.started_at),
    }


def dormant_view(session: Dormant) -> dict[str, Any]:
    """As session_view, of a session that is stored and not in memory."""
    return {
        "session_id": session.session_id,
        "agent": session.agent,
        "title": session.body.title,
        "state": "closed" if session.body.gone else "idle",
        "turn": session.body.turn,
        "last_seq": session.body.last_seq,
        "epoch": session.body.epoch,
        "started_at": timestamp(session.body.started_at),
    }


def _agent(agent: Agent, model: str, dialect: str | None) -> dict[str, Any]:
    return {
        "name": agent.name,
        "model": model,
        "dialect": dialect,
        "instructions": agent.instructions,
        "tools": [msgspec.to_builtins(schema) for schema in agent.schemas],
        "limits": msgspec.to_builtins(agent.limits),
    }
