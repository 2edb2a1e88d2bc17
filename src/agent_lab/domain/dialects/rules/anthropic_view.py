"""An Anthropic Messages history in turns: neighbours of one role are one turn for the provider."""

from collections.abc import Iterator, Sequence

import msgspec

from agent_lab.domain.dialects.rules.profile import Profile
from agent_lab.domain.dialects.rules.reading import Wire, as_list, as_text, objects
from agent_lab.domain.dialects.rules.rule import History

THINKING = ("thinking", "redacted_thinking")


class Block(msgspec.Struct, frozen=True, gc=False):
    """A content block: its message, its place there, its type, itself, and the call it is about.

    `call` is the id of a tool_use, or the one a tool_result names; "" for other blocks.
    """

    at: int
    place: int
    type: str
    wire: Wire
    call: str = ""


class Turn(msgspec.Struct, gc=False):
    """Messages of one role in a row, with all their blocks."""

    role: str
    at: int
    blocks: list[Block]
    uses: Sequence[Block] = ()  # the calls of client tools; server tools answer themselves
    results: Sequence[Block] = ()


class AnthropicView(msgspec.Struct, frozen=True):
    """What Anthropic's rules read. System messages belong to no turn.

    `exchanges` are the assistant turns with calls, each with the turn that must answer it;
    `untyped` the messages whose content is neither text nor blocks with a type; `blank` where
    texts say nothing.
    """

    messages: list[Wire]
    roles: list[str]
    blocks: list[list[Block]]
    turns: list[Turn]
    exchanges: list[tuple[Turn, Turn | None]]
    untyped: list[int]
    blank: list[tuple[int, str]]
    tools: list[Wire]
    profile: Profile


def read_anthropic(history: History) -> AnthropicView:
    """Reads a history once, for all rules."""
    messages = history.messages
    roles = [as_text(message.get("role")) for message in messages]
    blocks = [read_blocks(i, message) for i, message in enumerate(messages)]
    turns = _turns(roles, blocks)
    exchanges = [
        (turn, turns[k + 1] if k + 1 < len(turns) else None)
        for k, turn in enumerate(turns)
        if turn.uses and turn.role == "assistant"
    ]
    return AnthropicView(
        messages=messages,
        roles=roles,
        blocks=blocks,
        turns=turns,
        exchanges=exchanges,
        untyped=[i for i, message in enumerate(messages) if not _is_typed(message, blocks[i])],
        blank=[found for i, there in enumerate(blocks) for found in _blank(i, there)],
        tools=history.tools,
        profile=history.profile,
    )


def _turns(roles: list[str], blocks: list[list[Block]]) -> list[Turn]:
    turns: list[Turn] = []
    for i, role in enumerate(roles):
        if role == "system":
            continue
        if turns and turns[-1].role == role:
            if turns[-1].blocks is blocks[turns[-1].at]:
                turns[-1].blocks = [*turns[-1].blocks]
            turns[-1].blocks += blocks[i]
        else:
            turns.append(Turn(role, i, blocks[i]))
    for turn in turns:
        types = {block.type for block in turn.blocks}
        if "tool_use" in types:
            turn.uses = [block for block in turn.blocks if block.type == "tool_use"]
        if "tool_result" in types:
            turn.results = [block for block in turn.blocks if block.type == "tool_result"]
    return turns


def read_blocks(i: int, message: Wire) -> list[Block]:
    """A message's blocks; string content is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [Block(i, 0, "text", {"type": "text", "text": content})] if content else []
    return [_read_block(i, j, wire) for j, wire in enumerate(objects(content))]


def _read_block(i: int, j: int, wire: Wire) -> Block:
    """A block and the call it is about."""
    kind = as_text(wire.get("type"))
    if kind == "tool_use":
        return Block(i, j, kind, wire, as_text(wire.get("id")))
    if kind == "tool_result":
        return Block(i, j, kind, wire, as_text(wire.get("tool_use_id")))
    return Block(i, j, kind, wire)


def _is_typed(message: Wire, blocks: list[Block]) -> bool:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return True
    if not isinstance(content, list) or len(blocks) < len(as_list(content)):
        return False
    return all([block.type for block in blocks])  # noqa: C419 - a list is faster than a generator


def _blank(i: int, blocks: list[Block]) -> Iterator[tuple[int, str]]:
    """Text blocks that say nothing, those inside tool results too."""
    for block in blocks:
        if block.type == "text":
            parts = [block.wire]
        elif block.type == "tool_result" and isinstance(block.wire.get("content"), list):
            parts = objects(block.wire["content"])
        else:
            continue
        for part in parts:
            text = as_text(part.get("text"))
            if (not text or text.isspace()) and part.get("type") == "text":
                yield i, text
