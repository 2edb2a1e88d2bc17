"""Who asked for permission, what was answered, and which call may run: the book of one session.

Pure. A decision binds to one request and to the arguments it was shown with (their sha256), is
taken once, and lets one call run once.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from agent_lab.domain.errors import AnswerRefused
from agent_lab.domain.hand_payloads import (
    Decision,
    PermissionRequested,
    PermissionResolved,
    Why,
)
from agent_lab.domain.messages import clean
from agent_lab.domain.payloads import AnyPayload, ToolCalled

ALLOWING = ("allow", "allow_always")


class PermissionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says to a request.

    `arguments` take the place of those the model gave, `message` is for the model when denied,
    `sha256` is the request's: what the one who answers has seen.
    """

    decision: Decision
    arguments: dict[str, Any] | None = None
    message: str | None = None
    sha256: str | None = None


class Asked(msgspec.Struct, frozen=True):
    """A request that waits, and the call it is about."""

    request: PermissionRequested
    call: ToolCalled

    def resolved(
        self, decision: Decision, reason: Why, message: str | None = None
    ) -> PermissionResolved:
        """Its end."""
        request = self.request
        return PermissionResolved(
            turn=request.turn,
            step=request.step,
            request_id=request.request_id,
            call_id=request.call_id,
            name=request.name,
            decision=decision,
            reason=reason,
            arguments=self.call.arguments,
            message=message,
        )


class Permissions:
    """The requests of a session, oldest first, and the tools that were allowed for all of it."""

    __slots__ = ("_allowed", "_closed", "_granted", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, Asked] = {}
        self._closed: dict[str, Decision] = {}
        self._allowed: tuple[str, ...] = ()
        self._granted: dict[tuple[int, str], str] = {}

    def admits(self, call: ToolCalled) -> bool:
        """Whether this call was allowed with just these arguments. Asked once: it runs then."""
        granted = self._granted.pop((call.round, call.call_id), None)
        if call.name in self._allowed:
            return True
        return granted is not None and granted == digest_of(call.arguments)

    def ask(
        self, request_id: str, call: ToolCalled, timeout: float, error: str | None
    ) -> PermissionRequested:
        """The call waits from now on."""
        request = PermissionRequested(
            turn=call.turn,
            step=call.step,
            request_id=request_id,
            call_id=call.call_id,
            name=call.name,
            arguments=call.arguments,
            sha256=digest_of(call.arguments),
            timeout=timeout,
            error=error,
        )
        self.waiting[request_id] = Asked(request, call)
        return request

    def find(self, request_id: str, seen: str | None = None) -> Asked:
        """The request that waits under this id; raises AnswerRefused. `seen` is its sha256."""
        asked = self.waiting.get(request_id)
        if asked is None:
            raise self._missing(request_id)
        if seen is not None and seen != asked.request.sha256:
            raise AnswerRefused(
                "arguments_changed",
                f"permission request {request_id!r} is for other arguments than you were shown",
                "look at the request again and answer that",
            )
        return asked

    def answer(
        self, request_id: str, answer: PermissionAnswer
    ) -> list[tuple[PermissionResolved, ToolCalled]]:
        """What the answer ends: its request, and with `allow_always` all others of that tool.

        With each the call as it may run. Raises AnswerRefused, and then nothing has changed.
        """
        asked = self.find(request_id, answer.sha256)
        call = asked.call
        if answer.arguments is not None and answer.decision in ALLOWING:
            call = msgspec.structs.replace(call, arguments=_copied(answer.arguments))
        message = clean(answer.message).strip() if answer.message else None
        ended = [self._end(Asked(asked.request, call), answer.decision, "answered", message)]
        if answer.decision == "allow_always":
            self._allow(call.name)
            others = [one for one in self.waiting.values() if one.call.name == call.name]
            ended += [self._end(one, "allow_always", "always") for one in others]
        return ended

    def end(self, request_id: str, reason: Why) -> PermissionResolved | None:
        """Nobody answers it any more: it is denied. None when it has its end already."""
        asked = self.waiting.get(request_id)
        return None if asked is None else self._end(asked, "deny", reason)[0]

    def call_closed(self, round_: int, call_id: str, reason: Why) -> Iterator[PermissionResolved]:
        """The call has its reply: nothing is asked of it any more."""
        self._granted.pop((round_, call_id), None)
        for asked in list(self.waiting.values()):
            if (asked.call.round, asked.call.call_id) == (round_, call_id):
                yield self._end(asked, "deny", reason)[0]

    def hear(self, payload: AnyPayload) -> None:
        """The next entry of a journal from before: what was allowed then still is."""
        match payload:
            case PermissionRequested():
                call = ToolCalled(
                    turn=payload.turn,
                    step=payload.step,
                    call_id=payload.call_id,
                    name=payload.name,
                    arguments=payload.arguments,
                    round=0,
                )
                self.waiting[payload.request_id] = Asked(payload, call)
            case PermissionResolved():
                self.waiting.pop(payload.request_id, None)
                self._closed[payload.request_id] = payload.decision
                if payload.decision == "allow_always":
                    self._allow(payload.name)
            case _:
                pass

    def knows(self, request_id: str) -> bool:
        """Whether this request was ever made here."""
        return request_id in self.waiting or request_id in self._closed

    def _allow(self, name: str) -> None:
        if name not in self._allowed:
            self._allowed += (name,)

    def _end(
        self, asked: Asked, decision: Decision, reason: Why, message: str | None = None
    ) -> tuple[PermissionResolved, ToolCalled]:
        request_id, call = asked.request.request_id, asked.call
        del self.waiting[request_id]
        self._closed[request_id] = decision
        if decision in ALLOWING:
            self._granted[call.round, call.call_id] = digest_of(call.arguments)
        return asked.resolved(decision, reason, message), call

    def _missing(self, request_id: str) -> AnswerRefused:
        decision = self._closed.get(request_id)
        if decision is None:
            return AnswerRefused(
                "prompt_unknown",
                f"there is no permission request {request_id!r} in this session",
                "the ids are those of the permission_requested entries",
            )
        return AnswerRefused(
            "prompt_closed",
            f"permission request {request_id!r} has its answer already: {decision}",
            "the first answer counts; nothing ran because of yours",
        )


def digest_of(arguments: dict[str, Any]) -> str:
    """The sha256 of arguments as JSON with sorted keys and no blanks."""
    return sha256(msgspec.json.encode(arguments, order="deterministic")).hexdigest()


def denial(resolved: PermissionResolved, timeout: float) -> str:
    """What the model reads of a call that was denied: something it can act on."""
    if resolved.reason == "timeout":
        return (
            f"not allowed: nobody answered the permission request within {timeout:g} s. "
            "Go on without this call, or say what it is needed for"
        )
    if resolved.message:
        return f"denied by the user, who says: {resolved.message}"
    return (
        "denied by the user. Do not try this call again as it is; go on without it, or ask what "
        "to do instead"
    )


def _copied(arguments: dict[str, Any]) -> dict[str, Any]:
    """The caller may change his own later; raises AnswerRefused for what is no JSON."""
    try:
        return msgspec.json.decode(msgspec.json.encode(arguments), type=dict[str, Any])
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise AnswerRefused(
            "bad_arguments", f"the new arguments are no JSON object: {error}", "send an object"
        ) from error
