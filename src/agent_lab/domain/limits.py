"""One table of limits. Every wait and every bound of a session is named here."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one session. Times are seconds on the session's clock, which stops while paused."""

    model_timeout: float = 120.0
    """Longest model call, from the request to the provider's last event."""
    model_first_byte: float = 60.0
    """Longest wait for a provider's first event, connecting included."""
    model_stall: float = 45.0
    """Longest silence between two events of a provider's stream; comments are silence."""
    model_retries: int = 2
    """Times a failed model call is sent again when the fault may pass."""
    retry_delay: float = 0.5
    """Wait before the first retry; doubled for each further one, and up to half of it left off."""
    retry_after: float = 60.0
    """Most of a wait that a provider asks for."""
    tool_timeout: float = 30.0
    """Longest tool call, unless the tool has a `timeout` of its own."""
    permission: float = 3600.0
    """Longest wait of a tool call for somebody's permission; then it is denied."""
    parallel_tools: int = 8
    """Tool calls that run at the same time."""
    grace: float = 2.0
    """What a cancelled tool or model gets to clean up before it is abandoned."""
    steps: int = 50
    """Model calls in one turn."""
    calls: int = 128
    """Tool calls in one answer; also the size of `events`."""
    waiting: int = 100
    """User messages accepted and not yet delivered."""
    output: int = 256
    """Payloads that wait in `output` before the workers feel backpressure."""
    tool_output: int = 1 << 20
    """Characters kept of one tool's result."""
    window: int | None = None
    """Messages of the history the provider sees; None for all. A round is never split."""
    journal_entries: int = 10_000
    """Entries kept in memory."""
    journal_bytes: int = 8 << 20
    """Rough size of the kept entries in bytes."""
    crashes: int = 5
    """Worker crashes within a minute that close the session."""
    text_interval: float = 0.02
    """Shortest time between two `text_delta` entries."""

    def __post_init__(self) -> None:
        """Refuse what no session could work with; raises ValueError naming the limit."""
        for name in self.__struct_fields__:
            value, least = getattr(self, name), _LEAST.get(name, 1)
            if value is not None and value < least:
                raise ValueError(f"Limits.{name} is {value!r}; it must be {least} at least")


class Again(msgspec.Struct, frozen=True):
    """A failed model call may be made again.

    `asked` is the wait in seconds that the provider asked for. `spread`, from 0 to 1, is how much
    of half a delay is left off, so that those who failed together do not come back together.
    """

    asked: float | None = None
    spread: float = 0.0

    def delay(self, attempt: int, limits: Limits) -> float:
        """Seconds to wait before attempt number `attempt`, from 1."""
        if self.asked is not None:
            return min(self.asked, limits.retry_after)
        return limits.retry_delay * 2 ** (attempt - 1) * (1 - self.spread / 2)


_LEAST = {
    "model_timeout": 0,
    "model_first_byte": 0,
    "model_stall": 0,
    "model_retries": 0,
    "retry_delay": 0,
    "retry_after": 0,
    "tool_timeout": 0,
    "permission": 0,
    "grace": 0,
    "text_interval": 0,
    "tool_output": 0,
}


class LineLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the line before each agent. Times are seconds on the loop's clock."""

    capacity: int = 1
    """Chats of one agent that run at once."""
    waiting: int = 3
    """Chats that wait for it."""
    wait: float = 120.0
    """Longest wait of a chat."""
    run: float = 600.0
    """Longest run, on the session's clock, which stops while paused."""
    tasks: int = 3
    """Tasks of one agent that run at once."""
    backlog: int = 50
    """Tasks that wait for it."""
    backlog_wait: float = 86_400.0
    """Longest wait of a task, over restarts too."""
    lease: float = 30.0
    """How long a slot is held without being renewed; it is renewed three times as often."""
    fan_out: int = 10
    """Tasks of one list that are under way at once."""
    depth: int = 5
    """Agents that a request may have come through when it is made."""
    keys: float = 86_400.0
    """How long an idempotency key is honoured."""


class McpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of what MCP servers may do here. Times are seconds on the loop's clock."""

    retry: float = 0.5
    """Wait before a server that went is started again; doubled each time it fails."""
    retry_most: float = 30.0
    """Longest such wait."""
    steady: float = 30.0
    """A server that held out so long begins again with the shortest wait."""
    schema: int = 64 << 10
    """Bytes of one tool's schema; a tool with a larger one is left out."""
    description: int = 8 << 10
    """Characters of one tool's description; what is longer is cut."""
    tools: int = 256
    """Tools taken of one server."""
    line: int = 16 << 20
    """Bytes of one message of a server."""
    stderr: int = 4 << 10
    """Bytes kept of what a server says last on standard error."""


class ControlLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the commands on agents. Times are seconds on the loop's clock."""

    wait: float = 300.0
    """Longest wait for an agent, unless its caller says another."""
    longest_wait: float = 86_400.0
    """Most that a caller may say."""
    created: int = 2_000
    """Agents that were created and not closed."""
    at_once: int = 2_000
    """Agents in one wait."""
    listed: int = 100
    """Agents in one list, unless its caller says another."""
    activity: int = 50
    """Items of an agent's activity, unless its caller says another."""
