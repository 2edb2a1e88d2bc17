"""What a worker may be told to do next; a closed union."""

import msgspec

from agent_lab.domain.payloads import ToolCalled


class CallModel(msgspec.Struct, frozen=True):
    """Ask the model with the history as it stands."""


class RunTools(msgspec.Struct, frozen=True, gc=False):
    """Put these calls on `events`, in this order."""

    calls: tuple[ToolCalled, ...]


class AwaitReplies(msgspec.Struct, frozen=True, gc=False):
    """Nothing moves until these calls are answered."""

    open: tuple[str, ...]


class EndTurn(msgspec.Struct, frozen=True):
    """The model has answered and nothing waits to steer it."""


class Wait(msgspec.Struct, frozen=True):
    """The provider gets this many seconds before it is asked again."""

    delay: float


class AwaitInput(msgspec.Struct, frozen=True):
    """The session is idle."""


Action = CallModel | RunTools | AwaitReplies | EndTurn | Wait | AwaitInput
