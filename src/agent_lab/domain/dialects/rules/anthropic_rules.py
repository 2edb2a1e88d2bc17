"""Anthropic Messages: what it refuses, in its words.

The provider counts neighbours of one role as one message, so its index may differ from the list's;
ours is always the list's.
"""

from agent_lab.domain.dialects.rules import anthropic_messages as messages
from agent_lab.domain.dialects.rules import anthropic_tools as tools
from agent_lab.domain.dialects.rules.anthropic_view import read_anthropic
from agent_lab.domain.dialects.rules.rule import Dialect, Rule

NOT_AFTER = (
    ": `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each "
    "`tool_use` block must have a corresponding `tool_result` block in the next message."
)

ROLE_RULES = (
    Rule(
        "messages_empty",
        messages.history_empty,
        "messages: at least one message is required",
        "There is nothing for the model to answer.",
        "Send at least one user message.",
    ),
    Rule(
        "role_unknown",
        messages.role_unknown,
        "messages.{i}.role: Input should be 'user' or 'assistant'",
        "Anthropic knows no role {role!r}; a tool's result is a block in a user message.",
        "Write a tool's reply as a tool_result block in the user message after the call.",
        "medium",
    ),
    Rule(
        "content_shape",
        messages.content_shape,
        "messages.{i}.content: Input should be a valid list",
        "Content is text or a list of blocks, each an object with a type.",
        "Give each block its type, or send plain text.",
        "medium",
    ),
    Rule(
        "system_role_not_supported",
        messages.system_not_supported,
        'messages: Unexpected role "system". The Messages API accepts a top-level `system` '
        'parameter, not "system" as an input message role.',
        "Models before Opus 4.8 take instructions only in the request's system field.",
        "Move the text to the top-level system parameter.",
    ),
    Rule(
        "system_role_placement",
        messages.system_misplaced,
        "{text}",
        "A system message may stand only right after a user turn, as the last or before an "
        "assistant turn.",
        "Move it behind the next user message; put the initial one into the system parameter.",
        "medium",
        also=(
            "messages.{i}: role 'system' must follow a 'user' message",
            "messages.0: use the top-level 'system' parameter for the initial system prompt",
        ),
    ),
    Rule(
        "block_in_wrong_role",
        tools.block_in_wrong_role,
        "messages.{i}: `{type}` blocks can only be in `{owner}` messages",
        "A {type} block stands in a message of the wrong role.",
        "Move it to a message of role {owner}.",
    ),
    Rule(
        "message_content_empty",
        messages.content_empty,
        "messages.{i}: all messages must have non-empty content except for the optional final "
        "assistant message",
        "The message has no content; often the model returned nothing and that was kept.",
        "Leave an empty message out.",
    ),
    Rule(
        "text_block_empty",
        messages.text_empty,
        "messages: text content blocks must be non-empty",
        "A text block without text, often put in front of a call by a converter.",
        "Leave the block out.",
    ),
    Rule(
        "text_block_whitespace",
        messages.text_blank,
        "messages: text content blocks must contain non-whitespace text",
        "A text of blanks or line breaks only.",
        "Leave the block out; a message of nothing else too.",
    ),
    Rule(
        "prefill_not_supported",
        messages.prefill,
        "This model does not support assistant message prefill. The conversation must end with a "
        "user message.",
        "The history ends with the model's own message, and Claude 4.6 and later do not continue "
        "one.",
        "Wait for the next user message; a finished turn needs no further call.",
    ),
    Rule(
        "final_assistant_trailing_whitespace",
        messages.trailing_whitespace,
        "messages: final assistant content cannot end with trailing whitespace",
        "The last message is a beginning for the model to continue, and it ends in a blank.",
        "Trim the end of the text.",
    ),
    Rule(
        "first_message_not_user",
        messages.first_not_user,
        'messages: first message must use the "user" role',
        "The list starts with an assistant message; that was refused in 2024.",
        "Start the kept history with a user message.",
        "low",
    ),
)

TOOL_RULES = (
    Rule(
        "tool_use_id_pattern",
        tools.tool_use_id_pattern,
        "messages.{i}.content.{j}.{block}.{field}: String should match pattern '^[a-zA-Z0-9_-]+$'",
        "The id {id!r} has characters that Anthropic refuses; another provider made it.",
        "Rename it to letters, digits, _ and -, in the call and in its result alike.",
    ),
    Rule(
        "tool_use_input_not_object",
        tools.tool_use_input_not_object,
        "messages.{i}.content.{j}.tool_use.input: Input should be a valid dictionary",
        "The arguments are not an object, often because cut JSON was kept as text.",
        "Store an empty object as input and the raw text in the result.",
    ),
    Rule(
        "tool_use_id_duplicate",
        tools.tool_use_id_duplicate,
        "messages.{i}.content.{j}: `tool_use` ids must be unique",
        "The call id {id} in message {i} was used in message {first} already: a retry added the "
        "turn again, or ids are numbered anew each turn.",
        "Drop the copy, or rename the later id in call and result.",
    ),
    Rule(
        "tool_use_unanswered",
        tools.tool_use_unanswered,
        "messages.{i}" + NOT_AFTER,
        "The model asked for tools, and the next message has no result for {ids}: a cancel, a "
        "crash or an interrupt came in between.",
        "Begin the next user message with a tool_result (is_error) for each of {ids}.",
    ),
    Rule(
        "tool_use_not_last_in_message",
        tools.tool_use_not_last,
        "messages.{i}" + NOT_AFTER,
        "Other content follows {ids} in the same assistant turn; nothing may stand behind a call.",
        "Move the tool_use blocks to the end of the message.",
    ),
    Rule(
        "tool_result_not_first",
        tools.tool_result_not_first,
        "messages.{call}" + NOT_AFTER,
        "Other content stands in front of the results of {ids}; user messages in a row count as "
        "one.",
        "Write all results first, in one message, and what the user says after them.",
    ),
    Rule(
        "tool_result_orphan",
        tools.tool_result_orphan,
        "messages.{i}.content.{j}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. "
        "Each `tool_result` block must have a corresponding `tool_use` block in the previous "
        "message.",
        "The result for {id} has no call in the turn before: the call was cut off, or this is a "
        "late answer.",
        "Drop the result, or keep the assistant message with its call.",
    ),
    Rule(
        "tool_result_duplicate",
        tools.tool_result_duplicate,
        "messages.{i}.content.{j}: each tool_use must have a single result. Found multiple "
        "`tool_result` blocks with id: {id}",
        "The call {id} is answered twice, often by a time-out or a cancel and then by the tool.",
        "Keep the first result and drop this one.",
    ),
    Rule(
        "tool_name_length",
        tools.tool_name_length,
        "tools.{j}.custom.name: String should have at most 64 characters",
        "The tool's name has {n} characters; 64 were allowed, by now perhaps 128.",
        "Shorten the name, in the tools and in the history alike.",
        "medium",
    ),
    Rule(
        "tools_must_be_defined",
        tools.tools_not_defined,
        "Requests which include `tool_use` or `tool_result` blocks must define tools.",
        "The history has tool blocks and the request no tools; refused until 2025-02-27.",
        "Send the tools with each request of the conversation.",
        "low",
    ),
)

THINKING_RULES = (
    Rule(
        "thinking_missing_before_tool_use",
        messages.thinking_missing,
        "messages.{i}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
        "`{found}`. When `thinking` is enabled, a final `assistant` message must start with a "
        "thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
        "With thinking on, the calls being answered must keep the thinking block they came with.",
        "Store thinking blocks and send them back; or turn thinking off for this request.",
    ),
    Rule(
        "thinking_not_first",
        messages.thinking_not_first,
        "messages.{i}.content.0: If an assistant message contains any thinking blocks, the first "
        "block must be thinking or redacted_thinking. Found {found}.",
        "Thinking stands behind other blocks.",
        "Keep the blocks in the order they came in, thinking first.",
        "medium",
    ),
    Rule(
        "thinking_last_block",
        messages.thinking_last,
        "messages.{i}: The final block in an assistant message cannot be `thinking`.",
        "The answer was cut after its thinking.",
        "Leave out a message of nothing but thinking.",
    ),
    Rule(
        "thinking_while_disabled",
        messages.thinking_disabled,
        "messages.{i}.content.{j}: When thinking is disabled, an `assistant` message in the final "
        "position cannot contain `thinking`. To use thinking blocks, enable `thinking` in your "
        "request.",
        "The last message has thinking, and the request has thinking off.",
        "Leave the thinking blocks of the last message out, or turn thinking on.",
    ),
    Rule(
        "thinking_modified",
        messages.thinking_modified,
        "messages.{i}.content.{j}: `thinking` or `redacted_thinking` blocks in the latest "
        "assistant message cannot be modified. These blocks must remain as they were in the "
        "original response.",
        "The thinking of the latest message is signed and differs from what the provider sent.",
        "Send the blocks back byte for byte.",
    ),
)

ANTHROPIC = Dialect(read_anthropic, (*ROLE_RULES, *TOOL_RULES, *THINKING_RULES), "anthropic")
