"""Passes on single messages and blocks of an Anthropic Messages history."""

import re
from collections import defaultdict
from typing import Any

import msgspec

from agent_lab.domain.dialects.repairs.passes import (
    CONTINUE,
    EMPTY,
    Pass,
    edit,
    short_id,
    text_of,
)
from agent_lab.domain.dialects.rules import anthropic_messages as found
from agent_lab.domain.dialects.rules.anthropic_tools import ID
from agent_lab.domain.dialects.rules.anthropic_view import THINKING, Turn, read_anthropic
from agent_lab.domain.dialects.rules.reading import Wire, as_list, as_object, as_text, objects
from agent_lab.domain.dialects.rules.rule import History

TOOL_ROLES = ("tool", "function")


def results_from_tool_messages(history: History) -> list[Wire]:
    """A Chat tool message becomes a result, when it names its call or only one is open."""
    calls: list[str] = []

    def change(_: int, message: Wire) -> Wire:
        role = message.get("role")
        if role == "assistant":
            blocks = objects(message.get("content"))
            calls[:] = [as_text(b.get("id")) for b in blocks if b.get("type") == "tool_use"]
        if role not in TOOL_ROLES:
            return message
        named = as_text(message.get("tool_call_id")) or as_text(message.get("tool_use_id"))
        call = named or (calls[0] if len(calls) == 1 else "")
        if not call:
            return message
        if call in calls:
            calls.remove(call)
        text = text_of(message.get("content"))
        result = {"type": "tool_result", "tool_use_id": call, "content": text or EMPTY}
        return {"role": "user", "content": [result]}

    return edit(history.messages, change)


def known_roles(history: History) -> list[Wire]:
    """Messages of unknown roles go."""
    known = ("user", "assistant", "system")
    return [message for message in history.messages if message.get("role") in known]


def system_as_user(history: History) -> list[Wire]:
    """A system message that may not stand there is said by the user, marked as what it was."""
    messages = history.messages
    while True:
        view = read_anthropic(msgspec.structs.replace(history, messages=messages))
        wrong = {
            finding.where
            for check in (found.system_not_supported, found.system_misplaced)
            for finding in check(view)
        }
        if not wrong:
            return messages
        messages = [_as_user(m) if i in wrong else m for i, m in enumerate(messages)]


def _as_user(message: Wire) -> Wire:
    return {"role": "user", "content": f"[system] {text_of(message.get('content'))}"}


def _clean(_: int, message: Wire) -> Wire:
    """Blocks that the format knows, text that says something, arguments that are an object."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return {**message, "content": content if content.strip() else ""}
    if not isinstance(content, list):
        return {**message, "content": text_of(content) if content else ""}
    blocks = [_clean_block(block) for block in as_list(content)]
    wrong = "tool_use" if message.get("role") == "user" else ""
    return {**message, "content": [b for b in blocks if b and b.get("type") != wrong]}


def _clean_block(block: Any) -> Wire:
    """The block as it may be sent, {} for one that says nothing."""
    if isinstance(block, str):
        return {"type": "text", "text": block} if block.strip() else {}
    wire = as_object(block)
    match wire.get("type"):
        case "text":
            return wire if as_text(wire.get("text")).strip() else {}
        case "tool_use":
            return wire if isinstance(wire.get("input"), dict) else {**wire, "input": _input(wire)}
        case "tool_result" if isinstance(wire.get("content"), list):
            parts = [_clean_block(part) for part in as_list(wire["content"])]
            kept = [part for part in parts if part]
            cleaned = {field: value for field, value in wire.items() if field != "content"}
            return {**cleaned, "content": kept} if kept else cleaned
        case str() as kind if kind:
            return wire
        case _:
            return {}


def _input(block: Wire) -> Wire:
    given = block.get("input")
    try:
        return as_object(msgspec.json.decode(given)) if isinstance(given, str) else {}
    except (ValueError, RecursionError):
        return {}


def _not_blank(_: int, message: Wire) -> Wire:
    blank = message.get("role") == "user" and not message.get("content")
    return {**message, "content": EMPTY} if blank else message


def drop_blank(history: History) -> list[Wire]:
    """Messages without content go; a user's was marked before."""
    return [message for message in history.messages if message.get("content")]


def rename_ids(history: History) -> list[Wire]:
    """Ids with other characters, renamed wherever they stand: the same old id, the same new."""
    return map_blocks(history.messages, _renamed)


def _renamed(block: Wire) -> Wire:
    field = {"tool_use": "id", "tool_result": "tool_use_id"}.get(as_text(block.get("type")))
    if field is None or ID.fullmatch(old := as_text(block.get(field))):
        return block
    stem = re.sub(r"[^a-zA-Z0-9_-]", "_", old)[:48]
    return {**block, field: f"{stem or 'call'}-{short_id(old, 6)}"}


def map_blocks(messages: list[Wire], change: Any) -> list[Wire]:
    """Every block of a list content changed."""

    def blocks(_: int, message: Wire) -> Wire:
        content = message.get("content")
        if not isinstance(content, list):
            return message
        return {**message, "content": [change(block) for block in objects(content)]}

    return edit(messages, blocks)


def unique_calls(history: History) -> list[Wire]:
    """Within a turn a copied call goes, and a second call of the same id gets one of its own."""
    view = read_anthropic(history)
    renamed: dict[tuple[int, int], Wire | None] = {}
    for turn, follower in view.exchanges:
        if len({block.call for block in turn.uses}) < len(turn.uses):
            renamed.update(_told_apart(turn, follower))
    return _with_blocks(history.messages, renamed)


def _told_apart(turn: Turn, follower: Turn | None) -> dict[tuple[int, int], Wire | None]:
    """For each block to change what it becomes; None when it goes."""
    changed: dict[tuple[int, int], Wire | None] = {}
    ids: defaultdict[str, list[str]] = defaultdict(list)
    seen: list[Wire] = []
    taken = {block.call for block in turn.uses}
    for block in turn.uses:
        if block.wire in seen:
            changed[block.at, block.place] = None
            continue
        seen.append(block.wire)
        new, count = block.call, 2
        while ids[block.call] and new in taken:
            new, count = f"{block.call}-{count}", count + 1
        taken.add(new)
        ids[block.call].append(new)
        if new != block.call:
            changed[block.at, block.place] = {**block.wire, "id": new}
    for block in follower.results if follower else ():
        if len(ids[block.call]) > 1:
            changed[block.at, block.place] = {**block.wire, "tool_use_id": ids[block.call].pop(0)}
    return changed


def _with_blocks(messages: list[Wire], changed: dict[tuple[int, int], Wire | None]) -> list[Wire]:
    touched = {at for at, _ in changed}

    def change(i: int, message: Wire) -> Wire:
        if i not in touched:
            return message
        blocks = objects(message["content"])
        now = [changed.get((i, j), block) for j, block in enumerate(blocks)]
        return {**message, "content": [block for block in now if block is not None]}

    return [message for message in edit(messages, change) if message.get("content") != []]


def in_order(history: History) -> list[Wire]:
    """In an assistant turn thinking comes first and the calls last; its messages become one."""
    turns = {turn.at: turn for turn in read_anthropic(history).turns if turn.role == "assistant"}
    ordered: list[Wire] = []
    joined: set[int] = set()
    for i, message in enumerate(history.messages):
        if i in turns:
            types = [_rank(block.type) for block in turns[i].blocks]
            if types != sorted(types):
                blocks = sorted(turns[i].blocks, key=lambda block: _rank(block.type))
                joined.update(block.at for block in blocks)
                ordered.append({**message, "content": [block.wire for block in blocks]})
                continue
        if i not in joined:
            ordered.append(message)
    return ordered


def _rank(kind: str) -> int:
    return 0 if kind in THINKING else 2 if kind == "tool_use" else 1


def no_thinking_alone(history: History) -> list[Wire]:
    """A message that was cut after its thinking goes."""
    if history.profile.thinking is False:
        return history.messages
    view = read_anthropic(history)
    return [
        message
        for i, message in enumerate(history.messages)
        if view.roles[i] != "assistant"
        or not view.blocks[i]
        or any(block.type != "thinking" for block in view.blocks[i])
    ]


SYSTEM_AS_USER = Pass("system_as_user", "no system message may stand there", system_as_user)
NO_THINKING_ALONE = Pass("no_thinking_alone", "no message ends with thinking", no_thinking_alone)
BLOCKS = (
    Pass("results_from_tool", "a tool's reply is a result block", results_from_tool_messages),
    Pass("known_roles", "the provider knows no such role", known_roles),
    SYSTEM_AS_USER,
    Pass("clean", "blocks need a type, text and arguments", lambda h: edit(h.messages, _clean)),
    Pass("not_blank", "a message needs content", lambda h: edit(h.messages, _not_blank)),
    Pass("drop_blank", "an empty message is refused", drop_blank),
    Pass("rename_ids", "ids have letters, digits, _ and -", rename_ids),
    Pass("unique_calls", "ids are unique", unique_calls),
    Pass("in_order", "thinking comes first and calls last", in_order),
    NO_THINKING_ALONE,
)


def not_empty(history: History) -> list[Wire]:
    """A history of nothing gets something to answer."""
    return history.messages or [{"role": "user", "content": CONTINUE}]
