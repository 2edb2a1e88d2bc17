"""docs/protocol.md tells of everything that can come over the wire."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from agent_lab.domain.payloads import PAYLOADS, ModelRequested, Payload, Rejected
from agent_lab.domain.thinking import THINKING
from agent_lab.presentation.api import ApiCode
from agent_lab.presentation.api_control import ControlCode
from agent_lab.presentation.connections import ConnectionCode
from agent_lab.presentation.guard_rules import RefusalCode
from agent_lab.presentation.line_answers import LineCode
from agent_lab.presentation.openapi import OPERATIONS
from agent_lab.presentation.wire import NOT_YET, ClientFrame, FrameCode
from tests.presentation.helpers_server import Frame, Serving, talker

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
ENTRIES = PAGE[PAGE.index("## Entries") : PAGE.index("## `/api`")]
FRAMES = PAGE[: PAGE.index("## Entries")]
COMMON = {"turn", "step"}


def row(text: str, name: str) -> set[str]:
    """What the first table row of this name says its fields are."""
    found = re.search(rf"^\| `{name}`[^|]*\|([^|]*)\|", text, re.MULTILINE)
    assert found is not None, f"{name!r} has no row"
    return set(re.findall(r"`(\w+)`", found[1]))


def fields(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize("kind", PAYLOADS)
def test_every_payload_and_each_of_its_fields_is_told(kind: type[Payload]) -> None:
    own = fields(kind) - COMMON
    if kind is ModelRequested:
        own = {"dialect", "model", "omitted", "sha256", "body"}

    assert row(ENTRIES, str(kind.__struct_config__.tag)) == own


@pytest.mark.parametrize("kind", THINKING)
def test_every_kind_of_thinking_and_each_of_its_fields_is_told(kind: type[msgspec.Struct]) -> None:
    assert row(ENTRIES, str(kind.__struct_config__.tag)) == fields(kind) - {"before"}


def test_what_goes_to_output_is_marked() -> None:
    told = set(re.findall(r"^\| `(\w+)` •", ENTRIES, re.MULTILINE))

    assert told == {k.__struct_config__.tag for k in PAYLOADS if k.on_output}


@pytest.mark.parametrize("kind", get_args(ClientFrame))
def test_every_client_frame_and_each_of_its_fields_is_told(kind: type[msgspec.Struct]) -> None:
    assert row(FRAMES, str(kind.__struct_config__.tag)) == fields(kind)


def test_every_server_frame_and_each_of_its_fields_is_told() -> None:
    assert row(FRAMES, "gap") == {"from", "to", "read_at"}
    assert row(FRAMES, "error") == {
        *("scope", "code", "message", "hint", "position", "path", "last_seq"),
        *("message_id", "retry_after"),
    }


async def test_the_session_frame_is_as_told() -> None:
    async with Serving(talker()) as serving:
        frame: Frame = await (await serving.run()).until("session")

        assert set(frame) - {"type"} == row(FRAMES, "session")


async def test_the_frames_of_a_watching_socket_are_as_told() -> None:
    async with Serving(talker()) as serving:
        watcher = await serving.connect({"type": "watch"})
        everything = await watcher.until("watching")
        await serving.run()
        changed = await watcher.until("changed")

    assert set(everything) - {"type"} == row(FRAMES, "watching")
    assert set(changed) - {"type"} == row(FRAMES, "changed")


@pytest.mark.parametrize("name", sorted(NOT_YET))
def test_frames_that_are_not_obeyed_yet_are_named(name: str) -> None:
    assert f"`{name}`" in FRAMES


@pytest.mark.parametrize("code", get_args(FrameCode))
def test_every_code_of_a_frame_is_told(code: str) -> None:
    assert re.search(rf"^\|[^|]*`{code}`", FRAMES, re.MULTILINE)


def test_every_code_of_an_answer_is_told() -> None:
    api = PAGE[PAGE.index("## `/api`") :]

    kinds = (ApiCode, RefusalCode, LineCode, ControlCode, ConnectionCode)
    assert {c for kind in kinds for c in get_args(kind) if f"`{c}`" not in api} == set()


def test_every_operation_is_told_with_its_filters_and_the_fields_of_its_body() -> None:
    api = PAGE[PAGE.index("## `/api`") :]
    for operation in OPERATIONS:
        told = re.search(
            rf"^\| `{operation.method.upper()} {re.escape(operation.path)}([^|]*)\|",
            api,
            re.MULTILINE,
        )
        assert told is not None, operation.path
        names = [*operation.query, *(fields(operation.body) if operation.body else ())]
        assert [name for name in names if name not in told[1]] == [], operation.path


@pytest.mark.parametrize("name", ["queued", "execution_started", "execution_ended"])
def test_frames_of_the_line_are_told(name: str) -> None:
    assert "execution_id" in row(FRAMES, name)


def test_every_code_of_a_turn_and_of_a_rejection_is_told() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for room in ("application", "domain", "infrastructure")
        for path in sorted((ROOT / "src" / "agent_lab" / room).rglob("*.py"))
        if "dialects" not in path.parts
    )
    codes = set(re.findall(r'\bcode="(\w+)"|(?:_fail|stopped|failed)\(\s*"(\w+)"', source))
    rejected = get_args(get_type_hints(Rejected)["code"])

    told = set(re.findall(r"`(\w+)`", ENTRIES))
    assert {code for pair in codes for code in pair if code} | set(rejected) <= told
