"""Server-sent events, however their bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.backend.a2a.http import SseDecoder


def decode(*chunks: bytes) -> list[tuple[str, str]]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("data: a\n\n", [("message", "a")]),
        ("data: a\ndata:b\ndata:  c\n\n", [("message", "a\nb\n c")]),
        (": ping\n\n: ping\ndata: a\n\n", [("message", "a")]),
        ("event: error\ndata: a\n\ndata: b\n\n", [("error", "a"), ("message", "b")]),
        ("id: 7\nretry: 10\nother: x\ndata\ndata: a\n\n", [("message", "\na")]),
        ("event: nothing\n\n", []),
        ("data: not finished\n", []),
        ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", [("message", letter) for letter in "abc"]),
        ("\ufeffdata: a\n\n", [("message", "a")]),
        ("data: a\u2028b\u0085c\x0cd\n\n", [("message", "a\u2028b\u0085c\x0cd")]),
    ],
)
def test_lines_are_joined_and_comments_ignored(text: str, events: list[tuple[str, str]]) -> None:
    """03/MH-5 SSE decoder joins multi-line data and ignores comments."""
    assert decode(text.encode()) == events


LINES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))


@given(
    events=st.lists(st.lists(LINES, min_size=1, max_size=3)),
    ends=st.sampled_from(["\n", "\r\n", "\r"]),
    data=st.data(),
)
def test_events_do_not_depend_on_where_the_bytes_are_cut(
    events: list[list[str]], ends: str, data: st.DataObject
) -> None:
    """03/DB-14 incremental decoding."""
    lines = "".join("".join(f"data: {line}{ends}" for line in event) + ends for event in events)
    stream = lines.encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    chunks = [stream[a:b] for a, b in pairwise([0, *cuts, len(stream)])]
    wanted = [("message", "\n".join(event)) for event in events]
    assert decode(*chunks) == wanted
    assert decode(*(bytes([byte]) for byte in stream)) == wanted


def test_what_is_not_utf_8_is_an_error() -> None:
    with pytest.raises(UnicodeDecodeError):
        decode(b"data: \xe4\n\n")
