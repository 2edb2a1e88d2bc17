"""A run or a server in the foreground: what Ctrl-C does, how it ends, with which exit status."""

import asyncio
import html
import os
import secrets
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NoReturn, Protocol, cast

from agent_lab.application.agents import Agents
from agent_lab.application.journal import Entry, Gap
from agent_lab.application.processes import kill_all
from agent_lab.application.runtime import Runtime
from agent_lab.domain.payloads import Cancelled, Done, TurnFailed
from agent_lab.domain.redaction import SECRETS
from agent_lab.presentation.watchdog import watched

DONE, FAILED, UNUSABLE, CANCELLED = 0, 1, 2, 130
"""Exit statuses; CANCELLED is what a shell sees of a program that SIGINT ended."""

Say = Callable[[str], object]
Batch = Sequence[Entry] | Gap
End = Done | TurnFailed | Cancelled


class Telling(Protocol):
    """How a run is told: as rows, or as lines of JSON."""

    def tell(self, batch: Batch) -> None:
        """Show a batch of the journal now."""
        ...

    def listening(self, runtime: Runtime) -> AbstractContextManager[None]:
        """Take what is typed, if anything can be, for as long as the `with` lasts."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was; may be called twice."""
        ...


async def run_once(runtime: Runtime, prompt: str, telling: Telling, say: Say) -> int:
    """Ask, tell everything as it happens, close; the exit status.

    The first Ctrl-C cancels the turn, the second leaves this process whatever still runs.
    """

    def leave(code: int) -> NoReturn:
        with suppress(OSError):
            telling.close()
        leave_now(code)

    def cancel() -> None:
        if runtime.cancel(drop_waiting=True) != "cancelled":
            leave(CANCELLED)

    end: End | None = None
    with watched(cancel, leave=leave, say=say):
        async with asyncio.TaskGroup() as group:
            group.create_task(_tell(runtime, telling))
            async with runtime, runtime.run(prompt) as run:  # closing it ends the telling
                with telling.listening(runtime):
                    async for payload in run:
                        if isinstance(payload, End):
                            end = payload
    telling.close()
    if await _end_tasks():
        say("a tool or model ignores its cancellation; left without waiting for it")
        leave_now(_status(end))
    return _status(end)


def _status(end: End | None) -> int:
    match end:
        case Done():
            return DONE
        case TurnFailed():
            return FAILED
        case Cancelled() | None:
            return CANCELLED


async def _tell(runtime: Runtime, telling: Telling) -> None:
    async for batch in runtime.follow():
        telling.tell(batch)


# -- a server ------------------------------------------------------------------------------------


async def serve_until_stopped(
    agents: Agents, listener: socket.socket, announce: Say, say: Say
) -> int:
    """Serve with a new token until SIGTERM or Ctrl-C; a second one leaves at once."""
    from agent_lab.presentation import server

    def signals(serving: server.Server) -> AbstractContextManager[None]:
        def stop() -> None:
            say("stopping; Ctrl-C again leaves at once")
            serving.stop()

        return watched(stop, leave=leave_now, say=say)

    token = secrets.token_urlsafe(32)
    SECRETS.add(token)
    await server.serve(agents, listener, token=token, announce=announce, signals=signals)
    if await _end_tasks():
        leave_now(DONE)
    return DONE


@contextmanager
def browser_at(url: str) -> Generator[None]:
    """A browser at an address that has a token in it, if there is a display for one.

    It is sent there by a page that only this user can read: in the browser's arguments every
    process of the machine would see the token.
    """
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        yield  # else lynx or w3m would take this very terminal
        return
    with tempfile.TemporaryDirectory(prefix="agent-lab-") as folder:
        page = Path(folder, "open.html")
        target = html.escape(url)
        page.write_text(f'<meta http-equiv="refresh" content="0; url={target}">', "utf-8")
        threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        yield


# -- the end -------------------------------------------------------------------------------------


async def _end_tasks(*, patience: float = 1.0) -> int:
    """Cancel every other task of this loop; how many of them ignored it.

    asyncio.run() would wait for those for ever.
    """
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if not others:
        return 0
    _, stubborn = await asyncio.wait(others, timeout=patience)
    return len(stubborn)


def leave_now(code: int) -> NoReturn:
    """End this process without waiting for tasks and threads; programs of tools are killed."""
    kill_all()
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def first_error(error: BaseException) -> BaseException:
    """The error inside the groups that task groups wrap around it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
