"""Histories that anybody may send: talk with faults in it, and any JSON at all."""

from typing import Any

from hypothesis import strategies as st

Wire = dict[str, Any]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", " ", "{"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)
IDS = st.sampled_from(["a", "b", "c1b2c3d4e", "", "a b|c", "x" * 70])
TEXTS = st.sampled_from(["Oslo?", "", "  ", "4 degrees\n"])
NAMES = st.sampled_from(["get_weather", "add", "", "no such tool!", "n" * 70])
ARGUMENTS = st.sampled_from(["{}", '{"city": "Oslo"}', '{"ci', "[]", "", {}, {"a": 1}, None])


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(lambda n: JSON if n == 0 else usual)


def record(required: Wire, optional: Wire | None = None) -> st.SearchStrategy[Wire]:
    return st.fixed_dictionaries(required, optional=optional or {})


def lists(*kinds: st.SearchStrategy[Wire]) -> st.SearchStrategy[list[Wire]]:
    return st.lists(st.one_of(*kinds), max_size=9)


ANYTHING = st.dictionaries(
    st.sampled_from(["role", "type", "content", "parts", "tool_calls", "id", "call_id"]),
    JSON | st.sampled_from(["user", "assistant", "model", "tool", "message", "function_call"]),
    max_size=4,
)

CALL = record(
    {"function": mostly(record({}, {"name": mostly(NAMES), "arguments": mostly(ARGUMENTS)}))},
    {"id": mostly(IDS), "type": st.just("function")},
)
PART = mostly(
    record({"type": st.just("text"), "text": TEXTS})
    | record({"type": st.just("image_url"), "image_url": st.just({"url": "data:;base64,eA=="})})
)
CONTENT = mostly(TEXTS | st.lists(PART, max_size=2))
CHAT = lists(
    ANYTHING,
    record({"role": st.just("user"), "content": CONTENT}, {"name": NAMES, "tool_calls": JSON}),
    record({"role": st.sampled_from(["system", "developer"]), "content": CONTENT}),
    record({"role": st.just("assistant"), "content": CONTENT}, {"prefix": st.booleans()}),
    record(
        {"role": st.just("assistant"), "tool_calls": mostly(st.lists(mostly(CALL), max_size=3))},
        {"content": CONTENT, "reasoning_content": mostly(TEXTS)},
    ),
    record(
        {"role": st.just("tool"), "content": CONTENT},
        {"tool_call_id": mostly(IDS), "name": mostly(NAMES)},
    ),
)

BLOCK = mostly(
    record({"type": st.just("text"), "text": mostly(TEXTS)})
    | record({"type": st.just("thinking"), "thinking": TEXTS, "signature": st.just("eA==")})
    | record({"type": st.just("tool_use"), "id": mostly(IDS), "name": NAMES, "input": ARGUMENTS})
    | record({"type": st.just("server_tool_use"), "id": IDS})
    | record(
        {"type": st.just("tool_result"), "tool_use_id": mostly(IDS)},
        {"content": TEXTS | mostly(st.lists(PART, max_size=2))},
    )
)
ANTHROPIC = lists(
    ANYTHING,
    record(
        {
            "role": st.sampled_from(["user", "assistant", "user", "assistant", "system", "tool"]),
            "content": mostly(TEXTS | st.lists(BLOCK, max_size=4)),
        },
        {"tool_call_id": IDS},
    ),
)

FUNCTION = record({"name": mostly(NAMES)}, {"args": ARGUMENTS, "id": mostly(IDS)})
GEMINI_PART = mostly(
    record({"text": TEXTS})
    | record({"functionCall": mostly(FUNCTION)}, {"thoughtSignature": TEXTS})
    | record({"functionResponse": mostly(FUNCTION)})
    | record({"function_response": FUNCTION})
    | st.just({"thought": True})
)
GEMINI = lists(
    ANYTHING,
    record(
        {"parts": mostly(st.lists(GEMINI_PART, max_size=3))},
        {"role": st.sampled_from(["user", "model", "user", "model", "function", "assistant"])},
    ),
)

ITEM_IDS = st.sampled_from(["rs_1", "rs_2", "fc_1", "msg_1", "item_7"])
OUTPUT_PART = mostly(
    record({"type": st.sampled_from(["output_text", "input_text", "refusal"])}, {"text": TEXTS})
)
RESPONSES = lists(
    ANYTHING,
    record({"role": st.sampled_from(["user", "system", "tool"]), "content": CONTENT}),
    record(
        {
            "type": st.just("message"),
            "role": st.just("assistant"),
            "content": mostly(st.lists(OUTPUT_PART, max_size=2)),
        },
        {"id": ITEM_IDS},
    ),
    record({"type": st.just("reasoning"), "id": ITEM_IDS}, {"encrypted_content": TEXTS}),
    record(
        {"type": st.just("function_call"), "call_id": mostly(IDS), "arguments": ARGUMENTS},
        {"id": ITEM_IDS},
    ),
    record({"type": st.just("function_call_output"), "call_id": mostly(IDS), "output": TEXTS}),
)

OF = {
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "openai_responses": RESPONSES,
    "deepseek_responses": RESPONSES,
}
PROFILES: dict[str, list[Wire]] = {
    "anthropic": [
        {},
        {"model": "claude-sonnet-4-6", "thinking": True},
        {"model": "claude-opus-4-8", "thinking": False},
        {"model": "claude-haiku-4-5", "thinking": True, "era": "2024"},
        {"original_content": [[1, [{"type": "thinking", "thinking": "x"}]]]},
    ],
    "gemini": [{}, {"model": "gemini-3-pro-preview"}, {"model": "gemini-pro"}],
    "openai_responses": [{}, {"store": False}, {"produced": [["rs_1", "fc_1"], ["rs_2", "msg_1"]]}],
    "deepseek": [{}, {"model": "deepseek-v4-pro", "thinking": True}],
    "mistral": [
        {},
        {"tokenizer": "v1"},
        {"tokenizer": "v3", "mistral_common": "<=1.11.0"},
        {"tokenizer": "v11", "mistral_common": "<=1.11.0"},
        {"tokenizer": "v13"},
    ],
    "vllm": [{}, {"template": "qwen3.6"}, {"template": "gemma3"}],
    "llamacpp": [{}, {"template": "mistral-small-3.1"}, {"template": "qwen3.6"}],
}


@st.composite
def interrupted_talk(draw: st.DrawFn, dialect: str) -> tuple[list[Wire], list[str]]:
    """A talk in rounds, then user messages between calls and replies, and replies late or lost.

    Also every text that was said: by users, and by tools whose calls are there.
    """
    pieces: list[tuple[str, Wire]] = []
    for n in range(draw(st.integers(1, 3))):
        pieces.append(("user", {"text": f"question {n}"}))
        calls = [f"call{n}{k:04}" for k in range(draw(st.integers(0, 3)))]
        if calls:
            pieces.append(("calls", {"ids": calls}))
        replied = draw(st.permutations(calls))[: draw(st.integers(0, 3))]
        waits = [("reply", {"id": call, "text": f"result of {call}"}) for call in replied]
        talk = [("user", {"text": f"aside {n} {k}"}) for k in range(draw(st.integers(0, 2)))]
        pieces += draw(st.permutations([*waits, *talk]))
        pieces.append(("said", {"text": f"answer {n}"}))
    said = [piece["text"] for kind, piece in pieces if kind != "said" and "text" in piece]
    return [wire for kind, piece in pieces for wire in _write(dialect, kind, piece)], said


def _write(dialect: str, kind: str, piece: Wire) -> list[Wire]:
    match dialect:
        case "anthropic":
            return [_write_anthropic(kind, piece)]
        case "gemini":
            return [_write_gemini(kind, piece)]
        case "openai_responses" | "deepseek_responses":
            return _write_responses(kind, piece)
        case _:
            return [_write_chat(kind, piece)]


def _write_chat(kind: str, piece: Wire) -> Wire:
    match kind:
        case "calls":
            function = {"name": "f", "arguments": "{}"}
            calls = [{"id": i, "type": "function", "function": function} for i in piece["ids"]]
            return {"role": "assistant", "content": None, "tool_calls": calls}
        case "reply":
            return {"role": "tool", "tool_call_id": piece["id"], "content": piece["text"]}
        case _:
            return {"role": "user" if kind == "user" else "assistant", "content": piece["text"]}


def _write_anthropic(kind: str, piece: Wire) -> Wire:
    match kind:
        case "calls":
            uses = [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in piece["ids"]]
            return {"role": "assistant", "content": uses}
        case "reply":
            result = {"type": "tool_result", "tool_use_id": piece["id"], "content": piece["text"]}
            return {"role": "user", "content": [result]}
        case _:
            return {"role": "user" if kind == "user" else "assistant", "content": piece["text"]}


def _write_gemini(kind: str, piece: Wire) -> Wire:
    match kind:
        case "calls":
            calls = [{"functionCall": {"name": "f", "args": {}, "id": i}} for i in piece["ids"]]
            return {"role": "model", "parts": calls}
        case "reply":
            response = {"name": "f", "response": {"result": piece["text"]}, "id": piece["id"]}
            return {"role": "user", "parts": [{"functionResponse": response}]}
        case _:
            role = "user" if kind == "user" else "model"
            return {"role": role, "parts": [{"text": piece["text"]}]}


def _write_responses(kind: str, piece: Wire) -> list[Wire]:
    match kind:
        case "calls":
            return [
                {"type": "function_call", "call_id": i, "name": "f", "arguments": "{}"}
                for i in piece["ids"]
            ]
        case "reply":
            output = {"call_id": piece["id"], "output": piece["text"]}
            return [{"type": "function_call_output", **output}]
        case _:
            role = "user" if kind == "user" else "assistant"
            return [{"role": role, "content": piece["text"]}]
