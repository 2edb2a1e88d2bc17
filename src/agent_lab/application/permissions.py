"""Asking somebody before a tool runs, and taking the answer.

A call that waits for permission occupies nobody: its runner goes on with other calls. Allowed, it
is put on `events` again and runs like any other; denied, it is closed in the conversation.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, get_args

from agent_lab.application.agent import Agent
from agent_lab.application.boundary import asks
from agent_lab.application.clock import SessionClock
from agent_lab.application.foreign import said
from agent_lab.application.journal import Journal
from agent_lab.application.ports import Outside
from agent_lab.application.queues import RuntimeQueues
from agent_lab.application.tools import Tool
from agent_lab.domain.conversation import Conversation
from agent_lab.domain.errors import AnswerRefused
from agent_lab.domain.hand_payloads import Decision, PermissionRequested, PermissionResolved
from agent_lab.domain.limits import Limits
from agent_lab.domain.payloads import AnyPayload, ToolCalled
from agent_lab.domain.permission import ALLOWING, PermissionAnswer, Permissions, denial

DECISIONS: tuple[Decision, ...] = get_args(Decision)


class AskingSession(Protocol):
    """What asking needs of its session."""

    agent: Agent
    clock: SessionClock
    conversation: Conversation
    journal: Journal
    limits: Limits
    outside: Outside
    queues: RuntimeQueues

    def control(self, decided: Sequence[AnyPayload]) -> bool:
        """Write down what was decided, and tell ChatAgent if it changes what is due."""
        ...


class PermissionDesk:
    """What waits for somebody's permission in one session, and how it is answered."""

    __slots__ = ("_session", "alarms")

    def __init__(self, session: AskingSession) -> None:
        self._session = session
        self.alarms: dict[str, ToolCalled] = {}
        """Calls by the request whose time runs; EventAgent looks whether there are any."""

    @property
    def _book(self) -> Permissions:
        return self._session.conversation.calls.permissions

    @property
    def pending(self) -> list[PermissionRequested]:
        """The requests that wait, oldest first."""
        return [asked.request for asked in self._book.waiting.values()]

    def knows(self, request_id: str) -> bool:
        """Whether this session ever asked that."""
        return self._book.knows(request_id)

    def answer(
        self,
        request_id: str,
        decision: Decision,
        *,
        arguments: dict[str, Any] | None = None,
        message: str | None = None,
        sha256: str | None = None,
    ) -> PermissionResolved:
        """Answer a request; on record when this returns, and nothing waits for it.

        `allow` lets the call run, with `arguments` instead of the model's if there are any;
        `allow_always` allows the tool for the rest of the session, in requests that wait too.
        `deny` closes the call with an error that the model reads, with `message` in it;
        `deny_and_interrupt` cancels the turn as well. `sha256` is the request's: an answer to other
        arguments than it shows is refused. The first answer counts: raises AnswerRefused for every
        other, and for arguments that do not fit the tool.
        """
        if decision not in DECISIONS:
            raise AnswerRefused(
                "bad_decision",
                f"{decision!r:.100} is no answer to a permission request",
                f"answer one of {', '.join(DECISIONS)}",
            )
        asked = self._book.find(request_id, sha256)
        if arguments is not None and decision in ALLOWING:
            self._check_arguments(asked.call.name, arguments)
        answer = PermissionAnswer(
            decision=decision, arguments=arguments, message=message, sha256=sha256
        )
        ended = self._book.answer(request_id, answer)
        for resolved, call in ended:
            self._forget_alarm(resolved.request_id)
            self._settle(resolved, call)
        return ended[0][0]

    # -- for EventAgent --------------------------------------------------------------------------

    def admits(self, tool: Tool, call: ToolCalled) -> bool:
        """Whether the call may run now. If not, it has been asked for, and comes again."""
        if self._book.admits(call):
            return True
        needed, error = asks(tool, call.arguments)
        if not needed:
            return True
        timeout = self._session.limits.permission
        request_id = self._session.outside.new_id("ask")
        self._session.journal.append(self._book.ask(request_id, call, timeout, error))
        self.alarms[request_id] = call
        self._session.clock.set(_key(request_id), timeout, partial(self._timed_out, request_id))
        return False

    def call_closed(self, call_id: str) -> None:
        """A call has its reply: if it was asked for, nobody needs to answer any more."""
        calls = self._session.conversation.calls
        for request_id, call in list(self.alarms.items()):
            if call.call_id == call_id and not calls.is_open(call.round, call_id):
                self._forget_alarm(request_id)
                if resolved := self._book.end(request_id, "interrupted"):  # replied to by hand
                    self._session.control((resolved,))

    # -- inside ----------------------------------------------------------------------------------

    def _settle(self, resolved: PermissionResolved, call: ToolCalled) -> None:
        """Write the decision down, and let the call run or close it."""
        session = self._session
        if resolved.decision in ALLOWING:
            session.control((resolved,))
            session.queues.events.push(call)  # it has its place: `events` holds a round's calls
            return
        conversation = session.conversation
        detail = denial(resolved, session.limits.permission)
        closed = conversation.close_call(call.round, call.call_id, "error", detail)
        stopped = conversation.cancel() if resolved.decision == "deny_and_interrupt" else ()
        session.control((resolved, *closed, *stopped))

    def _timed_out(self, request_id: str) -> None:
        call = self.alarms.pop(request_id)
        if resolved := self._book.end(request_id, "timeout"):
            self._settle(resolved, call)

    def _forget_alarm(self, request_id: str) -> None:
        self.alarms.pop(request_id, None)
        self._session.clock.clear(_key(request_id))

    def _check_arguments(self, name: str, arguments: dict[str, Any]) -> None:
        tool = self._session.agent.tools.get(name)
        try:
            if tool is not None:  # else its server offers it no more, and the call will say so
                tool.bind(arguments)
        except Exception as error:
            raise AnswerRefused(
                "bad_arguments",
                f"the new arguments do not fit {name}: {said(error)}",
                "send arguments as its parameters say; the request still waits",
            ) from error


def _key(request_id: str) -> tuple[str, str]:
    return ("permission", request_id)
