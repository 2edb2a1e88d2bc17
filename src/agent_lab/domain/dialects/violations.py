"""What a check says of a history, and how it refuses what is not a history at all."""

from collections.abc import Iterable
from typing import Literal

import msgspec

Severity = Literal["error", "warning"]


class Violation(msgspec.Struct, frozen=True):
    """One fault of a history, in the words of the provider and in ours.

    `where` is the index of the message at fault, None when it is in the tools or in no single
    message: for an unanswered call the message that made the call, for a reply without a call the
    reply, for a group of replies that is broken up the message in the way. `provider_error` is
    what the provider answers, word for word. A `warning` is a fault that not every server or not
    every year of the provider has refused.
    """

    rule: str
    where: int | None
    ids: tuple[str, ...]
    explanation: str
    provider_error: str
    fix: str
    severity: Severity


class HistoryUnreadable(ValueError):
    """What was given is not a list of JSON objects that can be read."""

    def __init__(self, problem: str, where: str = "the history") -> None:
        super().__init__(
            f"{where} cannot be read: {problem}; give a list of messages as the provider takes them"
        )
        self.where = where


class UnknownDialect(ValueError):
    """No rules are known for this dialect."""

    def __init__(self, dialect: object, known: Iterable[str]) -> None:
        super().__init__(f"no rules for dialect {dialect!r}; it must be one of {', '.join(known)}")
        self.dialect = dialect


class UnknownProfileKey(ValueError):
    """A profile key, or its value, that no rule reads."""

    def __init__(self, key: str, known: Iterable[str], value: object = None) -> None:
        fault = f"profile key {key!r}" + (f" cannot be {value!r}" if value is not None else "")
        super().__init__(f"{fault}; the keys are {', '.join(known)}")
        self.key = key
