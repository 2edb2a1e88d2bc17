"""What a provider's refusal means: one table from status and error body to a named code.

| status | code | may pass |
|---|---|---|
| 3xx | `provider_redirect`: not followed, the key is for one host | no |
| 400, 422 | `provider_bad_request`, or `context_too_long` | no |
| 401, 403 | `provider_auth` | no |
| 402, 429 for want of credit | `provider_quota` | no |
| 404 | `provider_not_found` | no |
| 408, 409, 425 | `provider_error` | yes |
| 413 | `context_too_long` | no |
| 429 | `rate_limited`, waits by Retry-After | yes |
| 503, 529 | `provider_overloaded`, waits by Retry-After | yes |
| other 5xx | `provider_error` | yes |
"""

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, cast

import msgspec

from agent_lab.domain.errors import ModelError

EXCERPT = 200
"""Bytes shown of an answer that is not what it should be."""

_CODES: dict[int, tuple[str, str, bool]] = {
    400: ("provider_bad_request", "look at the model_request entry", False),
    401: ("provider_auth", "check the API key", False),
    402: ("provider_quota", "the account has no credit left; see the provider's billing", False),
    403: ("provider_auth", "the API key may not do this", False),
    404: ("provider_not_found", "check the model's name and base_url", False),
    408: ("provider_error", "send the message again", True),
    409: ("provider_error", "send the message again", True),
    413: ("context_too_long", "set Limits.window, or begin a new session", False),
    422: ("provider_bad_request", "look at the model_request entry", False),
    425: ("provider_error", "send the message again", True),
    429: ("rate_limited", "wait, or ask the provider for a higher limit", True),
    503: ("provider_overloaded", "try again later", True),
    529: ("provider_overloaded", "try again later", True),
}
_SERVER_FAULT = ("provider_error", "the provider has trouble; try again later", True)
_STATUS_OF_TYPE = {
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 529,
    "overloaded": 529,
    "api_error": 500,
    "server_error": 500,
    "internal_error": 500,
    "timeout_error": 503,
    "invalid_request_error": 400,
    "billing_error": 402,
    "insufficient_quota": 402,
    "resource_exhausted": 429,
    "unavailable": 503,
    "internal": 500,
    "deadline_exceeded": 503,
    "invalid_argument": 400,
    "permission_denied": 403,
    "unauthenticated": 401,
    "not_found": 404,
}
_TOO_LONG = re.compile(
    r"context_length_exceeded|context length|context window|prompt is too long|too many tokens"
    r"|exceeds? the (available )?context|input token count|request_too_large",
    re.IGNORECASE,
)
_RETRY_DELAY = re.compile(r'"retryDelay":\s*"(\d{1,9}(?:\.\d{1,9})?)s"')  # Gemini's RetryInfo
_NO_CREDIT = re.compile(r"insufficient_quota|credit balance|billing", re.IGNORECASE)


def refusal(status: int, headers: Mapping[str, str], body: str) -> ModelError:
    """The error of an answer that is not 200. `headers` has lower case names."""
    if 300 <= status < 400:
        return ModelError(
            f"the provider answered {status}, a redirection, which is not followed",
            code="provider_redirect",
            hint="set base_url to where the provider really is",
        )
    wait = _wait(headers)
    if wait is None and (asked := _RETRY_DELAY.search(body)):
        wait = float(asked[1])
    return _named(status, _said(body), wait, f"the provider answered {status}")


def stream_error(error: Any) -> ModelError:
    """The error object that came inside a stream that had begun well."""
    fields = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": str(error)}
    status = 500
    for key in ("type", "code", "status"):
        value = fields.get(key)
        if isinstance(value, int) and 400 <= value < 600:
            status = value
            break
        if known := _STATUS_OF_TYPE.get(str(value).lower()):
            status = known
            break
    return _named(status, _fields(fields), None, "the provider broke off with an error")


def _named(status: int, said: str, wait: float | None, what: str) -> ModelError:
    code, hint, may_pass = _CODES.get(status, _SERVER_FAULT)
    if 400 < status < 500 and status not in _CODES:
        code, hint, may_pass = _CODES[400]
    if status in (400, 413, 422, 500) and _TOO_LONG.search(said):
        code, hint, may_pass = _CODES[413]
    elif status in (400, 403, 429) and _NO_CREDIT.search(said):
        code, hint, may_pass = _CODES[402]
    elif code == "provider_bad_request":
        hint = _explained(said) or hint
    text = f"{what}: {said}" if said else what
    return ModelError(text, code=code, hint=hint, may_pass=may_pass, retry_after=wait)


def _explained(said: str) -> str:
    """What a refusal of the history means and what mends it; empty for any other."""
    from agent_lab.domain.dialects.explain import explain_error

    known = explain_error(said)
    return f"{known[0].explanation} {known[0].fix}" if known else ""


def _said(body: str) -> str:
    """The error's own words out of a body; the body's beginning if it is no known shape."""
    try:
        parsed = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return excerpt(body)
    if isinstance(parsed, list) and parsed:
        parsed = cast("list[Any]", parsed)[0]  # Gemini's errors of streams come in a list
    if isinstance(parsed, dict):
        fields = cast("dict[str, Any]", parsed)
        return _fields(fields.get("error", fields)) or excerpt(body)
    return excerpt(body)


def _fields(error: Any) -> str:
    if isinstance(error, str):
        return error.strip()
    if not isinstance(error, dict):
        return ""
    fields = cast("dict[str, Any]", error)
    words = [fields.get(key) for key in ("message", "detail") if fields.get(key)]
    kinds = [fields.get(key) for key in ("type", "code", "status") if fields.get(key)]
    text = str(words[0]).strip() if words else ""
    kind = "/".join(dict.fromkeys(str(kind) for kind in kinds))
    return f"{text} ({kind})" if text and kind else text or kind


def excerpt(body: str) -> str:
    """The beginning of a body on one line."""
    text = " ".join(body.split())
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…"


def _wait(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks to wait; None if it does not, or says it unreadably."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        said = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,15}(\.\d{1,9})?", said):
            return float(said) / unit
    try:
        until = parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (ValueError, OverflowError):
        return None
    try:  # by the provider's own clock, if it shows it
        now = parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, OverflowError):
        now = time.time()
    return max(until - now, 0.0)
