"""A Chat Completions history in rounds: which reply answers which call.

Calls and replies pair per round, never by id over the whole history: llama.cpp and Kimi number
their calls anew each turn (NousResearch/hermes-agent#88324).
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from agent_lab.domain.dialects.rules.profile import Profile
from agent_lab.domain.dialects.rules.reading import Wire, as_object, as_text, objects
from agent_lab.domain.dialects.rules.rule import History


class Reply(msgspec.Struct, frozen=True, gc=False):
    """A tool message: where it stands and the call id it names ("" for none)."""

    at: int
    id: str


class Round(msgspec.Struct, gc=False):
    """An assistant message with calls, and the replies that belong to it.

    The lists are empty tuples until something is in them: most rounds have nothing but replies.
    """

    at: int
    ids: list[str]
    waiting: dict[str, int]
    replies: list[Reply]
    barrier: int | None = None  # the first message after the unbroken run of replies
    late: Sequence[Reply] = ()  # for this round's calls, but after the barrier
    doubled: Sequence[Reply] = ()  # second replies, in the run
    wrong: Sequence[Reply] = ()  # in the run, for no call of this round

    def repeated(self) -> list[str]:
        """Ids that more than one call has."""
        if len(self.waiting) == len(self.ids):
            return []
        return [call for call, count in Counter(self.ids).items() if call and count > 1]

    def unanswered(self) -> list[str]:
        """Calls without a reply anywhere; an id used twice counts as answered with one."""
        if not any(self.waiting.values()):
            return []
        answered = {reply.id for reply in (*self.replies, *self.late)}
        return [call for call in dict.fromkeys(self.ids) if call not in answered]

    def firsts(self) -> dict[str, int]:
        """Where each id was answered first."""
        return {reply.id: reply.at for reply in reversed((*self.replies, *self.late))}


class ChatView(msgspec.Struct, frozen=True):
    """What the rules of chat-shaped servers read."""

    messages: list[Wire]
    roles: list[str]
    calls: dict[int, list[Wire]]
    functions: list[tuple[int, int, Wire]]  # message, place in its calls, what is called
    rounds: list[Round]
    strays: list[Reply]
    ids: set[str]  # of calls and replies
    tools: list[Wire]
    profile: Profile


def read_chat(history: History) -> ChatView:
    """Reads a history once, for all rules."""
    messages = history.messages
    roles = [as_text(message.get("role")) for message in messages]
    calls = {
        i: objects(message["tool_calls"])
        for i, message in enumerate(messages)
        if roles[i] == "assistant" and message.get("tool_calls")
    }
    made_ids = {i: ids_of(made) for i, made in calls.items() if made}
    rounds, strays = pair(messages, roles, made_ids)
    replied = [
        as_text(m.get("tool_call_id")) for m, r in zip(messages, roles, strict=True) if r == "tool"
    ]
    return ChatView(
        messages=messages,
        roles=roles,
        calls=calls,
        functions=[
            (i, j, function_of(call)) for i, made in calls.items() for j, call in enumerate(made)
        ],
        rounds=rounds,
        strays=strays,
        ids={call for ids in made_ids.values() for call in ids}.union(replied),
        tools=history.tools,
        profile=history.profile,
    )


def ids_of(calls: list[Wire]) -> list[str]:
    """The ids of an assistant message's calls, "" for one that has none."""
    return [as_text(call.get("id")) for call in calls]


def function_of(call: Wire) -> Wire:
    """The part of a call that names the tool; a custom tool has it under `custom`."""
    return as_object(call.get("function") or call.get("custom"))


def pair(
    messages: list[Wire], roles: list[str], calls: dict[int, list[str]]
) -> tuple[list[Round], list[Reply]]:
    """The rounds in order, and the tool messages that belong to none."""
    rounds: list[Round] = []
    strays: list[Reply] = []
    open_calls: dict[str, Round] = {}
    current: Round | None = None
    for i, role in enumerate(roles):
        if role == "tool":
            reply = Reply(i, as_text(messages[i].get("tool_call_id")))
            if not _place(reply, current, open_calls):
                strays.append(reply)
            continue
        if current is not None:
            current.barrier = i
            current = None
        if i in calls:
            current = Round(at=i, ids=calls[i], waiting={}, replies=[])
            for call in calls[i]:
                current.waiting[call] = current.waiting.get(call, 0) + 1
                open_calls[call] = current
            rounds.append(current)
    return rounds, strays


def _place(reply: Reply, current: Round | None, open_calls: dict[str, Round]) -> bool:
    """Gives a reply to its round; False when it has none."""
    owner = current if current and reply.id in current.waiting else open_calls.get(reply.id)
    if not reply.id or owner is None:
        if current is not None:
            current.wrong = _with(current.wrong, reply)
        return current is not None
    if not owner.waiting[reply.id]:
        owner.doubled = _with(owner.doubled, reply)
        return True
    owner.waiting[reply.id] -= 1
    if not owner.waiting[reply.id] and open_calls.get(reply.id) is owner:
        del open_calls[reply.id]
    if owner is current:
        owner.replies.append(reply)
    else:
        owner.late = _with(owner.late, reply)
    return True


def _with(replies: Sequence[Reply], reply: Reply) -> list[Reply]:
    """The list with one more; made when it is the first."""
    if isinstance(replies, list):
        replies.append(reply)
        return replies
    return [reply]
