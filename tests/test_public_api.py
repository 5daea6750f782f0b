"""The front door's names: few, listed, documented, and quick to import."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import awaken

HEAVY = ("click", "rich", "pydantic", "jsonschema_rs")


def test_the_list_and_the_module_agree() -> None:
    """Style §2: every public name is listed, and nothing else is."""
    public = {
        name
        for name, value in vars(awaken).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }

    assert set(awaken.__all__) == public
    assert len(awaken.__all__) == len(public)


def test_the_door_is_small() -> None:
    """Design §2: about thirty names."""
    assert 25 <= len(awaken.__all__) <= 40


@pytest.mark.parametrize("name", awaken.__all__)
def test_every_name_is_documented(name: str) -> None:
    """Style §5: classes and functions by their docstring, values by their type's."""
    value = getattr(awaken, name)
    documented = inspect.getdoc(value if callable(value) else type(value))

    assert documented
    # What a class without a docstring is given instead says nothing of it.
    assert not documented.startswith(f"{name}(")


@pytest.mark.parametrize("name", awaken.__all__)
def test_every_name_is_found_where_it_was_made(name: str) -> None:
    """Names are re-exported from our own modules, never from somebody else's."""
    value = getattr(awaken, name)
    home = getattr(value, "__module__", type(value).__module__)

    assert home.split(".")[0] == "awaken"


def test_importing_brings_nothing_heavy() -> None:
    """Design §2: the command line, validation and the user's own types load on first use."""
    code = f"import sys, awaken; print([m for m in {HEAVY!r} if m in sys.modules])"

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )

    assert found.stdout.strip() == "[]"


def test_a_run_brings_nothing_heavy_either() -> None:
    """Design §2: a function's arguments are checked without pydantic or a schema engine."""
    code = f"""
import sys
from awaken import Agent, Runtime, tool

@tool
async def add(a: int, b: int = 2) -> int:
    "Add."
    return a + b

runtime = Runtime([Agent("a", model="demo", tools=[add])])
assert "3" in runtime.run_sync("a", "add 1").response
print([m for m in {HEAVY!r} if m in sys.modules])
"""

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )

    assert found.stdout.strip() == "[]"
