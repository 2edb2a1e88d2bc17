"""Passes that pair calls and replies again, for servers with the Chat Completions format."""

from collections import Counter, defaultdict

from agent_lab.domain.dialects.repairs.passes import LOST, Pass, edit
from agent_lab.domain.dialects.rules.chat_view import ChatView, Reply, Round, ids_of, read_chat
from agent_lab.domain.dialects.rules.reading import Wire, as_text, objects
from agent_lab.domain.dialects.rules.rule import History


def name_calls(history: History) -> list[Wire]:
    """Every call gets an id of its own within its message, and its replies the same."""
    view = read_chat(history)
    renamed: dict[int, str] = {}  # replies, by index
    fresh: dict[int, list[str]] = {}  # calls, by index of their message
    for turn in view.rounds:
        if "" not in turn.ids and len(turn.waiting) == len(turn.ids):
            continue
        fresh[turn.at] = _fresh_ids(turn)
        queues: defaultdict[str, list[str]] = defaultdict(list)
        for old, new in zip(turn.ids, fresh[turn.at], strict=True):
            queues[old].append(new)
        for reply in (*turn.replies, *turn.late):
            renamed[reply.at] = queues[reply.id].pop(0)

    def change(i: int, message: Wire) -> Wire:
        if i in renamed:
            return {**message, "tool_call_id": renamed[i]}
        if i in fresh:
            calls = objects(message["tool_calls"])
            named = [{**call, "id": new} for call, new in zip(calls, fresh[i], strict=True)]
            return {**message, "tool_calls": named}
        return message

    return edit(history.messages, change)


def _fresh_ids(turn: Round) -> list[str]:
    taken: set[str] = set(turn.ids)
    used: Counter[str] = Counter()
    fresh: list[str] = []
    for j, call in enumerate(turn.ids):
        name = stem = call or f"call_{turn.at}_{j}"
        while used[name] or (name != call and name in taken):
            used[stem] += 1
            name = f"{stem}-{used[stem]}"
        used[name] += 1
        taken.add(name)
        fresh.append(name)
    return fresh


def address_replies(history: History) -> list[Wire]:
    """A reply without an id in a group with one open call (of its name) is for that call."""
    view = read_chat(history)
    addressed: dict[int, str] = {}
    for turn in view.rounds:
        names = {
            call["id"]: as_text(call.get("function", {}).get("name"))
            for call in view.calls[turn.at]
            if isinstance(call.get("id"), str) and isinstance(call.get("function"), dict)
        }
        open_calls = turn.unanswered()
        for reply in turn.wrong:
            name = view.messages[reply.at].get("name")
            fits = [call for call in open_calls if not name or names.get(call) == name]
            if not reply.id and len(fits) == 1:
                addressed[reply.at] = fits[0]
                open_calls.remove(fits[0])

    def change(i: int, message: Wire) -> Wire:
        return {**message, "tool_call_id": addressed[i]} if i in addressed else message

    return edit(history.messages, change)


def _belonging(view: ChatView) -> dict[int, list[Reply]]:
    """For each round's index its replies that stand elsewhere: later, or before the call."""
    elsewhere: dict[int, list[Reply]] = {turn.at: [*turn.late] for turn in view.rounds}
    early = [reply for reply in view.strays if reply.id]
    early += [reply for turn in view.rounds for reply in turn.wrong if reply.id]
    for turn in view.rounds:
        for call in turn.unanswered():
            found = next((r for r in early if r.id == call and r.at < turn.at), None)
            if found:
                early.remove(found)
                elsewhere[turn.at].append(found)
    return elsewhere


def gather_replies(history: History) -> list[Wire]:
    """Replies stand right behind the message with their calls."""
    view = read_chat(history)
    elsewhere = _belonging(view)
    moved = {reply.at for replies in elsewhere.values() for reply in replies}
    if not moved:
        return history.messages
    behind = {_last(turn): elsewhere[turn.at] for turn in view.rounds if elsewhere[turn.at]}
    gathered: list[Wire] = []
    for i, message in enumerate(history.messages):
        if i not in moved:
            gathered.append(message)
        gathered += [history.messages[reply.at] for reply in behind.get(i, [])]
    return gathered


def _last(turn: Round) -> int:
    """The last index of the unbroken run of replies."""
    replies = (*turn.replies, *turn.wrong, *turn.doubled)
    return max((turn.at, *(reply.at for reply in replies)))


def drop_unmatched(history: History) -> list[Wire]:
    """Replies that answer no open call go; of two to one call the first stays."""
    view = read_chat(history)
    loose = {reply.at for reply in view.strays}
    for turn in view.rounds:
        loose.update(reply.at for reply in turn.wrong)
        loose.update(reply.at for reply in turn.doubled)
    return [message for i, message in enumerate(history.messages) if i not in loose]


def answer_calls(history: History) -> list[Wire]:
    """Calls without a reply get one that says so."""
    view = read_chat(history)
    missing = {_last(turn): _open(turn) for turn in view.rounds if _open(turn)}
    answered: list[Wire] = []
    for i, message in enumerate(history.messages):
        answered.append(message)
        answered += [
            {"role": "tool", "tool_call_id": call, "content": LOST} for call in missing.get(i, [])
        ]
    return answered


def _open(turn: Round) -> list[str]:
    """Each call without a reply, as often as it was made."""
    given = Counter(reply.id for reply in (*turn.replies, *turn.late))
    called = Counter(turn.ids)
    return [call for call in turn.ids if call and not given[call] and called[call]]


def has_calls(message: Wire) -> bool:
    """Whether an assistant message makes calls."""
    return message.get("role") == "assistant" and bool(ids_of(objects(message.get("tool_calls"))))


PAIRING = (
    Pass("name_calls", "each call of a message needs an id of its own", name_calls),
    Pass("address_replies", "a reply must name its call", address_replies),
    Pass("gather_replies", "replies stand right behind their calls", gather_replies),
    Pass("drop_unmatched", "a reply without an open call is refused", drop_unmatched),
    Pass("answer_calls", "every call needs a reply", answer_calls),
)
