"""Faults of the order of roles, for chat templates and servers that look at it."""

from collections.abc import Iterator

from agent_lab.domain.dialects.rules.chat_view import ChatView
from agent_lab.domain.dialects.rules.profile import Profile, of_family
from agent_lab.domain.dialects.rules.reading import Wire
from agent_lab.domain.dialects.rules.rule import Finding

QWEN = ("qwen3.5", "qwen3.6", "qwen3.8")
STRICT = ("gemma", "mistral")
# What Groq's message types have; anything else is refused by name.
GROQ_FIELDS = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "tool_calls", "function_call", "reasoning"}),
    "tool": frozenset({"role", "content", "name", "tool_call_id"}),
    "function": frozenset({"role", "content", "name"}),
}


def is_qwen(profile: Profile) -> bool:
    """The Qwen templates that want one system message, first, and a user message."""
    return of_family(profile.template, *QWEN)


def is_strict(profile: Profile) -> bool:
    """The templates that want user and assistant in turn."""
    return of_family(profile.template, *STRICT)


def asks_something(message: Wire) -> bool:
    """Whether Qwen's template takes this for a user's question, not for a tool's answer."""
    content = message.get("content")
    return message.get("role") == "user" and not (
        isinstance(content, str) and content.strip().startswith("<tool_response>")
    )


def system_not_first(view: ChatView) -> Iterator[Finding]:
    """A system message anywhere but at the start (Qwen templates)."""
    if is_qwen(view.profile):
        for i, role in enumerate(view.roles):
            if role == "system" and i:
                yield Finding(i)


def no_user_query(view: ChatView) -> Iterator[Finding]:
    """No user message at all (Qwen templates)."""
    if is_qwen(view.profile) and not any(map(asks_something, view.messages)):
        yield Finding(None)


def counted(message: Wire) -> bool:
    """Whether strict templates count a message: tool rounds are skipped."""
    return message.get("role") in ("user", "assistant") and not message.get("tool_calls")


def roles_not_alternating(view: ChatView) -> Iterator[Finding]:
    """Two users, two assistants, or an assistant first (Gemma and Mistral templates)."""
    if not is_strict(view.profile):
        return
    previous = "assistant"
    for i, message in enumerate(view.messages):
        if counted(message):
            if view.roles[i] == previous:
                yield Finding(i)
            previous = view.roles[i]


def successive_roles(view: ChatView) -> Iterator[Finding]:
    """Neighbours with one role (deepseek-reasoner of 2025)."""
    if of_family(view.profile.model, "deepseek-reasoner"):
        for i in range(1, len(view.roles)):
            if view.roles[i] == view.roles[i - 1] and view.roles[i] in ("user", "assistant"):
                yield Finding(i, (), {"before": i - 1})


def thinks(profile: Profile) -> bool:
    """Whether DeepSeek wants its reasoning back; R1 of 2025 refused it."""
    return profile.thinking is True and not of_family(profile.model, "deepseek-reasoner")


def reasoning_missing(view: ChatView) -> Iterator[Finding]:
    """Calls without the reasoning before them, of this turn or of an earlier one."""
    if thinks(view.profile):
        for turn in view.rounds:
            if not isinstance(view.messages[turn.at].get("reasoning_content"), str):
                yield Finding(turn.at)


def property_unsupported(view: ChatView) -> Iterator[Finding]:
    """Fields that Groq does not have for a role."""
    for i, message in enumerate(view.messages):
        known = GROQ_FIELDS.get(view.roles[i])
        for field in message if known else ():
            if known and field not in known:
                yield Finding(i, (), {"name": field, "role": view.roles[i]})
