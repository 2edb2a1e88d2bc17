"""Histories over HTTP: brought in, gone on from, checked, explained, and what was not held."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_lab.domain.dialects.check import DIALECTS
from tests.presentation.helpers_server import Doors, Serving, looker, talker

CALL = {"id": "call_a1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
USER = {"role": "user", "content": "Weather in Oslo?"}
BROKEN = [USER, CALLS, {"role": "user", "content": "And in Rome?"}]
UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: call_a1"
)


async def post(serving: Serving, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    answer = await serving.get(path, method="POST", json=body)
    return answer.status_code, answer.json()


async def taken_in(serving: Serving, content: Any, **fields: Any) -> dict[str, Any]:
    status, said = await post(serving, "/api/sessions/import", {"content": content, **fields})
    assert status == 201, said
    return said


async def test_a_history_is_taken_in_told_and_gone_on_from() -> None:
    async with Serving(talker()) as serving:
        said = await taken_in(serving, {"model": "gpt-5", "messages": BROKEN})
        client = await serving.attach(said["session_id"])
        await client.send({"type": "user_message", "content": "Well?"})
        await client.end()
        sessions = (await serving.get("/api/sessions")).json()["sessions"]

        assert (said["format"], said["messages"], said["valid"]) == ("openai_chat", 3, False)
        assert [(v["rule"], v["where"], v["message"], v["seq"]) for v in said["violations"]] == [
            ("tool_calls_unanswered", 1, 1, 2)
        ]
        assert [(c["deed"], c["where"]) for c in said["changes"]] == [("made", None)]
        told = [entry for entry in client.entries if entry["type"] == "imported"]
        assert [(e["index"], e["message"]["role"], e["fate"]) for e in told] == [
            (0, "user", "kept"),
            (1, "assistant", "kept"),
            (None, "tool", "made"),
            (2, "user", "kept"),
        ]
        assert [entry["seq"] for entry in told] == [1, 2, 3, 4]
        request = next(e for e in client.entries if e["type"] == "model_request")
        assert [m["role"] for m in request["body"]["messages"]] == [
            *("user", "assistant", "tool", "user", "user"),
        ]
        assert sessions[0]["title"] == "Weather in Oslo?"


async def test_the_verdict_on_what_was_given_stays_and_the_history_now_is_valid() -> None:
    async with Serving(talker()) as serving:
        session = (await taken_in(serving, BROKEN))["session_id"]
        said = (await serving.get(f"/api/sessions/{session}/check")).json()

        assert list(said["dialects"]) == list(DIALECTS)
        assert all(one == {"valid": True, "violations": []} for one in said["dialects"].values())
        assert (said["messages"], said["last_seq"]) == (4, 4)
        assert said["imported"]["valid"] is False
        fault = said["imported"]["violations"][0]
        assert fault["provider_error"] == UNANSWERED
        assert (fault["seq"], fault["ids"], fault["severity"]) == (2, ["call_a1"], "error")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (json.dumps(BROKEN), "openai_chat"),
        ("\n".join(map(json.dumps, BROKEN)), "openai_chat"),
        ({"system": "Be brief.", "messages": [USER]}, "anthropic"),
        ({"input": "Weather in Oslo?"}, "openai_responses"),
        ({"contents": [{"role": "user", "parts": [{"text": "Weather in Oslo?"}]}]}, "gemini"),
        ([{"request": {"messages": [USER]}}, {"request": {"messages": BROKEN}}], "openai_chat"),
    ],
    ids=["text", "lines", "anthropic", "responses", "gemini", "log"],
)
async def test_bodies_lists_and_logs_are_taken_in(content: Any, found: str) -> None:
    async with Serving(talker()) as serving:
        said = await taken_in(serving, content)

        assert said["format"] == found


async def test_a_journal_of_ours_is_taken_in_as_it_was() -> None:
    async with Serving(talker()) as serving:
        client = await serving.run("Hello.")
        await client.end()
        lines = "\n".join(map(json.dumps, client.entries))
        said = await taken_in(serving, lines)
        again = serving.agents.session(said["session_id"])
        before = serving.agents.session(client.session_id)

        assert (said["format"], said["valid"]) == ("journal", True)
        assert again.runtime.history == before.runtime.history


DEEP: Any = []
for _ in range(5_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("body", "status", "code", "says"),
    [
        ({"content": "{"}, 422, "bad_history", "it is not JSON"),
        ({"content": "{}\n{"}, 422, "bad_history", "line 2 cannot be read"),
        ({"content": 3}, 422, "bad_history", "no list of messages is in it"),
        ({"content": []}, 422, "bad_history", "it is empty"),
        ({"content": ["hello"]}, 422, "bad_history", "messages[0] cannot be read"),
        ({"content": "[" * 5_000 + "]" * 5_000}, 422, "bad_history", "nested more than 200 deep"),
        ({"content": [USER], "format": "xml"}, 422, "bad_history", "there is no format 'xml'"),
        ({"content": [USER], "agent": "nobody"}, 404, "not_found", "there is no agent 'nobody'"),
        (
            {"content": [USER], "agent": 3},
            422,
            "bad_message",
            "Expected `str | null`, got `int` at $.agent",
        ),
        ([], 422, "bad_message", "Expected `object`, got `array`"),
    ],
)
async def test_what_is_no_history_is_named(body: Any, status: int, code: str, says: str) -> None:
    async with Serving(talker()) as serving:
        got, said = await post(serving, "/api/sessions/import", body)

        assert (got, said["error"]) == (status, code)
        assert says in said["message"]
        assert (await serving.get("/api/sessions")).json() == {"sessions": []}


async def test_a_body_5000_deep_and_one_over_a_mebibyte_are_refused() -> None:
    async with Serving(talker()) as serving:
        options: dict[str, Any] = {
            "method": "POST",
            "headers": {
                "Content-Type": "application/json",
                "Authorization": f"Bearer {'T' * 43}",
            },
        }
        deep = '{"content":' + "[" * 5_000 + "]" * 5_000 + "}"
        answers = [
            await serving.get("/api/sessions/import", content=text, **options)
            for text in (deep, '{"content":"' + "x" * (1 << 20) + '"}')
        ]

        assert [answer.json()["error"] for answer in answers] == ["too_deep", "body_too_large"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('{"role":"user","content":"a","content":"b"}', "duplicate_key"),
        ('{"role":"user","content":"a","n":NaN}', "bad_number"),
        ('{"role":"user","content":"a\\ud800b"}', "bad_text"),
        ('{"role":"user","content":"a\\u0000b"}', "bad_text"),
        ('{"role":"user","content":"a"', "bad_json"),
    ],
)
async def test_a_body_is_read_as_strictly_as_a_frame(message: str, code: str) -> None:
    async with Serving(talker()) as serving:
        for path, body in (
            ("/api/sessions/import", f'{{"content":[{message}]}}'),
            ("/api/explain", f'{{"text":"x","session_id":{message}}}'),
        ):
            answer = await serving.get(
                path, method="POST", content=body, extra={"Content-Type": "application/json"}
            )
            status = 400 if code == "bad_json" else 422
            assert (answer.status_code, answer.json()["error"]) == (status, code), path


async def test_a_history_may_be_all_brackets() -> None:
    async with Serving(talker()) as serving:
        numbers = {"role": "user", "content": "Hi", "metadata": [[n] for n in range(30_000)]}
        status, _ = await post(serving, "/api/sessions/import", {"content": [numbers]})

        assert status == 201


async def test_half_of_a_surrogate_pair_is_replaced() -> None:
    async with Serving(talker()) as serving:
        said = await taken_in(serving, '[{"role":"user","content":"Hi \\ud83d"}]')

        history = serving.agents.session(said["session_id"]).runtime.history
        assert history[0].content == "Hi ?"


async def test_an_error_text_finds_its_rule_and_in_a_session_the_message() -> None:
    async with Serving(talker()) as serving:
        session = (await taken_in(serving, BROKEN))["session_id"]
        _, alone = await post(serving, "/api/explain", {"text": UNANSWERED})
        _, said = await post(serving, "/api/explain", {"text": UNANSWERED, "session_id": session})
        _, nothing = await post(serving, "/api/explain", {"text": "Hello there."})

        assert alone["rules"][0]["rule"] == "tool_calls_unanswered"
        assert (alone["found"], alone["named"]) == ([], [])
        assert said["rules"] == alone["rules"]
        assert [(f["dialect"], f["rule"], f["message"], f["seq"]) for f in said["found"]] == [
            ("openai_chat", "tool_calls_unanswered", 1, 2)
        ]
        assert said["named"] == [{"id": "call_a1", "message": 1, "seq": 2}]
        assert nothing == {"rules": [], "found": [], "named": []}


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "gemini", "openai_responses"])
async def test_without_holding_the_provider_would_have_refused(dialect: str) -> None:
    doors = Doors()
    async with Serving(looker(doors)) as serving:
        client = await serving.run()
        await doors.inside()
        await client.send({"type": "user_message", "content": "And in Rome?"})
        held = await client.until("held")
        path = f"/api/sessions/{client.session_id}/entries"
        early = (await serving.get(f"{path}/{held['seq']}/unheld?dialect={dialect}")).json()
        doors.door.set()
        await client.end()
        late = (await serving.get(f"{path}/{held['seq']}/unheld?dialect={dialect}")).json()
        checked = (await serving.get(f"/api/sessions/{client.session_id}/check")).json()
        seqs = {entry["seq"]: entry["type"] for entry in client.entries}

        assert early["request"] is None
        assert seqs[late["request"]] == "model_request"
        assert early["provider_error"] is not None
        assert seqs[early["violations"][0]["seq"]] == "assistant"
        # Responses pairs a call with its output wherever that stands
        assert (late["provider_error"] is None) == (dialect == "openai_responses")
        assert all(one["valid"] for one in checked["dialects"].values())


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/sessions/none/check", 404),
        ("/api/sessions/{}/check?dialect=nobody", 422),
        ("/api/sessions/{}/entries/1/unheld", 404),
        ("/api/sessions/{}/entries/x/unheld", 404),
        ("/api/sessions/{}/entries/1/unheld?dialect=nobody", 422),
    ],
)
async def test_what_is_not_there_is_said(path: str, status: int) -> None:
    async with Serving(talker()) as serving:
        session = (await taken_in(serving, [USER]))["session_id"]

        answer = await serving.get(path.format(session))

        assert answer.status_code == status
