"""An MCP server by hand, as a program: it can do what no SDK lets a server do.

`python mcp_stub.py MODE [FILE]`; each line it hears goes into FILE.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
HEARD = Path(sys.argv[2]).open("a", encoding="utf-8") if len(sys.argv) > 2 else None  # noqa: SIM115 open to the end
EMPTY = {"type": "object", "properties": {}}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tool(name: str, schema: Any = EMPTY, text: str = "") -> dict[str, Any]:
    return {"name": name, "description": text or f"The tool {name}.", "inputSchema": schema}


OFFERS: dict[str, list[dict[str, Any]]] = {
    "odd": [
        tool("weather", CITY),
        tool("weather", EMPTY, "The same name again."),
        tool("read.file"),
        tool("x" * 80),
        tool("no_schema", {"type": "object", "properties": {"a": {"type": "colour"}}}),
        tool("huge", {"type": "object", "description": "d" * (1 << 20)}),
    ],
}
STANDARD = [
    tool("weather", CITY),
    *map(tool, ("die", "hang", "babble", "flood", "picture", "both", "fail", "change", "secret")),
]
more: list[dict[str, Any]] = []


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def called(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    match name:
        case "weather":
            return text(f"4 degrees in {arguments['city']}")
        case "die":
            os.write(2, b"the disk is on fire\n")
            os._exit(3)
        case "babble":
            os.write(1, b"this is no message\n")
            return None
        case "flood":
            for _ in range(200):
                os.write(2, b"noise " * 10_000)
            return text("dry again")
        case "picture":
            image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
            return {"content": [{"type": "text", "text": "See:"}, image]}
        case "both":
            return {"content": [], "structuredContent": {"degrees": 4}}
        case "fail":
            return {**text("there is no such file"), "isError": True}
        case "change":
            more.append(tool("later"))
            say({"method": "notifications/tools/list_changed"})
            return text("changed")
        case "secret":
            return text(os.environ.get("STUB_TOKEN", "none"))
        case "later":
            return text("it is later")
        case _:
            return None


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "stub", "version": "1"},
            }
        case "tools/list":
            return {"tools": [*OFFERS.get(MODE, STANDARD), *more]}
        case "tools/call":
            return called(params["name"], params.get("arguments", {}))
        case _:
            return {}


def main() -> None:
    if MODE == "dead":
        sys.exit("no licence")
    if MODE == "mute":
        time.sleep(3600)
    if MODE == "banner":
        os.write(1, b"Welcome to the server!\n")
    for line in sys.stdin:
        if HEARD is not None:
            HEARD.write(line)
            HEARD.flush()
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        if message["method"] == "server/discover":
            fault = {"code": -32601, "message": "Method not found"}
            say({"id": message["id"], "error": fault})
        elif (result := answer(message["method"], message.get("params", {}))) is not None:
            say({"id": message["id"], "result": result})
    if MODE == "stubborn":
        time.sleep(3600)


main()
