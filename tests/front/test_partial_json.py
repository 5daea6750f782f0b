"""JSON that is still being written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.front.partial import PartialJson

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
    for letter in json.dumps(value, ensure_ascii=escaped):
        partial.push(letter)
        now = partial.value()
        assert now is None or _is_part(now, value)
        assert before is None or _is_part(before, now)
        before = now
    assert before == value
