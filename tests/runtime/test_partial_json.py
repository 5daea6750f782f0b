"""JSON that is still being written."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.runtime.partial_json import FINENESS, PartialJson

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def read(text: str) -> object:
    partial = PartialJson()
    partial.push(text)
    return partial.value()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("{", {}),
        ('{"na', {}),
        ('{"name"', {}),
        ('{"name":', {}),
        ('{"name": "A', {"name": "A"}),
        ('{"name": "A\\', {"name": "A"}),
        ('{"name": "A\\u00', {"name": "A"}),
        ('{"name": "\\ud83d', {"name": ""}),
        ('{"n": 12', {}),
        ('{"n": 12,', {"n": 12}),
        ('{"n": tru', {}),
        ('{"n": true', {"n": True}),
        ('{"a": 1, "b": [1, 2', {"a": 1, "b": [1]}),
        ('Here: {"a": [{"b": "c', {"a": [{"b": "c"}]}),
        # words with braces before it
        ('Here is {the} answer: {"a": 1}', {"a": 1}),
        ('{{"a": 1}', {"a": 1}),
        ('Nothing {} yet, but {"a": 1}', {"a": 1}),
        ('He said {"hello, and {"a": 1}', {"a": 1}),
        ('From {"old": 1} to {"a": 1}', {"a": 1}),
        ('From {"old": 1, ...} to {"a": 1}', {"a": 1}),
        ('From {"old": 1, "o\\x}": {...}} to {"a": 1}', {"a": 1}),
        ('From {"old": 1} to {', {"old": 1}),
        ("no {object} at {all}", None),
        # and what is no JSON
        ('{"a": [{"b": 1} {"c": 2', {"a": [{"b": 1}]}),
        ('{"a": 1, "b": tree}', {"a": 1}),
        ('{"a": 1, "b": truetrue', {"a": 1}),
        ('{"a": 1, "b": 01, "c": {"d": 2', {"a": 1}),
        ('{"a": "\\x", "b": {"c": 1}', {"a": ""}),
        ('{"a": "\\ud83d no pair", "b": {"c": 1}', {"a": ""}),
    ],
)
def test_what_has_come_is_shown_and_what_may_go_on_is_not(text: str, value: object) -> None:
    assert read(text) == value


def _is_part(part: Any, whole: Any) -> bool:
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(key in whole and _is_part(value, whole[key]) for key, value in part.items())
    if isinstance(whole, list) and isinstance(part, list):
        return len(part) <= len(whole) and all(map(_is_part, part, whole))
    if isinstance(whole, str) and isinstance(part, str):
        return whole.startswith(part)
    return bool(part == whole)


@settings(deadline=None)
@given(st.dictionaries(st.text(), VALUES, max_size=4), st.booleans())
def test_every_beginning_is_a_part_of_the_whole_and_never_takes_anything_back(
    value: dict[str, Any], escaped: bool
) -> None:
    partial, before = PartialJson(), None
    text = json.dumps(value, ensure_ascii=escaped)
    for letter in text:
        is_more = partial.push(letter)
        now = partial.value()
        assert is_more == (now != before) or len(text) > FINENESS
        assert now is None or _is_part(now, value)
        assert before is None or _is_part(before, now)
        before = now
    assert before == value


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["{", "}", "[", "]", '"', ":", ",", "\\", "u", "d83d", "tr", "ue", "1"])
    ),
    st.dictionaries(st.text(), VALUES, max_size=2),
    st.lists(st.integers(1, 7)),
)
def test_how_a_text_is_cut_up_changes_nothing(
    words: list[str], value: dict[str, Any], sizes: list[int]
) -> None:
    text = "".join(words) + json.dumps(value)
    partial, at = PartialJson(), 0
    for size in sizes:
        partial.push(text[at : at + size])
        at += size
    partial.push(text[at:])
    assert (partial.value() or None) == (read(text) or None)


# -- long ones --------------------------------------------------------------------------------


def in_pieces(text: str) -> list[Any]:
    """What is shown of a text that comes five letters at a time."""
    partial = PartialJson()
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
    return [partial.value() for piece in pieces if partial.push(piece)]


def test_what_is_whole_is_never_read_again() -> None:
    rows = [{"row": row, "of": ["some", "words"]} for row in range(20)]
    shown = in_pieces(json.dumps({"rows": rows}))
    assert shown[-1] == {"rows": rows}
    for sooner, later in pairwise(now["rows"] for now in shown if now.get("rows")):
        whole = len(sooner) - 1
        assert all(one is other for one, other in zip(sooner[:whole], later, strict=False))
        assert sooner is not later


def test_what_was_shown_stays_as_it_was() -> None:
    shown = in_pieces('{"a": {"b": ["xxxxxxxxxx", "yyyyyyyyyy"]}}')
    assert shown[4] == {"a": {"b": ["xxxxxxxxxx"]}}
    assert shown[-1] == {"a": {"b": ["xxxxxxxxxx", "yyyyyyyyyy"]}}


@pytest.mark.parametrize("value", ["word " * 20_000, list(range(15_000))])
def test_of_a_long_answer_no_small_part_is_shown_by_itself(value: Any) -> None:
    """All that is shown together grows with the length, not with its square."""
    text = json.dumps({"a": value})
    shown = in_pieces(text)
    assert shown[-1] == {"a": value}
    assert len(shown) < len(text) / 5 / 4
    assert sum(len(now["a"]) for now in shown[1:]) < 2 * FINENESS * len(value)
    sizes = [len(now["a"]) for now in shown[1:]]
    assert all(later - sooner <= 5 + sooner / 500 for sooner, later in pairwise(sizes))
