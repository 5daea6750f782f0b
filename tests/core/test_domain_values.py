"""What all domain values have in common."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import awaken.core
import awaken.core.state
from awaken.core.value import Value, snake_case


def every_value() -> Iterator[type[Value]]:
    for package in (awaken.core, awaken.core.state):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found, open_ = set(), [Value]
    while open_:
        for kind in open_.pop().__subclasses__():
            if kind not in found and kind.__module__.startswith("awaken.core"):
                found.add(kind)
                open_.append(kind)
    yield from sorted(found, key=lambda kind: kind.__qualname__)


VALUES = list(every_value())


def test_the_values_were_found() -> None:
    assert len(VALUES) > 100


def test_every_value_is_frozen_and_keyword_only() -> None:
    """But for `Text("the plot")`, which people write in tools (09 §2.7)."""
    config = [(kind.__name__, kind.__struct_config__) for kind in VALUES]
    assert [name for name, each in config if not each.frozen] == []
    assert [name for name, each in config if not each.omit_defaults] == []
    assert [kind.__name__ for kind in VALUES if not is_keyword_only(kind)] == ["Text"]


def is_keyword_only(kind: type[Value]) -> bool:
    try:
        kind("x")
    except TypeError as error:
        return "positional" in str(error)
    return False


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("RunStart", "run_start"),
        ("ToolCallStreamDelta", "tool_call_stream_delta"),
        ("Error", "error"),
    ],
)
def test_tags_are_the_names_in_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake
