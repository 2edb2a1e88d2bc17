"""Every error of a session, split by who has to react.

Faces and the registry of agents have errors of their own below AgentLabError, in their modules.

    AgentLabError
      SessionError           the caller of a session
        NoEventLoop          start() outside a running loop
        RuntimeClosed        the session is closed
        RuntimeFailed        the session's root task fell over; chained from what felled it
        AlreadyRunning       a second run() while one is live
        SessionMismatch      a request for another session
      QueueError             who puts and takes
        QueueClosed          the queue is closed, and empty if you take
        InvalidRole          a message that `input` does not carry
        InvalidMessage       something that is no well made message
        MessageRejected      a user message that was not accepted; `code` says why
          InputFull          code queue_full
      GateError              whoever holds the gate
        UnknownHop           no such hop is parked
        HopRefused           this hop cannot be dropped, edited or swapped
      AnswerRefused          whoever answers a permission request; `code` says why
      ExecutionError         whoever asks for or ends an execution
        InvalidTransition    a step that no execution can take
          AlreadyTerminal    it has its end; `status` is which
        UnknownExecution     no such execution, or not of this agent
        NotAdmitted          refused before it was accepted; `code`, `retry_after`
      ColleagueFailed        the model: an agent that was asked gave no answer
      ToolDefinitionError    the programmer of a tool: no name, no schema
      McpError               an MCP server did not do its part; `code` says how
        McpToolFailed        it ran the tool, which failed
      ModelError             the model could not answer; `code`, `hint`, `may_pass`
        ScriptExhausted      a scripted model past its last reply
      StorageError           whoever keeps or reads what is stored; `code` says why

Text says what was tried, on which id, and what to do now. A fault of a tool is no exception: the
model gets it as a reply.
"""

from typing import Literal


class AgentLabError(Exception):
    """Base of all."""


class SessionError(AgentLabError):
    """The caller of a session asked for something it cannot do."""


class NoEventLoop(SessionError):
    """start() and run() need a running event loop."""


class RuntimeClosed(SessionError):
    """The session is closed and takes nothing any more."""


class RuntimeFailed(SessionError):
    """The session's root task fell over."""


class AlreadyRunning(SessionError):
    """`output` has one taker a session, and a run() is live."""


class SessionMismatch(SessionError):
    """The request names another session than the one it was given to."""


class QueueError(AgentLabError):
    """A put or a take that cannot be."""


class QueueClosed(QueueError):
    """The queue is closed; what was in it can still be taken."""

    def __init__(self, queue: str) -> None:
        super().__init__(f"queue {queue!r} is closed; the session has ended, open a new one")
        self.queue = queue


class InvalidRole(QueueError):
    """`input` carries user messages and tool replies only."""

    def __init__(self, role: object) -> None:
        super().__init__(
            f"a message with role {role!r} cannot be put on 'input', which carries user messages "
            "and tool replies; put instructions into the Agent"
        )
        self.role = role


class InvalidMessage(QueueError):
    """What was put is no ChatMessage, or one with a part of the wrong type."""


class MessageRejected(QueueError):
    """A user message that was not accepted."""

    def __init__(self, code: str, message_id: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.message_id = message_id


class InputFull(MessageRejected):
    """As many messages wait as may."""


class GateError(AgentLabError):
    """A hand on the gate missed."""


class UnknownHop(GateError):
    """No hop of that number is parked."""

    def __init__(self, hop: int) -> None:
        super().__init__(f"no hop {hop!r} is parked; it was released, or its turn was cancelled")
        self.hop = hop


class HopRefused(GateError):
    """This kind of hop does not take this verdict."""


AnswerCode = Literal[
    "arguments_changed",
    "bad_arguments",
    "bad_decision",
    "prompt_closed",
    "prompt_elsewhere",
    "prompt_unknown",
]


class AnswerRefused(AgentLabError):
    """An answer to a permission request that does not count; nothing has changed by it.

    `prompt_unknown`: no such request. `prompt_closed`: it has its one answer. `prompt_elsewhere`:
    another session asks it. `arguments_changed`: the answer is for other arguments than the
    request's. `bad_arguments`: the new arguments do not fit the tool. `bad_decision`: no answer.
    """

    def __init__(self, code: AnswerCode, message: str, hint: str) -> None:
        super().__init__(message)
        self.code: AnswerCode = code
        self.hint = hint


class ExecutionError(AgentLabError):
    """An execution that cannot be, or cannot be ended."""


class InvalidTransition(ExecutionError):
    """No execution takes this step."""

    def __init__(self, execution_id: str, status: str, to: str) -> None:
        super().__init__(f"execution {execution_id!r} is {status} and cannot become {to}")
        self.execution_id = execution_id
        self.status = status


class AlreadyTerminal(InvalidTransition):
    """It has its one end."""

    def __init__(self, execution_id: str, status: str) -> None:
        super().__init__(execution_id, status, "anything else: it has its end")


class UnknownExecution(ExecutionError):
    """No execution has this id, or none of this agent's; both read alike."""

    def __init__(self, execution_id: str, agent: str) -> None:
        super().__init__(
            f"agent {agent!r} has no execution {execution_id!r}; its executions are listed at "
            f"/api/agents/{agent}/executions"
        )
        self.execution_id = execution_id


class NotAdmitted(ExecutionError):
    """A request that was refused before it was accepted: nothing of it is left, and nothing ran.

    `code` is the machine's name for it, `retry_after` seconds until it may be different, and
    `execution_id` the one that stands in its way, if one does.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        retry_after: float | None = None,
        queue_length: int = 0,
        execution_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.retry_after = retry_after
        self.queue_length = queue_length
        self.execution_id = execution_id


class ColleagueFailed(AgentLabError):
    """An agent that was asked by another gave no answer; the asking model reads why."""

    def __init__(self, agent: str, why: str) -> None:
        super().__init__(f"agent {agent!r} gave no answer: {why}")
        self.agent = agent


class ToolDefinitionError(AgentLabError):
    """A function that cannot be a tool."""


McpCode = Literal["mcp_bad_message", "mcp_gone", "mcp_refused", "mcp_timeout"]


class McpError(AgentLabError):
    """An MCP server did not do its part; the model reads the text, with its code, as a reply.

    `mcp_gone`: it ended, or cannot be reached. `mcp_timeout`: it gave no answer in time.
    `mcp_bad_message`: what it said is no MCP. `mcp_refused`: it answered with an error of its own.
    """

    def __init__(self, code: McpCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code: McpCode = code
        self.message = message


class McpToolFailed(McpError):
    """The server ran the tool, and the tool failed; what it says is for the model alone."""

    def __init__(self, message: str) -> None:
        super().__init__("mcp_refused", message)
        self.args = (message,)


class ModelError(AgentLabError):
    """The model could not answer.

    `code` is the machine's name for it, `hint` what to do, and `may_pass` whether the same
    request may work a moment later; `retry_after` is the wait in seconds that the provider asked
    for, if it did.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "model_error",
        hint: str = "",
        may_pass: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or type(self).__name__)
        self.code = code
        self.hint = hint
        self.may_pass = may_pass
        self.retry_after = retry_after


class ScriptExhausted(ModelError):
    """The script has no reply for this call."""

    def __init__(self, replies: int) -> None:
        super().__init__(
            f"the script has {replies} replies and the session asks for one more",
            code="script_exhausted",
            hint="add a reply, or pass repeat_last=True",
        )


StorageCode = Literal[
    "storage_busy",
    "storage_closed",
    "storage_corrupt",
    "storage_failed",
    "storage_full",
    "storage_gone",
    "storage_locked",
    "storage_newer",
    "storage_readonly",
    "storage_too_large",
    "storage_unsafe",
]


class StorageError(AgentLabError):
    """Something could not be stored or read; `code` names why, `hint` what to do."""

    def __init__(self, code: StorageCode, message: str, hint: str) -> None:
        super().__init__(message)
        self.code: StorageCode = code
        self.hint = hint
