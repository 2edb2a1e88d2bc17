"""Mistral: what mistral-common's validators and the hosted API refuse.

Which of it holds depends on the tokenizer (v3, v7, v11, v13, v15) and on the server's release of
mistral-common; without a profile, v11 and a new release are assumed.
"""

from collections.abc import Iterator

from agent_lab.domain.dialects.rules.chat_shapes import NAME, function_names
from agent_lab.domain.dialects.rules.chat_view import ChatView, Reply, ids_of
from agent_lab.domain.dialects.rules.profile import Profile, release, version
from agent_lab.domain.dialects.rules.rule import Finding


def tokenizer(profile: Profile) -> int:
    """The tokenizer's number."""
    return version(profile.tokenizer, 11)


def refuses_user_after_tool(profile: Profile) -> bool:
    """The rule was lifted in mistral-common 1.12.0."""
    return bool(said := release(profile.mistral_common)) and said < (1, 12)


def id_fits(call: str, profile: Profile) -> bool:
    """Nine alphanumerics up to v11, anything from v13 (and before v3, which has no ids)."""
    if 3 <= tokenizer(profile) <= 11:
        return len(call) == 9 and call.isascii() and call.isalnum()
    return bool(call)


def last_role(view: ChatView) -> Iterator[Finding]:
    """A history that ends on an assistant message without `prefix`."""
    if view.messages and view.roles[-1] == "assistant" and not view.messages[-1].get("prefix"):
        yield Finding(len(view.messages) - 1)


def call_reply_count(view: ChatView) -> Iterator[Finding]:
    """More or fewer replies than calls. Before v11 they are only counted, not matched.

    mistral-common does not look at the calls of the very first message, but at the replies to them.
    """
    matched = matches_by_id(view)
    for turn in view.rounds:
        surplus = [*turn.doubled, *turn.wrong]
        replied = len(turn.replies) + len(turn.late) + len(surplus)
        if replied < len(turn.waiting if matched else turn.ids):
            yield Finding(turn.at, tuple(turn.unanswered()))
        elif not matched and turn.at == 0:
            yield Finding(turn.replies[0].at if turn.replies else 0, tuple(turn.waiting))
        elif not matched and replied > len(turn.ids):
            extra = sorted(surplus, key=lambda reply: reply.at)[len(turn.ids) - replied :]
            yield from (Finding(reply.at, (reply.id,) if reply.id else ()) for reply in extra)


def id_format(view: ChatView) -> Iterator[Finding]:
    """Call ids that the tokenizer cannot take."""
    if all(not call or id_fits(call, view.profile) for call in view.ids):
        return
    told: set[str] = set()
    for i, message in enumerate(view.messages):
        ids = ids_of(view.calls[i]) if i in view.calls else [message.get("tool_call_id")]
        for call in ids:
            if not isinstance(call, str) or not call or call in told or id_fits(call, view.profile):
                continue
            if view.roles[i] in ("assistant", "tool"):
                told.add(call)
                yield Finding(i, (call,))


def id_missing(view: ChatView) -> Iterator[Finding]:
    """Calls and replies without an id; the base validators of v1 and v2 do not look."""
    if tokenizer(view.profile) < 3:
        return
    for i, message in enumerate(view.messages):
        replied = view.roles[i] == "tool" and not message.get("tool_call_id")
        if replied or "" in ids_of(view.calls.get(i, [])):
            yield Finding(i)


def user_after_tool(view: ChatView) -> Iterator[Finding]:
    """A user message right after a tool message (mistral-common up to 1.11.0)."""
    if refuses_user_after_tool(view.profile):
        for i in range(1, len(view.roles)):
            if view.roles[i] == "user" and view.roles[i - 1] == "tool":
                yield Finding(i)


def _out_of_place(view: ChatView) -> Iterator[Reply]:
    """Tool messages outside the run that follows their calls."""
    yield from view.strays
    for turn in view.rounds:
        yield from turn.late


def tool_after_user(view: ChatView) -> Iterator[Finding]:
    """A tool message that does not follow the calls. With the older rule the user is the fault."""
    starts: list[int] = []  # for each message where its run of tool messages begins
    for i, role in enumerate(view.roles):
        goes_on = i and role == "tool" and view.roles[i - 1] == "tool"
        starts.append(starts[-1] if goes_on else i)
    older = refuses_user_after_tool(view.profile)
    for reply in _out_of_place(view):
        before = view.roles[max(starts[reply.at] - 2, 0) : starts[reply.at]]
        if not older or before != ["tool", "user"]:
            say = {"before": before[-1] if before else "none"}
            yield Finding(reply.at, (reply.id,) if reply.id else (), say)


def role_order(view: ChatView) -> Iterator[Finding]:
    """A system message right after an assistant or tool message."""
    for i in range(1, len(view.roles)):
        if view.roles[i] == "system" and view.roles[i - 1] in ("assistant", "tool"):
            yield Finding(i, (), {"before": view.roles[i - 1]})


def assistant_empty(view: ChatView) -> Iterator[Finding]:
    """Neither content nor calls; up to v3 also both. From v5 only the hosted API has looked."""
    strict = tokenizer(view.profile) <= 3
    for i, message in enumerate(view.messages):
        if view.roles[i] == "assistant":
            said, called = bool(message.get("content")), bool(message.get("tool_calls"))
            if not said and not called:
                doubtful = not strict and bool(view.profile.tokenizer)
                yield Finding(i, (), {"but": "none"}, doubtful)
            elif strict and said and called:
                yield Finding(i, (), {"but": "both"})


def matches_by_id(view: ChatView) -> bool:
    """Whether replies are matched by id (from v11), not only counted."""
    return tokenizer(view.profile) >= 11


def replies_duplicate(view: ChatView) -> Iterator[Finding]:
    """A second reply to one call."""
    if matches_by_id(view):
        for turn in view.rounds:
            yield from (Finding(reply.at, (reply.id,)) for reply in turn.doubled)


def replies_to_unknown_id(view: ChatView) -> Iterator[Finding]:
    """A reply that names no call of its round. Calls in the very first message are not counted."""
    if matches_by_id(view):
        for turn in view.rounds:
            wrong = [*turn.wrong, *(turn.replies if turn.at == 0 else ())]
            yield from (Finding(reply.at, (reply.id,)) for reply in wrong if reply.id)


def ids_repeated(view: ChatView) -> Iterator[Finding]:
    """One id on two calls of one message."""
    if matches_by_id(view):
        for turn in view.rounds:
            if seen := turn.repeated():
                yield Finding(turn.at, tuple(seen))


def function_name(view: ChatView) -> Iterator[Finding]:
    """Names that are empty, longer than 64 or have other characters."""
    for where, _, name in function_names(view):
        if not NAME.fullmatch(name) or len(name) > 64:
            yield Finding(where, (), {"name": name})
