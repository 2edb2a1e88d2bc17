"""`explain_error`: which rule a provider's error text is about, and which message it means."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from agent_lab.domain.dialects.check import DIALECTS, check_history
from agent_lab.domain.dialects.formats import WRONG
from agent_lab.domain.dialects.rules.rule import Rule
from agent_lab.domain.dialects.violations import Violation

# An error body is small; what is longer is a log, and its beginning is enough.
LONGEST = 20_000
# Fewer fixed letters than this would match an error about anything.
FEWEST = 24
ENOUGH = 0.7
FIELD = re.compile(r"\{(\w+)(?:![rs])?\}")


class Explanation(NamedTuple):
    """A rule that a text may be about: whose, which, why in plain words, and what mends it."""

    dialect: str
    rule: str
    explanation: str
    fix: str


class _Match(NamedTuple):
    share: float  # of the rule's fixed letters that the text has
    letters: int
    dialect: str
    rule: Rule
    facts: dict[str, str]


class _Facts(dict[str, Any]):
    """What the text said; an ellipsis for what it did not."""

    def __missing__(self, key: str) -> str:
        return "…"


class _Template(NamedTuple):
    dialect: str
    rule: Rule
    fields: list[str]
    fragments: list[str]

    @property
    def letters(self) -> int:
        return sum(map(len, self.fragments))


def explain_error(text: str) -> list[Explanation]:
    """The rules that a provider's error text is about, most likely first; [] for none.

    The text may be the message alone, a JSON body or a traceback. Servers that copied a text are
    all named.
    """
    return [
        Explanation(
            match.dialect,
            match.rule.name,
            match.rule.because.format_map(_Facts(match.facts)),
            match.rule.fix.format_map(_Facts(match.facts)),
        )
        for match in _matches(text)
    ]


def locate_error(
    text: str,
    messages: list[dict[str, Any]],
    dialect: str,
    tools: list[dict[str, Any]] | None = None,
    **profile: Any,
) -> list[Violation]:
    """The faults of a history that the text is about, most likely first.

    What the history breaks of the rules found for this dialect; those whose ids or index the text
    names come first. When the text fits no fault of the history, [].
    """
    rules = [match.rule.name for match in _matches(text) if match.dialect == dialect]
    found = check_history(messages, dialect, tools, **profile)
    wanted = [violation for violation in found if violation.rule in rules]
    said = set(re.findall(r"[\w|:.@-]+", text[:LONGEST]))
    numbers = {int(number) for number in re.findall(r"\b\d{1,6}\b", text[:LONGEST])}

    def unlikely(violation: Violation) -> tuple[bool, bool, int]:
        named = bool(said.intersection(violation.ids))
        return not named, violation.where not in numbers, rules.index(violation.rule)

    return sorted(wanted, key=unlikely)


def _matches(text: str) -> list[_Match]:
    plain = _plain(text[:LONGEST])
    best: dict[tuple[str, str], _Match] = {}
    for template in _templates():
        match = _match(template, plain)
        key = (template.dialect, template.rule.name)
        if match and (key not in best or match[:2] > best[key][:2]):
            best[key] = match
    return sorted(best.values(), key=lambda match: (match.share, match.letters), reverse=True)


def _plain(text: str) -> str:
    """Without the escapes of JSON, one kind of quote, single blanks, small letters."""
    unescaped = re.sub(r"\\+([\"'`/])", r"\1", text).replace("\\n", " ")
    return " ".join(re.sub(r"[\"'`‘’“”]", "'", unescaped).split()).lower()


@cache
def _templates() -> tuple[_Template, ...]:
    return tuple(
        template
        for dialect, provider in DIALECTS.items()
        for rule in (*provider.rules, WRONG[provider.format])
        for template in _of_rule(dialect, rule)
        if template.letters >= FEWEST
    )


def _of_rule(dialect: str, rule: Rule) -> Iterator[_Template]:
    for error in (rule.error, *rule.also):
        parts = FIELD.split(error)
        fields = parts[1::2]
        yield _Template(dialect, rule, fields, [_plain_part(part) for part in parts[0::2]])


def _plain_part(part: str) -> str:
    """A fragment in plain letters; blanks at its ends are dropped, as a pasted text may wrap."""
    return _plain(part)


def _match(template: _Template, text: str) -> _Match | None:
    """How much of a template stands in the text, in its order, and what stands in the gaps."""
    place, letters = 0, 0
    spans: list[tuple[int, int] | None] = []
    for fragment in template.fragments:
        at = text.find(fragment, place)
        if at < 0:
            spans.append(None)
            continue
        place = at + len(fragment)
        letters += len(fragment)
        spans.append((at, place))
    share = letters / template.letters
    if share < ENOUGH:
        part = text.strip(" .")
        if len(part) < FEWEST or not any(part in fragment for fragment in template.fragments):
            return None
        share, letters = len(part) / template.letters / 2, len(part)
    facts = _facts(template.fields, spans, text)
    return _Match(round(share, 3), letters, template.dialect, template.rule, facts)


def _facts(fields: list[str], spans: list[tuple[int, int] | None], text: str) -> dict[str, str]:
    facts: dict[str, str] = {}
    for k, field in enumerate(fields):
        before, after = spans[k], spans[k + 1]
        if before is None:
            continue
        tail = re.match(r"\s?[\w|:@-]+(?:, [\w|:@-]+)*", text[before[1] :])
        ends = after is not None and after[0] > before[1] and after[1] > after[0]
        value = text[before[1] : after[0]] if ends and after else (tail.group() if tail else "")
        if value.strip() and len(value) < 300:
            facts.setdefault(field, value.strip())
    return facts
