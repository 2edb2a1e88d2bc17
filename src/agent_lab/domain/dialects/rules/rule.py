"""What a rule is: data, and one pure function that finds its faults."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from agent_lab.domain.dialects.rules.profile import Profile
from agent_lab.domain.dialects.rules.reading import Wire
from agent_lab.domain.dialects.violations import Violation

Confidence = Literal["high", "medium", "low"]
Format = Literal["openai_chat", "openai_responses", "anthropic", "gemini"]


class History(msgspec.Struct, frozen=True):
    """What is checked: the wire messages, the wire tools, and whom they are for.

    `dialect` names the server, because servers with one wire format share the functions.
    """

    messages: list[Wire]
    tools: list[Wire]
    profile: Profile
    dialect: str = ""


class Finding(NamedTuple):
    """A fault, found. `say` fills the provider's text; a doubtful one is only a warning."""

    where: int | None
    ids: tuple[str, ...] = ()
    say: dict[str, Any] | None = None
    doubtful: bool = False


class Rule(msgspec.Struct, frozen=True):
    """One thing a provider refuses.

    `error` is the provider's text with `{i}` for the message's index, `{id}` and `{ids}` for the
    ids at fault, and what the finding says; `because` explains it in one plain sentence and `fix`
    mends it. With confidence `low` the fault is a warning. `also` are other texts of the same
    fault: older ones, or another door to the same provider.
    """

    name: str
    finds: Callable[[Any], Iterable[Finding]]
    error: str
    because: str
    fix: str
    confidence: Confidence = "high"
    also: tuple[str, ...] = ()


class Dialect(msgspec.Struct, frozen=True):
    """A provider: how its history is read for its rules, the rules, and its wire format."""

    read: Callable[[History], Any]
    rules: tuple[Rule, ...]
    format: Format = "openai_chat"


def violation(rule: Rule, finding: Finding) -> Violation:
    """The finding as it is told to people."""
    facts = {
        "i": finding.where,
        "id": finding.ids[0] if finding.ids else "",
        "ids": ", ".join(finding.ids),
        **(finding.say or {}),
    }
    doubtful = finding.doubtful or rule.confidence == "low"
    return Violation(
        rule=rule.name,
        where=finding.where,
        ids=finding.ids,
        explanation=rule.because.format_map(facts),
        provider_error=rule.error.format_map(facts),
        fix=rule.fix.format_map(facts),
        severity="warning" if doubtful else "error",
    )
