"""Public doubles and helpers for tests of agents, and of agent_lab itself."""

from typing import Any

from agent_lab.application.gate import HandGate
from agent_lab.domain.messages import FinishReason, Usage
from agent_lab.infrastructure.models.scripted import (
    ScriptedCall,
    ScriptedError,
    ScriptedModel,
    ScriptedReply,
)

__all__ = ["HandGate", "ScriptedModel", "call", "fail", "reply"]


def reply(
    text: str | None = None,
    *,
    calls: "list[ScriptedCall] | tuple[ScriptedCall, ...]" = (),
    finish: FinishReason | None = None,
    delay: float = 0.0,
    deltas: "list[str | tuple[int, str]] | None" = None,
    delta_delay: float = 0.0,
    cut_after: int | None = None,
    usage: Usage | None = None,
) -> ScriptedReply:
    """One answer of a scripted model; times are seconds. See ScriptedReply."""
    return ScriptedReply(
        text=text,
        calls=tuple(calls),
        finish=finish,
        delay=delay,
        deltas=tuple(deltas) if deltas is not None else None,
        delta_delay=delta_delay,
        cut_after=cut_after,
        usage=usage,
    )


def call(
    _name: str, /, _id: str | None = None, *, _raw: str | None = None, **arguments: Any
) -> ScriptedCall:
    """A tool call of a scripted answer: `call("get_weather", city="Oslo")`.

    `_id` sets the call's id, `_raw` its arguments as text that need not be JSON.
    """
    return ScriptedCall(name=_name, arguments=arguments, raw=_raw, id=_id)


def fail(
    code: str = "model_error",
    message: str = "the script says so",
    *,
    hint: str = "",
    may_pass: bool = False,
    text: str | None = None,
    delay: float = 0.0,
) -> ScriptedReply:
    """A fault instead of an answer, after `text` was streamed if there is any."""
    return ScriptedReply(
        text=text,
        delay=delay,
        error=ScriptedError(code=code, message=message, hint=hint, may_pass=may_pass),
    )
