"""How schedules ask an agent: through its line, as detached work; a record of what did not run."""

from collections.abc import Awaitable, Callable

import msgspec

from agent_lab.application.asked import Asked, Named, Submitted
from agent_lab.application.chat_sessions import ChatSessions
from agent_lab.application.clock import SessionClock
from agent_lab.application.executions import Executions
from agent_lab.application.schedules import Fire
from agent_lab.domain.errors import UnknownExecution
from agent_lab.domain.execution import Execution, Kind, Outcome


class LineFires:
    """See FireLine."""

    def __init__(
        self,
        agents: Named,
        chats: ChatSessions,
        book: Executions,
        clock: SessionClock,
        submit: Callable[[str, Kind, Asked], Awaitable[Submitted]],
        new_id: Callable[[str], str],
        changed: Callable[[str], object],
    ) -> None:
        self.clock = clock
        self._agents = agents
        self._chats = chats
        self._book = book
        self._submit = submit
        self._new_id = new_id
        self._changed = changed

    def wall(self) -> float:
        """Wall seconds."""
        return self._book.now()

    def check(self, agent_name: str, model: str | None) -> str:
        """The agent's name; raises UnknownAgent, and NotAdmitted for a model it cannot have."""
        agent = self._agents.get(agent_name)
        self._chats.check(agent, model)
        return agent.name

    async def submit(self, fire: Fire) -> Execution:
        """The accepted execution; raises NotAdmitted, UnknownAgent, StorageError."""
        schedule = fire.schedule
        asked = Asked(
            message=schedule.message,
            by=fire.by,
            model=schedule.model,
            detached=True,
            run_limit=schedule.run_limit,
            key=fire.key,
        )
        return (await self._submit(schedule.agent_name, schedule.kind, asked)).execution

    def skip(self, fire: Fire, outcome: Outcome) -> Execution:
        """A record of what did not run."""
        schedule, book = fire.schedule, self._book
        execution = Execution(
            id=self._new_id("exec"),
            ticket=self._new_id("ticket"),
            agent_name=schedule.agent_name,
            kind=schedule.kind,
            message=schedule.message,
            queued_at=book.now(),
            **msgspec.structs.asdict(fire.by),
            priority="schedule",
            model=schedule.model,
            detached=True,
        )
        book.add(execution)
        ended = book.end(execution.id, outcome)
        book.forget(execution.id)
        return ended

    def changed(self, agent_name: str) -> None:
        """Tell who looks on that there is news of this agent."""
        self._changed(agent_name)

    async def execution(self, agent_name: str, execution_id: str) -> Execution | None:
        """The record, if it is kept."""
        try:
            return await self._book.find(agent_name, execution_id)
        except UnknownExecution:
            return None
