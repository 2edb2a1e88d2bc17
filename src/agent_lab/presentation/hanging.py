"""Work that a request waits for, as long as whoever asked is there."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from agent_lab.domain.errors import AgentLabError

T = TypeVar("T")


async def while_there(
    request: Request, wait: Coroutine[Any, Any, T], patience: float | None = None
) -> T | None:
    """What is waited for; None when patience is over, or whoever asked has gone.

    Raises the AgentLabError that it raises. The request's body was read before.
    """
    errors: list[AgentLabError] = []
    found: list[T] = []
    try:
        async with asyncio.TaskGroup() as group:
            done = group.create_task(wait)
            gone = group.create_task(_gone(request))
            await asyncio.wait({done, gone}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if done.done() and done.exception() is None:
                found.append(done.result())
            done.cancel()
            gone.cancel()
    except* AgentLabError as raised:
        errors += [error for error in raised.exceptions if isinstance(error, AgentLabError)]
    if errors:
        raise errors[0]
    return found[0] if found else None


async def _gone(request: Request) -> None:
    """Return when the client has hung up; its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
