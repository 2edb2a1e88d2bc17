"""`/ws`: one socket is one cursor on a session's journal, and one hand on its input.

Upstream reads and obeys, downstream writes; they start and end together. The session outlives them:
whatever was told before a socket died is told again from any `seq`.
"""

import asyncio
from contextlib import AsyncExitStack, suppress

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from agent_lab.application.agents import Agents
from agent_lab.application.logs import log
from agent_lab.application.nudge import Nudge
from agent_lab.application.served import ServedSession
from agent_lab.domain.errors import AgentLabError
from agent_lab.domain.execution import Execution
from agent_lab.presentation.downstream import Downstream, Ended, SocketLimits
from agent_lab.presentation.guard import choose_subprotocol
from agent_lab.presentation.in_line import ask_in_line, is_for_line, told_of
from agent_lab.presentation.rates import Rate
from agent_lab.presentation.strict import Refused
from agent_lab.presentation.upstream import (
    Crowded,
    attach,
    is_message,
    obey,
    recall,
    too_fast,
)
from agent_lab.presentation.views import Encoders, refused_by, session_frame
from agent_lab.presentation.watching import Watching
from agent_lab.presentation.wire import RunFrame, decode, error_frame

Place = tuple[ServedSession, int, Execution | None]
"""Where a socket is: its session, behind which entry its story begins, and what it has in line."""

# Starlette says that a client went away in three ways, depending on who noticed first (T9).
_GONE = (OSError, RuntimeError, WebSocketDisconnect)


class ClientGone(Exception):
    """Nobody is there any more, however we came to know. The session goes on."""


class Sockets:
    """All sockets of a server."""

    def __init__(self, agents: Agents, encoders: Encoders, limits: SocketLimits) -> None:
        self._agents = agents
        self._encoders = encoders
        self._limits = limits
        self._live: set[Socket] = set()
        self._left = asyncio.Event()

    def __len__(self) -> int:
        return len(self._live)

    async def serve(self, websocket: WebSocket) -> None:
        """Serve one socket until it ends."""
        if len(self._live) >= self._limits.sockets:
            return await self._refuse(websocket)
        socket = Socket(websocket, self._agents, self._encoders, self._limits)
        self._live.add(socket)
        try:
            await socket.serve()
        finally:
            self._live.discard(socket)
            self._left.set()
        return None

    async def _refuse(self, websocket: WebSocket) -> None:
        """Before the 101, so that nothing is spent on it."""
        message = f"{len(self._live)} sockets are open, which is as many as may be"
        said = {"error": "too_many_sockets", "message": message, "hint": "close one of them"}
        headers = {"X-Agent-Lab-Error-Code": said["error"], "Retry-After": "5"}
        with suppress(*_GONE):
            await websocket.send_denial_response(JSONResponse(said, 503, headers))

    async def close(self) -> None:
        """Close all with 1001, within the limit; the sessions go on."""
        for socket in self._live:
            socket.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.closing):
                await self.all_left()

    async def all_left(self) -> None:
        """Wait until no socket is open."""
        while self._live:
            self._left.clear()
            await self._left.wait()


class Socket:
    """One client, from the accept to the close."""

    def __init__(
        self, websocket: WebSocket, agents: Agents, encoders: Encoders, limits: SocketLimits
    ) -> None:
        self._websocket = websocket
        self._agents = agents
        self._encoders = encoders
        self._limits = limits
        self._handler: Nudge | None = None
        now = asyncio.get_running_loop().time
        self._frames = Rate(limits.frames, limits.frame_burst, now)
        self._messages = Rate(limits.messages, limits.message_burst, now)

    async def serve(self) -> None:
        """Accept, talk, close. Both directions end together, and no exception comes out."""
        task = asyncio.current_task()
        assert task is not None
        self._handler = Nudge(task, bool)
        try:
            end = await self._talk()
        except asyncio.CancelledError:
            if not self._handler.absorb():
                raise
            end = Ended(1001, "the server stops")
        except Exception:
            log.exception("a socket fell over")
            end = Ended(1011, "internal")
        if end is not None:
            await self._close(end)

    def stop(self) -> None:
        """The server stops: close with 1001."""
        if self._handler is not None:
            self._handler()

    async def _talk(self) -> Ended | None:
        """Run both directions; how to close, None when nobody is there to be told."""
        ends: list[Exception] = []
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._upstream(group))
        except* (Ended, ClientGone) as ended:
            ends = list(ended.exceptions)
        return next((end for end in ends if isinstance(end, Ended)), None)

    async def _upstream(self, group: asyncio.TaskGroup) -> None:
        await self._accept()
        place = await self._attach()
        if place is None:
            await self._watch(group)
        else:
            await self._follow(group, *place)

    async def _watch(self, group: asyncio.TaskGroup) -> None:
        watching = Watching(self._agents, self._send, self._limits)
        group.create_task(watching.run())
        while True:
            text = await self._receive()
            try:
                decode(text)
                watching.refuse(
                    Refused("already_attached", "this socket watches", "open another socket")
                )
            except AgentLabError as error:
                watching.refuse(error)
            await asyncio.sleep(0)

    async def _follow(
        self,
        group: asyncio.TaskGroup,
        session: ServedSession,
        after: int,
        execution: Execution | None = None,
    ) -> None:
        encoder = self._encoders.of(session)
        downstream = Downstream(session, encoder, after, self._send, self._limits)
        session.viewers += 1
        try:
            await self._send(session_frame(session))
            group.create_task(downstream.run())
            async with AsyncExitStack() as stack:
                if execution is not None:
                    told = told_of(self._agents, execution, downstream.tell)
                    await stack.enter_async_context(told)
                while True:
                    await self._obey(session, downstream)
                    await asyncio.sleep(0)  # a flood of frames must not keep the loop to itself
        finally:
            session.viewers -= 1

    async def _attach(self) -> Place | None:
        """Read frames until one attaches the socket; until then this is the only writer."""
        while True:
            try:
                async with asyncio.timeout(self._limits.first_frame):
                    text = await self._receive()
            except TimeoutError:
                late = Refused("first_frame_missing", "no run or attach came", "connect again")
                await self._send(error_frame(late))
                raise Ended(1008, "no run or attach") from None
            try:
                frame = decode(text)
                await recall(self._agents, frame)
                if isinstance(frame, RunFrame) and is_for_line(self._agents, frame):
                    viewers = self._limits.viewers
                    session, execution = await ask_in_line(self._agents, frame, viewers=viewers)
                    return session, 0, execution
                place = attach(self._agents, frame, viewers=self._limits.viewers)
                return place and (*place, None)
            except AgentLabError as error:
                await self._send(error_frame(refused_by(error)))
                if isinstance(error, Crowded):
                    raise Ended(1013, error.code) from None

    async def _obey(self, session: ServedSession, downstream: Downstream) -> None:
        text = await self._receive()
        try:
            frame = decode(text)
            if is_message(frame) and (wait := self._messages.take()):
                raise too_fast(frame, wait)
            await recall(self._agents, frame, session)
            sent = obey(self._agents, session, frame)
        except AgentLabError as error:
            downstream.refuse(error)
        else:
            if sent is not None:
                downstream.acknowledge(sent)

    # -- the socket itself -----------------------------------------------------------------------

    async def _accept(self) -> None:
        offered = self._websocket.scope["subprotocols"]
        try:
            await self._websocket.accept(choose_subprotocol(offered))
        except _GONE:
            raise ClientGone from None

    async def _receive(self) -> str:
        try:
            message = await self._websocket.receive()
        except _GONE:
            raise ClientGone from None
        if message["type"] == "websocket.disconnect":
            raise ClientGone
        text = message.get("text")
        if text is None:
            raise Ended(1003, "text frames only")
        if self._frames.take():
            raise Ended(1008, "too many frames")
        return text

    async def _send(self, text: str) -> None:
        try:
            async with asyncio.timeout(self._limits.progress):
                await self._websocket.send({"type": "websocket.send", "text": text})
        except TimeoutError:
            raise Ended(4408, "reads too slowly") from None
        except _GONE:
            raise ClientGone from None

    async def _close(self, end: Ended) -> None:
        with suppress(*_GONE):  # it went first; a TimeoutError is an OSError
            async with asyncio.timeout(self._limits.closing):
                await self._websocket.close(end.code, end.reason)
