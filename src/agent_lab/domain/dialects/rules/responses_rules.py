"""OpenAI Responses, and DeepSeek's server of that format: what they refuse, in their words."""

from agent_lab.domain.dialects.rules import responses_checks as checks
from agent_lab.domain.dialects.rules.rule import Dialect, Rule

ITEM_UNKNOWN = Rule(
    "item_unknown",
    checks.item_unknown,
    "Missing required parameter: 'input[{i}].type'.",
    "The item has neither a type nor a role.",
    "Give it one, or leave it out.",
    "medium",
)
ORPHAN = Rule(
    "function_output_orphan",
    checks.output_orphan,
    "No tool call found for function call output with call_id {id}.",
    "No call with the id {id} stands before this output: the call was cut off, or comes later.",
    "Drop the output, or keep the function_call in front of it.",
)

RULES = (
    ITEM_UNKNOWN,
    Rule(
        "role_not_supported",
        checks.role_not_supported,
        "Invalid value: '{role}'. Supported values are: 'assistant', 'system', 'developer', and "
        "'user'.",
        "Role {role} is of Chat Completions; here a tool's reply is an item of its own.",
        "Write it as a function_call_output with the call's call_id.",
    ),
    Rule(
        "assistant_content_type",
        checks.assistant_content_type,
        "Invalid value: '{type}'. Supported values are: 'output_text' and 'refusal'.",
        "What the assistant said is sent back as output, not as input.",
        "Write the part as output_text.",
    ),
    Rule(
        "call_id_empty",
        checks.call_id_empty,
        "Invalid 'input[{i}].call_id': empty string. Expected a string with minimum length 1, but "
        "got an empty string instead.",
        "Calls and outputs pair by call_id, and here there is none.",
        "Give the call an id, and its output the same.",
    ),
    Rule(
        "call_id_length",
        checks.call_id_length,
        "Invalid 'input[{i}].call_id': string too long. Expected a string with maximum length 64, "
        "but got a string with length {n} instead.",
        "The call id has {n} characters; an adapter joined call id and item id.",
        "Shorten the id, in the call and in its output alike.",
    ),
    Rule(
        "item_id_prefix",
        checks.id_prefix,
        "Invalid 'input[{i}].id': '{item}'. Expected an ID that begins with '{prefix}'.",
        "The item id {item!r} is not one of OpenAI's; another provider made it.",
        "Leave the item's id out; call_id alone pairs a call.",
    ),
    Rule(
        "item_id_duplicate",
        checks.id_duplicate,
        "Duplicate item found with id {item}. Remove duplicate items from your input and try "
        "again.",
        "The item {item} is in the list twice, often added again by a retry.",
        "Drop the copy.",
    ),
    Rule(
        "reasoning_not_persisted",
        checks.not_persisted,
        "Item with id '{item}' not found. Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input.",
        "Without store the server has no {item}, and the item holds no encrypted_content.",
        "Ask for reasoning.encrypted_content, or leave the item out.",
    ),
    Rule(
        "reasoning_without_following_item",
        checks.reasoning_alone,
        "Item '{item}' of type 'reasoning' was provided without its required following item.",
        "A stream was cut, or the message or call after the reasoning was dropped.",
        "Drop the reasoning too, or keep what it led to.",
    ),
    Rule(
        "item_without_its_reasoning",
        checks.without_reasoning,
        "Item '{item}' of type '{type}' was provided without its required 'reasoning' item: "
        "'{reasoning}'.",
        "The server stored {item} together with {reasoning}, which is not sent.",
        "Send the reasoning item in front of it, or leave the item's id out.",
    ),
    Rule(
        "function_call_unanswered",
        checks.call_unanswered,
        "No tool output found for function call {id}.",
        "Nothing answers the call {id}: a cancel, a crash or an interrupt came in between.",
        "Add a function_call_output for {id} right after the call; say in it that there is no "
        "result.",
    ),
    ORPHAN,
)

DEEPSEEK = (
    ITEM_UNKNOWN,
    Rule(
        "call_output_not_adjacent",
        checks.call_not_answered_at_once,
        "No tool output found for tool call {id}.",
        "DeepSeek looks for the output of {id} right behind the call, and other items come first.",
        "Write each output right after its call.",
    ),
    ORPHAN,
)

OPENAI_RESPONSES = Dialect(checks.read_responses, RULES, "openai_responses")
DEEPSEEK_RESPONSES = Dialect(checks.read_responses, DEEPSEEK, "openai_responses")
