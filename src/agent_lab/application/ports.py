"""What the application needs from outside; each port has two implementations at least."""

from asyncio import AbstractEventLoop, Future
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from agent_lab.domain.activity import Activity, ActivityQuery
from agent_lab.domain.admission import Answer, Lease, Room, Ticket
from agent_lab.domain.errors import McpError, StorageError
from agent_lab.domain.execution import Broken, Execution, ExecutionQuery
from agent_lab.domain.limits import McpLimits
from agent_lab.domain.mcp_server import McpServer, Offer
from agent_lab.domain.messages import ModelEvent, ModelRequest, Reply
from agent_lab.domain.records import Change, Record, RecordKind, Row, Taken


@runtime_checkable
class Model(Protocol):
    """Something that answers a history.

    `stream` gives the answer as it comes, an iterator of `TextDelta` and `CallDelta` pieces, of
    `Thinking` (each when it is whole) and one `Finish`, or of a whole `Reply`; a model that does
    not stream gives the `Reply` from a coroutine instead (`async def stream(self, request): return
    Reply(...)`). A stream that ends without `Finish` or `Reply` counts as cut: its text is void
    and none of its calls run. Raise `ModelError` for a fault of the provider. The task that
    iterates is cancelled when the turn is; clean up in `finally`.
    """

    @property
    def name(self) -> str:
        """The model's name, as the provider knows it."""
        ...

    @property
    def dialect(self) -> str:
        """The wire format it speaks, such as `openai_chat`."""
        ...

    def stream(
        self, request: ModelRequest
    ) -> AsyncIterator[ModelEvent] | Coroutine[Any, Any, Reply]:
        """Ask it; nothing happens before the first event is awaited."""
        ...


class Outside(Protocol):
    """What would make two runs differ: wall time and ids. Both come in from outside."""

    def wall_time(self) -> float:
        """Seconds since 1970, UTC; asked once a session, the loop's clock does the rest."""
        ...

    def clock(self, loop: AbstractEventLoop) -> Callable[[], float]:
        """`loop.time`, or something cheaper that gives the same."""
        ...

    def new_id(self, prefix: str) -> str:
        """A new id that begins with `prefix`, unique in this process and hard to guess."""
        ...


class LineListener(Protocol):
    """Whom a keeper tells what became of tickets that this process asked for."""

    def granted(self, lease: Lease) -> None:
        """A waiting ticket has its slot now."""
        ...

    def moved(self, line: str, waiting: Sequence[str]) -> None:
        """Who waits in this line has changed; the ids of all tickets that do, in order."""
        ...


class SlotKeeper(Protocol):
    """Who may run an agent now and who waits for it: lines of `domain.admission`, kept somewhere.

    Each call is one atomic step, over all processes that share the keeper. What a step frees goes
    to the next ticket in the same step. A listener that raises costs the lease it was told of, so
    that no slot is lost, and is counted in `faults`.
    """

    faults: int

    def listen(self, listener: LineListener) -> None:
        """Tell this one from now on. Before the first ask, once."""
        ...

    async def ask(self, ticket: Ticket, room: Room, *, may_wait: bool = True) -> Answer:
        """A lease, a place in line or a refusal. `room` is what a line begins with."""
        ...

    async def release(self, lease: Lease) -> bool:
        """Give a slot back; False if the lease is stale, which frees nobody."""
        ...

    async def renew(self, lease: Lease) -> bool:
        """Keep it from expiring; False if it is stale."""
        ...

    async def expire(self) -> list[Lease]:
        """Take the slots of leases that nobody renewed; which they were."""
        ...

    async def leave(self, line: str, ticket: str) -> bool:
        """Step out of the line; False if the ticket does not wait there."""
        ...

    async def clear(self, line: str) -> list[str]:
        """Send away who waits; their tickets."""
        ...

    async def seize(self, line: str) -> list[Lease]:
        """Take the slots of all who run; their leases, stale from now on."""
        ...

    async def resize(self, line: str, room: Room) -> None:
        """Another size from now on; who runs and waits is left alone."""
        ...

    async def look(self, line: str) -> tuple[list[Lease], list[str], Room | None]:
        """Who runs, whose tickets wait in order, and the line's size; None before the first ask."""
        ...


class ExecutionStore(Protocol):
    """Records of executions and activity, written behind: `put_*` never waits and never raises.

    Puts are kept in their order. What matters is awaited with `committed`.
    """

    def put_execution(self, execution: Execution) -> None:
        """Write the record, in place of an older one of its id."""
        ...

    def put_activity(self, activity: Activity) -> None:
        """Add a line to the timeline."""
        ...

    async def committed(self) -> None:
        """Return when all that was put is durable; raises StorageError if it cannot be."""
        ...

    async def execution(self, execution_id: str) -> Execution | None:
        """The record with this id; raises StorageError."""
        ...

    async def executions(self, query: ExecutionQuery) -> list[Execution]:
        """Records, newest first; raises StorageError."""
        ...

    async def by_key(self, agent_name: str, kind: str, key: str) -> Execution | None:
        """The newest record of this agent and kind that carries this idempotency key."""
        ...

    async def unfinished(self) -> list[Execution | Broken]:
        """Every record that has no end, oldest first, as a process before this one left it."""
        ...

    async def activity(self, query: ActivityQuery) -> list[Activity]:
        """Lines of the timeline, newest first; raises StorageError."""
        ...


class Store(Protocol):
    """What outlives the process. Reads see what was committed; nothing here blocks the loop.

    While `fault` is set, changes wait in the order they were written and are tried again. Reads
    raise StorageError, for a row or a single record whose checksum is wrong as well.
    """

    @property
    def fault(self) -> StorageError | None:
        """Why nothing can be stored now; None while all is well."""
        ...

    def write(self, changes: Sequence[Change]) -> Future[None]:
        """Have these stored together, all or none, behind whatever was written before.

        The future is done once they are committed, for good against a power cut; who need not know
        may forget it. Raises StorageError when the store is closed or a body is too large.
        """
        ...

    async def sure(self, written: Future[None]) -> None:
        """Wait until this is committed; raises the fault that stands in the way."""
        ...

    async def record(self, kind: RecordKind, record_id: str) -> Record | None:
        """The record of this id."""
        ...

    async def records(
        self,
        kind: RecordKind,
        *,
        agent: str | None = None,
        states: Collection[str] = (),
        before: tuple[float, str] | None = None,
        limit: int = 100,
    ) -> list[Record]:
        """Records newest first, and by id among those of one time: of this agent, in one of these
        states, behind `before`, which is a record's `at` and `id`.

        One whose checksum is wrong has an empty body: it spoils no list.
        """
        ...

    async def rows(
        self, epoch: str, after: int = 0, limit: int | None = None, *, up_to: int | None = None
    ) -> list[Row]:
        """Entries of this journal behind `after`, oldest first."""
        ...

    async def taken(self, agent: str, message_id: str) -> Taken | None:
        """Where this message id of the agent was accepted."""
        ...

    async def close(self) -> None:
        """Store what waits, unless a fault stands in the way, and let go; may be called twice."""
        ...


class Connection(Protocol):
    """A live connection to one server. What goes wrong with a call is raised as McpError."""

    async def tools(self, most: int) -> Sequence[Offer]:
        """What it offers now, at most so many."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """What the tool gives, as text. Cancelled, the server is told so."""
        ...

    async def gone(self) -> McpError:
        """Wait until the connection ends by itself; why it did."""
        ...

    @property
    def junk(self) -> int:
        """How many lines came that are no messages."""
        ...


class Connect(Protocol):
    """Opens connections; `changed` is called when the server's tools are other ones now."""

    def __call__(
        self, server: McpServer, limits: McpLimits, changed: Callable[[], object]
    ) -> AbstractAsyncContextManager[Connection]:
        """A connection for as long as the `async with` lasts; raises McpError."""
        ...
