"""Mending a stored row without losing anything of it. Pure: bytes in, bytes out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import Any

import msgspec

from awaken.codec import Json, dumps, loads
from awaken.stores.sql.cursors import UNREADABLE

MAX_EDITS = 1_000
"""How many values of one row are changed at most."""
_EXACT = 2**53
"""A float below this is exactly the number that was written."""

# What msgspec says of a value of a wrong type, and of where it is.
_ERROR = re.compile(r"Expected `([^`]+)`, got `(int|float)`(?: - at `\$([^`]*)`)?")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[(\.\.\.)\]")
_WHOLE = re.compile(rb"-?\d+")
_DECIMAL = re.compile(rb"-?\d+(?:\.\d+)?")

Step = str | int | EllipsisType


def mend(body: bytes, type_: type[Any]) -> bytes | None:
    """The row with each number that stands where a text belongs as its decimal text, and each whole
    float that stands where an integer belongs as that integer.

    Returns `None` if the row can still not be decoded then, or has a field that the type does not
    know. All other bytes of the row stay as they are, but for blanks between values.
    """
    try:
        for _ in range(MAX_EDITS):
            try:
                value = loads(body, type_)
            except msgspec.ValidationError as error:
                edited = _edit(body, str(error))
                if edited is None:
                    return None
                body = edited
            else:
                return body if _is_all_known(body, type_, value) else None
    except UNREADABLE:
        pass  # it is no JSON, or nested too deeply
    return None


def _edit(body: bytes, error: str) -> bytes | None:
    """The row with the one value changed that the error is about; `None` if there is no lossless
    change."""
    found = _ERROR.fullmatch(error)
    if found is None:
        return None
    expected, got, path = found[1].split(" | "), found[2], found[3] or ""
    if "int" in expected and got == "float":
        change = _as_integer
    elif "str" in expected:
        change = _as_text
    else:
        return None
    steps = _steps(path)
    return _change_at(body, steps, change) if steps is not None else None


def _steps(path: str) -> list[Step] | None:
    """The steps from the row's root to a value. `...` stands for a key or an index that msgspec
    does not name."""
    steps: list[Step] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        name, index, _ = found.groups()
        steps.append(name if name is not None else int(index) if index is not None else ...)
        at = found.end()
    return steps


def _change_at(
    raw: bytes, steps: list[Step], change: Callable[[bytes], bytes | None]
) -> bytes | None:
    if not steps:
        return change(raw)
    members: dict[str, msgspec.Raw] | list[msgspec.Raw]
    if raw.startswith(b"{"):
        members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    elif raw.startswith(b"["):
        members = msgspec.json.decode(raw, type=list[msgspec.Raw])
    else:
        return None
    # Of the members that msgspec does not name, all have one type: the error is about the first
    # that can be changed, since it is about the first that does not fit.
    known = members.keys() if isinstance(members, dict) else range(len(members))
    for place in known if steps[0] is ... else [steps[0]]:
        if place not in known:
            return None
        changed = _change_at(bytes(members[place]), steps[1:], change)  # type: ignore[index]
        if changed is not None:
            members[place] = msgspec.Raw(changed)  # type: ignore[index]
            return msgspec.json.encode(members)
    return None


def _as_text(raw: bytes) -> bytes | None:
    return b'"%b"' % raw if _DECIMAL.fullmatch(raw) else None


def _as_integer(raw: bytes) -> bytes | None:
    if _WHOLE.fullmatch(raw) or not re.fullmatch(rb"-?\d[\d.eE+-]*", raw):
        return None
    value = float(raw)
    return b"%d" % int(value) if value.is_integer() and abs(value) < _EXACT else None


def _is_all_known(body: bytes, type_: type[Any], value: Any) -> bool:
    """Whether everything in a row is in the value that was read from it: whether it comes back when
    the value is encoded, or is a field whose default value is left out then."""
    return all(
        path is not None and _is_field(body, path, type_)
        for path in _missing(loads(body), loads(dumps(value)), [])
    )


def _missing(part: Json, whole: Json, path: list[Step]) -> Iterator[list[Step] | None]:
    """The paths of the members in one JSON value that the other does not have; `None` for a place
    where the two differ otherwise."""
    if isinstance(part, dict) and isinstance(whole, dict):
        for name, value in part.items():
            if name in whole:
                yield from _missing(value, whole[name], [*path, name])
            else:
                yield [*path, name]
    elif isinstance(part, list) and isinstance(whole, list) and len(part) == len(whole):
        for index, pair in enumerate(zip(part, whole, strict=True)):
            yield from _missing(*pair, [*path, index])
    elif isinstance(part, bool) != isinstance(whole, bool) or part != whole:
        yield None


def _is_field(body: bytes, path: list[Step], type_: type[Any]) -> bool:
    """Whether a member of a row is a field of its type: then not every value fits there."""
    for other in (b"[]", b"{}", b'""'):
        changed = _change_at(body, path, lambda _, other=other: other)  # type: ignore[misc]
        try:
            loads(changed or b"", type_)
        except msgspec.ValidationError:
            return True
    return False
