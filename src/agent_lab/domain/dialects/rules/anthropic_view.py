"""An Anthropic Messages history in turns: neighbours of one role are one turn for the provider."""

import msgspec

from agent_lab.domain.dialects.rules.profile import Profile
from agent_lab.domain.dialects.rules.reading import Wire, as_text, objects
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
    uses: list[Block]  # the calls of client tools; server tools answer themselves
    results: list[Block]


class AnthropicView(msgspec.Struct, frozen=True):
    """What Anthropic's rules read. System messages belong to no turn.

    `exchanges` are the assistant turns with calls, each with the turn that must answer it.
    """

    messages: list[Wire]
    roles: list[str]
    blocks: list[list[Block]]
    turns: list[Turn]
    exchanges: list[tuple[Turn, Turn | None]]
    tools: list[Wire]
    profile: Profile


def read_anthropic(history: History) -> AnthropicView:
    """Reads a history once, for all rules."""
    messages = history.messages
    roles = [as_text(message.get("role")) for message in messages]
    blocks = [read_blocks(i, message) for i, message in enumerate(messages)]
    turns: list[Turn] = []
    for i, role in enumerate(roles):
        if role == "system":
            continue
        if turns and turns[-1].role == role:
            turns[-1].blocks += blocks[i]
        else:
            turns.append(Turn(role, i, [*blocks[i]], [], []))
    for turn in turns:
        turn.uses = [block for block in turn.blocks if block.type == "tool_use"]
        turn.results = [block for block in turn.blocks if block.type == "tool_result"]
    exchanges = [
        (turn, turns[k + 1] if k + 1 < len(turns) else None)
        for k, turn in enumerate(turns)
        if turn.uses and turn.role == "assistant"
    ]
    return AnthropicView(messages, roles, blocks, turns, exchanges, history.tools, history.profile)


def read_blocks(i: int, message: Wire) -> list[Block]:
    """A message's blocks; string content is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [Block(i, 0, "text", {"type": "text", "text": content})] if content else []
    return [read_block(i, j, wire) for j, wire in enumerate(objects(content))]


def read_block(i: int, j: int, wire: Wire) -> Block:
    """A block and the call it is about."""
    match wire.get("type"):
        case "tool_use":
            return Block(i, j, "tool_use", wire, as_text(wire.get("id")))
        case "tool_result":
            return Block(i, j, "tool_result", wire, as_text(wire.get("tool_use_id")))
        case kind:
            return Block(i, j, as_text(kind), wire)
