"""Histories of sessions: one that came from elsewhere opened, and any of them checked."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from agent_lab.application.agent import Agent
from agent_lab.application.agents import Agents
from agent_lab.application.served import ServedSession
from agent_lab.domain.dialects.check import check_history
from agent_lab.domain.dialects.explain import locate_error
from agent_lab.domain.dialects.importing import ImportedHistory
from agent_lab.domain.dialects.rendering import Rendered, rendered, written
from agent_lab.domain.dialects.violations import Violation
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.payloads import Held, ModelRequested
from agent_lab.domain.story import as_arrived, history_of

NEXT = ChatMessage("user", "(the next message)")


class Blamed(NamedTuple):
    """A violation, the message of the history it is about, and the entry that put that there."""

    violation: Violation
    message: int | None
    seq: int | None


class Unheld(NamedTuple):
    """The request as it would have been if nothing had been held, and what the provider says.

    `request` is the number of the `model_request` it would have been sent with; None before it.
    """

    request: int | None
    dialect: str
    wire: list[dict[str, Any]]
    found: list[Blamed]


def open_imported(agents: Agents, agent: Agent, imported: ImportedHistory) -> ServedSession:
    """A new session that goes on from this history; its first entries tell of each message."""
    served = agents.open(agent, history=imported.history)
    served.imported = imported
    asked = (message.content for message in imported.history if message.role == "user")
    served.title = next(asked, None) or f"imported: {imported.format}"
    served.runtime.session.journal.extend(imported.lines)
    return served


class HistoryOf:
    """The history of a session now: a copy, so that it can be looked at elsewhere than the loop.

    Calls that still wait for a reply are not in it: no request can be made before they have one.
    """

    def __init__(self, served: ServedSession) -> None:
        session = served.runtime.session
        conversation, journal = session.conversation, session.journal
        _, kept = journal.read()
        self.session_id = served.session_id
        self.last_seq = journal.last_seq
        self.model, self.dialect = session.model.name, session.model.dialect
        self.imported = served.imported
        is_open = bool(conversation.calls.open)
        self.messages = conversation.history[: -1 if is_open else None]
        self._entries = [(entry.seq, entry.payload) for entry in kept]

    def seqs(self) -> list[int | None]:
        """For each message the entry that put it there; None where memory let go of it."""
        told = [told.seq for told in history_of(self._entries)][: len(self.messages)]
        return [*[None] * (len(self.messages) - len(told)), *told]

    def check(self, dialect: str) -> list[Blamed]:
        """What is wrong with the history as the next request would carry it."""
        said = self._next()
        model: dict[str, Any] = {"model": self.model} if dialect == self.dialect else {}
        wire = rendered(said, dialect, **model)
        found = check_history(wire.messages, dialect, **model)
        return self._blamed(found, wire, self.seqs())

    def check_imported(self) -> list[Blamed]:
        """What was wrong with the history as it was given; none if it was not."""
        return self._blamed_lines(self.imported.violations) if self.imported else []

    def locate(self, text: str) -> list[tuple[str, Blamed]]:
        """Which faults an error text is about: of the history as given, else as it is now."""
        if (imported := self.imported) is not None:
            dialect = imported.format if imported.format != "journal" else "openai_chat"
            wire, tools, profile = imported.wire, imported.tools, imported.profile
            found = locate_error(text, wire, dialect, tools, **profile)
            if found:
                return [(dialect, blamed) for blamed in self._blamed_lines(found)]
        wire = written(self._next(), self.dialect, model=self.model)
        found = locate_error(text, wire.messages, self.dialect)
        return [(self.dialect, blamed) for blamed in self._blamed(found, wire, self.seqs())]

    def named(self, text: str) -> list[tuple[str, int, int | None]]:
        """The call ids of the history that a text names: id, message, entry."""
        seqs = self.seqs()
        return [
            (call.id, n, seqs[n])
            for n, message in enumerate(self.messages)
            for call in message.tool_calls
            if len(call.id) > 3 and call.id in text
        ]

    def unheld(self, seq: int, dialect: str | None) -> Unheld | None:
        """What a provider would have said had nothing been held; None for an entry that is
        neither `held` nor a `model_request`."""
        payload = next((payload for at, payload in self._entries if at == seq), None)
        if not isinstance(payload, Held | ModelRequested):
            return None
        request = self._request_for(seq, payload)
        until = self.last_seq + 1 if request is None else request
        told = as_arrived(entry for entry in self._entries if entry[0] < until)
        wire = written([one.message for one in told], dialect or self.dialect, model=self.model)
        found = check_history(wire.messages, dialect or self.dialect)
        seqs: list[int | None] = [one.seq for one in told]
        blamed = self._blamed(found, wire, seqs)
        return Unheld(request, dialect or self.dialect, wire.messages, blamed)

    def _request_for(self, seq: int, payload: Held | ModelRequested) -> int | None:
        if isinstance(payload, ModelRequested):
            return seq
        later = (at for at, said in self._entries if at > seq and isinstance(said, ModelRequested))
        return next(later, None)

    def _next(self) -> Sequence[ChatMessage]:
        """With the user message that a next request begins with, where it needs one."""
        messages = self.messages
        return [*messages, NEXT] if not messages or messages[-1].role == "assistant" else messages

    def _blamed(
        self, found: list[Violation], wire: Rendered, seqs: list[int | None]
    ) -> list[Blamed]:
        blamed: list[Blamed] = []
        for violation in found:
            at = None if violation.where is None else wire.places[violation.where]
            seq = seqs[at] if at is not None and at < len(seqs) else None
            blamed.append(Blamed(violation, at, seq))
        return blamed

    def _blamed_lines(self, found: Sequence[Violation]) -> list[Blamed]:
        """Of the list as it was given: its lines are the session's first entries."""
        assert self.imported is not None
        lines = self.imported.lines
        blamed: list[Blamed] = []
        for violation in found:
            n = self.imported.line_of(violation.where)
            dropped = n is None or lines[n].fate == "dropped"
            at = None if dropped else sum(line.fate != "dropped" for line in lines[:n])
            blamed.append(Blamed(violation, at, None if n is None else n + 1))
        return blamed
