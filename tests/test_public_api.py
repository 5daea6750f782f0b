"""The public names: listed on one page, documented, few at the front door, and quick to import."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import pytest

import awaken
from awaken import paths
from page_blocks import HOME, pages, public_names

PUBLIC = public_names()
SOURCE = Path(awaken.__file__).parent
HEAVY = ("click", "rich", "pydantic", "jsonschema_rs")
NEEDED = {"msgspec", "typing_extensions", "uuid_utils"}
"""What the core is built on; msgspec loads `typing_extensions` where it is installed."""
ENGINE = (
    "awaken.backend.local",
    "awaken.cli",
    "awaken.ext.tasks",
    "awaken.core.store.store",
    "awaken.ext.compaction",
    "awaken.runtime.assembly",
    "awaken.runtime.stream",
    "awaken.runtime.live",
    "awaken.engine",
    "awaken.models",
    "awaken.paths",
    "awaken.worker.live_runs",
    "awaken.runtime.builder",
    "awaken.stores",
)
"""What is loaded when a `Runtime` is made, or later."""
SELDOM = (
    "awaken.backend.a2a",
    "awaken.backend.child_agent",
    "awaken.backend.remote.lifecycle",
    "awaken.backend.subprocess",
    "awaken.ext.tasks.listing",
    "awaken.ext.tasks.manager",
    "awaken.ext.tasks.plugin",
    "awaken.ext.tasks.resolver",
    "awaken.ext.tasks.store_journal",
    "awaken.ext.tasks.task",
    "awaken.ext.tasks.task_tools",
    "awaken.ext.compaction.plugin",
    "awaken.core.schema_refs",
    "awaken.ext.handoff.plugin",
    "awaken.paths",
    "awaken.runtime.replay",
    "awaken.stores.sqlite",
    "awaken.tool.isolation",
)
"""What is loaded when a program first uses it."""
UNUSED = ("difflib", "ipaddress", "random", "urllib.parse")
"""Modules of the standard library that errors, retries or addresses need, and a run does not."""
LAZY_PACKAGES = (
    "awaken",
    "awaken.backend",
    "awaken.backend.remote",
    "awaken.ext",
    "awaken.ext.tasks",
    "awaken.ext.compaction",
    "awaken.ext.handoff",
    "awaken.ext.stop",
    "awaken.ext.tasks.lazy_tasks",
    "awaken.runtime",
    "awaken.runtime.lazy_engine",
    "awaken.models",
    "awaken.server",
    "awaken.stores",
    "awaken.worker",
)


def test_the_list_and_the_module_agree() -> None:
    """Style §2: every public name is listed, and nothing else is."""
    public = {
        name
        for name in dir(awaken)
        if not name.startswith("_") and not isinstance(getattr(awaken, name), ModuleType)
    }

    assert set(awaken.__all__) == {*public, "__version__"}
    assert len(awaken.__all__) == len(public) + 1


def test_the_door_is_small() -> None:
    """Design §2: about thirty names."""
    assert 25 <= len(awaken.__all__) <= 46


def test_the_version_is_that_of_the_installed_package() -> None:
    assert awaken.__version__ == metadata.version("awaken")


@pytest.mark.parametrize("module", PUBLIC)
def test_the_page_lists_exactly_the_names_of_each_public_module(module: str) -> None:
    assert PUBLIC[module] == set(_exported(import_module(module)))


def test_a_name_of_two_public_modules_is_one_thing() -> None:
    for name in {name for names in PUBLIC.values() for name in names}:
        homes = [module for module in PUBLIC if name in PUBLIC[module]]
        things = [getattr(import_module(module), name) for module in homes]
        assert all(thing is things[0] for thing in things), f"{name} of {homes}"


def test_pages_and_examples_import_public_names_only() -> None:
    """A reader who copies a program depends on nothing that is private."""
    programs = {path.name: path.read_text() for path in (HOME / "examples").glob("*.py")}
    for page in ("README.md", *pages()):
        blocks = re.findall(r"^```python[^\n]*\n(.*?)^```$", (HOME / page).read_text(), re.S | re.M)
        programs |= {f"{page} {number}": block for number, block in enumerate(blocks, 1)}

    private = {
        f"{name}: {module}.{imported}"
        for name, program in programs.items()
        for module, imported in _imports(program)
        if imported not in PUBLIC.get(module, ())
    }

    assert private == set()


@pytest.mark.parametrize("module", PUBLIC)
def test_every_name_is_documented(module: str) -> None:
    """Style §5: classes and functions by their docstring, values by their type's. Aliases of types
    need none."""
    for name in PUBLIC[module]:
        value = getattr(import_module(module), name)
        said = value if inspect.isclass(value) or inspect.isfunction(value) else type(value)
        documented = inspect.getdoc(said) or ""

        assert documented or said.__module__.partition(".")[0] != "awaken", name
        # What a class without a docstring is given instead says nothing of it.
        assert not documented.startswith(f"{name}("), name


@pytest.mark.parametrize("name", sorted({*awaken.__all__} - {"__version__"}))
def test_every_name_is_found_where_it_was_made(name: str) -> None:
    """Names are re-exported from our own modules, never from another library."""
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


def test_type_checkers_do_not_see_how_names_are_loaded() -> None:
    """A checker that sees a module's `__getattr__` accepts any name of the module."""
    seen = [
        str(path.relative_to(SOURCE))
        for path in sorted(SOURCE.rglob("*.py"))
        for statement in ast.parse(path.read_text()).body
        if isinstance(statement, ast.Assign | ast.FunctionDef)
        and "__getattr__" in ast.unparse(statement).partition("\n")[0].partition("=")[0]
    ]

    assert seen == []


def test_the_shelf_has_the_classes_of_each_folder() -> None:
    folders = [module for module in PUBLIC if module.startswith("awaken.ext.")]
    assert folders == sorted(
        f"awaken.ext.{path.parent.name}" for path in (SOURCE / "ext").glob("*/__init__.py")
    )
    classes = {
        name
        for folder in folders
        for name in PUBLIC[folder]
        if isinstance(getattr(import_module(folder), name), type)
    }

    assert classes <= PUBLIC["awaken.ext"]
    assert PUBLIC["awaken.ext"] <= set().union(*(PUBLIC[folder] for folder in folders))


# -- names in the wrong place -------------------------------------------------------------------


def test_a_name_is_looked_for_in_each_public_module() -> None:
    assert sorted(paths.PUBLIC) == sorted(PUBLIC)


@pytest.mark.parametrize("name", paths.FOREIGN)
def test_the_word_of_another_library_is_answered_with_what_is_here(name: str) -> None:
    named = re.findall(r"(?<![\w/])awaken(?:\.\w+)+", paths.FOREIGN[name])

    assert named, "the answer names a path"
    for path in named:
        _find(path)
    assert not [module for module in PUBLIC if name in PUBLIC[module]], "it is a name of ours"
    with pytest.raises(ImportError, match=re.escape(f"use {paths.FOREIGN[name]}")):
        getattr(awaken, name)


@pytest.mark.parametrize("path", paths.MOVED)
def test_an_earlier_path_is_answered_with_the_one_of_today(path: str) -> None:
    package, _, name = path.rpartition(".")

    import_module(paths.MOVED[path])
    with pytest.raises(ImportError, match=f"use {re.escape(paths.MOVED[path])}$"):
        getattr(import_module(package), name)
    with pytest.raises(ModuleNotFoundError):
        import_module(path)


@pytest.mark.parametrize(
    "module", ["awaken", "awaken.plugin", "awaken.ext", "awaken.tool", "awaken.toolsets"]
)
def test_a_name_of_another_module_is_answered_with_its_path(module: str) -> None:
    here = import_module(module)
    names = {name for names in PUBLIC.values() for name in names}
    for name in names - {
        "__version__",
        "background",
        *dir(here),
    }:  # background: an earlier path, too
        with pytest.raises(ImportError) as raised:
            getattr(here, name)
        beginning, _, path = str(raised.value).partition(": use ")

        assert beginning == f"{module} has no {name}"
        assert _find(path) is getattr(import_module(path.rpartition(".")[0]), name)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("from awaken.plugin import CompactionPlugin", "awaken.ext.compaction.CompactionPlugin"),
        ("from awaken.plugin import Plugin", "awaken.Plugin"),
        ("from awaken.ext import PhaseHook", "awaken.plugin.PhaseHook"),
        ("from awaken.ext import background", "awaken.ext.tasks"),
        ("from awaken.ext.background import TaskOptions", "awaken.ext.tasks"),
        ("import awaken.ext.background", "awaken.ext.tasks"),
        ("from awaken import llm", "awaken.models"),
        ("from awaken.events import Agent", "awaken.Agent"),
        ("from awaken.blobs import SqliteStore", "awaken.stores.SqliteStore"),
        ("from awaken.testing import Runtime", "awaken.Runtime"),
    ],
)
def test_an_import_from_the_wrong_place_says_the_right_one(statement: str, told: str) -> None:
    with pytest.raises(ImportError, match=f"use {re.escape(told)}$"):
        exec(statement)


def test_names_that_nothing_is_known_of_are_missing_as_usual() -> None:
    assert not hasattr(awaken, "nothing")
    assert not hasattr(awaken, "_FOREIGN")
    assert paths.find_public("awaken.worker", "Agent") is None  # not a public module
    assert import_module("awaken.ext").handoff is import_module("awaken.ext.handoff")


def test_modules_that_cannot_be_imported_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("awaken.bus", "awaken.server"):
        monkeypatch.setitem(sys.modules, module, None)

    assert paths.find_public("awaken", "FakeClock") == "awaken.testing.FakeClock"
    assert paths.find_public("awaken", "NatsBus") is None


def _find(path: str) -> object:
    """What a dotted path names, below the longest public module of it.

    Raises:
        AttributeError: it names nothing.
    """
    parts = path.split(".")
    module = max((module for module in PUBLIC if path.startswith(f"{module}.")), key=len)
    found: object = import_module(module)
    for part in parts[len(module.split(".")) :]:
        found = getattr(found, part)
    return found


# -- what an import costs -----------------------------------------------------------------------


def test_importing_brings_nothing_heavy() -> None:
    """Design §2: the command line, validation and the user's own types load on first use, and so
    does the engine."""
    loaded = _loaded("from awaken import Agent, Runtime")

    assert not loaded & {*HEAVY, *ENGINE, *SELDOM}
    assert "awaken.runtime.runtime" in loaded


def test_importing_brings_only_the_libraries_the_core_is_built_on() -> None:
    loaded = {name.partition(".")[0] for name in _loaded("from awaken import Agent, Runtime")}

    assert loaded - sys.stdlib_module_names - {"awaken"} <= NEEDED


def test_importing_leaves_out_modules_of_the_standard_library_that_not_every_run_needs() -> None:
    """Hashes come with the first agent that is resolved: loading them takes OpenSSL."""
    loaded = _loaded("from awaken import Agent, Runtime")

    assert not loaded & {*UNUSED, "hashlib", "_hashlib"}


def _uses_them(
    agent: awaken.Agent,
    runtime: awaken.Runtime,
    request: awaken.RunRequest,
    ctx: awaken.ToolCallContext,
) -> awaken.RunResult:
    raise NotImplementedError


def test_frameworks_can_read_the_types_of_a_function_that_takes_ours() -> None:
    """Only what the classes name themselves is loaded later (ADR 35)."""
    hints = get_type_hints(_uses_them)

    assert hints["runtime"] is awaken.Runtime
    assert hints["ctx"] is awaken.ToolCallContext
    assert hints["request"] is awaken.RunRequest


def test_values_of_models_and_stores_bring_neither_a_provider_nor_a_database() -> None:
    loaded = _loaded(
        "from awaken.events import TextDelta\n"
        "from awaken.models import InferenceRequest\n"
        "from awaken.stores import Store\n"
        "from awaken.plugin import EXCLUDE_TOOL\n"
        "import awaken.ext"
    )

    assert not loaded & {*HEAVY, *SELDOM, "awaken.stores.memory", "awaken.worker"}
    assert not [name for name in loaded if name.startswith("awaken.models.")]
    assert "importlib.metadata" not in loaded, "the version is read when it is asked for"


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
    assert "awaken.engine.run" in loaded


def _loaded(code: str) -> set[str]:
    """What a fresh interpreter loads to run it."""
    program = f"import sys; before = set(sys.modules)\n{code}\nprint(*{{*sys.modules}} - before)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=250
    )
    return set(ran.stdout.split())


def _exported(module: ModuleType) -> list[str]:
    """What a module says it exports, or else the classes it defines."""
    own = [name for name, value in vars(module).items() if _is_class_of(module, value)]
    names: list[str] = getattr(module, "__all__", own)
    return [name for name in names if name == "__version__" or not name.startswith("_")]


def _is_class_of(module: ModuleType, value: object) -> bool:
    return inspect.isclass(value) and value.__module__ == module.__name__


def _imports(program: str) -> list[tuple[str, str]]:
    """The names of ours that a program imports, each with its module."""
    return [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(textwrap.dedent(program)))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("awaken")
        for alias in node.names
    ]
