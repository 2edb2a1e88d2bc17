"""What is run, in which order, for each server with the Chat Completions format."""

from agent_lab.domain.dialects.repairs import chat_messages as single
from agent_lab.domain.dialects.repairs.chat_rounds import PAIRING, has_calls
from agent_lab.domain.dialects.repairs.passes import (
    CONTINUE,
    UNDERSTOOD,
    Pass,
    edit,
    short_id,
    text_of,
)
from agent_lab.domain.dialects.rules import chat_order as order
from agent_lab.domain.dialects.rules import mistral
from agent_lab.domain.dialects.rules.chat_shapes import ROLES
from agent_lab.domain.dialects.rules.profile import of_family
from agent_lab.domain.dialects.rules.reading import Wire
from agent_lab.domain.dialects.rules.rule import History
from agent_lab.domain.dialects.rules.servers import DEEPSEEK_ROLES

BRIDGE = {"user": CONTINUE, "assistant": UNDERSTOOD}


def join_system(history: History) -> list[Wire]:
    """All system texts in one message, the first."""
    messages = history.messages
    system = [message for message in messages if message.get("role") == "system"]
    if not system or (len(system) == 1 and messages[0] is system[0]):
        return messages
    joined = "\n\n".join(text_of(message.get("content")) for message in system)
    return [
        {**system[0], "content": joined},
        *(message for message in messages if message.get("role") != "system"),
    ]


def system_first(history: History) -> list[Wire]:
    """For templates that take a system message only at the start."""
    return join_system(history) if order.is_qwen(history.profile) else history.messages


def system_in_order(history: History) -> list[Wire]:
    """For Mistral, where one may not follow an assistant or tool message."""
    messages = history.messages
    for i in range(1, len(messages)):
        before = messages[i - 1].get("role")
        if messages[i].get("role") == "system" and before in ("assistant", "tool"):
            return join_system(history)
    return messages


def ask_something(history: History) -> list[Wire]:
    """For templates that need a user's question."""
    messages = history.messages
    if not order.is_qwen(history.profile) or any(map(order.asks_something, messages)):
        return messages
    start = 1 if messages and messages[0].get("role") == "system" else 0
    return [*messages[:start], {"role": "user", "content": CONTINUE}, *messages[start:]]


def alternate(history: History) -> list[Wire]:
    """A short message of the other role between neighbours of one role."""
    if not order.is_strict(history.profile):
        return history.messages
    bridged: list[Wire] = []
    previous = "assistant"
    for message in history.messages:
        if order.counted(message):
            role = message["role"]
            if role == previous:
                other = "assistant" if role == "user" else "user"
                bridged.append({"role": other, "content": BRIDGE[other]})
            previous = role
        bridged.append(message)
    return bridged


def bridge_to_user(history: History) -> list[Wire]:
    """For servers that want an assistant message between replies and the user's message."""
    if not mistral.refuses_user_after_tool(history.profile):
        return history.messages
    bridged: list[Wire] = []
    for message in history.messages:
        if message.get("role") == "user" and bridged and bridged[-1].get("role") == "tool":
            bridged.append({"role": "assistant", "content": UNDERSTOOD})
        bridged.append(message)
    return bridged


def split_said_and_called(history: History) -> list[Wire]:
    """Up to tokenizer v3 a message either says or calls."""
    if mistral.tokenizer(history.profile) > 3:
        return history.messages
    split: list[Wire] = []
    for message in history.messages:
        if message.get("role") == "assistant" and message.get("tool_calls") and message["content"]:
            split.append({"role": "assistant", "content": message["content"]})
            split.append({**message, "content": ""})
        else:
            split.append(message)
    return split


def begin_with_user(history: History) -> list[Wire]:
    """mistral-common does not count calls in the very first message, and refuses their replies."""
    messages = history.messages
    if not messages or not has_calls(messages[0]):
        return messages
    return [{"role": "user", "content": CONTINUE}, *messages]


def end_on_question(history: History) -> list[Wire]:
    """A history that ends with the model's words gets something to answer."""
    messages = history.messages
    if not messages or messages[-1].get("role") != "assistant" or messages[-1].get("prefix"):
        return messages
    return [*messages, {"role": "user", "content": CONTINUE}]


def _content(history: History) -> list[Wire]:
    def change(_: int, message: Wire) -> Wire:
        return message if "content" in message else {**message, "content": ""}

    return edit(history.messages, change)


OPENAI = (
    single.known_roles(ROLES),
    single.SHAPES,
    single.DROP_BLANK,
    *PAIRING,
    single.NEVER_NULL,
    single.NAMES,
    single.SPEAKERS,
    single.ARGUMENTS_TEXT,
    single.SHORTEN_IDS,
    single.NOT_EMPTY,
)
MISTRAL = (
    single.known_roles(ROLES),
    single.SHAPES,
    Pass("content_there", "the passes after this one read content", _content),
    Pass("split", "up to tokenizer v3 a message says or calls", split_said_and_called),
    single.DROP_BLANK,
    *PAIRING,
    single.NAMES,
    single.rename_ids(lambda call, history: not mistral.id_fits(call, history.profile), short_id),
    Pass("system_in_order", "a system message follows a user or system only", system_in_order),
    Pass("begin_with_user", "calls in the first message do not count", begin_with_user),
    Pass("bridge_to_user", "older servers refuse a user after a tool", bridge_to_user),
    Pass("end_on_question", "there must be something to answer", end_on_question),
    single.NOT_EMPTY,
)
DEEPSEEK = (
    single.DEVELOPER,
    single.known_roles(DEEPSEEK_ROLES),
    single.SHAPES,
    *PAIRING,
    single.ARGUMENTS_TEXT,
    single.REASONING,
)
TEMPLATES = (
    Pass("system_first", "the template takes one system message, first", system_first),
    Pass("ask_something", "the template needs a user message", ask_something),
    Pass("alternate", "the template takes user and assistant in turn", alternate),
)
SHAPED = (single.known_roles(ROLES), single.SHAPES)
LONGER_IDS = single.rename_ids(
    lambda call, history: len(call) < 9 and of_family(history.profile.template, "mistral"),
    short_id,
)

PASSES: dict[str, tuple[Pass, ...]] = {
    "openai_chat": OPENAI,
    "mistral": MISTRAL,
    "deepseek": DEEPSEEK,
    "dashscope": (*SHAPED, *PAIRING),
    "minimax": (*SHAPED, *PAIRING),
    "groq": (*SHAPED, single.ARGUMENTS_TEXT, single.GROQ),
    "vllm": (*SHAPED, single.ARGUMENTS_TEXT, single.ARGUMENTS_PARSE, *TEMPLATES),
    "sglang": (*SHAPED, single.ARGUMENTS_HOLD_OBJECT),
    "llamacpp": (*SHAPED, single.ARGUMENTS_PARSE, LONGER_IDS, *TEMPLATES),
    "ollama_native": (*SHAPED, single.ARGUMENTS_OBJECT, single.PLAIN),
}
