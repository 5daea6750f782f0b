"""The ground everything stands on: JSON, ids, the time."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.clock import SYSTEM_CLOCK
from awaken.codec import digest, dumps, dumps_text, from_json, loads, to_json
from awaken.core.message import Message, Text
from awaken.ids import SequentialIds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
@settings(max_examples=100, deadline=None)
def test_json_values_survive_the_codec(value: Any) -> None:
    assert loads(dumps(value)) == value
    assert to_json(value) == value
    assert from_json(value, Any) == value


def test_text_is_compact_and_keeps_its_letters() -> None:
    assert dumps_text({"a": [1, "é"], "b": None}) == '{"a":[1,"é"],"b":null}'


def test_a_json_value_holds_nothing_but_json() -> None:
    """What `to_json` gives equals what a reader of the text gets: no tuples, sets or dates."""
    value = {
        "message": Message.user_with_content([Text(text="hi")], id="m1"),
        "pair": (1, 2),
        "set": {3},
        "day": datetime.date(2024, 2, 29),
    }

    assert to_json(value) == {
        "message": {"id": "m1", "role": "user", "content": [{"type": "text", "text": "hi"}]},
        "pair": [1, 2],
        "set": [3],
        "day": "2024-02-29",
    }


class Point:
    """A type of its own that says what it is on the wire."""

    def __init__(self, x: int) -> None:
        self.x = x

    def to_wire(self) -> int:
        return self.x

    @classmethod
    def from_wire(cls, value: Any) -> Point:
        return cls(int(value))


class Line(msgspec.Struct):
    start: Point
    end: Point | None = None


def test_types_that_know_their_wire_form_are_written_and_read() -> None:
    line = loads(dumps(Line(start=Point(3))), Line)

    assert line.start.x == 3
    assert line.end is None
    assert to_json(Line(start=Point(3), end=Point(4))) == {"start": 3, "end": 4}


def test_a_type_that_cannot_be_written_is_named() -> None:
    with pytest.raises(TypeError, match="object"):
        dumps({"x": object()})
    with pytest.raises(TypeError, match="object"):
        to_json(object())


def test_a_type_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        from_json({"x": 1}, complex)


def test_raw_json_is_read_like_text() -> None:
    assert loads(msgspec.Raw(b'{"a":1}')) == {"a": 1}


@pytest.mark.parametrize("broken", [b"", b"{", b"nope", b"[1,]"])
def test_what_is_not_json_is_a_decode_error(broken: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        loads(broken)


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    one = digest({"tool": "rm", "args": {"a": 1, "b": [1, 2]}})
    two = digest({"args": {"b": [1, 2], "a": 1}, "tool": "rm"})

    assert one == two
    assert len(one) == 32
    assert digest({"tool": "rm", "args": {"a": 1, "b": [2, 1]}}) != one


def test_sequential_ids_count_up_in_v7_shape() -> None:
    ids = SequentialIds()

    made = [ids.new() for _ in range(20)]

    assert made[0] == "00000000-0000-7000-8000-000000000001"
    assert made == sorted(set(made))
    assert all(len(id) == 36 and id[14] == "7" for id in made)
    assert SequentialIds().new() == made[0]


def test_the_system_clock_goes_forward_and_is_never_negative() -> None:
    """01, conventions: unix milliseconds, never negative."""
    first, start = SYSTEM_CLOCK.now_ms(), SYSTEM_CLOCK.monotonic()

    assert first > 1_600_000_000_000
    assert SYSTEM_CLOCK.monotonic() >= start
