"""Faults of calls and their replies, for servers with the Chat Completions format."""

from collections.abc import Iterator

from agent_lab.domain.dialects.rules.chat_view import ChatView, Reply, Round, ids_of
from agent_lab.domain.dialects.rules.rule import Finding


def _open(turn: Round) -> list[str]:
    """Calls without a reply, unless replies under wrong ids stand in their places."""
    missing = turn.unanswered()
    return missing if len(missing) > len(turn.wrong) else []


def calls_unanswered(view: ChatView) -> Iterator[Finding]:
    """Calls that no reply answers. One cause is told once: not where a wrong id stands instead."""
    for turn in view.rounds:
        if missing := _open(turn):
            yield Finding(turn.at, tuple(missing))


def calls_not_answered_at_once(view: ChatView) -> Iterator[Finding]:
    """For servers that tell an interrupted group as unanswered calls."""
    for turn in view.rounds:
        late = {reply.id for reply in turn.late}
        missing = [call for call in dict.fromkeys(turn.ids) if call in late or call in _open(turn)]
        if missing:
            yield Finding(turn.at, tuple(missing))


def replies_interrupted(view: ChatView) -> Iterator[Finding]:
    """The message in the way of a reply that does come, but later."""
    for turn in view.rounds:
        if turn.late:
            yield Finding(turn.barrier, tuple(reply.id for reply in turn.late))


def _refused(reply: Reply) -> Finding:
    return Finding(reply.at, (reply.id,) if reply.id else ())


def replies_without_call(view: ChatView) -> Iterator[Finding]:
    """Tool messages that follow no assistant message with calls."""
    yield from (_refused(reply) for reply in view.strays if reply.id)


def replies_unmatched(view: ChatView) -> Iterator[Finding]:
    """For servers that name one fault for an orphan, a wrong id and a second reply."""
    for reply in view.strays:
        yield _refused(reply)
    for turn in view.rounds:
        yield from (_refused(reply) for reply in turn.wrong)
        yield from (_refused(reply) for reply in turn.doubled)


def replies_unmatched_with_id(view: ChatView) -> Iterator[Finding]:
    """The same, for servers that have a fault of its own for a reply without an id."""
    yield from (finding for finding in replies_unmatched(view) if finding.ids)


def replies_not_following(view: ChatView) -> Iterator[Finding]:
    """The same and late replies: for servers that look at the reply, not at the group."""
    yield from replies_unmatched(view)
    for turn in view.rounds:
        yield from (_refused(reply) for reply in turn.late)


def replies_to_unknown_id(view: ChatView) -> Iterator[Finding]:
    """Replies inside a group that name a call of another round, or of none."""
    for turn in view.rounds:
        yield from (
            Finding(reply.at, (reply.id,), {"open": ", ".join(turn.unanswered()) or "none"})
            for reply in turn.wrong
            if reply.id
        )


def replies_duplicate(view: ChatView) -> Iterator[Finding]:
    """Second replies to one call, at the second."""
    for turn in view.rounds:
        if turn.doubled:
            first = turn.firsts()
            for reply in turn.doubled:
                yield Finding(reply.at, (reply.id,), {"first": first[reply.id]})


def replies_without_id(view: ChatView) -> Iterator[Finding]:
    """Tool messages that do not say which call they answer."""
    for i, role in enumerate(view.roles):
        if role == "tool" and not view.messages[i].get("tool_call_id"):
            yield Finding(i)


def ids_repeated(view: ChatView) -> Iterator[Finding]:
    """One id on two calls of one assistant message."""
    for turn in view.rounds:
        if seen := turn.repeated():
            yield Finding(turn.at, tuple(seen))


def calls_empty(view: ChatView) -> Iterator[Finding]:
    """`tool_calls: []`."""
    for i, message in enumerate(view.messages):
        if message.get("tool_calls") == []:
            yield Finding(i)


def ids_missing(view: ChatView) -> Iterator[Finding]:
    """Calls without an id."""
    for i, calls in view.calls.items():
        for j, call in enumerate(ids_of(calls)):
            if not call:
                yield Finding(i, (), {"j": j})
