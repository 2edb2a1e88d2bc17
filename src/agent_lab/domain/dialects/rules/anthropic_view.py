"""An Anthropic Messages history in turns: neighbours of one role are one turn for the provider."""

from typing import NamedTuple

import msgspec

from agent_lab.domain.dialects.rules.profile import Profile
from agent_lab.domain.dialects.rules.reading import Wire, as_text, objects
from agent_lab.domain.dialects.rules.rule import History

THINKING = ("thinking", "redacted_thinking")


class Block(NamedTuple):
    """A content block: which message it is of, its place in it, its type, and itself."""

    at: int
    place: int
    type: str
    wire: Wire


class Turn(msgspec.Struct):
    """Messages of one role in a row, with all their blocks."""

    role: str
    at: int
    blocks: list[Block]


class AnthropicView(msgspec.Struct, frozen=True):
    """What Anthropic's rules read. System messages belong to no turn."""

    messages: list[Wire]
    roles: list[str]
    blocks: list[list[Block]]
    turns: list[Turn]
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
            turns.append(Turn(role, i, [*blocks[i]]))
    return AnthropicView(messages, roles, blocks, turns, history.tools, history.profile)


def read_blocks(i: int, message: Wire) -> list[Block]:
    """A message's blocks; string content is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [Block(i, 0, "text", {"type": "text", "text": content})] if content else []
    return [Block(i, j, as_text(wire.get("type")), wire) for j, wire in enumerate(objects(content))]


def use_id(block: Block) -> str:
    """The id of a tool_use, or the one a tool_result names."""
    return as_text(block.wire.get("id" if block.type == "tool_use" else "tool_use_id"))


def uses(blocks: list[Block]) -> list[Block]:
    """The calls of client tools; server tools answer themselves."""
    return [block for block in blocks if block.type == "tool_use"]


def results(blocks: list[Block]) -> list[Block]:
    """The results of client tools."""
    return [block for block in blocks if block.type == "tool_result"]
