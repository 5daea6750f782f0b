"""The base class of all domain values."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any

import msgspec

EMPTY: Any = MappingProxyType({})
"""Stands for a dictionary that most owners never fill: the first writer makes one of its own."""


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A frozen, keyword-only struct; its JSON leaves out fields that have their default value.

    Values are not tracked by the garbage collector: they never contain reference cycles.
    """


def _none() -> None:
    return None


def nullable() -> Any:
    """A field that is `None` by default and is written as `null` instead of being left out."""
    # msgspec leaves out plain defaults and empty containers, but not what a function returns.
    return msgspec.field(default_factory=_none)
