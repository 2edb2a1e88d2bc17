"""How long runs of a line take, so that whoever is refused learns when it may be different."""

from agent_lab.application.executions import Change, Ended, Executions
from agent_lab.domain.admission import Refused

FIRST_GUESS = 30.0
LONGEST = 120.0


class Pace:
    """A running mean of the seconds a run takes, by line."""

    def __init__(self, book: Executions) -> None:
        self._mean: dict[str, float] = {}
        book.listen(self._hear)

    def retry_after(self, line: str, refused: Refused) -> float:
        """Seconds until a place is likely to be free: one run, over those who run."""
        guess = self._mean.get(line, FIRST_GUESS) / max(refused.running, 1)
        return min(max(guess, 1.0), LONGEST)

    def _hear(self, change: Change) -> None:
        if not isinstance(change, Ended) or change.execution.started_at is None:
            return
        execution = change.execution
        line = f"{execution.kind}:{execution.agent_name}"
        took = (execution.finished_at or 0.0) - (execution.started_at or 0.0)
        self._mean[line] = 0.8 * self._mean.get(line, took) + 0.2 * took
