"""What the frames of a client come to: which session it attaches to, and what is done there."""

from typing import assert_never

from agent_lab.application.agents import Agents
from agent_lab.application.served import Sent, ServedSession
from agent_lab.domain.messages import ChatMessage
from agent_lab.presentation.strict import Refused
from agent_lab.presentation.wire import (
    AttachFrame,
    CancelFrame,
    CancelToolFrame,
    ClientFrame,
    EditFrame,
    MessageFrame,
    RunFrame,
    WithdrawFrame,
)


def attach(agents: Agents, frame: ClientFrame) -> tuple[ServedSession, int]:
    """The session of a socket's first frame, and behind which entry its story begins.

    A run shows its session from the beginning: a repeat finds its receipt there. Raises Refused,
    and what `Agents.run` raises.
    """
    match frame:
        case RunFrame():
            return agents.run(frame.agent, _message(frame), frame.session_id).session, 0
        case AttachFrame():
            session = agents.session(frame.session_id)
            return session, _resumed(session, frame)
        case _:
            raise Refused(
                "not_attached", "this socket has no session yet", "send run or attach first"
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
        case RunFrame() | AttachFrame():
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
