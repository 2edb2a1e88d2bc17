"""What a hand may do to a line: look, clear, release, terminate, reset, resize. All on record."""

from contextlib import suppress
from typing import Literal, Protocol

import msgspec

from agent_lab.application.asked import Named
from agent_lab.application.execution_queue import ExecutionQueue
from agent_lab.application.executions import Executions
from agent_lab.application.ports import SlotKeeper
from agent_lab.application.timeline import Timeline
from agent_lab.domain.admission import Room
from agent_lab.domain.errors import AlreadyTerminal
from agent_lab.domain.execution import Asker, Execution, Kind, Outcome

TerminateStatus = Literal[
    "terminated",
    "already_finished",
    "already_terminal",
    "cancelled_while_queued",
    "cancelled_before_start",
]
KINDS: tuple[Kind, ...] = ("chat", "task")


class LineState(msgspec.Struct, frozen=True):
    """One line of an agent: its size as asked for, its slots that are held, who runs, and who
    waits, in order."""

    kind: Kind
    room: Room
    held: int
    running: list[Execution]
    waiting: list[Execution]


class Runs(Protocol):
    """What can be stopped."""

    def stop(self, execution_id: str, outcome: Outcome) -> Literal["stopped", "before_start"]:
        """Give it this end and stop its turn; raises AlreadyTerminal."""
        ...


class Conversations(Protocol):
    """What can be begun anew."""

    def renew(self, agent_name: str) -> int:
        """Begin the agent's conversation anew; its generation."""
        ...


class Reins(Protocol):
    """What a hand needs of the line."""

    book: Executions
    queue: ExecutionQueue
    keeper: SlotKeeper
    timeline: Timeline

    @property
    def agents(self) -> Named:
        """Whom it is before."""
        ...

    @property
    def runs(self) -> Runs:
        """Who holds a slot."""
        ...

    @property
    def chats(self) -> Conversations:
        """The conversations."""
        ...

    def room(self, kind: Kind) -> Room:
        """What a line begins with."""
        ...

    def end(self, execution_id: str, outcome: Outcome) -> Execution:
        """End one that never ran."""
        ...

    async def withdraw(self, execution: Execution, why: str, code: str) -> bool:
        """Take it out of the line."""
        ...


class LineControl:
    """The hand on all lines. Control never waits behind work."""

    def __init__(self, line: Reins) -> None:
        self._line = line
        self._book = line.book

    async def state(self, agent_name: str, kind: Kind) -> LineState:
        """The line as it is; raises UnknownAgent."""
        agent = self._line.agents.get(agent_name)
        held, waiting, room = await self._line.keeper.look(f"{kind}:{agent.name}")
        return LineState(
            kind,
            room or self._line.room(kind),
            len(held),
            self._of([lease.ticket for lease in held]),
            self._of(waiting),
        )

    async def clear(self, agent_name: str, by: Asker) -> list[Execution]:
        """Send away all who wait for this agent; each is told. Who runs is left alone."""
        agent = self._line.agents.get(agent_name)
        gone: list[Execution] = []
        for kind in KINDS:
            for execution in self._of(await self._line.queue.clear(f"{kind}:{agent.name}")):
                said = f"the queue was cleared ({_who(by)})"
                outcome = Outcome(status="cancelled", error=said, error_code="cleared")
                with suppress(AlreadyTerminal):
                    gone.append(self._line.end(execution.id, outcome))
        text = f"cleared {len(gone)} who waited"
        self._line.timeline.deed(agent.name, "clear", text, by, cleared_count=len(gone))
        return gone

    async def release(self, agent_name: str, by: Asker) -> list[Execution]:
        """Take the slot of whoever holds the conversation, and stop its turn; who that was.

        Work that ignores its cancellation may go on for a while: its output goes nowhere.
        """
        agent = self._line.agents.get(agent_name)
        running = (await self.state(agent.name, "chat")).running
        said = f"its slot was released by force ({_who(by)})"
        outcome = Outcome(status="cancelled", error=said, error_code="released")
        ended = [execution for execution in running if self._stop(execution, outcome)]
        await self._line.queue.seize(f"chat:{agent.name}")
        text = f"released the slot of {len(running)}"
        ids = [execution.id for execution in running]
        self._line.timeline.deed(agent.name, "release", text, by, execution_ids=ids)
        return ended

    async def terminate(self, agent_name: str, execution_id: str, by: Asker) -> TerminateStatus:
        """End this execution and no other, by its id or its ticket. Raises UnknownExecution.

        `already_finished` if it had ended by itself, `already_terminal` if somebody ended it
        before, or if its end won the race with this one.
        """
        agent = self._line.agents.get(agent_name)
        execution = self._book.by_ticket(agent.name, execution_id)
        execution = execution or await self._book.find(agent.name, execution_id)
        status = await self._terminate(execution, f"terminated ({_who(by)})")
        self._line.timeline.deed(
            agent.name, "terminate", status.replace("_", " "), by, execution_id=execution.id
        )
        return status

    async def reset(self, agent_name: str, by: Asker) -> tuple[int, list[Execution]]:
        """Begin the conversation anew: its generation, and whose turn that cut off.

        Who waits stays in line and runs in the fresh session.
        """
        agent = self._line.agents.get(agent_name)
        running = (await self.state(agent.name, "chat")).running
        said = f"the conversation was reset ({_who(by)})"
        outcome = Outcome(status="cancelled", error=said, error_code="reset")
        begun = [execution for execution in running if execution.status == "running"]
        cut = [execution for execution in begun if self._stop(execution, outcome)]
        generation = self._line.chats.renew(agent.name)
        text = f"began conversation {generation}"
        self._line.timeline.deed(agent.name, "reset", text, by, generation=generation)
        return generation, cut

    async def resize(self, agent_name: str, kind: Kind, capacity: int, by: Asker) -> LineState:
        """Another capacity from now on; who runs is left alone, even beyond it."""
        agent = self._line.agents.get(agent_name)
        room = (await self.state(agent.name, kind)).room
        await self._line.keeper.resize(
            f"{kind}:{agent.name}", msgspec.structs.replace(room, capacity=capacity)
        )
        text = f"{kind} capacity from {room.capacity} to {capacity}"
        self._line.timeline.deed(agent.name, "resize", text, by, line=kind, capacity=capacity)
        return await self.state(agent.name, kind)

    async def _terminate(self, execution: Execution, said: str) -> TerminateStatus:
        if execution.is_terminal:
            return "already_terminal" if execution.status == "cancelled" else "already_finished"
        if execution.status == "queued" and await self._line.withdraw(
            execution, said, "terminated"
        ):
            return "cancelled_while_queued"
        outcome = Outcome(status="cancelled", error=said, error_code="terminated")
        try:
            stopped = self._line.runs.stop(execution.id, outcome)
        except AlreadyTerminal:
            return "already_terminal"
        return "terminated" if stopped == "stopped" else "cancelled_before_start"

    def _stop(self, execution: Execution, outcome: Outcome) -> bool:
        try:
            self._line.runs.stop(execution.id, outcome)
        except AlreadyTerminal:
            return False
        return True

    def _of(self, tickets: list[str]) -> list[Execution]:
        by_ticket = {execution.ticket: execution for execution in self._book.live}
        return [by_ticket[ticket] for ticket in tickets if ticket in by_ticket]


def _who(by: Asker) -> str:
    return by.source_user or by.source_agent or by.mcp_key_name or by.triggered_by
