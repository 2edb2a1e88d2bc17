"""Every door of the application is behind the guard."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from agent_lab.bootstrap import open_agents
from agent_lab.presentation.openapi import OPERATIONS
from agent_lab.presentation.web import make_app
from tests.presentation.helpers_server import TOKEN, Serving, talker

OPEN = {"/", "/healthz", "/static/x"}


def doors(routes: Iterable[BaseRoute], before: str = "") -> Iterator[tuple[str, str]]:
    for route in routes:
        match route:
            case Mount(path=path, routes=[]):
                yield "http", f"{before}{path}/x"
            case Mount(path=path, routes=inner):
                yield from doors(inner, before + path)
            case Route(path=path):
                yield "http", before + path.replace(":path}", "}")
            case WebSocketRoute(path=path):
                yield "websocket", before + path
            case _:
                raise AssertionError(f"what is {route!r}?")


ROUTER: Any = make_app(open_agents([talker()]), token=TOKEN, hosts={"127.0.0.1:1"}).router
DOORS = sorted(set(doors(ROUTER.routes)))  # one path may have a route a method


@pytest.mark.fault("SEC-16")
@pytest.mark.parametrize(("kind", "path"), DOORS)
async def test_without_a_token_only_the_listed_doors_open(kind: str, path: str) -> None:
    path = path.replace("{id}", "s").replace("{name}", "talker").replace("{seq}", "1")
    async with Serving(talker()) as serving:
        if kind == "websocket":
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"ws://127.0.0.1:{serving.port}{path}", proxy=None)
            assert refused.value.response.status_code == 401
        else:
            answer = await serving.get(path, extra={"Authorization": ""})
            assert (answer.status_code == 401) == (path not in OPEN)


@pytest.mark.fault("SEC-11")
async def test_looking_changes_nothing() -> None:
    async with Serving(talker()) as serving:
        client = await serving.run()
        await client.end()
        paths = [
            re.sub(r"\{\w+\}", "x", path.replace("{id}", client.session_id).replace("{seq}", "5"))
            for kind, path in DOORS
            if kind == "http"
        ]
        base = f"/api/sessions/{client.session_id}/entries"
        before = (await serving.get(base)).text, (await serving.get("/api/sessions")).text
        for method in ("GET", "HEAD"):
            for path in paths:
                assert (await serving.get(path, method=method)).status_code != 500
        after = (await serving.get(base)).text, (await serving.get("/api/sessions")).text

    assert before == after


async def test_the_doors_are_those_of_the_api_document() -> None:
    described = {("http", operation.path) for operation in OPERATIONS}

    assert set(DOORS) == described | {
        ("http", "/"),
        ("http", "/healthz"),
        ("http", "/mcp"),
        ("http", "/metrics"),
        ("http", "/static/x"),
        ("websocket", "/ws"),
    }
