"""OpenAI Chat Completions: what it refuses, in its words."""

from agent_lab.domain.dialects.rules import chat_pairing as pairing
from agent_lab.domain.dialects.rules import chat_shapes as shapes
from agent_lab.domain.dialects.rules.chat_view import read_chat
from agent_lab.domain.dialects.rules.rule import Dialect, Rule

NOT_RESPONDED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: {ids}"
)
FREE_ARGUMENTS = Rule(
    "arguments_not_string",
    shapes.arguments_not_string,
    "Invalid type for 'messages[{i}].tool_calls[{j}].function.arguments': expected a string, "
    "but got {got} instead.",
    "The arguments of a call go over the wire as JSON text, and here they are {got}.",
    "Write the arguments with json.dumps.",
)
SHAPE_RULES = (
    Rule(
        "role_unknown",
        shapes.role_unknown(shapes.ROLES),
        "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', "
        "'function', 'tool', and 'developer'.",
        "The provider knows no role {role!r}.",
        "Give the message one of the known roles, or leave it out.",
    ),
    Rule(
        "message_shape",
        shapes.shape_wrong,
        "Invalid type for 'messages[{i}].{field}': expected {expected}, but got {got} instead.",
        "The field {field} has a JSON type that the format does not know.",
        "Write {field} as {expected}.",
    ),
)

RULES = (
    Rule(
        "messages_empty",
        shapes.history_empty,
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an "
        "empty array instead.",
        "There is nothing for the model to answer.",
        "Send at least one message.",
    ),
    *SHAPE_RULES,
    FREE_ARGUMENTS,
    Rule(
        "tool_calls_empty",
        pairing.calls_empty,
        "Invalid 'messages[{i}].tool_calls': empty array. Expected an array with minimum length "
        "1, but got an empty array instead.",
        "An assistant message without calls must not have the field tool_calls at all.",
        "Leave tool_calls out.",
    ),
    Rule(
        "tool_call_id_repeated_in_message",
        pairing.ids_repeated,
        "Duplicate call_ids submitted: ['{id}', '{id}']",
        "Two calls of one message have the id {id}, so no reply can say which of them it answers.",
        "Give the second call an id of its own, and its reply the same.",
        "medium",
    ),
    Rule(
        "tool_call_id_length",
        shapes.id_refused(lambda call: len(call) > 40),
        "Invalid 'messages[{i}].tool_calls[{j}].id': string too long. Expected a string with "
        "maximum length 40, but got a string with length {n} instead.",
        "The call id has {n} characters, and 40 are allowed; another provider made it.",
        "Shorten the id, in the call and in its reply alike.",
        "medium",
    ),
    Rule(
        "function_name_empty",
        shapes.name_empty,
        "Invalid '{path}': empty string. Expected a string with minimum length 1, but got an "
        "empty string instead.",
        "A function has no name, often because a stream's pieces were joined wrongly.",
        "Put the function's name in; a call without a name can only be left out with its reply.",
    ),
    Rule(
        "function_name_pattern",
        shapes.name_pattern,
        "Invalid '{path}': string does not match pattern. Expected a string that matches the "
        "pattern '^[a-zA-Z0-9_-]+$'.",
        "The function name {name!r} has characters besides letters, digits, _ and -.",
        "Replace the other characters by _, in the tools and in the history alike.",
    ),
    Rule(
        "function_name_length",
        shapes.name_length,
        "Invalid '{path}': string too long. Expected a string with maximum length 64, but got a "
        "string with length {n} instead.",
        "The function name has {n} characters, and 64 are allowed.",
        "Shorten the name, in the tools and in the history alike.",
    ),
    Rule(
        "content_null",
        shapes.content_null,
        "Invalid value for 'content': expected a string, got null.",
        "Only an assistant message with calls or a refusal may be without content.",
        "Send an empty string for a tool's empty result; leave out an assistant message that "
        "says and calls nothing.",
    ),
    Rule(
        "message_name_pattern",
        shapes.message_name,
        "Invalid 'messages[{i}].name': string does not match pattern. Expected a string that "
        "matches the pattern '{pattern}'.",
        "The speaker's name has blanks, slashes or angle brackets.",
        "Replace them by _, or put the name into the text.",
        "medium",
    ),
    Rule(
        "tool_calls_unanswered",
        pairing.calls_unanswered,
        NOT_RESPONDED,
        "The model asked for tools, and nothing answers {ids}: a cancel, a crash or an interrupt "
        "came between call and reply.",
        "Add one tool message for each of {ids} right after this message; say in it that there "
        "is no result.",
    ),
    Rule(
        "tool_replies_interrupted",
        pairing.replies_interrupted,
        NOT_RESPONDED,
        "This message stands between the calls and the replies to {ids}: it came while the tools "
        "ran.",
        "Move it behind the last reply of the group.",
    ),
    Rule(
        "tool_reply_missing_id",
        pairing.replies_without_id,
        "Missing required parameter: 'messages[{i}].tool_call_id'.",
        "This tool message does not say which call it answers; the tool's name is not enough.",
        "Set tool_call_id to the id of the call.",
        "medium",
    ),
    Rule(
        "tool_reply_orphan",
        pairing.replies_without_call,
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
        "with 'tool_calls'.",
        "The reply to {id} has no call in front of it: the call was cut off by a window or "
        "compaction, or was answered before.",
        "Drop the reply, or keep the assistant message with its call; cut only between rounds.",
    ),
    Rule(
        "tool_reply_unknown_id",
        pairing.replies_to_unknown_id,
        "Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous "
        "message.",
        "No call of this round has the id {id}; still open here: {open}.",
        "Drop a late reply of an older round, or set the id of the call it answers; answer every "
        "open call.",
    ),
    Rule(
        "tool_reply_duplicate",
        pairing.replies_duplicate,
        "Invalid parameter: Duplicate value for 'tool_call_id' of '{id}', in messages[{first}] "
        "and messages[{i}].",
        "The call {id} is answered twice, often by a time-out or a cancel and then by the tool.",
        "Keep the first reply and drop this one.",
    ),
)

OPENAI_CHAT = Dialect(read_chat, RULES)
