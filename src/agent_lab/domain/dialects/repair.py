"""`repair_history`: a refused history made valid, and what was done to it."""

from typing import Any

import msgspec

from agent_lab.domain.dialects.check import DIALECTS, check, read_history
from agent_lab.domain.dialects.formats import foreign
from agent_lab.domain.dialects.repairs import anthropic, chat, gemini, responses
from agent_lab.domain.dialects.repairs.format import TO_FORMAT
from agent_lab.domain.dialects.repairs.passes import Change, Pass, run_passes
from agent_lab.domain.dialects.rules.rule import History
from agent_lab.domain.dialects.violations import Violation

PASSES: dict[str, tuple[Pass, ...]] = {
    "openai_responses": responses.OPENAI,
    "anthropic": anthropic.PASSES,
    "gemini": gemini.PASSES,
    "deepseek_responses": responses.DEEPSEEK,
    **chat.PASSES,
}


class Repair(msgspec.Struct, frozen=True):
    """The repaired history, and everything that was dropped, made, edited or moved for it.

    `origins` are the places that its messages had in the history as given; None for what was made.
    `left` are the faults that no change of the messages mends: those in the tools.
    """

    messages: list[dict[str, Any]]
    changes: tuple[Change, ...]
    origins: tuple[int | None, ...] = ()
    left: tuple[Violation, ...] = ()


def repair_history(
    messages: list[dict[str, Any]],
    dialect: str,
    tools: list[dict[str, Any]] | None = None,
    **profile: Any,
) -> list[dict[str, Any]]:
    """A history that `check_history` finds valid for the same arguments.

    It keeps every user message and every finished reply whose call is there; replies that had to
    be made up say "Error: no result (the process stopped while the tool ran)". A valid history
    (warnings do not count) comes back equal; the input is not changed; to repair twice is to
    repair once. Faults in the tools are not in the messages, and stay.
    """
    return repair_report(messages, dialect, tools, **profile).messages


def repair_report(
    messages: list[dict[str, Any]],
    dialect: str,
    tools: list[dict[str, Any]] | None = None,
    **profile: Any,
) -> Repair:
    """The same, with what was done: nothing is dropped or made silently."""
    history = read_history(messages, dialect, tools, profile)
    in_messages = msgspec.structs.replace(history, tools=[])
    if all(found.severity == "warning" for found in check(in_messages)):
        places = tuple(range(len(history.messages)))
        return Repair([*history.messages], (), places, _left(history, history.messages))
    passes = (TO_FORMAT, *PASSES[dialect])
    mended = run_passes(history, passes)
    if foreign(mended.messages, DIALECTS[dialect].format):  # what spoke for this format was dropped
        mended = run_passes(history, (*passes, *passes))
    left = _left(history, mended.messages)
    return Repair(mended.messages, tuple(mended.changes), tuple(mended.origins), left)


def _left(history: History, mended: list[dict[str, Any]]) -> tuple[Violation, ...]:
    if not history.tools:
        return ()
    found = check(msgspec.structs.replace(history, messages=mended))
    return tuple(violation for violation in found if violation.severity == "error")
