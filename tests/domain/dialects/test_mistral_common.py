"""The verdicts on Mistral are those of Mistral's own validators."""

import copy
from typing import Any

import pytest
from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import (
    MistralRequestValidator,
    MistralRequestValidatorV3,
    MistralRequestValidatorV11,
    MistralRequestValidatorV13,
    ValidationMode,
)

from agent_lab.domain.dialects.check import check_history
from tests.domain.dialects.shared_cases import cases, profile_of

VALIDATORS: dict[str, Any] = {
    "v1": MistralRequestValidator,
    "v2": MistralRequestValidator,
    "v3": MistralRequestValidatorV3,
    "v7": MistralRequestValidatorV3,
    "v11": MistralRequestValidatorV11,
    "v13": MistralRequestValidatorV13,
}
# What is said of another release than the installed one cannot be asked of it.
ASKED = [
    case
    for case in cases()
    if case["provider"] == "mistral"
    and profile_of(case).get("tokenizer") in VALIDATORS
    and not profile_of(case).get("mistral_common", "").startswith("<=")
]


def accepts(case: dict[str, Any]) -> bool:
    validator = VALIDATORS[profile_of(case)["tokenizer"]](ValidationMode.serving)
    given = copy.deepcopy({"messages": case["messages"], "tools": case.get("tools")})
    try:
        request = ChatCompletionRequest.model_validate({"model": "any", **given})
        validator.validate_request(request)
    except (MistralCommonException, ValueError):
        return False
    return True


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in ASKED])
def test_mistral_says_what_we_say(case: dict[str, Any]) -> None:
    found = check_history(case["messages"], "mistral", case.get("tools"), **profile_of(case))

    assert accepts(case) == (not any(one.severity == "error" for one in found))
