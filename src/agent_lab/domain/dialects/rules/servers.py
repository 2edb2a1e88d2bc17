"""Servers with the Chat Completions format: a table each. A new server is a table, not a class."""

from agent_lab.domain.dialects.rules import chat_order as order
from agent_lab.domain.dialects.rules import chat_pairing as pairing
from agent_lab.domain.dialects.rules import chat_shapes as shapes
from agent_lab.domain.dialects.rules.chat_view import read_chat
from agent_lab.domain.dialects.rules.openai_chat_rules import FREE_ARGUMENTS, SHAPE_RULES
from agent_lab.domain.dialects.rules.profile import of_family
from agent_lab.domain.dialects.rules.rule import Dialect, Rule

INSUFFICIENT = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. (insufficient tool messages following tool_calls message)"
)
DEEPSEEK_ROLES = frozenset({"system", "user", "assistant", "tool", "latest_reminder"})
ANSWER_ALL = (
    "Add one tool message for each of {ids} right after this message; say in it that there is no "
    "result."
)

DEEPSEEK = (
    SHAPE_RULES[1],
    FREE_ARGUMENTS,
    Rule(
        "role_developer",
        shapes.role_unknown(DEEPSEEK_ROLES),
        "Failed to deserialize the JSON body into the target type: messages[{i}].role: unknown "
        "variant `{role}`, expected one of `system`, `user`, `assistant`, `tool`, "
        "`latest_reminder`",
        "DeepSeek does not know the role {role!r}.",
        "Send what a developer message says as role system.",
    ),
    Rule(
        "tool_reply_missing_id",
        pairing.replies_without_id,
        "Failed to deserialize the JSON body into the target type: messages[{i}]: missing field "
        "`tool_call_id`",
        "This tool message does not say which call it answers.",
        "Set tool_call_id to the id of the call.",
    ),
    Rule(
        "tool_calls_unanswered",
        pairing.calls_unanswered,
        INSUFFICIENT,
        "The model asked for tools, and nothing answers {ids}.",
        ANSWER_ALL,
    ),
    Rule(
        "tool_replies_interrupted",
        pairing.replies_interrupted,
        INSUFFICIENT,
        "This message stands between the calls and the replies to {ids}.",
        "Move it behind the last reply of the group.",
    ),
    Rule(
        "tool_reply_orphan",
        pairing.replies_unmatched_with_id,
        "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
        "The reply to {id} answers no open call of the message before it.",
        "Drop the reply, or keep the assistant message with its call.",
    ),
    Rule(
        "reasoning_content_missing",
        order.reasoning_missing,
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "In thinking mode each assistant message with calls must carry the reasoning it came with.",
        "Keep reasoning_content of the response in the message; it may be empty, not absent.",
        "medium",
        also=("Missing `reasoning_content` field in the assistant message at message index {i}.",),
    ),
    Rule(
        "successive_roles",
        order.successive_roles,
        "deepseek-reasoner does not support successive user or assistant messages "
        "(messages[{before}] and messages[{i}] in your input). You should interleave the "
        "user/assistant messages in the message sequence.",
        "Two messages of one role stand side by side; the reasoner of 2025 refused that.",
        "Join them, or use a newer model.",
        "low",
    ),
)

GROQ = (
    *SHAPE_RULES,
    FREE_ARGUMENTS,
    Rule(
        "unsupported_property",
        order.property_unsupported,
        "'messages.{i}' : for 'role:{role}' the following must be satisfied[('messages.{i}' : "
        "property '{name}' is unsupported)]",
        "Groq has no field {name} on a {role} message.",
        "Leave {name} out.",
    ),
    Rule(
        "content_not_string",
        shapes.content_not_string("assistant"),
        "'messages.{i}' : for 'role:assistant' the following must be satisfied[('messages.{i}"
        ".content' : value must be a string)]",
        "Groq takes an assistant's content as text only, not in parts.",
        "Join the parts to one string.",
        "medium",
    ),
)

ALTERNATE = Rule(
    "strict_alternation",
    order.roles_not_alternating,
    "Conversation roles must alternate user/assistant/user/assistant/...",
    "This model's chat template takes user and assistant messages in turn only.",
    "Join neighbours of one role, or put a short message of the other role between them.",
)
QWEN = (
    Rule(
        "system_not_first",
        order.system_not_first,
        "System message must be at the beginning.",
        "Qwen's chat template takes one system message, as the very first.",
        "Move its text into the first message.",
    ),
    Rule(
        "no_user_query",
        order.no_user_query,
        "No user query found in messages.",
        "Qwen's chat template needs a user message, and compaction left none.",
        "Keep the last user message when the history is cut.",
    ),
)
NOT_JSON_FIX = 'Store "{{}}" as the arguments and the raw text in the reply.'

# What Python's parser says; nothing else in such an answer names the fault.
JSON_TEXTS = (
    "Unterminated string starting at: line {line} column {n}",
    "Expecting value: line {line} column {n}",
    "Expecting ',' delimiter: line {line} column {n}",
    "Expecting property name enclosed in double quotes: line {line} column {n}",
)

VLLM = (
    *SHAPE_RULES,
    Rule(
        "arguments_not_string",
        shapes.arguments_not_string,
        "Input should be a valid string (messages[{i}].tool_calls[{j}].function.arguments)",
        "The arguments of a call go over the wire as JSON text.",
        "Write the arguments with json.dumps.",
    ),
    Rule(
        "invalid_json_arguments",
        shapes.arguments_not_json,
        "400 BadRequestError: {fault}",
        "vLLM parses the arguments of old calls again, and these do not parse: the model's output "
        "was cut or wrong.",
        NOT_JSON_FIX,
        also=JSON_TEXTS,
    ),
    *QWEN,
    ALTERNATE,
)

SGLANG = (
    *SHAPE_RULES,
    Rule(
        "arguments_not_json_object",
        shapes.arguments_not_json_object,
        "400: messages.{i}.tool_calls.{j}.function.arguments: arguments must be a valid JSON "
        "object string",
        "The server parses the arguments of old calls again and needs a JSON object.",
        NOT_JSON_FIX,
        "medium",
    ),
)


LLAMACPP = (
    *SHAPE_RULES,
    Rule(
        "invalid_json_arguments",
        shapes.arguments_not_json,
        "HTTP 500: Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] "
        "parse error at line 1, column {n}: {fault}",
        "llama.cpp parses the arguments of old calls again, and these do not parse.",
        NOT_JSON_FIX,
    ),
    Rule(
        "tool_call_id_short",
        lambda view: SHORT_IDS(view) if of_family(view.profile.template, "mistral") else (),
        "Tool call IDs should be alphanumeric strings with length >= 9!",
        "The Mistral template takes call ids of nine characters or more, and {id} is shorter.",
        "Lengthen the id, in the call and in its reply alike.",
    ),
    *QWEN,
    Rule(
        "strict_alternation",
        ALTERNATE.finds,
        "After the optional system message, conversation roles must alternate "
        "user/assistant/user/assistant/...",
        ALTERNATE.because + " Tool rounds are skipped when it looks.",
        ALTERNATE.fix,
    ),
)
SHORT_IDS = shapes.id_refused(lambda call: len(call) < 9)

OLLAMA_NATIVE = (
    *SHAPE_RULES,
    Rule(
        "arguments_not_object",
        shapes.arguments_not_object,
        "json: cannot unmarshal {got} into Go struct field "
        "ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments",
        "Ollama's own /api/chat takes arguments as an object; only /v1 takes JSON text.",
        "Parse the arguments, or send the request to /v1/chat/completions.",
    ),
    Rule(
        "content_not_string",
        shapes.content_not_string(),
        "json: cannot unmarshal {got} into Go struct field ChatRequest.messages.content of type "
        "string",
        "Ollama's own /api/chat takes content as text; images have a field of their own.",
        "Join the text parts, and put images into `images`.",
    ),
)

MINIMAX = (
    *SHAPE_RULES,
    Rule(
        "tool_result_not_following",
        pairing.replies_not_following,
        "invalid params, tool call result does not follow tool call (2013)",
        "This reply does not stand right after the message with its call.",
        "Move it there, or drop it when its call is gone.",
        "medium",
        also=(
            "tool result's tool id({id}) not found (2013)",
            "tool result's tool id ({id}) not found (2013)",
        ),
    ),
)

DASHSCOPE = (
    *SHAPE_RULES,
    Rule(
        "tool_calls_unanswered",
        pairing.calls_not_answered_at_once,
        '<400> InternalError.Algo.InvalidParameter: An assistant message with "tool_calls" must '
        'be followed by tool messages responding to each "tool_call_id". The following '
        "tool_call_ids did not have response messages: message[{i}].role",
        "Nothing answers {ids} right after the message with the calls.",
        ANSWER_ALL,
    ),
    Rule(
        "tool_reply_orphan",
        pairing.replies_unmatched,
        '<400> InternalError.Algo.InvalidParameter: messages with role "tool" must be a response '
        'to a preceeding message with "tool_calls".',
        "This reply answers no open call of the message before it.",
        "Drop the reply, or keep the assistant message with its call.",
    ),
)

SERVERS = {
    "dashscope": Dialect(read_chat, DASHSCOPE),
    "deepseek": Dialect(read_chat, DEEPSEEK),
    "groq": Dialect(read_chat, GROQ),
    "llamacpp": Dialect(read_chat, LLAMACPP),
    "minimax": Dialect(read_chat, MINIMAX),
    "ollama_native": Dialect(read_chat, OLLAMA_NATIVE),
    "sglang": Dialect(read_chat, SGLANG),
    "vllm": Dialect(read_chat, VLLM),
}
