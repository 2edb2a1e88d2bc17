"""What an HTTP request says of an execution: its strict body, who asks, and how long he waits."""

import re
from functools import lru_cache
from getpass import getuser
from hashlib import blake2b
from typing import TypeVar

import msgspec
from starlette.requests import Request

from agent_lab.application.asked import Asked
from agent_lab.domain.activity import ActivityQuery
from agent_lab.domain.execution import Asker, ExecutionQuery
from agent_lab.presentation.line_shapes import Body, ChatBody, TaskBody
from agent_lab.presentation.strict import Refused, read

B = TypeVar("B", bound=Body)
MOST = 500
"""Records in one answer."""
_FIELD = re.compile(r"(?:required field|unknown field) `(?P<field>[^`]*)`")
_ID = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,199}")
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")


@lru_cache(1)
def owner() -> str | None:
    """Whose server it is: whoever has the token and says no other name acts for this user."""
    try:
        return getuser()
    except (KeyError, OSError, ImportError):  # an account without a name
        return None


async def body_of(request: Request, shape: type[B], *, is_data: bool = False) -> B:
    """The request's body in this shape; raises Refused, naming the field at fault. See read."""
    try:
        text = (await request.body()).decode()
    except UnicodeDecodeError:
        raise Refused("bad_text", "the body is not UTF-8", "send JSON in UTF-8") from None
    try:
        return msgspec.convert(read(text, is_data=is_data), shape)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `")
        field = _FIELD.search(what)
        path = (path.rstrip("`") or "$") + (f".{field['field']}" if field else "")
        raise Refused(
            "bad_message",
            f"{what[:200]} at {path[:200]}",
            "see /api/openapi.json for the fields of each route",
        ) from None


def asker_of(request: Request) -> Asker:
    """Who asks and through what, as its headers say; raises Refused for one that is no plain id."""
    agent = _header(request, "X-Source-Agent")
    key_id, key_name = _header(request, "X-MCP-Key-ID"), _header(request, "X-MCP-Key-Name")
    via = _header(request, "X-Via-MCP")
    user = _header(request, "X-Source-User")
    is_mcp = (via or "").lower() not in ("", "0", "false") or key_id is not None
    return Asker(
        source="agent" if agent else "mcp" if is_mcp else "user",
        triggered_by=f"agent:{agent}" if agent else "mcp" if is_mcp else "api",
        source_agent=agent,
        source_user=user if user or agent or is_mcp else owner(),
        mcp_key_id=key_id,
        mcp_key_name=key_name,
    )


def asked_of(request: Request, body: ChatBody | TaskBody) -> Asked:
    """What is asked; a task that is waited for never waits in line."""
    key = _header(request, "Idempotency-Key")
    said = msgspec.json.encode(body)
    is_detached = body.async_mode or patience_of(request) is not None
    may_wait = body.wait if isinstance(body, ChatBody) else is_detached
    return Asked(
        message=body.message,
        by=asker_of(request),
        priority=body.priority,
        model=body.model,
        may_wait=may_wait,
        detached=is_detached,
        run_limit=body.timeout_seconds,
        key=key,
        digest=blake2b(said, digest_size=16).hexdigest(),
    )


def patience_of(request: Request) -> float | None:
    """Seconds that `Prefer` gives before the answer is 202; None when it says nothing of it."""
    for preference in ",".join(request.headers.getlist("Prefer")).split(","):
        name, _, value = preference.partition(";")[0].strip().partition("=")
        value = value.strip(' "')
        if name.strip().lower() == "respond-async":
            return 0.0
        if name.strip().lower() == "wait" and _NUMBER.fullmatch(value):
            return float(value)
    return None


def records_of(request: Request, agent_name: str) -> ExecutionQuery:
    """The filters of a list of executions."""
    return _query(request, ExecutionQuery, agent_name)


def lines_of(request: Request, agent_name: str | None) -> ActivityQuery:
    """The filters of a timeline."""
    return _query(request, ActivityQuery, agent_name)


Q = TypeVar("Q", ExecutionQuery, ActivityQuery)
_FILTERS = {ExecutionQuery: ("status", "source", "kind"), ActivityQuery: ()}


def _query(request: Request, shape: type[Q], agent_name: str | None) -> Q:
    said: dict[str, object] = {"agent_name": agent_name}
    for name in (*_FILTERS[shape], "before", "limit"):
        values = request.query_params.getlist(name)
        if len(values) > 1:
            raise Refused("bad_query", f"`{name}` is there twice", "say it once")
        if values:
            said[name] = int(values[0]) if name == "limit" and _is_whole(values[0]) else values[0]
    limit = said.get("limit", 100)
    if not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise Refused("bad_query", f"`limit` must be a whole number from 1 to {MOST}", "mend it")
    try:
        return msgspec.convert(said, shape)
    except msgspec.ValidationError as error:
        raise Refused("bad_query", str(error)[:200], "see /api/openapi.json") from None


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 7


def _header(request: Request, name: str) -> str | None:
    """One header that ends up in records and logs: printable and short (SEC-29)."""
    values = request.headers.getlist(name)
    if not values:
        return None
    if len(values) > 1 or not _ID.fullmatch(values[0]):
        raise Refused("bad_header", f"`{name}` must be 1 to 200 printable characters", "mend it")
    return values[0]
