"""What a provider's refusal means, by status, body and headers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_lab.domain.errors import ModelError
from agent_lab.infrastructure.models.refusals import refusal, stream_error

DATE = "Mon, 30 Nov 2026 10:00:00 GMT"


def error(message: str = "It says so", **fields: Any) -> str:
    return json.dumps({"error": {"message": message, **fields}})


@pytest.mark.fault("P01")
@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "86400"}, 86400.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Mon, 30 Nov 2026 10:00:07 GMT", "date": DATE}, 7.0),
        ({"retry-after": "Mon, 30 Nov 2026 09:00:00 GMT", "date": DATE}, 0.0),
        ({"retry-after": "Mon, 30 Nov 2099 10:00:00 GMT", "date": "soon"}, "later"),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_a_provider_asks_for(headers: dict[str, str], wait: Any) -> None:
    fault = refusal(429, headers, error())
    assert (fault.code, fault.may_pass) == ("rate_limited", True)
    if wait == "later":
        assert fault.retry_after is not None and fault.retry_after > 86400
    else:
        assert fault.retry_after == wait


def test_geminis_own_way_to_ask_for_a_wait() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s"}]
    assert refusal(429, {}, error(details=details)).retry_after == 17.5


@pytest.mark.fault("P04")
@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, error(), "provider_bad_request"),
        (401, error(), "provider_auth"),
        (403, error(), "provider_auth"),
        (404, error(), "provider_not_found"),
        (418, error(), "provider_bad_request"),
        (422, error(), "provider_bad_request"),
        (413, error(), "context_too_long"),
        (400, error(code="context_length_exceeded"), "context_too_long"),
        (400, error("prompt is too long: 210000 tokens > 200000 maximum"), "context_too_long"),
        (500, error("the request exceeds the available context size"), "context_too_long"),
        (402, error(), "provider_quota"),
        (429, error(code="insufficient_quota"), "provider_quota"),
        (400, error("Your credit balance is too low"), "provider_quota"),
        (301, "", "provider_redirect"),
        (307, "", "provider_redirect"),
    ],
)
def test_what_does_not_pass_is_named(status: int, body: str, code: str) -> None:
    fault = refusal(status, {}, body)
    assert (fault.code, fault.may_pass) == (code, False)
    assert str(status) in str(fault) and fault.hint


@pytest.mark.fault("P03")
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (500, "provider_error"),
        (502, "provider_error"),
        (503, "provider_overloaded"),
        (529, "provider_overloaded"),
        (599, "provider_error"),
    ],
)
def test_what_may_pass_is_tried_again(status: int, code: str) -> None:
    fault = refusal(status, {}, error())
    assert (fault.code, fault.may_pass) == (code, True)


@pytest.mark.scenario("S70")
@pytest.mark.parametrize("body", ["", "  \n", "{}", '{"error": null}', '{"error": {}}', "[]", "0"])
def test_a_refusal_without_text_says_its_status(body: str) -> None:
    assert "the provider answered 500" in str(refusal(500, {}, body))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (error("Bad key", type="auth", code="bad"), "Bad key (auth/bad)"),
        ('[{"error": {"code": 400, "message": "No", "status": "INVALID"}}]', "No (400/INVALID)"),
        ('{"detail": "Not here"}', "Not here"),
        ('{"error": "plain"}', "plain"),
        ("<html><h1>Bad\n gateway</h1>", "<html><h1>Bad gateway</h1>"),
        ("x" * 500, "x" * 200 + "…"),
        ("[" * 100_000, "[" * 200 + "…"),
    ],
)
def test_an_error_body_is_said_in_its_own_words(body: str, said: str) -> None:
    assert str(refusal(502, {}, body)) == f"the provider answered 502: {said}"


def test_a_refused_history_is_explained() -> None:
    said = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1"
    )
    fault = refusal(400, {}, error(said))
    assert "tool" in fault.hint and fault.hint != refusal(400, {}, error()).hint


@pytest.mark.fault("P24")
@pytest.mark.parametrize(
    ("said", "code", "may_pass"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "provider_overloaded", True),
        ({"type": "rate_limit_error", "message": "Slow"}, "rate_limited", True),
        ({"type": "invalid_request_error", "message": "No"}, "provider_bad_request", False),
        ({"code": 503, "status": "UNAVAILABLE", "message": "x"}, "provider_overloaded", True),
        ({"code": "server_error", "message": "x"}, "provider_error", True),
        ({"message": "x", "code": None}, "provider_error", True),
        ("only text", "provider_error", True),
        ({}, "provider_error", True),
    ],
)
def test_an_error_inside_a_stream(said: Any, code: str, may_pass: bool) -> None:
    fault = stream_error(said)
    assert isinstance(fault, ModelError)
    assert (fault.code, fault.may_pass) == (code, may_pass)
    assert str(fault).startswith("the provider broke off with an error")
