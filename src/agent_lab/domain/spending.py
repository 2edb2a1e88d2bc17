"""What is said of a model's numbers: the call's own, and what its turn and session came to."""

from agent_lab.domain.messages import Usage
from agent_lab.domain.payloads import ModelResponded
from agent_lab.domain.usage import Meter


def responded(
    meter: Meter, usage: Usage | None, where: tuple[int | None, int | None], reason: str
) -> ModelResponded:
    """The provider's last word, with its numbers added up if it gave any."""
    turn, step = where
    if usage is None:
        return ModelResponded(turn=turn, step=step, finish_reason=reason)
    meter.add(usage)
    return ModelResponded(
        turn=turn,
        step=step,
        finish_reason=reason,
        usage=usage,
        turn_spent=meter.turn,
        session_spent=meter.session,
    )
