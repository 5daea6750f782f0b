"""Mending a row: only what loses nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.codec import dumps, loads
from awaken.core.thread import ThreadMetadata
from awaken.core.value import Value
from awaken.stores.sql.cursors import UNREADABLE
from awaken.stores.sql.mending import mend
from awaken.stores.sql.row_check import TYPES
from poisoned_kit import rows


class Part(Value, frozen=True, kw_only=True):
    """A value with a text, an integer and a number."""

    text: str = ""
    maybe: str | None = None
    count: int = 0
    size: float = 0.0


class Row(Value, frozen=True, kw_only=True):
    """A value with places of every kind."""

    text: str = "-"
    parts: tuple[Part, ...] = ()
    named: dict[str, Part] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    pairs: tuple[tuple[str, Part], ...] = ()
    anything: Any = None
    raw: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        (b'{"text":7}', b'{"text":"7"}'),
        (b'{"text":-7}', b'{"text":"-7"}'),
        (b'{"text":123456789012345678901234567890}', b'{"text":"123456789012345678901234567890"}'),
        (b'{"text":7.50}', b'{"text":"7.50"}'),
        (b'{"parts":[{},{"maybe":7}]}', b'{"parts":[{},{"maybe":"7"}]}'),
        (b'{"parts":[{"count":2.0}]}', b'{"parts":[{"count":2}]}'),
        (b'{"parts":[{"count":1e3}]}', b'{"parts":[{"count":1000}]}'),
        (b'{"labels":{"a":"b","c":7,"d":8}}', b'{"labels":{"a":"b","c":"7","d":"8"}}'),
        (
            b'{"named":{"a":{"text":"x"},"b":{"text":7}}}',
            b'{"named":{"a":{"text":"x"},"b":{"text":"7"}}}',
        ),
        (b'{"pairs":[[7,{"count":1.0}]]}', b'{"pairs":[["7",{"count":1}]]}'),
        (b'{"text":7,"anything":{"b":7.0,"a":[7]}}', b'{"text":"7","anything":{"b":7.0,"a":[7]}}'),
        (b'{"text":7,"raw":{"x":{ "a" : 1.0}}}', b'{"text":"7","raw":{"x":{ "a" : 1.0}}}'),
    ],
)
def test_a_number_becomes_a_text_and_a_whole_float_an_integer(broken: bytes, mended: bytes) -> None:
    assert mend(broken, Row) == mended


@pytest.mark.parametrize(
    "row",
    [
        b'{"parts":[{"count":1.5}]}',
        b'{"parts":[{"count":1e300}]}',
        b'{"parts":[{"count":9007199254740993.0}]}',
        b'{"parts":[{"count":"7"}]}',
        b'{"text":true}',
        b'{"text":null}',
        b'{"text":[7]}',
        b'{"text":1e3}',
        b'{"text":7,"later":1}',
        b'{"parts":[{"text":7,"later":null}]}',
        b'{"text":7,"parts":[{"count":1.5}]}',
        b'{"text":7',
        b"",
        b"7",
        b'{"text":7,"anything":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_anything_else_is_left_alone(row: bytes) -> None:
    """Also a row that could be read if only a part of it were changed."""
    assert mend(row, Row) is None


PARTS = st.builds(Part, text=st.text(), maybe=st.none() | st.text(), count=st.integers(-5, 5))
ROWS = st.builds(
    Row,
    text=st.text(),
    parts=st.lists(PARTS, max_size=3).map(tuple),
    named=st.dictionaries(st.text(), PARTS, max_size=3),
    labels=st.dictionaries(st.text(), st.integers(0, 99).map(str), max_size=3),
)


@given(ROWS)
def test_a_row_that_can_be_read_stays_as_it_is(row: Row) -> None:
    assert mend(dumps(row), Row) == dumps(row)


@given(ROWS, st.integers())
def test_what_was_broken_in_many_places_is_as_if_it_had_been_written_right(
    row: Row, number: int
) -> None:
    right = msgspec.structs.replace(row, text=str(number))
    wrong = msgspec.structs.replace(
        row,
        text=number,
        labels={name: int(value) for name, value in row.labels.items()},
        parts=tuple(msgspec.structs.replace(part, count=float(part.count)) for part in row.parts),
    )

    mended = mend(dumps(wrong), Row)

    assert mended is not None
    assert loads(mended, Row) == right


def test_every_readable_row_of_a_store_comes_back_whole() -> None:
    """What finds the fields of a later version takes no row of this one for such a row."""
    columns = {"run": "record", "commit": "delta", "ticket": "record", "command": "body"}
    tables = {"thread_metadata" if kind == "thread" else f"{kind}s": kind for kind in columns}
    count = 0
    for table, kind in tables.items():
        for line in rows()[table]:
            body = line[columns[kind]].encode()
            type_ = next(type_ for known, type_ in TYPES.items() if known.value == kind)
            try:
                loads(body, type_)
            except UNREADABLE:
                continue
            assert mend(body, type_) == body
            count += 1
    assert count > 30
    assert mend(b'{"user":7,"mood":"fine"}', ThreadMetadata) is None
