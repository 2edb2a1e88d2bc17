"""Server-sent events, whatever their line ends and pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_lab.domain.errors import ModelError
from agent_lab.infrastructure.models.sse import EVENT_SIZE, EventSplitter, ServerEvent

STREAM = 'event: a\ndata: {"x": 1}\n\n: note\nid: 7\ndata: two\ndata: lines\n\ndata: end\n\n'
EVENTS = [ServerEvent("a", '{"x": 1}'), ServerEvent("", "two\nlines"), ServerEvent("", "end")]


def split(stream: bytes, size: int | None = None) -> list[ServerEvent]:
    splitter = EventSplitter()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)] if size else [stream]
    events = [event for piece in pieces for event in splitter.feed(piece)]
    last = splitter.flush()
    return [*events, last._replace(is_whole=True)] if last else events


@pytest.mark.fault("P11")
@pytest.mark.parametrize("size", [None, 1, 2, 3])
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_pieces_mean_nothing(size: int | None, end: str, bom: bytes) -> None:
    assert split(bom + STREAM.replace("\n", end).encode(), size) == EVENTS


@pytest.mark.fault("P12")
@pytest.mark.fault("T26")
@pytest.mark.parametrize("size", [None, 1])
def test_separators_that_json_allows_do_not_end_a_line(size: int | None) -> None:
    said = 'a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"€"🙂'
    assert split(f"data: {said}\n\n".encode(), size) == [ServerEvent("", said)]


@pytest.mark.fault("P11")
@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data\n\ndata:\n\n", [ServerEvent("", ""), ServerEvent("", "")]),
        (b"data:x\ndata: y\n\n", [ServerEvent("", "x\ny")]),
        (b"data: x", [ServerEvent("", "x")]),
        (b"data: x\r", [ServerEvent("", "x")]),
        (b"event: lonely\n\ndata: x\n\n", [ServerEvent("", "x")]),
        (b"\n\n\n", []),
        (b"\xef\xbb", []),
    ],
)
def test_odd_streams(stream: bytes, events: list[ServerEvent]) -> None:
    assert split(stream) == events and split(stream, 1) == events


@pytest.mark.fault("P11")
@pytest.mark.parametrize("size", [None, 1])
def test_bytes_that_are_no_text_are_named(size: int | None) -> None:
    with pytest.raises(ModelError, match="UTF-8") as raised:
        split(b"data: \xe2\x82\n\n", size)
    assert raised.value.code == "provider_bad_stream"


@pytest.mark.fault("P11")
@pytest.mark.parametrize("line", [b"x", b"data: x\n"])
def test_an_event_without_end_is_refused_and_not_kept(line: bytes) -> None:
    splitter, block = EventSplitter(), line * (1 << 16)

    def feed() -> None:
        for _ in range(EVENT_SIZE // len(block) + 2):
            assert list(splitter.feed(block)) == []

    with pytest.raises(ModelError) as raised:
        feed()
    assert raised.value.code == "provider_too_large"


@given(st.lists(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"))))
def test_what_was_said_comes_out(said: list[str]) -> None:
    stream = "".join(f"data: {text}\n\n" for text in said).encode()
    assert [event.data for event in split(stream, 3)] == said
