"""The query language of search, and how texts are cut into words (07 §6)."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.core.search.query import (
    MAX_TEXT,
    MAX_WORDS,
    NANOS,
    Bound,
    Phrase,
    SearchTerms,
    parse_search,
)
from awaken.core.search.usage import check_day, day_of, load_zone
from awaken.core.search.words import LONGEST_WORD, cut_snippet, split_words
from awaken.errors import ConfigError, InvalidSearch


def phrases(text: str) -> list[str]:
    found = parse_search(text).phrases
    return [" ".join(phrase.words) + ("*" if phrase.is_prefix else "") for phrase in found]


def test_words_and_phrases() -> None:
    assert phrases('Mug  "arrived in pieces" case-1042* mug') == [
        "mug",
        "arrived in pieces",
        "case 1042*",
    ]
    assert phrases('"one* two"') == ["one two"]
    assert phrases("http://a.example/x?y=1 a:b") == ["http a example x y 1", "a b"]
    assert phrases("!!! “” ---") == []
    assert phrases("東京都") == ["東 京 都"]
    assert phrases("Café ΣΊΣΥΦΟΣ straße ﬁn") == ["cafe", "σισυφοσ", "strasse", "fin"]


def test_filters() -> None:
    now = 1_000_000_000_000
    found = parse_search(
        'agent:desk tool:"find order" label:team=a status:failed user:ann model:m after:7d '
        "before:2026-11-19 cost:>1.5 tokens:<=10k mug",
        now_ms=now,
    )
    assert found == SearchTerms(
        phrases=(Phrase(words=("mug",)),),
        tags=("a:desk", "t:find order", "l:team=a", "s:failed", "u:ann", "m:m"),
        after_ms=now - 7 * 86_400_000,
        before_ms=round(datetime(2026, 11, 19, tzinfo=UTC).timestamp() * 1000),
        bounds=(
            Bound(field="cost", sign=">", value=3 * NANOS // 2),
            Bound(field="tokens", sign="<=", value=10_000),
        ),
    )


def test_days_are_those_of_the_zone() -> None:
    zone = load_zone("Asia/Kathmandu")
    assert parse_search("after:2026-11-19", zone=zone).after_ms == round(
        datetime(2026, 11, 18, 18, 15, tzinfo=UTC).timestamp() * 1000
    )
    assert parse_search("after:2026-11-19T08:00+02:00", zone=zone).after_ms == round(
        datetime(2026, 11, 19, 6, tzinfo=UTC).timestamp() * 1000
    )
    assert day_of(0, UTC) == "1970-01-01"
    assert day_of(-1, ZoneInfo("America/New_York")) == "1969-12-31"
    for name in ("Mars/Base", "../etc/passwd", "", "a\0b"):
        with pytest.raises(ConfigError, match="time zone"):
            load_zone(name)
    for day in ("2026-1-1", "2026-02-30", "soon", "2026-11-19T00:00"):
        with pytest.raises(ConfigError, match="is a day such as"):
            check_day("after", day)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("mug agetn:x", "agetn:x"),
        ("tokens:many", "tokens:many"),
        ("cost:>=", "cost:>="),
        ("cost:>1e9", "cost:>1e9"),
        ("tokens:>99999999999999999999", "tokens:>99999999999999999999"),
        ("before:2026-13-01", "before:2026-13-01"),
        ("before:99999999999d", "before:99999999999d"),
        ('label:"x', 'label:"x'),
        ('a "b c', '"b c'),
        ("status:ok", "status:ok"),
    ],
)
def test_the_part_that_is_wrong_is_named(text: str, part: str) -> None:
    with pytest.raises(InvalidSearch) as caught:
        parse_search(text)
    assert caught.value.part == part
    assert str(caught.value).startswith(f"{part}: ")


def test_a_query_has_limits() -> None:
    parse_search(" ".join(["a"] * MAX_WORDS))
    with pytest.raises(InvalidSearch, match=f"more than {MAX_WORDS} words"):
        parse_search(" ".join(["a"] * (MAX_WORDS + 1)))
    with pytest.raises(InvalidSearch, match=f"more than {MAX_WORDS} words"):
        parse_search("東" * (MAX_WORDS + 1))
    with pytest.raises(InvalidSearch, match="at most"):
        parse_search("a" * (MAX_TEXT + 1))
    assert split_words("x" * 10_000) == ["x" * LONGEST_WORD]


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing that a stranger writes raises anything else, and words have no sign in them."""
    try:
        terms = parse_search(text)
    except InvalidSearch:
        return
    for phrase in terms.phrases:
        for word in phrase.words:
            assert word.replace("_", "x").isalnum() or not word.isascii()
            assert not set(word) & set("\"'*:()^\\ ")


@given(st.text(max_size=500), st.text(min_size=1, max_size=20))
def test_a_snippet_is_one_line_of_the_text(body: str, word: str) -> None:
    cut = cut_snippet(body, [tuple(split_words(word))] if split_words(word) else [])
    assert len(cut.splitlines()) <= 1
    assert len(cut) <= 162


def test_a_snippet_shows_the_words() -> None:
    body = "filler " * 100 + "the Mug, arrived " + "more " * 100
    cut = cut_snippet(body, [("mug", "arrived")])
    assert cut.startswith("…filler")
    assert "Mug, arrived" in cut
    assert cut.endswith("…")
