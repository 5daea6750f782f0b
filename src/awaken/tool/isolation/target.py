"""The address of a function for another process: its module and name."""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

from awaken.errors import ConfigError
from awaken.tool.signature import plain_function

_SCRIPT = "__main__"
_SCRIPT_ELSEWHERE = "__worker_main__"

_loading = False


class FunctionTarget(NamedTuple):
    """A function's address; `is_main` if its module is the program that was started."""

    module: str
    qualname: str
    file: str | None
    is_main: bool = False

    def __str__(self) -> str:
        return f"{self.module}.{self.qualname}"


def target_of(fn: Callable[..., Any], tool: str) -> FunctionTarget:
    """The address of a function.

    Raises:
        ConfigError: another process cannot import it.
    """
    module, qualname = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not module or not qualname or "<" in qualname or isinstance(fn, types.MethodType):
        raise _isolation_error(
            tool,
            f"{qualname or fn!r} cannot be found by its name (it is a closure, lambda, method or "
            "partial): write a function with `def` at the top of a module",
        )
    home = sys.modules.get(module)
    file = getattr(home, "__file__", None)
    if module != _SCRIPT:
        return FunctionTarget(module, qualname, file)
    if file is None or not Path(file).is_file():
        raise _isolation_error(
            tool, f"{qualname} is in no file: move it into a module, and import it"
        )
    if "__main__" not in Path(file).read_text(errors="replace"):
        raise _isolation_error(
            tool,
            f"the worker imports {Path(file).name}, which would run the program again: put what it "
            "runs under `if __name__ == '__main__':`, or move the function into a module",
        )
    spec: ModuleSpec | None = getattr(home, "__spec__", None)
    name = _SCRIPT if spec is None else spec.name
    return FunctionTarget(name, qualname, os.path.abspath(file), is_main=True)


def check(target: FunctionTarget, fn: Callable[..., Any], tool: str) -> None:
    """Make sure that the address leads to the function.

    Raises:
        ConfigError: that name is something else in its module.
    """
    module = sys.modules.get(_SCRIPT if target.is_main else target.module)
    try:
        found = _get_qualified(module, target.qualname)
    except AttributeError:
        found = None
    if plain_function(found) is not plain_function(fn):
        raise _isolation_error(
            tool,
            f"{target} is not its function, though a worker would find it there: give the function "
            "a name of its own at the top of its module",
        )


def load_function(target: FunctionTarget) -> Callable[..., Any]:
    """The function at an address, in a process that has not seen it before.

    Raises:
        Exception: what its module raises when imported, or `AttributeError` if it has no such name.
    """
    global _loading
    _loading = True
    try:
        module = _module(target)
    finally:
        _loading = False
    if target.is_main:
        sys.modules[_SCRIPT] = module  # pickle looks up the types of values there
    function: Callable[..., Any] = _get_qualified(module, target.qualname)
    return function


def refuse_while_loading(tool: str) -> None:
    """Prevent endless workers: a module may call its own tools while a worker imports it.

    Raises:
        ConfigError: this is a worker, and it is importing its function's module.
    """
    if _loading:
        raise _isolation_error(
            tool,
            "it was called while a worker imports its module: put what the module runs under "
            "`if __name__ == '__main__':`",
        )


def _module(target: FunctionTarget) -> types.ModuleType:
    if target.module != _SCRIPT:
        try:
            spec = find_spec(target.module)
        except ModuleNotFoundError:
            spec = None
        if target.file is None or (spec is not None and spec.origin == target.file):
            return import_module(target.module)
    assert target.file is not None, "a script has a file"
    return _from_file(target.file, target.module)


def _from_file(file: str, name: str) -> types.ModuleType:
    """Load a module from a file, as a script is, instead of by its name."""
    if name == _SCRIPT:
        name = _SCRIPT_ELSEWHERE
    spec = spec_from_file_location(name, file, loader=SourceFileLoader(name, file))
    assert spec is not None, "a spec with a loader"
    assert spec.loader is not None, "a spec with a loader"
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _get_qualified(module: types.ModuleType | None, qualname: str) -> Any:
    return functools.reduce(getattr, qualname.split("."), module)


def _isolation_error(tool: str, why: str) -> ConfigError:
    return ConfigError(f"tool {tool!r} cannot be isolated: {why}")
