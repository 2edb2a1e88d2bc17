"""Mistral: what it refuses, in its words."""

from agent_lab.domain.dialects.rules import chat_shapes as shapes
from agent_lab.domain.dialects.rules import mistral
from agent_lab.domain.dialects.rules.chat_view import read_chat
from agent_lab.domain.dialects.rules.openai_chat_rules import SHAPE_RULES
from agent_lab.domain.dialects.rules.rule import Dialect, Rule

RULES = (
    Rule(
        "messages_empty",
        shapes.history_empty,
        "Conversation must have at least one message",
        "There is nothing for the model to answer.",
        "Send at least one message.",
    ),
    *SHAPE_RULES,
    Rule(
        "last_role",
        mistral.last_role,
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
        "assistant",
        "The history ends with the model's own message, so there is nothing to answer.",
        "End with a user or tool message, or set prefix to have the message continued.",
        also=("Expected last role User or Tool (or Assistant with prefix) for serving but got",),
    ),
    Rule(
        "tool_after_user",
        mistral.tool_after_user,
        "Unexpected role 'tool' after role '{before}'",
        "This reply does not follow the calls: another message came in between, or the call is "
        "gone.",
        "Move the replies right behind the message with the calls, the user's message after them.",
    ),
    Rule(
        "user_after_tool",
        mistral.user_after_tool,
        "Unexpected role 'user' after role 'tool'",
        "Servers with mistral-common up to 1.11.0 want an assistant message after the replies.",
        "Put a short assistant message between the replies and the user's message.",
        "medium",
    ),
    Rule(
        "role_order",
        mistral.role_order,
        "Unexpected role 'system' after role '{before}'",
        "A system message may follow a user or system message only.",
        "Move its text into the first system message.",
        "medium",
    ),
    Rule(
        "tool_call_id_repeated_in_message",
        mistral.ids_repeated,
        "Duplicate tool call id {id} in assistant message",
        "Two calls of one message have the id {id}.",
        "Give the second call an id of its own, and its reply the same.",
        "medium",
    ),
    Rule(
        "tool_reply_duplicate",
        mistral.replies_duplicate,
        "Duplicate tool call id {id} in tool results",
        "The call {id} is answered twice.",
        "Keep the first reply and drop this one; answer every other call.",
        "medium",
    ),
    Rule(
        "tool_reply_unknown_id",
        mistral.replies_to_unknown_id,
        "Unexpected tool call id {id} in tool results",
        "No call of this round has the id {id}; calls in the very first message do not count.",
        "Drop a late reply of an older round, or set the id of the call it answers; begin with a "
        "user message.",
        "medium",
    ),
    Rule(
        "call_reply_count",
        mistral.call_reply_count,
        "Not the same number of function calls and responses",
        "There must be one reply for each call of the message before, no more and no fewer.",
        "Add a reply for each open call, or drop the surplus one.",
    ),
    Rule(
        "tool_call_id_missing",
        mistral.id_missing,
        "Tool call id has to be defined.",
        "Calls and replies pair by id, and here there is none.",
        "Give the call an id, and its reply the same in tool_call_id.",
        also=("Tool call id must be a non-empty string other than 'null' for tokenizer version",),
    ),
    Rule(
        "tool_call_id_format",
        mistral.id_format,
        "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.",
        "Tokenizers up to v11 take ids of exactly nine letters and digits; another provider made "
        "this one.",
        "Rename the id to nine letters and digits, in the call and in its reply alike.",
    ),
    Rule(
        "assistant_empty",
        mistral.assistant_empty,
        "Assistant message must have either content or tool_calls, but not {but}.",
        "An assistant message must say or call something; up to tokenizer v3 not both at once.",
        "Leave an empty assistant message out; split one that has both.",
    ),
    Rule(
        "function_name",
        mistral.function_name,
        "Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, "
        "with a maximum length of 64.",
        "The function name {name!r} is empty, too long, or has other characters.",
        "Rename the function, in the tools and in the history alike.",
    ),
)

MISTRAL = Dialect(read_chat, RULES)
