"""The base of every domain value."""

from __future__ import annotations

import re
from typing import Any

import msgspec


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Immutable, keyword-only; fields at their default are left out of the JSON.

    Values opt out of the cyclic collector: they hold JSON and other values, never cycles.
    """


def _none() -> None:
    return None


def nullable() -> Any:
    """A field that is `None` by default and written as `null`, where others are left out."""
    # msgspec omits plain defaults and empty containers only; what a function makes is written.
    return msgspec.field(default_factory=_none)
