"""Where the server listens, how it starts, and how it stops."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from agent_lab.bootstrap import open_agents
from agent_lab.presentation.guard import allowed_hosts
from agent_lab.presentation.server import (
    HostRefused,
    PortInUse,
    Server,
    ServerError,
    listen,
    serve,
)
from agent_lab.presentation.web import make_app
from tests.presentation.helpers_server import TOKEN, Serving, talker


@pytest.mark.fault("SEC-01")
def test_without_options_it_listens_on_loopback_alone() -> None:
    with listen() as listener:
        host, port = listener.getsockname()

        assert host == "127.0.0.1"
        assert port > 0


@pytest.mark.fault("SEC-02")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_other_hosts_are_refused(host: str) -> None:
    with pytest.raises(HostRefused, match=r"use 127\.0\.0\.1"):
        listen(host)


@pytest.mark.fault("O06")
@pytest.mark.fault("T38")
def test_a_port_in_use_is_named_with_the_next_free_one() -> None:
    with listen() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port} on 127.0.0.1 is in use") as refused:
            listen(port=port)
        with listen(port=refused.value.free) as free:
            assert free.getsockname()[1] > port


@pytest.mark.parametrize("port", [70_000, -1])
def test_a_port_that_is_none_is_named(port: int) -> None:
    with pytest.raises(ServerError, match=str(port)):
        listen(port=port)


@pytest.mark.fault("O16")
async def test_start_and_stop_again_and_again_on_one_port() -> None:
    port = 0
    async with open_agents([talker()]) as agents:
        for _ in range(3):
            listener = listen(port=port)
            port = listener.getsockname()[1]
            app = make_app(agents, token=TOKEN, hosts=allowed_hosts(port))
            server = Server(app, listener)
            assert server.port == port
            async with asyncio.timeout(5), asyncio.TaskGroup() as group:
                group.create_task(server.serve())
                protocols = [Subprotocol(f"agent-lab.token.{TOKEN}")]
                async with connect(f"ws://127.0.0.1:{port}/ws", subprotocols=protocols, proxy=None):
                    server.stop()


@pytest.mark.fault("C13")
@pytest.mark.fault("T41")
async def test_text_that_is_no_utf_8_is_closed_with_1007_and_logged_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Serving(talker()) as serving:
        client = await serving.run()
        await client.end()
        await client.connection.send(b"\xff\xfe", text=True)

        assert await client.closed() == 1007
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.fault("SEC-27")
async def test_no_extension_is_agreed_to() -> None:
    async with Serving(talker()) as serving:
        client = await serving.connect(compression="deflate")

        assert client.connection.response is not None
        assert "Sec-WebSocket-Extensions" not in client.connection.response.headers
        assert "Server" not in client.connection.response.headers


async def test_serve_announces_an_address_that_answers_and_stops_on_a_signal() -> None:
    announced: list[str] = []
    listener = listen()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        here = asyncio.Event()

        def announce(url: str) -> None:
            announced.append(url)
            here.set()

        agents = open_agents([talker()])
        group.create_task(serve(agents, listener, token=TOKEN, announce=announce))
        await here.wait()
        port = int(announced[0].split(":")[2].split("/")[0])
        protocols = [Subprotocol(f"agent-lab.token.{TOKEN}")]
        async with connect(
            f"ws://127.0.0.1:{port}/ws", subprotocols=protocols, proxy=None
        ) as client:
            os.kill(os.getpid(), signal.SIGTERM)
            await client.wait_closed()
            assert client.close_code == 1001

    assert announced == [f"http://127.0.0.1:{port}/#token={TOKEN}"]


PROGRAM = """
import asyncio
from agent_lab import Agent
from agent_lab.bootstrap import open_agents
from agent_lab.presentation.server import listen, serve
from agent_lab.testing import ScriptedModel

async def main():
    agents = open_agents([Agent("a", model=ScriptedModel(["Well."]))])
    await serve(agents, listen(), token="T" * 43, announce=lambda url: print(url, flush=True))

asyncio.run(main())
"""


UPGRADE = (
    "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\n"
    f"Upgrade: websocket\r\nAuthorization: Bearer {TOKEN}\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.mark.fault("O01")
@pytest.mark.fault("O02")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_in_time_with_a_slow_socket_open(
    number: signal.Signals, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        url = (await process.stdout.readline()).decode()
        port = int(url.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as silent:
            silent.sendall(UPGRADE.format(port=port).encode())
            assert silent.recv(100).startswith(b"HTTP/1.1 101")
            process.send_signal(number)
            async with asyncio.timeout(5):
                out, errors = await process.communicate()
    assert (process.returncode, out, errors) == (0, b"", b"")
