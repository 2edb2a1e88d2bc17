"""`check_history`: what a provider would refuse in a history, before it is sent."""

from typing import Any

from agent_lab.domain.dialects.formats import wrong_format
from agent_lab.domain.dialects.rules.anthropic_rules import ANTHROPIC
from agent_lab.domain.dialects.rules.gemini_rules import GEMINI
from agent_lab.domain.dialects.rules.mistral_rules import MISTRAL
from agent_lab.domain.dialects.rules.openai_chat_rules import OPENAI_CHAT
from agent_lab.domain.dialects.rules.profile import read_profile
from agent_lab.domain.dialects.rules.reading import read_objects
from agent_lab.domain.dialects.rules.responses_rules import DEEPSEEK_RESPONSES, OPENAI_RESPONSES
from agent_lab.domain.dialects.rules.rule import Dialect, Finding, History, Rule, violation
from agent_lab.domain.dialects.rules.servers import SERVERS
from agent_lab.domain.dialects.violations import UnknownDialect, Violation

DIALECTS: dict[str, Dialect] = {
    "openai_chat": OPENAI_CHAT,
    "openai_responses": OPENAI_RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "mistral": MISTRAL,
    "deepseek_responses": DEEPSEEK_RESPONSES,
    **SERVERS,
}


def check_history(
    messages: list[dict[str, Any]],
    dialect: str,
    tools: list[dict[str, Any]] | None = None,
    **profile: Any,
) -> list[Violation]:
    """All faults of a history in one pass, in the order of the messages at fault.

    `messages` and `tools` are in the dialect's wire format: Chat `messages`, a Responses `input`,
    Gemini `contents`. `profile` says what the verdict depends on: `model`, `thinking`, `store`,
    `tokenizer`, `mistral_common`, `template`, `era`, `produced`, `original_content`. A history
    without errors (warnings are none) is valid. A list that is plainly in another provider's format
    has that one fault, `wrong_format`. Linear in the messages: 10,000 take less than
    100 ms. Raises `HistoryUnreadable`, `UnknownDialect`, `UnknownProfileKey`.
    """
    return check(read_history(messages, dialect, tools, profile))


def read_history(messages: Any, dialect: str, tools: Any, profile: dict[str, Any]) -> History:
    """What a caller gave, checked for what cannot be read at all."""
    if dialect not in DIALECTS:
        raise UnknownDialect(dialect, DIALECTS)
    return History(
        read_objects(messages, "messages"),
        [] if tools is None else read_objects(tools, "tools"),
        read_profile(profile),
        dialect,
    )


def check(history: History) -> list[Violation]:
    """The violations of a history that was read."""
    provider = DIALECTS[history.dialect]
    if wrong := wrong_format(history.messages, provider.format):
        return [violation(*wrong)]
    view = provider.read(history)
    found = [(rule, finding) for rule in provider.rules for finding in rule.finds(view)]
    found.sort(key=_place)
    return [violation(rule, finding) for rule, finding in found]


def _place(found: tuple[Rule, Finding]) -> float:
    """Faults of no single message come last; rules keep the order of their table."""
    where = found[1].where
    return float("inf") if where is None else where
