"""OpenAI Responses: an input in items, and the faults of it."""

from collections.abc import Iterator

import msgspec

from agent_lab.domain.dialects.rules.profile import Profile
from agent_lab.domain.dialects.rules.reading import Wire, as_list, as_text, objects
from agent_lab.domain.dialects.rules.rule import Finding, History

ROLES = ("assistant", "system", "developer", "user")
PREFIXES = {"function_call": "fc", "reasoning": "rs", "assistant": "msg"}
# Items that no model wrote: reasoning cannot be followed by one of them.
NOT_WRITTEN = ("user", "system", "developer", "message", "function_call_output", "")
SAID = ("output_text", "refusal")


class ResponsesView(msgspec.Struct, frozen=True):
    """What the rules of Responses servers read.

    `kinds` is each item's type, or the role of a message. `answers` gives for each call the index
    of its output, None without one; `orphans` are outputs without a call before them, and `early`
    the calls whose output stands in front of them.
    """

    items: list[Wire]
    kinds: list[str]
    answers: dict[int, int | None]
    orphans: list[int]
    surplus: list[int]
    early: dict[int, int]
    profile: Profile


def read_responses(history: History) -> ResponsesView:
    """Reads an input once, for all rules."""
    items = history.messages
    kinds = [kind_of_item(item) for item in items]
    answers: dict[int, int | None] = {}
    waiting: dict[str, list[int]] = {}
    answered: set[str] = set()
    orphans: list[int] = []
    surplus: list[int] = []
    for i, kind in enumerate(kinds):
        call = as_text(items[i].get("call_id"))
        if kind == "function_call":
            answers[i] = None
            waiting.setdefault(call, []).append(i)
        elif kind == "function_call_output":
            if waiting.get(call):
                answers[waiting[call].pop(0)] = i
                answered.add(call)
            else:
                (surplus if call in answered else orphans).append(i)
    early = {
        i: output
        for output in orphans
        for i in waiting.get(as_text(items[output].get("call_id")), [])[:1]
    }
    return ResponsesView(items, kinds, answers, orphans, surplus, early, history.profile)


def kind_of_item(item: Wire) -> str:
    """An item's type; for a message its role."""
    type_ = item.get("type")
    if type_ == "message" or (type_ is None and "role" in item):
        return as_text(item.get("role"))
    return as_text(type_)


def item_unknown(view: ResponsesView) -> Iterator[Finding]:
    """Items with neither a type nor a role."""
    for i, kind in enumerate(view.kinds):
        if not kind and "role" not in view.items[i]:
            yield Finding(i)


def _written_as_tool_message(view: ResponsesView) -> list[int]:
    return [i for i, kind in enumerate(view.kinds) if kind in ("tool", "function")]


def call_unanswered(view: ResponsesView) -> Iterator[Finding]:
    """Calls without an output. One cause is told once: not where the reply is a Chat message."""
    stand_ins = _written_as_tool_message(view)
    for i, output in view.answers.items():
        if output is None and i not in view.early:
            if stand_ins and stand_ins[-1] > i:
                stand_ins.pop()
            else:
                yield Finding(i, (as_text(view.items[i].get("call_id")),))


def call_not_answered_at_once(view: ResponsesView) -> Iterator[Finding]:
    """The same, and calls with other items than calls and outputs before their output."""
    others = 0
    before: list[int] = []  # how many other items stand in front of each item
    for kind in view.kinds:
        before.append(others)
        others += kind not in ("function_call", "function_call_output")
    for i, output in view.answers.items():
        if output is None or before[output] > before[i]:
            yield Finding(i, (as_text(view.items[i].get("call_id")),))


def output_orphan(view: ResponsesView) -> Iterator[Finding]:
    """Outputs without a call before them; a second output for a call is doubtful."""
    for i in sorted((*view.orphans, *view.surplus)):
        yield Finding(i, (as_text(view.items[i].get("call_id")),), doubtful=i in view.surplus)


def reasoning_alone(view: ResponsesView) -> Iterator[Finding]:
    """Reasoning that no item of the model follows."""
    followed = False
    alone: list[int] = []
    for i in range(len(view.kinds) - 1, -1, -1):
        if view.kinds[i] == "reasoning":
            if not followed:
                alone.append(i)
        else:
            followed = view.kinds[i] not in NOT_WRITTEN and view.kinds[i] != "tool"
    for i in reversed(alone):
        yield Finding(i, (), {"item": as_text(view.items[i].get("id"))})


def _ids(view: ResponsesView) -> Iterator[tuple[int, str]]:
    for i, item in enumerate(view.items):
        if isinstance(item.get("id"), str):
            yield i, item["id"]


def without_reasoning(view: ResponsesView) -> Iterator[Finding]:
    """Items that the server stored with a reasoning item which is not sent."""
    if not view.profile.produced:
        return
    thought = {item for i, item in _ids(view) if view.kinds[i] == "reasoning"}
    needs: dict[str, str] = {}
    for group in view.profile.produced:
        missing = [item for item in group if item.startswith("rs") and item not in thought]
        needs.update((item, missing[0]) for item in group if missing)
    for i, item in _ids(view):
        if item in needs and view.kinds[i] != "reasoning":
            kind = as_text(view.items[i].get("type")) or "message"
            yield Finding(i, (), {"item": item, "type": kind, "reasoning": needs[item]})


def id_duplicate(view: ResponsesView) -> Iterator[Finding]:
    """Item ids that are there twice, at the second."""
    seen: set[str] = set()
    for i, item in _ids(view):
        if item in seen and view.kinds[i] != "item_reference":
            yield Finding(i, (), {"item": item})
        seen.add(item)


def id_prefix(view: ResponsesView) -> Iterator[Finding]:
    """Item ids of another provider, by their beginning."""
    for i, item in _ids(view):
        prefix = PREFIXES.get(view.kinds[i])
        if prefix and not item.startswith(prefix):
            yield Finding(i, (), {"item": item, "prefix": prefix})


def _call_ids(view: ResponsesView) -> Iterator[tuple[int, str]]:
    """Each call id at the first item that has it."""
    seen: set[str] = set()
    for i, kind in enumerate(view.kinds):
        if kind in ("function_call", "function_call_output"):
            call = as_text(view.items[i].get("call_id"))
            if call not in seen:
                seen.add(call)
                yield i, call


def call_id_length(view: ResponsesView) -> Iterator[Finding]:
    """Call ids of more than 64 characters."""
    for i, call in _call_ids(view):
        if len(call) > 64:
            yield Finding(i, (), {"n": len(call)})


def call_id_empty(view: ResponsesView) -> Iterator[Finding]:
    """Calls and outputs without a call id."""
    yield from (Finding(i) for i, call in _call_ids(view) if not call)


def role_not_supported(view: ResponsesView) -> Iterator[Finding]:
    """Messages with a Chat role, such as tool."""
    for i, item in enumerate(view.items):
        if "role" not in item or item.get("type") not in ("message", None):
            continue
        if view.kinds[i] not in ROLES:
            yield Finding(i, (), {"role": view.kinds[i] or str(item["role"])})


def assistant_content_type(view: ResponsesView) -> Iterator[Finding]:
    """Parts of an assistant message that are written as input."""
    for i, kind in enumerate(view.kinds):
        if kind == "assistant":
            parts = objects(view.items[i].get("content"))
            wrong = [as_text(part.get("type")) for part in parts if part.get("type") not in SAID]
            if len(parts) < len(as_list(view.items[i].get("content"))):
                wrong.append("")
            if wrong:
                yield Finding(i, (), {"type": wrong[0]})


def not_persisted(view: ResponsesView) -> Iterator[Finding]:
    """Items that are only named, while the server stores none."""
    if view.profile.store is False:
        for i, kind in enumerate(view.kinds):
            item = view.items[i]
            if kind == "item_reference" or (
                kind == "reasoning" and item.get("id") and not item.get("encrypted_content")
            ):
                yield Finding(i, (), {"item": as_text(item.get("id"))})
