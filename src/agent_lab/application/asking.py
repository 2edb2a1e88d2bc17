"""Creating an agent and giving it a message: on record, and stored, before anybody hears of it."""

from agent_lab.application.agents import Agents
from agent_lab.application.control_answers import CreatedAgent, Prompted
from agent_lab.application.control_views import line_of, receipt_of
from agent_lab.application.cursors import cursor
from agent_lab.application.resting import status_of
from agent_lab.application.served import ServedSession
from agent_lab.domain.errors import MessageRejected, SessionError
from agent_lab.domain.inbox import REFUSALS
from agent_lab.domain.messages import ChatMessage
from agent_lab.domain.records import Created


class TooManyAgents(SessionError):
    """As many agents as may be were created and not closed."""


class TakesTheLine(SessionError):
    """An agent's one conversation takes this through its line only."""


async def create(
    agents: Agents, source: str | None, created: Created, message: ChatMessage | None, *, most: int
) -> CreatedAgent:
    """A new agent with its first message, if it gets one; or none at all."""
    agent = agents.get(source)
    living = sum(one.is_kept and one.created is not None for one in agents.sessions())
    if living >= most:
        raise TooManyAgents(
            f"{living} agents were created and not closed, which is as many as may be; "
            "close_agent those that are done"
        )
    if message is not None and not (message.content or "").strip():
        text = REFUSALS["empty"].format(id=message.message_id, depth=0)
        raise MessageRejected("empty", message.message_id or "", text)
    served = await agents.create(agent, created)
    try:
        prompted = None if message is None else await send(agents, served, message)
    except BaseException:  # nobody will know of it
        agents.replace(served.session_id)
        raise
    return CreatedAgent(
        agent_id=served.session_id,
        name=created.name,
        agent=agent.name,
        status=status_of(served, None),
        cursor=prompted.cursor if prompted else cursor(served, served.last_seq),
        prompted=prompted,
    )


async def send(agents: Agents, served: ServedSession, message: ChatMessage) -> Prompted:
    """Give the session a message; its receipt is stored when this returns."""
    sent = agents.send(served, message)
    served = sent.session
    await served.stored(sent.receipt)
    receipt = receipt_of(served, sent.message_id, sent.receipt)
    return Prompted(
        agent_id=served.session_id,
        accepted=receipt.state != "rejected",
        message_id=sent.message_id,
        receipt=receipt,
        is_repeat=sent.is_repeat,
        cursor=cursor(served, sent.receipt),
    )


def bar_line(agents: Agents, served: ServedSession, message: ChatMessage) -> None:
    """What an agent's conversation is asked goes through its line, unless it steers."""
    name = served.agent.name
    if line_of(agents, served) is None or agents.knows(name, message.message_id):
        return
    if not (served.runtime.session.conversation.in_turn and message.mode == "steer"):
        raise TakesTheLine(
            f"{served.session_id!r} is the one conversation of {name!r}, which takes a message "
            "through its line: use chat_with_agent, or steer the turn that runs"
        )
