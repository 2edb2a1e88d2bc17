"""The way of a user message into a session, and which message ids are taken."""

from contextlib import suppress

from agent_lab.application.served import Known, Sent, ServedSession
from agent_lab.application.sessions import Sessions
from agent_lab.domain.errors import MessageRejected
from agent_lab.domain.inbox import REFUSALS, digest_of
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import Accepted, Rejected


class Inlet:
    """Gives messages to sessions. Ids are unique an agent, over all its sessions."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def ids(self, of: str) -> dict[str, Known]:
        """The ids that are taken of this agent, or of a created one by its session's id."""
        return self._sessions.known.setdefault(of, {})

    def send(self, served: ServedSession, message: ChatMessage) -> Sent:
        """Give the message to this session; see Agents.send."""
        self._sessions.bar_faults()
        known = self.ids(served.ids_of).get(message.message_id or "")
        if known is not None and known.sent.session is not served:
            if known.is_for(message):
                return Sent(known.sent.session, known.sent.message_id, known.sent.receipt, True)
            return self._refuse(served, message)
        before = served.last_seq
        with suppress(MessageRejected):  # that is its receipt, and on record
            self._sessions.give(served, message)
        if served.last_seq == before:
            first = known.sent.receipt if known else 0
            return Sent(served, message.message_id or "", first, is_repeat=True)
        return self._receipt(served, before)

    def _receipt(self, served: ServedSession, before: int) -> Sent:
        _, entries = served.runtime.session.journal.read(before, 1)
        receipt = entries[0].payload
        assert isinstance(receipt, Accepted | Rejected), "a user message's receipt comes first"
        sent = Sent(served, receipt.message_id, before + 1)
        if isinstance(receipt, Accepted):
            known = Known(digest_of(receipt.content), sent)
            self.ids(served.ids_of)[receipt.message_id] = known
            served.title = served.title or receipt.content
            self._sessions.changed(served)
        return sent

    def _refuse(self, served: ServedSession, message: ChatMessage) -> Sent:
        session, key = served.runtime.session, message.message_id or ""
        text = REFUSALS["id_reused"].format(id=key, depth=0)
        refusal = Rejected(**session.at(), message_id=key, code="id_reused", message=text)
        return Sent(served, key, session.note(refusal))
