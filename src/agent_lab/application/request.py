"""What a run is asked with. pydantic, because it comes from outside; imported on first use."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agent_lab.domain.errors import SessionMismatch
from agent_lab.domain.messages import ChatMessage


class DebugRunRequest(BaseModel):
    """One user message for a session.

    `message_id` makes a resend harmless; without it the session gives one. `session_id`, if
    given, must be the session's own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    content: str = Field(min_length=1, max_length=1_000_000)
    message_id: str | None = Field(default=None, min_length=1, max_length=200)
    session_id: str | None = Field(default=None, min_length=1, max_length=200)
    mode: Literal["steer", "follow_up", "interrupt", "reject"] = "steer"

    def message_for(self, session_id: str) -> ChatMessage:
        """The message, for the session of this id; raises SessionMismatch for another's."""
        if self.session_id not in (None, session_id):
            raise SessionMismatch(
                f"the request is for session {self.session_id!r}, this is {session_id!r}; leave "
                "session_id out, or give it to its own session"
            )
        return ChatMessage("user", self.content, mode=self.mode, message_id=self.message_id)
