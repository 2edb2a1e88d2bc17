"""Passes for an OpenAI Responses input, and for DeepSeek's server of that format."""

from agent_lab.domain.dialects.repairs.passes import LOST, Pass, edit, short_id, text_of, without
from agent_lab.domain.dialects.rules import responses_checks as checks
from agent_lab.domain.dialects.rules.reading import Wire, as_list, as_object, as_text
from agent_lab.domain.dialects.rules.responses_checks import ResponsesView, read_responses
from agent_lab.domain.dialects.rules.rule import History


def known_items(history: History) -> list[Wire]:
    """Items with neither type nor role go."""
    view = read_responses(history)
    gone = {finding.where for finding in checks.item_unknown(view)}
    return [item for i, item in enumerate(history.messages) if i not in gone]


def outputs_from_tool_messages(history: History) -> list[Wire]:
    """A Chat tool message becomes an output, when it names its call or one before is open."""
    view = read_responses(history)
    open_calls = [i for i, output in view.answers.items() if output is None]

    def change(i: int, item: Wire) -> Wire:
        if view.kinds[i] not in ("tool", "function"):
            return item
        named = as_text(item.get("tool_call_id")) or as_text(item.get("call_id"))
        before = [call for call in open_calls if call < i]
        if not named and before:
            open_calls.remove(before[-1])
            named = as_text(view.items[before[-1]].get("call_id"))
        output = text_of(item.get("content"))
        return (
            {"type": "function_call_output", "call_id": named, "output": output} if named else item
        )

    return edit(history.messages, change)


def known_roles(history: History) -> list[Wire]:
    """Messages of roles that the format does not have go."""
    view = read_responses(history)
    gone = {finding.where for finding in checks.role_not_supported(view)}
    return [item for i, item in enumerate(history.messages) if i not in gone]


def _said(_: int, item: Wire) -> Wire:
    """What the assistant said, as output."""
    if checks.kind_of_item(item) != "assistant" or not isinstance(item.get("content"), list):
        return item
    parts: list[Wire] = []
    for part in as_list(item["content"]):
        wire = {"text": part} if isinstance(part, str) else as_object(part)
        if wire.get("type") in checks.SAID:
            parts.append(wire)
        elif isinstance(wire.get("text"), str):
            parts.append({**wire, "type": "output_text"})
    return {**item, "content": parts}


def name_calls(history: History) -> list[Wire]:
    """Calls and outputs without an id get one, in pairs by their order."""
    view = read_responses(history)
    named: dict[int, str] = {}
    for i, output in view.answers.items():
        if not as_text(view.items[i].get("call_id")):
            named[i] = f"call_{i}"
            if output is not None:
                named[output] = named[i]

    def change(i: int, item: Wire) -> Wire:
        return {**item, "call_id": named[i]} if i in named else item

    return edit(history.messages, change)


def shorten_ids(history: History) -> list[Wire]:
    """Call ids of more than 64 characters, shortened wherever they stand."""

    def change(_: int, item: Wire) -> Wire:
        call = as_text(item.get("call_id"))
        if len(call) > 64 and item.get("type") in ("function_call", "function_call_output"):
            return {**item, "call_id": f"{call[:48]}-{short_id(call)}"}
        return item

    return edit(history.messages, change)


def _place_behind(view: ResponsesView, behind: dict[int, int]) -> list[Wire]:
    """Outputs right behind their calls; the rest in its order."""
    moved = set(behind.values())
    placed: list[Wire] = []
    for i, item in enumerate(view.items):
        if i not in moved:
            placed.append(item)
        if i in behind:
            placed.append(view.items[behind[i]])
    return placed


def outputs_after_calls(history: History) -> list[Wire]:
    """An output in front of its call moves behind it."""
    view = read_responses(history)
    return _place_behind(view, view.early)


def outputs_at_once(history: History) -> list[Wire]:
    """For DeepSeek: an output stands right behind its call."""
    view = read_responses(history)
    if not any(checks.call_not_answered_at_once(view)):
        return history.messages
    return _place_behind(view, {i: o for i, o in view.answers.items() if o is not None})


def drop_unmatched(history: History) -> list[Wire]:
    """Outputs without a call go."""
    orphans = set(read_responses(history).orphans)
    return [item for i, item in enumerate(history.messages) if i not in orphans]


def answer_calls(history: History) -> list[Wire]:
    """Calls without an output get one that says so."""
    view = read_responses(history)
    answered: list[Wire] = []
    for i, item in enumerate(history.messages):
        answered.append(item)
        if i in view.answers and view.answers[i] is None:
            call = as_text(item.get("call_id"))
            answered.append({"type": "function_call_output", "call_id": call, "output": LOST})
    return answered


def drop_reasoning(history: History) -> list[Wire]:
    """Reasoning goes where it is a copy, bears a foreign id, is not stored or leads to nothing."""
    view = read_responses(history)
    found = (checks.id_duplicate, checks.id_prefix, checks.not_persisted)
    gone = {finding.where for check in found for finding in check(view)}
    kept = [
        item
        for i, item in enumerate(history.messages)
        if i not in gone or view.kinds[i] not in ("reasoning", "item_reference")
    ]
    view = read_responses(History(kept, history.tools, history.profile))
    alone = {finding.where for finding in checks.reasoning_alone(view)}
    return [item for i, item in enumerate(kept) if i not in alone]


def drop_item_ids(history: History) -> list[Wire]:
    """An item's own id goes where the server would refuse it; call_id pairs the call."""
    view = read_responses(history)
    found = (checks.id_duplicate, checks.id_prefix, checks.without_reasoning)
    wrong = {finding.where for check in found for finding in check(view)}

    def change(i: int, item: Wire) -> Wire:
        return without(item, "id") if i in wrong else item

    return edit(history.messages, change)


SHAPE = (
    Pass("known_items", "an item has a type or a role", known_items),
    Pass("outputs_from_tool", "a tool's reply is an output item", outputs_from_tool_messages),
)
PAIRING = (
    Pass("name_calls", "calls need an id", name_calls),
    Pass("outputs_after_calls", "an output follows its call", outputs_after_calls),
    Pass("drop_unmatched", "an output without its call is refused", drop_unmatched),
    Pass("answer_calls", "every call needs an output", answer_calls),
)
OPENAI = (
    *SHAPE,
    Pass("known_roles", "the format has no such role", known_roles),
    Pass("said", "the assistant's words are output", lambda h: edit(h.messages, _said)),
    Pass("shorten_ids", "call ids have at most 64 characters", shorten_ids),
    *PAIRING,
    Pass("drop_reasoning", "the server refuses the reasoning item", drop_reasoning),
    Pass("drop_item_ids", "the server refuses the item's id", drop_item_ids),
)
DEEPSEEK = (
    *SHAPE,
    *PAIRING,
    Pass("outputs_at_once", "the server looks right behind the call", outputs_at_once),
)
