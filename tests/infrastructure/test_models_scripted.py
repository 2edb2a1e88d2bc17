"""The scripted model: what a script may say, from Python or a file, and what it says when wrong."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent_lab import Agent, DebugRuntime
from agent_lab.application.ports import Model
from agent_lab.domain.errors import ModelError, ScriptExhausted
from agent_lab.domain.messages import (
    CallDelta,
    Finish,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCall,
    Usage,
)
from agent_lab.infrastructure.models.scripted import ScriptedReply
from agent_lab.testing import ScriptedModel, call, fail, open_runtime, reply, simulate


def request(number: int) -> ModelRequest:
    return ModelRequest(
        "s", "scripted", "openai_chat", None, (), [], start=0, stop=0, call=number, answers=0
    )


async def answer(model: ScriptedModel, number: int = 1) -> list[ModelEvent]:
    return [event async for event in model.stream(request(number))]


# -- replies -------------------------------------------------------------------------------------


async def test_the_nth_call_gets_the_nth_reply_in_any_order() -> None:
    model = ScriptedModel(["one", reply("two"), "three"])

    assert [await answer(model, n) for n in (3, 1, 2, 1)] == [
        [Reply(text)] for text in ("three", "one", "two", "one")
    ]


async def test_past_the_last_reply_the_script_is_exhausted() -> None:
    with pytest.raises(ScriptExhausted, match="2 replies") as raised:
        await answer(ScriptedModel(["one", "two"]), 3)

    assert (raised.value.code, raised.value.may_pass) == ("script_exhausted", False)
    assert "repeat_last" in raised.value.hint


async def test_the_last_reply_may_repeat() -> None:
    model = ScriptedModel(["one", "two"], repeat_last=True)

    assert [await answer(model, n) for n in (2, 3, 99)] == [[Reply("two")]] * 3
    with pytest.raises(ScriptExhausted):
        await answer(ScriptedModel([], repeat_last=True))


async def test_calls_keep_their_text_and_ids() -> None:
    model = ScriptedModel(
        [
            reply(
                "Wait.",
                calls=[
                    call("look", city="Oslo", days=2),
                    call("look", "mine"),
                    call("look", _raw="{bad"),
                ],
                finish="length",
                usage=Usage(3, 4),
            )
        ]
    )

    assert await answer(model) == [
        Reply(
            "Wait.",
            (
                ToolCall("", "look", {"city": "Oslo", "days": 2}, '{"city": "Oslo", "days": 2}'),
                ToolCall("mine", "look", {}, "{}"),
                ToolCall("", "look", {}, "{bad"),
            ),
            "length",
            Usage(3, 4),
        )
    ]


async def test_deltas_stream_text_and_pieces_of_calls_by_index() -> None:
    said = reply(
        calls=[call("look"), call("read", "c9", page=1)],
        deltas=["Let ", [0, "c1"], "me", [0, '{"city":'], [0, ' "Oslo"}']],  # type: ignore[list-item]  # as in JSON
        usage=Usage(1, 2),
    )

    assert await answer(ScriptedModel([said])) == [
        TextDelta("Let "),
        CallDelta(0, "c1", "look"),
        TextDelta("me"),
        CallDelta(0, arguments='{"city":'),
        CallDelta(0, arguments=' "Oslo"}'),
        CallDelta(1, "c9", "read", '{"page": 1}'),
        Finish("tool_calls", Usage(1, 2)),
    ]


@pytest.mark.parametrize(("cut_after", "heard"), [(0, 0), (1, 1), (2, 2), (9, 3)])
async def test_a_cut_leaves_out_the_last_word(cut_after: int, heard: int) -> None:
    said = reply("Hm.", calls=[call("look"), call("look")], cut_after=cut_after)

    events = await answer(ScriptedModel([said]))
    assert len(events) == heard and not any(isinstance(event, Finish) for event in events)


@pytest.mark.parametrize("text", [None, "so far"])
async def test_a_fault_comes_after_the_text(text: str | None) -> None:
    model = ScriptedModel([fail("busy", "try later", hint="wait", may_pass=True, text=text)])
    stream = model.stream(request(1))
    if text:
        assert await anext(stream) == TextDelta("so far")

    with pytest.raises(ModelError, match="try later") as raised:
        await anext(stream)
    assert (raised.value.code, raised.value.hint, raised.value.may_pass) == ("busy", "wait", True)


def test_delays_are_the_loops_own_seconds() -> None:
    async def main() -> list[float]:
        loop, times = asyncio.get_running_loop(), list[float]()
        model = ScriptedModel([reply(deltas=["a", "b"], delay=2, delta_delay=0.5)])
        async for _ in model.stream(request(1)):
            times.append(loop.time())
        return times

    assert simulate(main) == [2.5, 3.0, 3.5]


async def test_one_object_serves_many_sessions_at_once() -> None:
    model = ScriptedModel(["one", reply("two", delay=0), "three"])

    async def session(turns: int) -> list[str | None]:
        async with open_runtime(model=model) as runtime:
            for n in range(turns):
                async for _ in runtime.run(f"go {n}"):
                    pass
            return [m.content for m in runtime.history if m.role == "assistant"]

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        sessions = [group.create_task(session(1 + n % 3)) for n in range(30)]

    assert [task.result() for task in sessions] == [
        ["one", "two", "three"][: 1 + n % 3] for n in range(30)
    ]


def test_it_keeps_the_model_protocol() -> None:
    model = ScriptedModel(["one"], name="mine")

    assert isinstance(model, Model)
    assert (model.name, model.dialect) == ("mine", "openai_chat")


# -- files ---------------------------------------------------------------------------------------


def script(path: Path, content: Any) -> Path:
    file = path / "script.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


async def test_a_file_says_what_python_says(tmp_path: Path) -> None:
    file = script(
        tmp_path,
        {
            "name": "from a file",
            "repeat_last": True,
            "replies": [
                {"text": "Wait.", "calls": [{"name": "look", "arguments": {"city": "Oslo"}}]},
                {"deltas": ["He", "llo"], "usage": {"input_tokens": 3}},
                {"error": {"code": "busy", "message": "later", "may_pass": True}},
            ],
        },
    )
    model = ScriptedModel.from_file(file)
    same = ScriptedModel([reply("Wait.", calls=[call("look", city="Oslo")])])

    assert model.name == "from a file"
    assert await answer(model, 1) == await answer(same, 1)
    assert await answer(model, 2) == [TextDelta("He"), TextDelta("llo"), Finish("stop", Usage(3))]
    with pytest.raises(ModelError, match="later"):
        await answer(model, 4)


async def test_an_agent_names_its_script_by_a_string(tmp_path: Path) -> None:
    file = script(tmp_path, {"replies": [{"text": "from a file"}]})

    async with asyncio.timeout(5), DebugRuntime(Agent("a", model=f"scripted:{file}")) as runtime:
        assert [p.type async for p in runtime.run("go")][-1] == "done"
        assert runtime.history[-1].content == "from a file"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{replies: []}", "malformed"),
        ("", "truncated"),
        ({}, "replies"),
        ({"replies": [{"text": "a"}, {"txet": "b"}]}, r"txet.*\$\.replies\[1\]"),
        ({"replies": [{"text": 3}]}, r"\$\.replies\[0\]\.text"),
        ({"replies": [{"calls": [{"arguments": {}}]}]}, r"name.*\$\.replies\[0\]\.calls\[0\]"),
        ({"replies": [{"finish": "whenever"}]}, r"whenever.*\$\.replies\[0\]\.finish"),
        ({"replies": [{"deltas": [["x", 0]]}]}, r"\$\.replies\[0\]\.deltas\[0\]"),
        ({"replies": [{"text": "a"}, {"deltas": [[1, "c1"]]}]}, r"replies\[1\]"),
        ({"replies": [{"delay": "1"}]}, r"\$\.replies\[0\]\.delay"),
    ],
)
def test_a_script_that_cannot_be_read_names_the_file_and_the_place(
    tmp_path: Path, content: Any, named: str
) -> None:
    file = script(tmp_path, content)

    with pytest.raises(ModelError, match=named) as raised:
        ScriptedModel.from_file(file)
    assert raised.value.code == "script_unreadable"
    assert repr(str(file)) in str(raised.value)


def test_a_script_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")

    for path in (tmp_path / "none.json", tmp_path, binary):
        with pytest.raises(ModelError, match=path.name) as raised:
            ScriptedModel.from_file(path)
        assert raised.value.code == "script_unreadable"


def test_a_piece_of_a_call_that_the_reply_does_not_make_is_refused_at_once() -> None:
    with pytest.raises(ModelError, match="1"):
        ScriptedModel(["fine", ScriptedReply(calls=(call("look"),), deltas=((1, "c1"),))])
