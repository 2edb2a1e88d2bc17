"""Rows and lines: the story a terminal and a test report tell."""

import asyncio
import json

import pytest

from agent_lab import Agent, ChatMessage, DebugRuntime, tool
from agent_lab.application.journal import Entry, Gap
from agent_lab.domain.payloads import (
    AnyPayload,
    LateReply,
    Paused,
    Rejected,
    Retrying,
    Text,
    ToolCalled,
    ToolStarted,
    TurnFailed,
    Withdrawn,
)
from agent_lab.presentation.escapes import visible, visible_json
from agent_lab.presentation.terminal import Row, Story, one_line, plain
from agent_lab.testing import HandGate, ScriptedModel, call, fail, reply

ATTACKS = {
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[2J\x1b[H",
    "8-bit": "\x9b2J",
    "return": "safe\roverwritten",
    "delete": "abc\x7f\x08\x08",
    "reversed": "gpj.\u202eexe",
    "isolate": "\u2066hidden\u2069",
    "separator": "one\u2028two",
    "surrogate": "\udc9b",
}


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS.keys())
def test_no_attack_on_a_terminal_gets_through(text: str) -> None:
    shown = visible(text)

    assert shown.isprintable()
    assert shown.encode()


def test_plain_text_of_any_script_stays_as_it_is() -> None:
    text = "Grüße\taus 東京 🙂\nund so weiter"

    assert visible(text) == text
    assert visible("one\r\ntwo") == "one\ntwo"


def test_json_with_an_attack_is_the_same_json() -> None:
    said = {"content": "".join(text for text in ATTACKS.values() if text != "\udc9b")}
    line = json.dumps(said, ensure_ascii=False)

    assert visible_json(line).isprintable()
    assert json.loads(visible_json(line)) == said


@tool
async def get_weather(city: str) -> str:
    """The weather."""
    return f"4 degrees in {city}\x1b[2J"


async def story(runtime: DebugRuntime, *, steer: bool = False) -> list[Row]:
    """The rows of one run; with a steer once the model has asked for tools."""
    async with asyncio.timeout(5), runtime.run("Weather in Oslo?") as run:
        async for payload in run:
            if steer and payload.type == "tool_call":
                await run.queues.input.put(ChatMessage("user", "And in Rome?"))
                steer = False
    _, entries = runtime.session.journal.read()
    return Story().tell(entries)


def without_times(rows: list[Row]) -> list[tuple[str, str]]:
    return [(row.label, row.text) for row in rows]


async def test_a_run_is_told_in_rows() -> None:
    said = [
        reply("I look.", calls=[call("get_weather", "c1", city="Oslo")]),
        reply("4 degrees."),
    ]
    async with DebugRuntime(
        Agent("weather", model=ScriptedModel(said), tools=[get_weather])
    ) as runtime:
        rows = await story(runtime, steer=True)

    assert without_times(rows) == [
        ("you", "Weather in Oslo?"),
        ("model", "I look."),
        ("call", 'get_weather(city="Oslo")'),
        ("you", "And in Rome?"),
        ("held", "“And in Rome?” waits for get_weather (c1)"),
        ("reply", "get_weather: 4 degrees in Oslo␛[2J"),
        ("delivered", "“And in Rome?”"),
        ("model", "4 degrees."),
        ("done", "2 model calls, 1 tool call"),
    ]
    assert [row.label for row in rows if row.took] == ["model", "reply", "model", "done"]


async def test_a_failed_turn_says_what_to_do() -> None:
    model = ScriptedModel([fail("no_credit", "the account is empty", hint="top it up")])
    async with DebugRuntime(Agent("a", model=model)) as runtime:
        rows = await story(runtime)

    assert without_times(rows)[-1] == ("error", "no_credit: the account is empty; top it up")


def told(*payloads: AnyPayload) -> tuple[Story, list[Row]]:
    made = Story()
    return made, made.tell([Entry(n, float(n), payload) for n, payload in enumerate(payloads, 1)])


@pytest.mark.parametrize(
    ("payload", "row"),
    [
        (Withdrawn(message_id="m", reason="user"), ("withdrawn", "“m” (user)")),
        (
            Rejected(message_id="m", code="busy", message="a turn runs"),
            ("rejected", "busy: a turn runs"),
        ),
        (
            Retrying(attempt=1, delay=0.5, code="cut", message="cut off"),
            ("retry", "cut: cut off; again in 0.5 s"),
        ),
        (
            LateReply(call_id="c", name=None, content="4", kind="result", is_error=False),
            ("late", "c: 4 [the model does not see it]"),
        ),
    ],
    ids=lambda value: value.type if hasattr(value, "type") else "",
)
def test_each_turn_of_events_has_its_row(payload: AnyPayload, row: tuple[str, str]) -> None:
    _, rows = told(payload)

    assert without_times(rows) == [row]


def test_hand_offs_have_no_row() -> None:
    assert told(Paused(hop="take", queue="input", item="m"))[1] == []


def test_a_gap_is_said() -> None:
    assert without_times(Story().tell(Gap(1, 9))) == [("gap", "entries 1 to 9 are no longer kept")]


def test_what_goes_on_is_the_answer_so_far_and_each_tool_that_runs() -> None:
    now = Story()
    assert now.going_on(9.0) == []
    now.tell([Entry(1, 1.0, Text(text="I lo\x1bok"))])
    now.tell([Entry(2, 2.0, ToolCalled(call_id="c", name="slow", arguments={}, round=1))])
    assert now.going_on(3.0) == []
    now.tell([Entry(3, 3.0, ToolStarted(call_id="c", name="slow"))])

    assert now.going_on(7.0) == [Row(6.0, "running", "slow", "cyan", "4.0 s")]
    ended = TurnFailed(code="c", message="m", hint="", pending=0)
    now.tell([Entry(4, 4.0, ended)])
    assert now.end is ended


def test_a_long_reply_is_cut_and_its_length_is_said() -> None:
    late = LateReply(call_id="c", name="read", content="x" * 5000, kind="result", is_error=False)

    (row,) = told(late)[1]

    assert "x… (5,000 characters)" in row.text
    assert len(row.text) < 400


def test_further_lines_of_a_row_stand_under_the_first() -> None:
    assert plain(Row(1.5, "model", "One.\n\nTwo.", "", "0.2 s")).splitlines() == [
        "    1.50 model       0.2 s One.",
        "",
        "                           Two.",
    ]


async def test_a_report_has_one_readable_line_an_entry() -> None:
    gate = HandGate()
    said = ScriptedModel(
        [reply(calls=[call("get_weather", "c1", city="Oslo")]), reply("4.\n" * 99)]
    )
    agent = Agent("weather", model=said, tools=[get_weather])
    async with DebugRuntime(agent, gate=gate) as runtime:
        await story(runtime)
        _, entries = runtime.session.journal.read()
        lines = [one_line(entry, entries[0].at) for entry in entries]

    assert all(line.isprintable() and len(line) < 300 for line in lines)
    assert [line.split()[0] for line in lines] == [str(entry.seq) for entry in entries]
    assert any('tool_calls=["c1"]' in line for line in lines)
    assert any("model_request  model=scripted messages=3" in line for line in lines)
    assert lines[-1].endswith("1.2    done           reason=stop pending=0")
