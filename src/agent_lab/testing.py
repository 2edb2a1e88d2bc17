"""Public doubles and helpers for tests of agents, and of agent_lab itself."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from itertools import count
from typing import Any, Literal, TypeVar

from agent_lab.application.agent import Agent
from agent_lab.application.gate import Gate, HandGate
from agent_lab.application.ports import Model, Outside
from agent_lab.application.simulation import Deadlock, SimulatedLoop
from agent_lab.application.tools import Tool
from agent_lab.bootstrap import DebugRuntime, resolve_model
from agent_lab.domain.dialects.check import DIALECTS, check_history
from agent_lab.domain.dialects.rendering import written
from agent_lab.domain.dialects.violations import Violation
from agent_lab.domain.limits import Limits
from agent_lab.domain.messages import ChatMessage, FinishReason, Usage
from agent_lab.domain.thinking import Thinking
from agent_lab.infrastructure.models.faulty import Faults, FaultyModel
from agent_lab.infrastructure.models.scripted import (
    ScriptedCall,
    ScriptedError,
    ScriptedModel,
    ScriptedReply,
)

__all__ = [
    "Deadlock",
    "HandGate",
    "ScriptedModel",
    "SeededOutside",
    "assert_provider_valid",
    "call",
    "fail",
    "faulty",
    "open_runtime",
    "reply",
    "simulate",
]

T = TypeVar("T")


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
    thinking: Sequence[Thinking] = (),
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
        thinking=tuple(thinking),
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


def faulty(
    model: Model | Callable[..., Any] | str,
    *,
    cut_after: int | None = None,
    stall_after: int | None = None,
    error: Literal[429, 500, 529] | None = None,
    retry_after: float | None = None,
    same_ids: bool = False,
    wrong_json: bool = False,
    times: int | None = None,
) -> FaultyModel:
    """Any model with faults on purpose, in the first `times` calls of each session or in all.

    `cut_after` events the stream breaks off, `stall_after` events it says nothing more, `error` is
    a status that comes instead. `same_ids` and `wrong_json` spoil the tool calls. See Faults.
    """
    faults = Faults(
        cut_after=cut_after,
        stall_after=stall_after,
        error=error,
        retry_after=retry_after,
        same_ids=same_ids,
        wrong_json=wrong_json,
        times=times,
    )
    return FaultyModel(resolve_model(model), faults)


# -- runs that can be told again -----------------------------------------------------------------


class SeededOutside:
    """An outside in which nothing is by chance: one wall time, and ids that count.

    The first id of a prefix is `m_0_1` with seed 0, whatever ran before.
    """

    WALL_TIME = 1_796_032_800.0
    """2026-11-30T10:00:00Z."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._counts: dict[str, count[int]] = {}

    def wall_time(self) -> float:
        """Always the same."""
        return self.WALL_TIME

    def clock(self, loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
        """The loop's own, which a simulated loop moves by hand."""
        return loop.time

    def new_id(self, prefix: str) -> str:
        """The prefix, the seed, and how many of this prefix there were."""
        return f"{prefix}_{self._seed}_{next(self._counts.setdefault(prefix, count(1)))}"


_outside: ContextVar[Outside | None] = ContextVar("agent_lab_outside", default=None)


def simulate(main: Callable[[], Coroutine[Any, Any, T]], *, seed: int | None = None) -> T:
    """Run `main()` on a fresh simulated loop, close it, and give back what it returned.

    The clock is virtual: waiting costs nothing. Without a seed callbacks go first in, first out;
    a seed chooses among those that are ready, so each seed is an interleaving, the same each time.
    Runtimes opened inside with `open_runtime` get seeded ids. Call it where no loop runs. Raises
    Deadlock if `main` waits for what can never happen.
    """
    choose = random.Random(seed).randrange if seed is not None else None  # noqa: S311  # replay
    context = copy_context()
    context.run(_outside.set, SeededOutside(seed or 0))
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(choose)) as runner:
        return runner.run(main(), context=context)


@asynccontextmanager
async def open_runtime(
    agent: Agent | None = None,
    *,
    model: Model | Callable[..., Any] | str | None = None,
    tools: Sequence[Tool | Callable[..., Any]] = (),
    instructions: str | None = None,
    limits: Limits | None = None,
    gate: Gate | None = None,
    history: Sequence[ChatMessage] = (),
    session_id: str | None = None,
    outside: Outside | None = None,
) -> AsyncGenerator[DebugRuntime, None]:
    """A runtime for an agent, or for an agent made of `model` and the rest; closed on the way out.

    Inside `simulate` ids and wall time are seeded unless `outside` says otherwise.
    """
    if (agent is None) == (model is None):
        raise TypeError("open_runtime() takes an agent, or a model to make one of")
    if agent is None:
        assert model is not None
        agent = Agent("test", model=model, tools=tools, instructions=instructions, limits=limits)
    elif tools or instructions or limits:
        raise TypeError("tools, instructions and limits belong to the agent that was given")
    async with DebugRuntime(
        agent,
        session_id=session_id,
        history=history,
        gate=gate,
        outside=outside or _outside.get(),
    ) as runtime:
        yield runtime


def assert_provider_valid(
    history: Sequence[ChatMessage] | Sequence[dict[str, Any]], *dialects: str
) -> None:
    """Fail with every violation, its explanation and its fix, if a provider would refuse this.

    `history` is a session's, which is rendered for each dialect, or messages in the wire format of
    the dialects; without dialects it is checked as `openai_chat`. Warnings are let pass.
    """
    faults = [
        f"{dialect}: {fault.rule} at {fault.where}: {fault.explanation} Fix: {fault.fix}"
        for dialect in dialects or ("openai_chat",)
        for fault in _faults(history, dialect)
        if fault.severity == "error"
    ]
    if faults:
        raise AssertionError("\n".join(faults))


def _faults(
    history: Sequence[ChatMessage] | Sequence[dict[str, Any]], dialect: str
) -> list[Violation]:
    """Of a session's history those of the format: what a server wants besides is met in sending."""
    ours = [message for message in history if isinstance(message, ChatMessage)]
    wire = [message for message in history if not isinstance(message, ChatMessage)]
    if not ours:
        return check_history(wire, dialect)
    if wire:
        raise ValueError("give ChatMessages or wire messages, not both in one list")
    return check_history(written(ours, dialect).messages, DIALECTS[dialect].format)
