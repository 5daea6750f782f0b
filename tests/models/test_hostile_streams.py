"""Streams as no manual shows them, in every API, through its SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from bent_streams import problem_with
from mock_server import Answer, sse
from whole_streams import WIRES, WORDS, asking

from awaken.core.llm import ProviderError, RateLimited

pytestmark = pytest.mark.anyio

Pieces = Sequence[bytes]
TEXT = [name for name, wire in WIRES.items() if wire.text]


def _in(size: int, pieces: Pieces) -> Pieces:
    """The same bytes in pieces of this size."""
    whole = b"".join(pieces)
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def _over_lines(pieces: Pieces) -> Pieces:
    """Each event's JSON on several lines."""
    written: list[bytes] = []
    for piece in pieces:
        head, _, data = piece.decode().partition("data: ")
        if data.startswith("{"):
            lines = json.dumps(json.loads(data), indent=1, ensure_ascii=False).split("\n")
            piece = (head + "".join(f"data: {line}\n" for line in lines) + "\n").encode()
        written.append(piece)
    return written


WAYS: dict[str, Callable[[Pieces], Pieces]] = {
    "CRLF": lambda pieces: [piece.replace(b"\n", b"\r\n") for piece in pieces],
    "CRLF, byte by byte": lambda pieces: _in(1, [p.replace(b"\n", b"\r\n") for p in pieces]),
    "CR": lambda pieces: [piece.replace(b"\n", b"\r") for piece in pieces],
    "no space": lambda pieces: [p.replace(b"data: ", b"data:") for p in pieces],
    "comments": lambda pieces: [b": busy\n\n", *(b": alive\n\n" + piece for piece in pieces)],
    "comments inside": lambda pieces: [b": alive\n" + piece for piece in pieces],
    "other fields": lambda pieces: [b"id: 7\nretry: 10\n" + piece for piece in pieces],
    "over several lines": _over_lines,
}


@pytest.mark.parametrize("name", TEXT)
async def test_events_may_be_written_in_every_way_that_their_standard_allows(name: str) -> None:
    wire = WIRES[name]
    pieces = wire.encode(wire.events)
    async with asking(name) as asker:
        plain = await asker.ask(Answer(pieces=pieces))
        assert plain.text() == f"{WORDS}see."
        for way, written in WAYS.items():
            assert await asker.ask(Answer(pieces=written(pieces))) == plain, way


@pytest.mark.parametrize("name", WIRES)
async def test_a_connection_may_split_an_answer_anywhere(name: str) -> None:
    """Also in the middle of a character."""
    wire = WIRES[name]
    pieces = wire.encode(wire.events)
    async with asking(name) as asker:
        plain = await asker.ask(Answer(pieces=pieces))
        for size in (1, 2, 7, 100_000):
            assert await asker.ask(Answer(pieces=_in(size, pieces))) == plain, size


def _with_line_ends(value: Any) -> Any:
    """The events with characters in their texts that end a line, but not in this format."""
    if isinstance(value, str):
        return value.replace("—", "a\u2028b\u2029c\x85d")
    if isinstance(value, dict):
        return {key: _with_line_ends(each) for key, each in value.items()}
    return [_with_line_ends(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", WIRES)
async def test_no_character_of_a_text_ends_an_event(name: str) -> None:
    events = [_with_line_ends(event) for event in WIRES[name].events]
    async with asking(name) as asker:
        said = await asker.ask(Answer(pieces=WIRES[name].encode(events)))
    assert said.text() == f"{_with_line_ends(WORDS)}see."


@pytest.mark.parametrize("name", WIRES)
async def test_a_bent_stream_is_an_answer_or_one_of_our_errors(name: str) -> None:
    """And an answer can be stored and read again. `bent_streams.py` tries more of them."""
    async with asking(name) as asker:
        for seed in range(60):
            assert await problem_with(asker, name, Random(seed)) is None, seed


@pytest.mark.parametrize("count", ["12", 1.5, True, [], 10**30], ids=repr)
async def test_a_count_of_tokens_that_is_none_is_not_told(count: object) -> None:
    """It was stored, and the thread could not be read again."""
    events = [
        {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]},
        {"usage": {"prompt_tokens": count, "completion_tokens": 12.0, "total_tokens": 3}},
    ]
    async with asking("chat") as asker:
        said = await asker.ask(Answer(pieces=sse(*events, "[DONE]")))
    assert said.usage is not None
    assert (said.usage.prompt_tokens, said.usage.completion_tokens) == (None, 12)


# -- no stream at all -----------------------------------------------------------------------------

ERROR = {"message": "slow down, please", "type": "rate_limit_error", "code": 429}
PAGE = b"<html><head><title>?</title></head>\n<body><h1>Welcome!</h1></body></html>"


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_error_that_came_as_a_success_keeps_its_class_and_words(
    name: str, kind: str
) -> None:
    body = json.dumps({"error": ERROR}).encode()
    async with asking(name) as asker:
        with pytest.raises(RateLimited, match="slow down, please"):
            await asker.ask(Answer(pieces=[body], headers={"content-type": kind}))


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("status", [200, 502])
async def test_the_page_of_a_proxy_is_told_by_its_words(name: str, status: int) -> None:
    page = Answer(status=status, pieces=[PAGE], headers={"content-type": "text/html"})
    # Google's SDK keeps only the first line of a page that came as a success.
    told = "<html>" if (name, status) == ("gemini", 200) else r": Welcome!$"
    async with asking(name) as asker:
        with pytest.raises(ProviderError, match=told):
            await asker.ask(page)


@pytest.mark.parametrize("name", WIRES)
async def test_a_response_without_a_body_is_an_error(name: str) -> None:
    async with asking(name) as asker:
        for status in (200, 204):
            with pytest.raises(ProviderError):
                await asker.ask(Answer(status=status))
