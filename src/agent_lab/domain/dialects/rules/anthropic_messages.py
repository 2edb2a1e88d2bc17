"""Faults of roles, text and thinking in an Anthropic Messages history."""

from collections.abc import Iterator

from agent_lab.domain.dialects.rules.anthropic_view import THINKING, AnthropicView
from agent_lab.domain.dialects.rules.profile import Profile, claude_version
from agent_lab.domain.dialects.rules.reading import as_text
from agent_lab.domain.dialects.rules.rule import Finding


def takes_system_messages(profile: Profile) -> bool:
    """Mid-conversation system messages came with Opus 4.8 (2026-05-28)."""
    return claude_version(profile.model) >= (4, 8)


def takes_prefill(profile: Profile) -> bool:
    """Claude 4.6 and later refuse a final assistant turn (ericc-ch/copilot-api#261)."""
    return claude_version(profile.model) < (4, 6)


def history_empty(view: AnthropicView) -> Iterator[Finding]:
    """No message at all."""
    if not view.messages:
        yield Finding(None)


def role_unknown(view: AnthropicView) -> Iterator[Finding]:
    """Roles that are not user or assistant."""
    for i, role in enumerate(view.roles):
        if role not in ("user", "assistant", "system"):
            yield Finding(i, (), {"role": role})


def content_shape(view: AnthropicView) -> Iterator[Finding]:
    """Content that is neither text nor a list of blocks with a type."""
    yield from map(Finding, view.untyped)


def system_not_supported(view: AnthropicView) -> Iterator[Finding]:
    """Role system in the list, for models that have only the top-level field."""
    if not takes_system_messages(view.profile):
        yield from (Finding(i) for i, role in enumerate(view.roles) if role == "system")


def system_misplaced(view: AnthropicView) -> Iterator[Finding]:
    """Role system anywhere but after a user turn and before an assistant turn or the end."""
    if takes_system_messages(view.profile):
        for i, role in enumerate(view.roles):
            before = view.roles[i - 1] if i else ""
            after = view.roles[i + 1] if i + 1 < len(view.roles) else "assistant"
            if role == "system" and (before, after) != ("user", "assistant"):
                yield Finding(i, (), {"text": _misplaced_text(i)})


def _misplaced_text(i: int) -> str:
    if i == 0:
        return "messages.0: use the top-level 'system' parameter for the initial system prompt"
    return f"messages.{i}: role 'system' must follow a 'user' message"


def text_empty(view: AnthropicView) -> Iterator[Finding]:
    """Text blocks without text; one finding a message."""
    yield from map(Finding, dict.fromkeys(i for i, text in view.blank if not text))


def text_blank(view: AnthropicView) -> Iterator[Finding]:
    """Text blocks of white space only; one finding a message."""
    yield from map(Finding, dict.fromkeys(i for i, text in view.blank if text))


def content_empty(view: AnthropicView) -> Iterator[Finding]:
    """Messages without content, but for an assistant message at the end."""
    last = len(view.messages) - 1
    for i, message in enumerate(view.messages):
        if not message.get("content") and not (i == last and view.roles[i] == "assistant"):
            yield Finding(i)


def trailing_whitespace(view: AnthropicView) -> Iterator[Finding]:
    """A final assistant text that ends in white space."""
    if view.roles and view.roles[-1] == "assistant" and view.blocks[-1]:
        final = view.blocks[-1][-1]
        text = as_text(final.wire.get("text")) if final.type == "text" else ""
        if takes_prefill(view.profile) and text.strip() and text != text.rstrip():
            yield Finding(len(view.messages) - 1)


def prefill(view: AnthropicView) -> Iterator[Finding]:
    """A final assistant message, for models that do not continue one."""
    if not view.roles or view.roles[-1] != "assistant" or takes_prefill(view.profile):
        return
    if all(block.type != "tool_use" for block in view.blocks[-1]):
        yield Finding(len(view.messages) - 1)


def first_not_user(view: AnthropicView) -> Iterator[Finding]:
    """An assistant message first (refused in 2024)."""
    if view.profile.era == "2024" and view.roles and view.roles[0] == "assistant":
        yield Finding(0)


def _in_tool_loop(view: AnthropicView) -> int | None:
    """The first message of the assistant turn whose results end the history."""
    if len(view.turns) > 1 and any(block.type == "tool_result" for block in view.blocks[-1]):
        turn = view.turns[-2]
        if turn.role == "assistant" and turn.uses:
            return turn.at
    return None


def thinking_missing(view: AnthropicView) -> Iterator[Finding]:
    """Calls without the thinking before them, in the tool loop that goes on."""
    start = _in_tool_loop(view)
    if view.profile.thinking and start is not None:
        blocks = view.turns[-2].blocks
        if not any(block.type in THINKING for block in blocks):
            yield Finding(start, (), {"found": blocks[0].type})


def thinking_not_first(view: AnthropicView) -> Iterator[Finding]:
    """Thinking behind other blocks. In older turns, whose thinking is ignored, it is doubtful."""
    start = _in_tool_loop(view)
    for turn in view.turns if view.profile.thinking is not False else ():
        if turn.role != "assistant" or not turn.blocks or turn.blocks[0].type in THINKING:
            continue
        if any(block.type in THINKING for block in turn.blocks):
            found = turn.blocks[0].type
            yield Finding(turn.at, (), {"found": found}, doubtful=turn.at != start)


def thinking_last(view: AnthropicView) -> Iterator[Finding]:
    """An assistant message that ends with thinking; doubtful where it is not first either."""
    if view.profile.thinking is False:
        return
    for i, blocks in enumerate(view.blocks):
        if view.roles[i] == "assistant" and blocks and blocks[-1].type == "thinking":
            yield Finding(i, doubtful=blocks[0].type not in THINKING)


def thinking_disabled(view: AnthropicView) -> Iterator[Finding]:
    """Thinking in the final message while thinking is off; in a tool round it is doubtful."""
    if view.profile.thinking is not False or not view.messages:
        return
    final = len(view.messages) - 1 if view.roles[-1] == "assistant" else _in_tool_loop(view)
    for block in view.blocks[final] if final is not None else ():
        if block.type in THINKING:
            doubtful = final != len(view.messages) - 1
            yield Finding(final, (), {"j": block.place}, doubtful=doubtful)
            return


def thinking_modified(view: AnthropicView) -> Iterator[Finding]:
    """Thinking of the latest assistant message that is not as the provider sent it."""
    latest = max((i for i, role in enumerate(view.roles) if role == "assistant"), default=None)
    for i, original in view.profile.original_content:
        if i == latest:
            now = [block for block in view.blocks[i] if block.type in THINKING]
            was = [block for block in original if block.get("type") in THINKING]
            if now and [block.wire for block in now] != was:
                yield Finding(i, (), {"j": now[0].place})
