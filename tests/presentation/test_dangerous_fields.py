"""No command, address or path comes in over the network, under whatever name (SEC-33)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_lab.presentation.strict import Refused
from agent_lab.presentation.wire import decode
from tests.presentation.helpers_server import Serving, talker

pytestmark = pytest.mark.fault("SEC-33")

FIELDS = {
    "command": "rm -rf /",
    "args": ["-c", "id"],
    "url": "http://evil.test/",
    "base_url": "http://evil.test/v1",
    "path": "/etc/passwd",
    "file": "file:///etc/passwd",
    "cwd": "/",
    "env": {"PATH": "/tmp"},
    "mcp": {"command": "sh"},
    "mcp_servers": [{"command": "sh"}],
    "tools": ["shell"],
    "api_key": "sk-mine",
}
FRAMES: list[dict[str, Any]] = [
    {"type": "run", "content": "Hi"},
    {"type": "attach", "session_id": "s"},
    {"type": "watch"},
    {"type": "user_message", "content": "Hi"},
    {"type": "withdraw", "message_id": "m"},
    {"type": "edit", "message_id": "m", "content": "Hi"},
    {"type": "cancel"},
    {"type": "cancel_tool", "call_id": "c"},
]
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/api/agents/talker/chat", {"message": "Hi"}),
    ("/api/agents/talker/task", {"message": "Hi"}),
    ("/api/agents/talker/fan-out", {"tasks": [{"message": "Hi"}]}),
    ("/api/sessions/import", {"content": [{"role": "user", "content": "Hi"}]}),
    ("/api/explain", {"text": "no"}),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame["type"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_frame_that_brings_one_is_refused_by_its_name(frame: dict[str, Any], field: str) -> None:
    decode(json.dumps(frame))
    with pytest.raises(Refused) as refused:
        decode(json.dumps({**frame, field: FIELDS[field]}))

    assert refused.value.code == "bad_message"
    assert refused.value.facts["path"] == f"$.{field}"


async def test_a_body_that_brings_one_is_422_and_nothing_is_done() -> None:
    async with Serving(talker()) as serving:
        for path, body in BODIES:
            for field, value in FIELDS.items():
                said = {**body, field: value}
                answer = await serving.get(path, method="POST", json=said)
                assert answer.status_code == 422, (path, field, answer.text)
                assert field in answer.text, (path, field, answer.text)
        tasks = {"tasks": [{"message": "Hi", "base_url": "http://evil.test/v1"}]}
        answer = await serving.get("/api/agents/talker/fan-out", method="POST", json=tasks)
        assert answer.status_code == 422
        assert serving.agents.sessions() == []
