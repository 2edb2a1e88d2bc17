"""Passes for Gemini contents."""

from agent_lab.domain.dialects.repairs.passes import CONTINUE, EMPTY, LOST, Pass, edit
from agent_lab.domain.dialects.rules.gemini_checks import (
    CALL,
    RESPONSE,
    ROLES,
    SIGNATURE,
    GeminiView,
    has_data,
    having,
    read_gemini,
    role_of,
    signature_missing,
)
from agent_lab.domain.dialects.rules.reading import Wire, as_object, as_text, either, objects
from agent_lab.domain.dialects.rules.rule import History

MODEL_NAMES = ("assistant", "ai", "bot")
# Google's own stand-in for calls that the model did not make.
NO_SIGNATURE = "skip_thought_signature_validator"
UNNAMED = "unknown_tool"


def _role(_: int, content: Wire) -> Wire:
    role = role_of(content)
    if role in ROLES:
        return content
    if role in MODEL_NAMES:
        return {**content, "role": "model"}
    if role == "system":
        marked = {"text": "[system]"}
        return {**content, "role": "user", "parts": [marked, *objects(content.get("parts"))]}
    return {**content, "role": "user"}


def _parts(_: int, content: Wire) -> Wire:
    """Parts that hold something, each on the side that may say it; no calls by the user."""
    given = content.get("parts")
    if isinstance(given, str):
        return {**content, "parts": [{"text": given}]}
    parts = [part for part in objects(given) if has_data(part)]
    if role_of(content) != "model":
        calls = having(CALL, parts)
        parts = [part for part in parts if part not in calls] if calls else parts
        parts = parts or [{"text": EMPTY}]
    return {**content, "parts": [_named_call(part) for part in parts]}


def _named_call(part: Wire) -> Wire:
    for field in CALL:
        call = as_object(part.get(field))
        if part.get(field) is not None and not as_text(call.get("name")):
            return {**part, field: {**call, "name": UNNAMED}}
    return part


def drop_empty(history: History) -> list[Wire]:
    """Contents without parts go."""
    return [content for content in history.messages if content.get("parts")]


def join_calls(history: History) -> list[Wire]:
    """Calls behind a model turn become part of it; a history does not begin with them."""
    joined: list[list[Wire]] = []  # contents that become one
    for content in history.messages:
        if _calls(content) and joined and role_of(joined[-1][-1]) == "model":
            joined[-1].append(content)
        else:
            joined.append([content])
    contents = [group[0] if len(group) == 1 else _one(group) for group in joined]
    if contents and _calls(contents[0]):
        return [{"role": "user", "parts": [{"text": CONTINUE}]}, *contents]
    return contents


def _calls(content: Wire) -> bool:
    return role_of(content) == "model" and bool(having(CALL, objects(content.get("parts"))))


def _one(contents: list[Wire]) -> Wire:
    return {**contents[0], "parts": [part for c in contents for part in objects(c["parts"])]}


def _called(part: Wire) -> Wire:
    return as_object(either(part, *CALL))


def _response(part: Wire) -> Wire:
    return as_object(either(part, *RESPONSE))


def _answers(response: Wire, call: Wire) -> bool:
    """By id where both have one, else by name; a nameless response fits any call."""
    if response.get("id") is not None and call.get("id") is not None:
        return response["id"] == call["id"]
    name = as_text(response.get("name"))
    return not name or name == as_text(call.get("name"))


def _matched(calls: list[Wire], pool: list[Wire]) -> list[Wire | None]:
    """For each call its response part, taken out of the pool."""
    matched: list[Wire | None] = []
    for call in calls:
        found = next((part for part in pool if _answers(_response(part), call)), None)
        if found is not None:
            pool[:] = [part for part in pool if part is not found]
        matched.append(found)
    return matched


def _faulty(view: GeminiView, i: int) -> bool:
    """Whether the content behind these calls is not exactly their responses."""
    if i + 1 == len(view.contents) or view.roles[i + 1] == "model":
        return True
    return view.responses[i + 1] != view.calls[i]


def _pool(view: GeminiView, i: int) -> list[Wire]:
    """Response parts between these calls and the next."""
    pool: list[Wire] = []
    for later in range(i + 1, len(view.contents)):
        pool += having(RESPONSE, view.parts[later])
        if view.calls[later]:
            break
    return pool


def _elsewhere(view: GeminiView) -> dict[str, list[Wire]]:
    """By id the response parts that do not stand where they belong."""
    loose: dict[str, list[Wire]] = {}
    for k, count in enumerate(view.responses):
        in_place = k > 0 and view.calls[k - 1] == count and view.roles[k - 1] == "model"
        for part in having(RESPONSE, view.parts[k]) if count and not in_place else ():
            if name := as_text(_response(part).get("id")):
                loose.setdefault(name, []).append(part)
    return loose


def gather_responses(history: History) -> list[Wire]:
    """Responses of a round in one content right behind the calls."""
    view = read_gemini(history)
    loose = _elsewhere(view)
    behind: dict[int, list[Wire]] = {}
    taken: set[int] = set()
    for i, count in enumerate(view.calls):
        if count and view.roles[i] == "model" and _faulty(view, i):
            calls = [_called(part) for part in having(CALL, view.parts[i])]
            near = _pool(view, i)
            far = [part for call in calls for part in loose.get(as_text(call.get("id")), ())]
            pool = {id(part): part for part in (*near, *far) if id(part) not in taken}
            behind[i] = [p for p in _matched(calls, list(pool.values())) if p is not None]
            taken.update(map(id, behind[i]))
    if not taken:
        return history.messages
    gathered: list[Wire] = []
    for i, content in enumerate(history.messages):
        gathered.append(_rest(content, view.parts[i], taken))
        if behind.get(i):
            gathered.append({"role": "user", "parts": behind[i]})
    return [content for content in gathered if content["parts"]]


def _rest(content: Wire, parts: list[Wire], taken: set[int]) -> Wire:
    kept = [part for part in parts if id(part) not in taken]
    return content if len(kept) == len(parts) else {**content, "parts": kept}


def drop_unmatched(history: History) -> list[Wire]:
    """Responses that answer no call of the content before go."""
    view = read_gemini(history)
    kept: list[Wire] = []
    for i, content in enumerate(history.messages):
        responses = having(RESPONSE, view.parts[i])
        before = i > 0 and view.roles[i - 1] == "model" and view.roles[i] != "model"
        calls = [_called(part) for part in having(CALL, view.parts[i - 1])] if before else []
        if len(responses) > len(calls) or view.roles[i] == "model":
            fitting = {id(part) for part in _matched(calls, responses.copy()) if part is not None}
            gone = {id(part) for part in responses if id(part) not in fitting}
            content = _rest(content, view.parts[i], gone)  # noqa: PLW2901 - the same content, shorter
        if content["parts"]:
            kept.append(content)
    return kept


def answer_calls(history: History) -> list[Wire]:
    """Calls without a response get one that says so, in call order."""
    view = read_gemini(history)
    messages: list[Wire] = []
    skip = False
    for i, content in enumerate(history.messages):
        if skip:
            skip = False
            continue
        messages.append(content)
        if not view.calls[i] or view.roles[i] != "model" or not _faulty(view, i):
            continue
        calls = [_called(part) for part in having(CALL, view.parts[i])]
        skip = i + 1 < len(view.contents) and view.responses[i + 1] > 0
        skip = skip and view.roles[i + 1] != "model"
        parts = view.parts[i + 1] if skip else []
        pool = having(RESPONSE, parts)
        others = [part for part in parts if not having(RESPONSE, [part])]
        given = [
            part or _lost(call) for part, call in zip(_matched(calls, pool), calls, strict=True)
        ]
        messages.append({"role": "user", "parts": [*given, *others]})
    return messages


def _lost(call: Wire) -> Wire:
    response: Wire = {"name": as_text(call.get("name")), "response": {"error": LOST}}
    return {"functionResponse": {**response, **({"id": call["id"]} if call.get("id") else {})}}


def name_responses(history: History) -> list[Wire]:
    """A response bears the name of its call."""
    view = read_gemini(history)

    def change(i: int, content: Wire) -> Wire:
        if not view.responses[i] or view.roles[i] == "model":
            return content
        calls = [_called(part) for part in having(CALL, view.parts[i - 1])] if i else []
        left = iter(calls)
        parts = [
            _with_name(part, next(left, None)) if having(RESPONSE, [part]) else part
            for part in view.parts[i]
        ]
        return {**content, "parts": parts}

    return edit(history.messages, change)


def _with_name(part: Wire, call: Wire | None) -> Wire:
    for field in RESPONSE:
        response = as_object(part.get(field))
        if part.get(field) is not None and not as_text(response.get("name")):
            return {
                **part,
                field: {**response, "name": as_text((call or {}).get("name")) or UNNAMED},
            }
    return part


def sign_calls(history: History) -> list[Wire]:
    """Calls of the current turn without a signature get Google's stand-in."""
    missing = {finding.where for finding in signature_missing(read_gemini(history))}

    def change(i: int, content: Wire) -> Wire:
        if i not in missing:
            return content
        parts = objects(content["parts"])
        first = parts.index(having(CALL, parts)[0])
        signed = {**parts[first], SIGNATURE[0]: NO_SIGNATURE}
        return {**content, "parts": [*parts[:first], signed, *parts[first + 1 :]]}

    return edit(history.messages, change)


PASSES = (
    Pass("roles", "Gemini knows user and model", lambda h: edit(h.messages, _role)),
    Pass("parts", "parts hold something", lambda h: edit(h.messages, _parts)),
    Pass("drop_empty", "a content needs parts", drop_empty),
    Pass("join_calls", "calls follow a user or response turn", join_calls),
    Pass("gather_responses", "responses stand right behind their calls", gather_responses),
    Pass("drop_unmatched", "a response without its call is refused", drop_unmatched),
    Pass("answer_calls", "there is one response for each call", answer_calls),
    Pass("name_responses", "a response bears the function's name", name_responses),
    Pass("sign_calls", "Gemini 3 wants signatures", sign_calls),
)
