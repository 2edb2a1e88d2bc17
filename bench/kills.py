"""Kill a real server under load at random points: nothing accepted is lost or run twice.

    python -m bench.kills [--kills N] [--seed N]

Each message asks the agent's tool to write its id into a file. After every kill the server is
started again on the same store, whatever had no receipt is sent again under its id, and the story
of each session has to be whole.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
import urllib.request
from asyncio.subprocess import PIPE, Process
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.typing import Subprotocol

PROGRAM = str(Path(sys.executable).with_name("agent-lab"))
AGENT = '''
import asyncio, os, random
from agent_lab import Agent, tool
from agent_lab.testing import call, reply

@tool
async def note(text: str) -> str:
    """Write it down."""
    file = os.open("notes.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (text + "\\n").encode())
    os.close(file)
    await asyncio.sleep(random.random() / 200)
    return "noted " + text

async def model(request):
    last = request.history()[-1]  # of a turn that was cut, the next one sees the question too
    return reply(calls=[call("note", text=last.content)]) if last.role == "user" else "Noted."

agent = Agent("noter", model=model, tools=[note])
'''
Entry = dict[str, Any]
BOUND = 60.0


class Server:
    """The server as a process of its own, on the store in this folder."""

    process: Process
    url: str
    token: str

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "agent.py").write_text(AGENT, "utf-8")

    async def start(self) -> None:
        """Start it, and wait for its address."""
        command = [PROGRAM, "serve", "agent.py", "--no-browser"]
        with (self._folder / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, cwd=self._folder, stdout=PIPE, stderr=log
            )
        assert self.process.stdout is not None
        async with asyncio.timeout(BOUND):
            line = (await self.process.stdout.readline()).decode()
        found = re.match(r"http://(\S+)/#token=(\S+)", line)
        assert found, (line, (self._folder / "log").read_text()[-2000:])
        self.url, self.token = found.groups()

    async def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> None:
        """SIGTERM."""
        self.process.terminate()
        await self.process.wait()

    async def socket(self, frame: Entry) -> ClientConnection:
        """A socket that has sent this frame."""
        names = ("agent-lab.v1", f"agent-lab.token.{self.token}")
        protocols = [Subprotocol(name) for name in names]
        options: Any = {"proxy": None, "max_size": None, "compression": None}
        connection = await connect(f"ws://{self.url}/ws", subprotocols=protocols, **options)
        await connection.send(json.dumps(frame))
        return connection

    async def entries(self, session_id: str) -> list[Entry]:
        """All entries of a session that are stored."""
        found: list[Entry] = []
        while True:
            after = found[-1]["seq"] if found else 0
            page = await asyncio.to_thread(
                self._get, f"/api/sessions/{session_id}/entries?after={after}"
            )
            if not page["entries"]:
                return found
            found += page["entries"]

    def _get(self, path: str) -> Any:
        asked = urllib.request.Request(
            f"http://{self.url}{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
            return json.load(answer)


class Talk:
    """One session's client: what it sent, what it was told, over all lives of the server."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.session_id: str | None = None
        self.sent: list[str] = []
        self.acked: set[str] = set()
        self.seen: dict[int, Entry] = {}
        self.is_heard = asyncio.Event()

    async def go_on(self, server: Server, chance: random.Random) -> None:
        """Send again what has no receipt, and then more, until the connection is gone."""
        with suppress(WebSocketException, OSError):
            connection = await self._begin(server)
            self.is_heard.set()
            async with asyncio.TaskGroup() as group:
                hearing = group.create_task(self._hear(connection))
                for key in [key for key in self.sent if key not in self.acked]:
                    await self._say(connection, key)
                while not hearing.done():
                    await self._say(connection, self._next())
                    await asyncio.sleep(chance.random() / 50)

    async def _begin(self, server: Server) -> ClientConnection:
        if self.session_id is not None:
            return await server.socket({"type": "attach", "session_id": self.session_id})
        key = self.sent[0] if self.sent else self._next()
        return await server.socket({"type": "run", "content": key, "message_id": key})

    def _next(self) -> str:
        self.sent.append(f"{self.name}-{len(self.sent)}")
        return self.sent[-1]

    async def _say(self, connection: ClientConnection, key: str) -> None:
        mode = "follow_up" if key.endswith("3") else "steer"
        frame = {"type": "user_message", "content": key, "message_id": key, "mode": mode}
        with suppress(ConnectionClosed):
            await connection.send(json.dumps(frame))

    async def _hear(self, connection: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            async for text in connection:
                said = json.loads(text)
                for frame in said if isinstance(said, list) else [said]:
                    self._take(frame)

    def _take(self, frame: Entry) -> None:
        if frame["type"] == "session":
            self.session_id = frame["session_id"]
        if frame["type"] == "accepted":
            self.acked.add(frame["message_id"])
        if "seq" in frame:
            before = self.seen.setdefault(frame["seq"], frame)
            assert before == frame, f"entry {frame['seq']} was told in two ways: {before} {frame}"


async def settled(server: Server, talk: Talk) -> list[Entry]:
    """The session's story once it rests with nothing waiting."""
    assert talk.session_id is not None
    connection = await server.socket({"type": "attach", "session_id": talk.session_id})
    async with asyncio.timeout(BOUND):
        state = json.loads(await connection.recv())
        if state["type"] == "error":  # it was told of, and killed before anything was stored
            await connection.close()
            assert state["code"] == "unknown_session", state
            return []
        if state["state"] == "running":
            async for text in connection:
                said = json.loads(text)
                last = said[-1] if isinstance(said, list) else said
                ends = ("done", "error", "cancelled")
                if last["type"] in ends and not last["pending"] and last["seq"] > state["last_seq"]:
                    break
    await connection.close()
    return await server.entries(talk.session_id)


def faults(talk: Talk, story: list[Entry], notes: Counter[str]) -> list[str]:
    """What is wrong with a session's story."""
    found: list[str] = []
    if [entry["seq"] for entry in story] != list(range(1, len(story) + 1)):
        found.append(f"{talk.name}: the numbers have holes")
    if any(story[seq - 1 : seq] != [entry] for seq, entry in talk.seen.items()):
        found.append(f"{talk.name}: an entry that was told is not what is stored")
    says: dict[str, Counter[str]] = {}
    for entry in story:
        says.setdefault(entry["type"], Counter())[entry.get("message_id") or ""] += 1
    accepted, delivered = says.get("accepted", Counter()), says.get("delivered", Counter())
    found += [f"{key} was acknowledged and is lost" for key in talk.acked if key not in accepted]
    found += [f"{key} was accepted {n} times" for key, n in accepted.items() if n != 1]
    found += [f"{key} was not delivered" for key in accepted if not delivered[key]]
    found += [f"{key} was delivered {n} times" for key, n in delivered.items() if n != 1]
    found += [f"{key} ran {n} times" for key, n in notes.items() if n > 1]
    turns = Counter(e["turn"] for e in story if e["type"] in ("done", "error", "cancelled"))
    found += [f"{talk.name}: turn {turn} has {n} ends" for turn, n in turns.items() if n != 1]
    calls = Counter(e["type"] for e in story if e["type"] in ("tool_call", "tool_reply"))
    if calls["tool_call"] != calls["tool_reply"]:
        found.append(f"{talk.name}: {calls} do not match")
    return found


async def kill_often(folder: Path, kills: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """Kill a server this often; what there was, and what was wrong with it."""
    chance = random.Random(seed)
    server, talks = Server(folder), [Talk(f"t{number}") for number in range(3)]
    interrupted = 0
    for number in range(kills):
        await server.start()
        if number and number % 10 == 0:
            talks.append(Talk(f"t{len(talks)}"))
        async with asyncio.TaskGroup() as group:
            for talk in talks[-3:]:
                group.create_task(talk.go_on(server, chance))
            for talk in talks[-3:]:
                await talk.is_heard.wait()
                talk.is_heard.clear()
            await asyncio.sleep(chance.random() * 0.5)
            await server.kill()
    await server.start()
    wrong: list[str] = []
    notes_file = folder / "notes.txt"
    entries = 0
    for talk in talks:
        if talk.session_id is not None:
            story = await settled(server, talk)
            notes = Counter(notes_file.read_text().split()) if notes_file.exists() else Counter()
            mine = Counter({key: n for key, n in notes.items() if key in talk.sent})
            wrong += faults(talk, story, mine)
            entries += len(story)
            interrupted += sum(entry.get("code") == "interrupted" for entry in story)
    await server.stop()
    counts = {
        "kills": kills,
        "sessions": len(talks),
        "sent": sum(len(talk.sent) for talk in talks),
        "acknowledged": sum(len(talk.acked) for talk in talks),
        "turns interrupted": interrupted,
        "entries": entries,
        "wrong": len(wrong),
    }
    return counts, wrong


def main() -> int:
    """Do it, and print what came of it."""
    options = argparse.ArgumentParser(prog="bench.kills")
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong = asyncio.run(kill_often(Path(folder), chosen.kills, chosen.seed))
    print(", ".join(f"{name} {count}" for name, count in counts.items()))
    print(f"{time.monotonic() - begun:.0f} s")
    for fault in wrong[:20]:
        print(fault)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
