"""Faults of tool_use and tool_result blocks."""

import re
from collections.abc import Iterator

from agent_lab.domain.dialects.rules.anthropic_view import (
    AnthropicView,
    Block,
    Turn,
    results,
    use_id,
    uses,
)
from agent_lab.domain.dialects.rules.reading import as_object, as_text
from agent_lab.domain.dialects.rules.rule import Finding

ID = re.compile(r"[a-zA-Z0-9_-]+")


def _exchanges(view: AnthropicView) -> Iterator[tuple[Turn, Turn | None]]:
    """Each assistant turn with calls, and the user turn that must answer it."""
    for k, turn in enumerate(view.turns):
        if turn.role == "assistant" and uses(turn.blocks):
            follower = view.turns[k + 1] if k + 1 < len(view.turns) else None
            yield turn, follower


def tool_use_unanswered(view: AnthropicView) -> Iterator[Finding]:
    """Calls without a result in the next turn, told at the message with the calls."""
    for turn, follower in _exchanges(view):
        answered = {use_id(block) for block in results(turn.blocks)}
        if follower is not None and follower.role == "user":
            answered |= {use_id(block) for block in results(follower.blocks)}
        elif follower is not None and follower.role in ("tool", "function"):
            continue  # the reply is there, in a role that is a fault of its own
        missing: dict[int, list[str]] = {}
        for block in uses(turn.blocks):
            if use_id(block) not in answered:
                missing.setdefault(block.at, []).append(use_id(block))
        yield from (Finding(at, tuple(dict.fromkeys(ids))) for at, ids in missing.items())


def tool_result_not_first(view: AnthropicView) -> Iterator[Finding]:
    """The message with other content in front of results, in the turn that must begin with them."""
    for turn, follower in _exchanges(view):
        called = {use_id(block) for block in uses(turn.blocks)}
        way: Block | None = None
        late: list[str] = []
        for block in follower.blocks if follower and follower.role == "user" else ():
            if block.type != "tool_result":
                way = way or block
            elif way and use_id(block) in called:
                late.append(use_id(block))
        if way and late:
            yield Finding(way.at, tuple(dict.fromkeys(late)), {"call": uses(turn.blocks)[0].at})


def tool_result_orphan(view: AnthropicView) -> Iterator[Finding]:
    """Results whose call is not in the turn before."""
    for k, turn in enumerate(view.turns):
        if turn.role != "user":
            continue
        before = view.turns[k - 1] if k else None
        called = {use_id(block) for block in uses(before.blocks)} if before else set[str]()
        for block in results(turn.blocks):
            if use_id(block) not in called or (before and before.role != "assistant"):
                yield Finding(block.at, (use_id(block),), {"j": block.place})


def tool_result_duplicate(view: AnthropicView) -> Iterator[Finding]:
    """A second result for one call, in the turn that answers it."""
    for turn, follower in _exchanges(view):
        called = {use_id(block) for block in uses(turn.blocks)}
        seen: set[str] = set()
        for block in results(follower.blocks) if follower and follower.role == "user" else ():
            if use_id(block) in called and use_id(block) in seen:
                yield Finding(block.at, (use_id(block),), {"j": block.place})
            seen.add(use_id(block))


def tool_use_id_duplicate(view: AnthropicView) -> Iterator[Finding]:
    """An id used twice: refused within a turn, doubtful across turns."""
    ever: set[str] = set()
    for turn in view.turns:
        here: set[str] = set()
        for block in uses(turn.blocks):
            call = use_id(block)
            if call in ever:
                yield Finding(block.at, (call,), {"j": block.place}, doubtful=call not in here)
            here.add(call)
            ever.add(call)


def tool_use_id_pattern(view: AnthropicView) -> Iterator[Finding]:
    """Ids with other characters than letters, digits, _ and -; once an id."""
    told: set[str] = set()
    for turn in view.turns:
        for block in turn.blocks:
            if block.type in ("tool_use", "tool_result"):
                call = use_id(block)
                if call not in told and not ID.fullmatch(call):
                    told.add(call)
                    field = "id" if block.type == "tool_use" else "tool_use_id"
                    say = {"j": block.place, "block": block.type, "field": field}
                    yield Finding(block.at, (call,), say)


def tool_use_input_not_object(view: AnthropicView) -> Iterator[Finding]:
    """Arguments that are not an object."""
    for turn in view.turns:
        for block in uses(turn.blocks):
            if not isinstance(block.wire.get("input"), dict):
                yield Finding(block.at, (), {"j": block.place})


def tool_use_not_last(view: AnthropicView) -> Iterator[Finding]:
    """Other blocks after a call in one turn; between calls only, it is doubtful."""
    for turn, _ in _exchanges(view):
        first = next(i for i, block in enumerate(turn.blocks) if block.type == "tool_use")
        rest = [block for block in turn.blocks[first:] if block.type != "tool_result"]
        way = [i for i, block in enumerate(rest) if block.type != "tool_use"]
        if way and turn.role == "assistant":
            early = uses(rest[: way[0]])
            ids = tuple(use_id(block) for block in early)
            yield Finding(early[0].at, ids, doubtful=rest[-1].type == "tool_use")


def block_in_wrong_role(view: AnthropicView) -> Iterator[Finding]:
    """A tool_result in an assistant message, or a tool_use in a user message."""
    for i, role in enumerate(view.roles):
        for type_, owner in (("tool_result", "user"), ("tool_use", "assistant")):
            if role in ("user", "assistant") and role != owner:
                if any(block.type == type_ for block in view.blocks[i]):
                    yield Finding(i, (), {"type": type_, "owner": owner})


def tool_name_length(view: AnthropicView) -> Iterator[Finding]:
    """Tool names over 64 characters; up to 128 it is doubtful."""
    for j, tool in enumerate(view.tools):
        name = as_text(tool.get("name")) or as_text(as_object(tool.get("custom")).get("name"))
        if len(name) > 64:
            yield Finding(None, (), {"j": j, "n": len(name)}, doubtful=len(name) <= 128)


def tools_not_defined(view: AnthropicView) -> Iterator[Finding]:
    """Tool blocks in a request without tools (enforced until 2025-02-27)."""
    if view.profile.era == "2024" and not view.tools:
        for i, blocks in enumerate(view.blocks):
            if any(block.type in ("tool_use", "tool_result") for block in blocks):
                yield Finding(i)
                return
