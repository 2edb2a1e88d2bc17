"""What must not leave the process: known secrets, and what looks like one."""

from __future__ import annotations

import base64
import json
import time
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_lab.domain.redaction import MARK, SHORTEST, Secrets, redact, secrets_in

KEY = 'sk-canary/42+"x"é'


def holding(*known: str) -> Secrets:
    secrets = Secrets()
    secrets.add(*known)
    return secrets


def streamed(secrets: Secrets, *chunks: str) -> list[str]:
    stream = secrets.stream()
    assert stream is not None
    return [*map(stream.push, chunks), stream.end()]


# -- known secrets -------------------------------------------------------------------------------


@pytest.mark.fault("SEC-30")
@pytest.mark.parametrize(
    "said",
    [
        KEY,
        quote(KEY, safe=""),
        quote(KEY, safe="").lower(),
        json.dumps(KEY)[1:-1],
        json.dumps(KEY, ensure_ascii=False)[1:-1],
    ],
)
def test_a_known_secret_is_hidden_however_it_is_written(said: str) -> None:
    assert holding(KEY).hide(f"before {said} after {said}") == f"before {MARK} after {MARK}"


@pytest.mark.fault("SEC-30")
@pytest.mark.parametrize("before", ["", "u:", "us:", "use:", "user:"])
@pytest.mark.parametrize("after", ["", "!", "!!"])
def test_base64_of_a_secret_gives_nothing_of_it_away(before: str, after: str) -> None:
    key = "sk-canary-4711-abcdef"
    for code in (base64.b64encode, base64.urlsafe_b64encode):
        said = code(f"{before}{key}{after}".encode()).decode()
        left = holding(key).hide(f"Basic {said}")

        assert MARK in left
        rest = left.removeprefix("Basic ").partition(MARK)
        assert len(rest[0]) <= len(before) * 4 // 3 + 2 and len(rest[2]) <= 8


def test_secrets_that_overlap_are_hidden_as_one() -> None:
    assert holding("abcdefgh", "efghijkl", "ghijklmn").hide("-abcdefghijklmn-") == f"-{MARK}-"


def test_what_is_too_short_for_a_secret_is_let_be() -> None:
    secrets = holding("x" * (SHORTEST - 1), "")
    secrets.add(None)

    assert not secrets and secrets.stream() is None
    assert secrets.hide("x" * SHORTEST) == "x" * SHORTEST


def test_a_forgotten_secret_is_shown_again() -> None:
    secrets = holding("first-secret", "second-secret")
    secrets.forget("first-secret")

    assert secrets.hide("first-secret second-secret") == f"first-secret {MARK}"


def test_in_a_value_strings_keys_and_numbers_are_hidden_and_all_else_is_kept() -> None:
    value: Any = {"a": ["x 12345678 y", 912345678, 1.5, None, True], "12345678": {"n": 1}}

    assert holding("12345678").hide_in(value) == {
        "a": [f"x {MARK} y", MARK, 1.5, None, True],
        MARK: {"n": 1},
    }


def test_variables_named_like_secrets_are_found() -> None:
    environment = {"OPENAI_API_KEY": "a", "HF_TOKEN": "b", "DB_PASSWORD": "c", "PATH": "d"}
    plain = {"TOKENIZERS_PARALLELISM": "e", "MAX_TOKENS": "f", "PWD": "g", "AUTHOR": "h"}

    assert secrets_in(environment | plain) == ["a", "b", "c"]


# -- a stream ------------------------------------------------------------------------------------


@pytest.mark.scenario("S71")
@pytest.mark.fault("SEC-30")
@pytest.mark.parametrize("cut", range(1, 21))
def test_a_secret_in_two_chunks_is_in_neither(cut: int) -> None:
    key = "sk-canary-4711-abcdef"
    said = streamed(holding(key), f"it is {key[:cut]}", f"{key[cut:]}, no")

    assert said == ["it is ", f"{MARK}, no", ""]


@pytest.mark.scenario("S71")
def test_the_end_of_a_stream_gives_what_was_held_back() -> None:
    assert streamed(holding("sk-canary-4711"), "this is sk-can") == ["this is ", "sk-can"]


@pytest.mark.scenario("S71")
def test_what_turns_out_to_be_no_secret_is_said() -> None:
    said = streamed(holding("abababac-abababac"), "x abab", "abab", "ab!", "")

    assert said == ["x ", "ab", "abababab!", "", ""]


LETTERS = st.text("ab", max_size=30)


@given(
    st.lists(st.text("ab", min_size=SHORTEST, max_size=12), min_size=1, max_size=3),
    st.lists(LETTERS, max_size=8),
)
def test_no_cut_of_a_stream_shows_what_the_whole_text_hides(
    known: list[str], chunks: list[str]
) -> None:
    secrets = holding(*known)
    said = "".join(streamed(secrets, *chunks))

    assert said.replace(MARK, "").count("a") <= "".join(chunks).count("a")
    assert not any(one in said for one in known)
    if not secrets.are_in("".join(chunks)):
        assert said == "".join(chunks)


# -- what looks like a secret --------------------------------------------------------------------


@pytest.mark.scenario("S72")
@pytest.mark.fault("T39")
@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Authorization: Bearer abc.def-12", f"Authorization: {MARK}"),
        ("Proxy-Authorization: Basic dTpwYXNzdw==", f"Proxy-Authorization: {MARK}"),
        ("Illegal header value b'Bearer abcd-1234'", f"Illegal header value b'Bearer {MARK}'"),
        ("(b'authorization', b'x y z')", f"(b'authorization', '{MARK}')"),
        ("no such key: sk-proj-abc123def456.", f"no such key: {MARK}."),
        ("ghp_abcdefghijklmnopqrst0123456789 fails", f"{MARK} fails"),
        ("eyJhbGciOiJ9.eyJzdWIiOiIx.c2lnbmF0dXJl", MARK),
        (
            "https://ann:p@ss@host/x?api_key=12&page=2",
            f"https://{MARK}@host/x?api_key={MARK}&page=2",
        ),
        ("postgres://ann@host/db", "postgres://ann@host/db"),
        ("X-Api-Key: abc, accessToken = def", f"X-Api-Key: {MARK}, accessToken = {MARK}"),
        ('{"db_password": "two words"}', f'{{"db_password": "{MARK}"}}'),
        ("{'password': 'it\\'s'}", f"{{'password': '{MARK}'}}"),
        ('{"secret": "cut off here', f'{{"secret": "{MARK}"'),
    ],
)
def test_what_looks_like_a_secret_is_redacted(said: str, left: str) -> None:
    assert redact(said) == left
    assert redact(left) == left


@pytest.mark.scenario("S72")
@pytest.mark.parametrize("spell", [json.dumps, repr])
def test_a_key_named_value_is_redacted_at_any_depth_and_in_strings(spell: Any) -> None:
    value: Any = {"token": "can ary", "city": "Oslo"}
    for _ in range(12):
        value = {"a": [value, 1]}
    nested: Any = "plain"
    for _ in range(3):
        nested = spell({"password": "can ary", "more": nested})

    for said in (spell(value), nested):
        left = redact(said)
        assert "ary" not in left and left.count(MARK) == said.count("can ary")
    assert "Oslo" in redact(spell(value))


@pytest.mark.scenario("S74")
@pytest.mark.parametrize(
    "said",
    [
        "token_count=12, max_tokens=64, tokens: 9, token_type: x",
        "author=Ann authority: none, secretary=Bob",
        "key=call_1 keys: [a] primary_key=3 PWD=/home/ann",
        "token: null, password=None, secret: true",
        "Bearer authentication required",
        "a basic misunderstanding, task-sk, sk-learn-like",
        "http://127.0.0.1:8000/api?after=12 and mail@example.org",
    ],
)
def test_what_only_sounds_like_a_secret_stays(said: str) -> None:
    assert redact(said) == said


@pytest.mark.scenario("S73")
@pytest.mark.parametrize(
    "said",
    [
        "a", "token=", 'token="', "token='\\\"", '"token":\\"', "://a:", "bearer ", "password  ",
        "eyJa-", "eyJaaaaaaaa.", "sk-a", " sk-aaa", "\\",
    ],
)  # fmt: skip
def test_redacting_is_linear(said: str) -> None:
    def seconds(size: int) -> float:
        text = said * (size // len(said))
        began = time.process_time()
        redact(text)
        return time.process_time() - began

    least = min(seconds(1 << 16) for _ in range(3))
    assert least < 0.3  # ten times what it takes; the square would be minutes


@pytest.mark.scenario("S73")
def test_a_long_secret_in_small_chunks_is_linear() -> None:
    key = "a" * (1 << 16) + "b"
    secrets = holding(key)
    began = time.process_time()
    said = streamed(secrets, *["a" * 256] * 256, "b!", *["a" * 256] * 64)

    assert "".join(said) == f"{MARK}!{'a' * 256 * 64}"
    assert time.process_time() - began < 2
