"""On the disk there is no planted key either: sessions, executions, the write-ahead log."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_lab.domain.redaction import SECRETS
from agent_lab.infrastructure.sqlite import SqliteStore
from tests.presentation.helpers_server import Serving
from tests.presentation.test_redaction_exits import leaking

KEY = "sk-canary-exits-0815"


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    SECRETS.add(KEY)
    yield
    SECRETS.forget(KEY)


def on_disk(folder: Path) -> bytes:
    """All files of the store, one behind the other."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.scenario("S75")
@pytest.mark.fault("SEC-30")
async def test_the_store_keeps_no_known_secret(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store/lab.db")
    async with Serving(leaking(), store=store) as serving:
        client = await serving.run(f"Use {KEY}", message_id=f"m-{KEY}")
        await client.end()
        said = {"message": f"Use {KEY}"}
        extra = {"X-Source-Agent": f"by-{KEY}", "Idempotency-Key": f"k-{KEY}"}
        answer = await serving.get("/api/agents/a/chat", method="POST", json=said, extra=extra)
        while_open = on_disk(tmp_path)
    closed = on_disk(tmp_path)

    assert answer.status_code in (200, 502), answer.text
    for stored in (while_open, closed):
        assert b"accepted" in stored
        assert KEY.encode() not in stored
        assert base64.b64encode(KEY.encode()).rstrip(b"=")[:20] not in stored
    assert KEY not in answer.text
