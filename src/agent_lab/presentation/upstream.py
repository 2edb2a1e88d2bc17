"""What the frames of a client come to: which session it attaches to, and what is done there."""

from typing import assert_never

from agent_lab.application.agents import Agents
from agent_lab.application.served import Sent, ServedSession
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.permission import PermissionAnswer
from agent_lab.presentation.strict import Refused
from agent_lab.presentation.wire import (
    AttachFrame,
    CancelFrame,
    CancelToolFrame,
    ClientFrame,
    EditFrame,
    MessageFrame,
    PermissionFrame,
    RunFrame,
    WatchFrame,
    WithdrawFrame,
)


class Crowded(Refused):
    """The session has as many viewers as it may have; the socket ends."""


async def recall(agents: Agents, frame: ClientFrame, session: ServedSession | None = None) -> None:
    """Take up what a frame of `session` is about, if it is stored and not in memory."""
    match frame:
        case RunFrame():
            await agents.recall(
                session_id=frame.session_id, agent=frame.agent, message_id=frame.message_id
            )
        case AttachFrame():
            await agents.recall(session_id=frame.session_id)
        case MessageFrame() if session is not None:
            await agents.recall(agent=session.agent.name, message_id=frame.message_id)
        case _:
            pass


def attach(agents: Agents, frame: ClientFrame, *, viewers: int) -> tuple[ServedSession, int] | None:
    """The session of a socket's first frame, and behind which entry its story begins.

    None for a socket that watches all of them. A run shows its session from the beginning: a repeat
    finds its receipt there. Raises Refused, Crowded for more than `viewers` of one session, and
    what `Agents.run` raises.
    """
    match frame:
        case RunFrame():
            if frame.session_id is not None:
                _with_room(agents.session(frame.session_id), viewers)
            sent = agents.run(frame.agent, _message(frame), frame.session_id)
            return _with_room(sent.session, viewers), 0
        case AttachFrame():
            session = _with_room(agents.session(frame.session_id), viewers)
            return session, _resumed(session, frame)
        case WatchFrame():
            return None
        case _:
            raise Refused(
                "not_attached",
                "this socket has no session",
                "send run or attach as the first frame of a socket",
            )


def obey(agents: Agents, session: ServedSession, frame: ClientFrame) -> Sent | None:
    """Do what the frame says, on record when this returns; of a message, what became of it.

    Never waits, so a cancel is not held up by the message before it.
    """
    match frame:
        case MessageFrame():
            return agents.send(session, _message(frame))
        case WithdrawFrame():
            if not session.runtime.withdraw(frame.message_id):
                raise _not_waiting(frame.message_id)
        case EditFrame():
            _edit(session, frame)
        case CancelFrame():
            _cancel(session, frame)
        case CancelToolFrame():
            if session.runtime.cancel_tool(frame.call_id) == "not_running":
                raise Refused(
                    "not_running",
                    f"tool call {frame.call_id!r} is not open",
                    "it has its reply, or was never made; see the tool_reply entries",
                )
        case PermissionFrame():
            answer = PermissionAnswer(
                decision=frame.decision,
                arguments=frame.arguments,
                message=frame.message,
                sha256=frame.sha256,
            )
            agents.permit(session, frame.request_id, answer)
        case RunFrame() | AttachFrame() | WatchFrame():
            raise Refused(
                "already_attached",
                f"this socket is with session {session.session_id!r}",
                "send a user_message, or open another socket",
            )
        case _:
            assert_never(frame)
    return None


def _message(frame: RunFrame | MessageFrame) -> ChatMessage:
    return ChatMessage("user", frame.content, mode=frame.mode, message_id=frame.message_id)


def _with_room(session: ServedSession, viewers: int) -> ServedSession:
    if session.viewers >= viewers:
        raise Crowded(
            "too_many_viewers",
            f"{session.viewers} sockets look on at session {session.session_id!r} already",
            "close one of them; the entries are also at GET /api/sessions/{id}/entries",
        )
    return session


def is_message(frame: ClientFrame) -> bool:
    """Whether the frame brings a text, and so counts as one."""
    return isinstance(frame, MessageFrame | EditFrame)


def too_fast(frame: ClientFrame, seconds: float) -> Refused:
    """The frame came too soon behind others; it was not accepted."""
    facts: dict[str, float | str] = {"retry_after": round(seconds, 3)}
    if message_id := getattr(frame, "message_id", None):
        facts["message_id"] = message_id
    return Refused(
        "rate_limited",
        "this socket sends messages too fast, so this one was not accepted",
        f"send it again in {seconds:.2f} s, under the same message_id",
        **facts,
    )


def _resumed(session: ServedSession, frame: AttachFrame) -> int:
    """Behind which entry to go on; numbers of another epoch say nothing of this one."""
    if frame.epoch not in (None, session.epoch):
        return 0
    if frame.after > session.last_seq:
        raise Refused(
            "resume_gone",
            f"entry {frame.after} is not there: the last of session {session.session_id!r} is "
            f"{session.last_seq}",
            "attach again with after 0, or behind an entry that is there",
            last_seq=session.last_seq,
        )
    return frame.after


def _edit(session: ServedSession, frame: EditFrame) -> None:
    if not frame.content.strip():
        raise Refused(
            "empty",
            f"message {frame.message_id!r} cannot be edited to say nothing",
            "send some text, or withdraw it",
        )
    if not session.runtime.edit(frame.message_id, frame.content):
        raise _not_waiting(frame.message_id)


def _cancel(session: ServedSession, frame: CancelFrame) -> None:
    status = session.runtime.cancel(frame.turn, drop_waiting=frame.drop_waiting)
    if status == "not_running":
        what = "no turn" if frame.turn is None else f"turn {frame.turn} is not the one that"
        raise Refused(
            "not_running",
            f"{what} runs, so there is nothing to cancel",
            "leave `turn` out to cancel whatever runs",
        )


def _not_waiting(message_id: str) -> Refused:
    return Refused(
        "not_waiting",
        f"message {message_id!r} does not wait: it was delivered or withdrawn, or never accepted",
        "send what you have to say as a new message",
    )
