"""Passes that pair calls and results again in an Anthropic history, and those on its end."""

from agent_lab.domain.dialects.repairs.anthropic_blocks import (
    BLOCKS,
    NO_THINKING_ALONE,
    SYSTEM_AS_USER,
    not_empty,
)
from agent_lab.domain.dialects.repairs.passes import CONTINUE, LOST, Pass, edit
from agent_lab.domain.dialects.rules import anthropic_messages as found
from agent_lab.domain.dialects.rules.anthropic_view import (
    THINKING,
    AnthropicView,
    Block,
    Turn,
    read_anthropic,
    read_blocks,
)
from agent_lab.domain.dialects.rules.reading import Wire, as_text, objects
from agent_lab.domain.dialects.rules.rule import History

Place = tuple[int, int]


def _leading(follower: Turn | None) -> list[Block]:
    """The results that a user turn begins with."""
    led: list[Block] = []
    for block in follower.blocks if follower and follower.role == "user" else ():
        if block.type != "tool_result":
            break
        led.append(block)
    return led


def _loose(view: AnthropicView) -> list[Block]:
    """Results whose call is not in the turn before, in whatever role they stand."""
    loose: list[Block] = []
    for k, turn in enumerate(view.turns):
        before = view.turns[k - 1] if k else None
        called = (
            {b.call for b in before.uses} if before and before.role == "assistant" else set[str]()
        )
        loose += [b for b in turn.results if turn.role != "user" or b.call not in called]
    return loose


def _gathered(view: AnthropicView) -> dict[int, list[Block]]:
    """For each assistant turn's last message the results that must come right behind it."""
    loose: dict[str, list[Block]] = {}
    for block in _loose(view):
        loose.setdefault(block.call, []).append(block)
    gathered: dict[int, list[Block]] = {}
    for turn, follower in view.exchanges:
        results = follower.results if follower and follower.role == "user" else ()
        led = _leading(follower)
        wanted = {block.call for block in turn.uses}
        late = [block for block in results[len(led) :] if block.call in wanted]
        answered = {block.call for block in results}
        for call in dict.fromkeys(block.call for block in turn.uses):
            if call not in answered and (there := loose.get(call)):
                after = next((b for b in there if b.at >= turn.at), there[0])
                there.remove(after)
                late.append(after)
        if late:
            gathered[_end(view, turn)] = [*(b for b in led if b.call in wanted), *late]
    return gathered


def _end(view: AnthropicView, turn: Turn) -> int:
    """The last message of a turn."""
    end = turn.at
    while end + 1 < len(view.roles) and view.roles[end + 1] == turn.role:
        end += 1
    return end


def results_first(history: History) -> list[Wire]:
    """In the message behind calls the results stand in front of what the user says."""
    view = read_anthropic(history)
    behind = {f.at for _, f in view.exchanges if f is not None and f.role == "user" and f.results}

    def change(i: int, message: Wire) -> Wire:
        if i not in behind or not isinstance(message.get("content"), list):
            return message
        blocks = sorted(objects(message["content"]), key=lambda b: b.get("type") != "tool_result")
        return {**message, "content": blocks}

    return edit(history.messages, change)


def gather_results(history: History) -> list[Wire]:
    """All results of a round in one user message, right behind the calls."""
    view = read_anthropic(history)
    gathered = _gathered(view)
    moved = {(b.at, b.place) for blocks in gathered.values() for b in blocks}
    messages: list[Wire] = []
    for i, message in enumerate(_drop_blocks(history.messages, moved)):
        if message is not None:
            messages.append(message)
        if i in gathered:
            messages.append({"role": "user", "content": [b.wire for b in gathered[i]]})
    return messages


def _drop_blocks(messages: list[Wire], gone: set[Place]) -> list[Wire | None]:
    """The messages without some blocks; None in place of one that has none left."""
    touched = {at for at, _ in gone}
    kept: list[Wire | None] = []
    for i, message in enumerate(messages):
        if i not in touched:
            kept.append(message)
            continue
        blocks = [b for j, b in enumerate(objects(message["content"])) if (i, j) not in gone]
        kept.append({**message, "content": blocks} if blocks else None)
    return kept


def drop_unmatched(history: History) -> list[Wire]:
    """Results without a call go; of two to one call the first stays."""
    view = read_anthropic(history)
    gone = {(b.at, b.place) for b in _loose(view)}
    for turn in view.turns:
        seen: set[str] = set()
        for block in turn.results if turn.role == "user" else ():
            if block.call in seen:
                gone.add((block.at, block.place))
            seen.add(block.call)
    return [message for message in _drop_blocks(history.messages, gone) if message is not None]


def answer_calls(history: History) -> list[Wire]:
    """Calls without a result get one that says so, behind the results that are there."""
    view = read_anthropic(history)
    messages: list[Wire | None] = [*history.messages]
    made: dict[int, Wire] = {}
    for turn, follower in view.exchanges:
        led = _leading(follower)
        answered_here = {block.call for block in led}
        open_calls = [block.call for block in turn.uses if block.call not in answered_here]
        results = [_lost(call) for call in dict.fromkeys(open_calls)]
        if results and led and read_blocks(led[0].at, view.messages[led[0].at]):
            at, count = led[0].at, sum(1 for block in led if block.at == led[0].at)
            blocks = objects(view.messages[at]["content"])
            content = [*blocks[:count], *results, *blocks[count:]]
            messages[at] = {**view.messages[at], "content": content}
        elif results:
            made[_end(view, turn)] = {"role": "user", "content": results}
    answered: list[Wire] = []
    for i, message in enumerate(messages):
        answered += [m for m in (message, made.get(i)) if m is not None]
    return answered


def _lost(call: str) -> Wire:
    return {"type": "tool_result", "tool_use_id": call, "content": LOST, "is_error": True}


def trim_end(history: History) -> list[Wire]:
    """A final assistant text ends without white space."""
    view = read_anthropic(history)
    if not any(found.trailing_whitespace(view)):
        return history.messages
    final = history.messages[-1]
    if isinstance(final["content"], str):
        return [*history.messages[:-1], {**final, "content": final["content"].rstrip()}]
    blocks = objects(final["content"])
    blocks[-1] = {**blocks[-1], "text": as_text(blocks[-1].get("text")).rstrip()}
    return [*history.messages[:-1], {**final, "content": blocks}]


def thinking_off(history: History) -> list[Wire]:
    """While thinking is off, the final message has none."""
    if not any(not f.doubtful for f in found.thinking_disabled(read_anthropic(history))):
        return history.messages
    final = history.messages[-1]
    blocks = [b for b in objects(final["content"]) if b.get("type") not in THINKING]
    return [*history.messages[:-1], *([{**final, "content": blocks}] if blocks else [])]


def thinking_as_sent(history: History) -> list[Wire]:
    """Thinking of the latest message as the provider sent it, from `original_content`."""
    messages = [*history.messages]
    for finding in found.thinking_modified(read_anthropic(history)):
        at = finding.where or 0
        original = next(blocks for i, blocks in history.profile.original_content if i == at)
        thought = [block for block in original if block.get("type") in THINKING]
        rest = [b for b in objects(messages[at]["content"]) if b.get("type") not in THINKING]
        messages[at] = {**messages[at], "content": [*thought, *rest]}
    return messages


def end_on_question(history: History) -> list[Wire]:
    """A user message at the end: for models without prefill, or where thinking was not kept."""
    view = read_anthropic(history)
    if any(found.prefill(view)) or any(found.thinking_missing(view)):
        return [*history.messages, {"role": "user", "content": CONTINUE}]
    return history.messages


PASSES = (
    *BLOCKS,
    Pass("results_first", "results stand in front of other content", results_first),
    Pass("gather_results", "results come first, in the message behind the calls", gather_results),
    Pass("drop_unmatched", "a result without its call is refused", drop_unmatched),
    NO_THINKING_ALONE,  # what stood beside it may be gone
    SYSTEM_AS_USER,
    Pass("answer_calls", "every call needs a result", answer_calls),
    Pass("thinking_off", "thinking is off", thinking_off),
    Pass("trim_end", "a final text ends without white space", trim_end),
    Pass("thinking_as_sent", "thinking is signed", thinking_as_sent),
    Pass("end_on_question", "the model does not continue its own message", end_on_question),
    Pass("not_empty", "there must be something to answer", not_empty),
)
