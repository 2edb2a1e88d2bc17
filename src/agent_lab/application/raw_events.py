"""What a provider sent, for whoever looks at an entry: from memory, else from the store."""

from agent_lab.application.served import ServedSession
from agent_lab.domain.payloads import ModelRequested
from agent_lab.domain.raw_events import RawEvents, hidden


async def raw_before(served: ServedSession, seq: int) -> RawEvents:
    """The provider's events for the request that entry `seq` answers; raises StorageError."""
    _, entries = served.runtime.session.journal.read(0)
    payloads = (entry.payload for entry in reversed(entries) if entry.seq < seq)
    asked = next((one.request for one in payloads if isinstance(one, ModelRequested)), None)
    wire = asked.wire if asked is not None else None
    raw = wire.raw if wire is not None else RawEvents()
    if raw.events or served.recorder is None:
        return hidden(raw)
    return await served.recorder.raw(seq)
