"""The front door's names: few, listed, documented, and quick to import."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

import awaken

HEAVY = ("click", "rich", "pydantic", "jsonschema_rs")
NEEDED = {"msgspec", "typing_extensions", "uuid_utils"}
"""What the core is built on; msgspec loads `typing_extensions` where it is installed."""
ENGINE = (
    "awaken.backend.local",
    "awaken.cli",
    "awaken.ext.background",
    "awaken.ext.compaction",
    "awaken.front.runtime",
    "awaken.front.stream",
    "awaken.llm",
    "awaken.loop",
    "awaken.phase",
    "awaken.registry",
    "awaken.runtime",
    "awaken.stores",
)
"""What comes with `Runtime`, or later."""
SELDOM = (
    "awaken.backend.a2a",
    "awaken.backend.child",
    "awaken.backend.remote.lifecycle",
    "awaken.backend.subprocess",
    "awaken.ext.background.manager",
    "awaken.ext.background.plugin",
    "awaken.ext.background.tools",
    "awaken.ext.compaction.plugin",
    "awaken.domain.references",
    "awaken.ext.handoff.plugin",
    "awaken.front.replay",
    "awaken.stores.sqlite",
    "awaken.tool.worker",
)
"""What comes when somebody uses it."""
UNUSED = ("difflib", "ipaddress", "random", "urllib.parse")
"""Modules of the standard library that errors, retries or addresses need, and a run does not."""
LAZY_PACKAGES = (
    "awaken",
    "awaken.backend",
    "awaken.backend.remote",
    "awaken.ext.background",
    "awaken.ext.compaction",
    "awaken.ext.handoff",
    "awaken.front",
)


def test_the_list_and_the_module_agree() -> None:
    """Style §2: every public name is listed, and nothing else is."""
    public = {
        name
        for name in dir(awaken)
        if not name.startswith("_") and not isinstance(getattr(awaken, name), ModuleType)
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


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_names_that_are_loaded_on_first_use_are_there(package: str) -> None:
    module = import_module(package)

    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is getattr(module, name)
    with pytest.raises(AttributeError, match=f"{package!r} has no attribute 'nothing'"):
        module.nothing  # noqa: B018  # to look for it is the test


def test_importing_brings_nothing_heavy() -> None:
    """Design §2: the command line, validation and the user's own types load on first use, and so
    does the engine."""
    loaded = _loaded("import awaken")

    assert not loaded & {*HEAVY, *ENGINE, *SELDOM}
    assert "awaken.front.agent" in loaded


def test_importing_brings_only_the_libraries_the_core_is_built_on() -> None:
    loaded = {name.partition(".")[0] for name in _loaded("from awaken import Agent, Runtime")}

    assert loaded - sys.stdlib_module_names - {"awaken"} <= NEEDED


def test_importing_leaves_out_modules_of_the_standard_library_that_not_every_run_needs() -> None:
    """Hashes come with the first agent that is resolved: loading them takes OpenSSL."""
    loaded = _loaded("from awaken import Agent, Runtime")

    assert not loaded & {*UNUSED, "hashlib", "_hashlib"}


def test_a_run_brings_nothing_heavy_either() -> None:
    """Design §2: a function's arguments are checked without pydantic or a schema engine, and what
    an agent does not use is not loaded."""
    loaded = _loaded(
        """
from awaken import Agent, Runtime, tool

@tool
async def add(a: int, b: int = 2) -> int:
    "Add."
    return a + b

runtime = Runtime([Agent("a", model="demo", tools=[add])])
assert "3" in runtime.run_sync("a", "add 1").response
"""
    )

    assert not loaded & {*HEAVY, *SELDOM, *UNUSED}
    assert "awaken.loop.run" in loaded


def _loaded(code: str) -> set[str]:
    """What a fresh interpreter loads to run it."""
    program = f"import sys; before = set(sys.modules)\n{code}\nprint(*{{*sys.modules}} - before)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    return set(ran.stdout.split())
