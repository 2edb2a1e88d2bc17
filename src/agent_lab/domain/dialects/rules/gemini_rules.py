"""Gemini: what it refuses, in its words."""

from agent_lab.domain.dialects.rules import gemini_checks as checks
from agent_lab.domain.dialects.rules.rule import Dialect, Rule

RULES = (
    Rule(
        "contents_empty",
        checks.contents_empty,
        "* GenerateContentRequest.contents: contents is not specified",
        "There is nothing for the model to answer.",
        "Send at least one content.",
        "low",
    ),
    Rule(
        "role_invalid",
        checks.role_invalid,
        "Please use a valid role: user, model.",
        "Gemini calls the assistant `model` and takes instructions in systemInstruction.",
        "Rename assistant to model, and move a system text to systemInstruction.",
    ),
    Rule(
        "parts_empty",
        checks.parts_empty,
        "* GenerateContentRequest.contents[{i}].parts: contents.parts must not be empty.",
        "The content has no parts; often the model returned nothing and that was kept.",
        "Leave the content out.",
        also=("Unable to submit request because it must include at least one parts field",),
    ),
    Rule(
        "part_without_data",
        checks.part_without_data,
        "* GenerateContentRequest.contents[{i}].parts[{j}].data: required oneof field 'data' must "
        "have one initialized field",
        "A part holds no text, call, response or file.",
        "Leave the part out.",
    ),
    Rule(
        "function_response_name_empty",
        checks.name_empty,
        "* GenerateContentRequest.contents[{i}].parts[{j}].{kind}.name: Name cannot be empty.",
        "Gemini pairs by name and position, and here the function's name is empty.",
        "Write the name of the called function into its response.",
    ),
    Rule(
        "function_call_turn_position",
        checks.call_turn_position,
        "Please ensure that function call turn comes immediately after a user turn or after a "
        "function response turn.",
        "The calls follow a model turn, or begin the history.",
        "Join them with the model turn before; start a cut history with a user turn.",
    ),
    Rule(
        "function_response_turn_position",
        checks.response_turn_position,
        "Please ensure that function response turn comes immediately after a function call turn.",
        "These responses do not stand right after their calls: something came in between, or the "
        "calls are gone.",
        "Move them right behind the calls, the user's text after them; drop them without calls.",
    ),
    Rule(
        "function_response_count",
        checks.response_count,
        "Please ensure that the number of function response parts is equal to the number of "
        "function call parts of the function call turn.",
        "Gemini counts the responses in the one content after the calls, and they are too few or "
        "too many.",
        "Write one content with exactly one response for each call, in call order.",
    ),
    Rule(
        "thought_signature_missing",
        checks.signature_missing,
        "Function call is missing a thought_signature in functionCall parts. This is required for "
        "tools to work correctly, and missing thought_signature may lead to degraded model "
        "performance. Additional data, function call `{name}`, position {n}.",
        "Gemini 3 wants the signature back on the first call of each step of the current turn.",
        "Store thoughtSignature with the call. For calls that the model did not make, "
        "skip_thought_signature_validator stands in.",
        also=(
            "because function call `{name}` in the {n}. content block is missing a",
            "Function call is missing a thought_signature in functionCall parts.",
        ),
    ),
    Rule(
        "function_name_invalid",
        checks.tool_name_invalid,
        "Invalid function name. Must start with a letter or an underscore. Must be alphameric "
        "(a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum "
        "length of 64.",
        "The declared function name {name!r} does not fit.",
        "Rename the function.",
    ),
    Rule(
        "same_role_turns",
        checks.same_role_turns,
        "Please ensure that multiturn requests alternate between user and model.",
        "Two contents of one role stand side by side; only old models minded.",
        "Join their parts.",
        "low",
    ),
    Rule(
        "ends_on_model",
        checks.ends_on_model,
        "Please ensure that multiturn requests ends with a user role or a function response.",
        "The history ends with the model's own turn; only old models minded.",
        "End with a user turn.",
        "low",
    ),
)

GEMINI = Dialect(checks.read_gemini, RULES, "gemini")
