"""The parts that touch neither a runtime nor a terminal."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from awaken.cli.builtin_agent import calculate, count_words
from awaken.cli.decider import parse_approval, parse_value
from awaken.cli.output import (
    Flow,
    ago,
    call_words,
    clean,
    print_table,
    seconds,
    size,
    terminal_line,
)
from awaken.cli.store_address import WayBack, way_back
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import ResumeAction, ToolCallResumeMode
from awaken.core.tool import ToolError

TICKET = RunWaitingTicket(
    ticket_id="t", tool_call_id="c", tool_name="pay", arguments={"euros": 7}, updated_at=0
)


@given(st.text())
def test_clean_text_holds_no_control_character_and_can_be_printed(text: str) -> None:
    cleaned = clean(text)
    assert not [c for c in cleaned if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    cleaned.encode()


def test_escape_sequences_are_shown_and_not_obeyed() -> None:
    assert clean("\x1b]0;mine\x07 \x9b2J \u202eevil \ud800") == "␛]0;mine␇ �2J �evil �"
    assert clean("a\r\nb\tc\rd") == "a\nb\tc␍d"


@given(st.text(), st.integers(8, 60))
def test_one_line_is_one_line_and_not_too_long(text: str, longest: int) -> None:
    line = terminal_line(text, longest)
    assert len(line) <= longest
    assert len(line.splitlines()) <= 1


def test_calls_read_like_calls() -> None:
    assert call_words("find", {"number": 7, "deep": [1, "a"]}) == 'find(number=7, deep=[1,"a"])'
    assert call_words("now", None) == "now()"
    assert call_words("say", {"text": "x" * 500}, 40) == f'say(text="{"x" * 28}…)'


@pytest.mark.parametrize(
    ("ms", "words"), [(0, "0.0 s"), (949, "0.9 s"), (9_949, "9.9 s"), (59_400, "59 s")]
)
def test_durations_are_short(ms: int, words: str) -> None:
    assert seconds(ms) == words


@pytest.mark.parametrize(
    ("at_ms", "words"),
    [
        (1_000_000, "just now"),
        (996_000, "just now"),
        (950_000, "50 s ago"),
        (100_000, "15 min ago"),
        (-90_000_000, "1 d ago"),
        (8_300_000, "in 2 h"),
    ],
)
def test_instants_are_told_from_now(at_ms: int, words: str) -> None:
    assert ago(1_000_000, at_ms) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (999_600, "1.0 MB"),
        (2**40, "1099.5 GB"),
    ],
)
def test_sizes_are_short(number: int, words: str) -> None:
    assert size(number) == words


def test_a_table_is_cut_only_where_somebody_watches_and_only_at_its_end() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    rows = [("thread-1", "7", "x" * 100), ("t2", "12,345", "\x1b[2Jshort")]
    page, terminal = io.StringIO(), Terminal()
    for file in (page, terminal):
        console = Console(file=file, width=40, color_system=None, soft_wrap=True)
        print_table(console, ("ID", "SIZE:", "BEGINS"), rows)
    assert page.getvalue().splitlines() == [
        "ID          SIZE  BEGINS",
        f"thread-1       7  {'x' * 100}",
        "t2        12,345  ␛[2Jshort",
    ]
    assert terminal.getvalue().splitlines()[1] == f"thread-1       7  {'x' * 21}…"


def test_the_way_back_can_be_typed_as_it_stands() -> None:
    back = WayBack("my app.py:agent", "sqlite:///a b.db")
    ticket = RunWaitingTicket(ticket_id="i", tool_call_id="c", tool_name="f", updated_at=0, key="k")
    typed = "awaken decide 'a thread' k yes --store 'sqlite:///a b.db'"
    assert back.decide("a thread", ticket) == typed
    assert back.resume("t") == "awaken resume 'my app.py:agent' t --store 'sqlite:///a b.db'"
    assert way_back("app:agent", "memory:") is None


def flowed(pieces: list[str], width: int | None) -> str:
    written: list[str] = []
    flow = Flow(written.append, "  ", width)
    for piece in pieces:
        flow.feed(piece)
    flow.end()
    return "".join(written)


@given(st.lists(st.text("ab \n", max_size=12)), st.integers(6, 20))
def test_wrapping_loses_no_word_and_keeps_to_its_width(pieces: list[str], width: int) -> None:
    text = flowed(pieces, width)
    assert text.split() == "".join(pieces).split()
    for line in text.split("\n"):
        assert len(line) <= width or len(line.split()) == 1
        assert not line or line.startswith("  ")


def test_text_nobody_watches_is_written_as_it_comes() -> None:
    written: list[str] = []
    flow = Flow(written.append, "  ", None)
    flow.feed("half a wo")
    assert "".join(written) == "  half a wo"
    flow.feed("rd\nnext")
    flow.end()
    assert "".join(written) == "  half a word\n  next\n"


def test_text_without_spaces_is_not_held_back() -> None:
    written: list[str] = []
    Flow(written.append, "", 10).feed("こんにちは世界")
    assert "".join(written) == "こんにちは\n世界"


@pytest.mark.parametrize(
    ("typed", "action", "reason"),
    [
        ("y", ResumeAction.RESUME, None),
        (" YES ", ResumeAction.RESUME, None),
        ("n", ResumeAction.CANCEL, None),
        ("No", ResumeAction.CANCEL, None),
        ("n: too much", ResumeAction.CANCEL, "too much"),
        ("no, too much", ResumeAction.CANCEL, "too much"),
        ("no way", ResumeAction.CANCEL, "no way"),
        ("not today", ResumeAction.CANCEL, "not today"),
        ("yesterday was better", ResumeAction.CANCEL, "yesterday was better"),
    ],
)
def test_answers_are_yes_or_no_or_why_not(
    typed: str, action: ResumeAction, reason: str | None
) -> None:
    answer = parse_approval(typed, TICKET)
    assert answer is not None
    assert (answer.action, answer.reason, answer.result) == (action, reason, None)


def test_a_yes_with_conditions_is_no_answer() -> None:
    assert parse_approval("yes, if it is cheap", TICKET) is None
    assert parse_approval("y?", TICKET) is None


def test_a_yes_to_a_tool_that_takes_the_decision_gives_it_its_own_arguments() -> None:
    ticket = RunWaitingTicket(
        ticket_id="t",
        tool_call_id="c",
        tool_name="pay",
        arguments={"euros": 7},
        resume_mode=ToolCallResumeMode.PASS_DECISION_TO_TOOL,
        updated_at=0,
    )
    answer = parse_approval("y", ticket)
    assert answer is not None
    assert answer.result == {"euros": 7}


def test_values_are_json_or_else_text() -> None:
    assert parse_value('{"a": 1}') == {"a": 1}
    assert parse_value("7") == 7
    assert parse_value("light blue") == "light blue"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 + 3 * 4", 14),
        ("-(7 // 2)", -3),
        ("2 ** 10 % 7", 2),
        ("1 / 4", 0.25),
        ("2 ** 99", 2.0**99),
    ],
)
async def test_the_calculator_calculates(expression: str, value: float) -> None:
    assert await calculate(expression) == value


@pytest.mark.anyio
@pytest.mark.parametrize(
    "expression",
    [
        "1 / 0",
        "__import__('os')",
        "((9 ** 64) ** 64) ** 64",
        "9 ** 999",
        "1e999",
        "(-8) ** 0.5",
        "True",
        "1 +",
        "1" * 201,
    ],
)
async def test_the_calculator_refuses_what_is_no_arithmetic(expression: str) -> None:
    with pytest.raises(ToolError):
        await calculate(expression)


@pytest.mark.anyio
async def test_words_are_counted() -> None:
    counted = await count_words("The cat, the dog.")
    assert counted == {"words": 4, "characters": 17, "most common": "the"}
