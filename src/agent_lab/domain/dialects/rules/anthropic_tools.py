"""Faults of tool_use and tool_result blocks."""

import re
from collections.abc import Iterator

from agent_lab.domain.dialects.rules.anthropic_view import AnthropicView, Block
from agent_lab.domain.dialects.rules.reading import as_object, as_text
from agent_lab.domain.dialects.rules.rule import Finding

ID = re.compile(r"[a-zA-Z0-9_-]+")


def tool_use_unanswered(view: AnthropicView) -> Iterator[Finding]:
    """Calls without a result in the next turn, told at the message with the calls."""
    for turn, follower in view.exchanges:
        if follower is not None and follower.role != "user":
            continue  # the reply is there, in a role that is a fault of its own
        answered = {block.call for block in (follower.results if follower else ())}
        answered.update([block.call for block in turn.results])
        if answered.issuperset([block.call for block in turn.uses]):
            continue
        missing: dict[int, list[str]] = {}
        for block in turn.uses:
            if block.call not in answered:
                missing.setdefault(block.at, []).append(block.call)
        yield from (Finding(at, tuple(dict.fromkeys(ids))) for at, ids in missing.items())


def tool_result_not_first(view: AnthropicView) -> Iterator[Finding]:
    """The message with other content in front of results, in the turn that must begin with them."""
    for turn, follower in view.exchanges:
        if follower is None or len(follower.results) == len(follower.blocks):
            continue
        called = {block.call for block in turn.uses}
        way: Block | None = None
        late: list[str] = []
        for block in follower.blocks if follower.role == "user" else ():
            if block.type != "tool_result":
                way = way or block
            elif way and block.call in called:
                late.append(block.call)
        if way and late:
            yield Finding(way.at, tuple(dict.fromkeys(late)), {"call": turn.uses[0].at})


def tool_result_orphan(view: AnthropicView) -> Iterator[Finding]:
    """Results whose call is not in the turn before."""
    called: set[str] = set()
    for turn in view.turns:
        if turn.role == "user":
            for block in turn.results:
                if block.call not in called:
                    yield Finding(block.at, (block.call,), {"j": block.place})
        called = {block.call for block in turn.uses} if turn.role == "assistant" else set()


def tool_result_duplicate(view: AnthropicView) -> Iterator[Finding]:
    """A second result for one call, in the turn that answers it."""
    for turn, follower in view.exchanges:
        if follower is None or follower.role != "user" or len(follower.results) < 2:
            continue
        called = {block.call for block in turn.uses}
        seen: set[str] = set()
        for block in follower.results:
            if block.call in called and block.call in seen:
                yield Finding(block.at, (block.call,), {"j": block.place})
            seen.add(block.call)


def tool_use_id_duplicate(view: AnthropicView) -> Iterator[Finding]:
    """An id used twice: refused within a turn, doubtful across turns."""
    ever: dict[str, int] = {}
    for turn, _ in view.exchanges:
        here: set[str] = set()
        for block in turn.uses:
            if block.call in ever:
                say = {"j": block.place, "first": ever[block.call]}
                yield Finding(block.at, (block.call,), say, doubtful=block.call not in here)
            here.add(block.call)
            ever.setdefault(block.call, block.at)


def tool_use_id_pattern(view: AnthropicView) -> Iterator[Finding]:
    """Ids with other characters than letters, digits, _ and -; once an id."""
    seen: set[str] = set()
    for turn in view.turns:
        for block in (*turn.uses, *turn.results):
            if block.call in seen:
                continue
            seen.add(block.call)
            if not ID.fullmatch(block.call):
                field = "id" if block.type == "tool_use" else "tool_use_id"
                say = {"j": block.place, "block": block.type, "field": field}
                yield Finding(block.at, (block.call,), say)


def tool_use_input_not_object(view: AnthropicView) -> Iterator[Finding]:
    """Arguments that are not an object."""
    for turn in view.turns:
        for block in turn.uses:
            if not isinstance(block.wire.get("input"), dict):
                yield Finding(block.at, (), {"j": block.place})


def tool_use_not_last(view: AnthropicView) -> Iterator[Finding]:
    """Other blocks after a call in one turn; between calls only, it is doubtful."""
    for turn, _ in view.exchanges:
        first = turn.blocks.index(turn.uses[0])
        rest = [block for block in turn.blocks[first:] if block.type != "tool_result"]
        if len(rest) > len(turn.uses):
            way = next(i for i, block in enumerate(rest) if block.type != "tool_use")
            ids = tuple(block.call for block in rest[:way])
            yield Finding(rest[0].at, ids, doubtful=rest[-1].type == "tool_use")


def block_in_wrong_role(view: AnthropicView) -> Iterator[Finding]:
    """A tool_result in an assistant message, or a tool_use in a user message."""
    for turn in view.turns:
        is_user = turn.role == "user"
        wrong = turn.uses if is_user else turn.results
        if wrong and turn.role in ("user", "assistant"):
            say = {"type": wrong[0].type, "owner": "assistant" if is_user else "user"}
            yield from (Finding(at, (), say) for at in dict.fromkeys(block.at for block in wrong))


def tool_name_length(view: AnthropicView) -> Iterator[Finding]:
    """Tool names over 64 characters; up to 128 it is doubtful."""
    for j, tool in enumerate(view.tools):
        name = as_text(tool.get("name")) or as_text(as_object(tool.get("custom")).get("name"))
        if len(name) > 64:
            yield Finding(None, (), {"j": j, "n": len(name)}, doubtful=len(name) <= 128)


def tools_not_defined(view: AnthropicView) -> Iterator[Finding]:
    """Tool blocks in a request without tools (enforced until 2025-02-27)."""
    if view.profile.era == "2024" and not view.tools:
        for turn in view.turns:
            for block in (*turn.uses, *turn.results)[:1]:
                yield Finding(block.at)
                return
