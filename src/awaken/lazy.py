"""Modules whose names are loaded when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any


def lazy_names(
    package: str,
    homes: Mapping[str, str],
    *,
    extra: str | None = None,
    otherwise: str | None = None,
) -> Callable[[str], Any]:
    """Gives a module names that are loaded on first use: sets its `__getattr__`, which is returned,
    and its `__dir__`.

    The first use of a name imports the module that defines it and keeps the value. So
    `from awaken.ext import tasks` is cheap, and `tasks.TaskOptions` imports what task options need.
    For type checkers, the module imports the same names under `TYPE_CHECKING`. It does not assign
    the functions itself, because a checker that sees a `__getattr__` accepts any name.

    If a public module does not have a name, the error says what to use instead, where
    `awaken.paths` knows it.

    Args:
        package: the `__name__` of the module.
        homes: the names that each module defines, separated by blanks. A package may write its own
            modules with a leading dot, as in `.limits`.
        otherwise: what an error for a name that is nowhere says besides.
        extra: the extra of the installation that the modules need; an error for a module that is
            missing says how to install it.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home_of:
            raise _unknown_name(package, name, otherwise)
        try:
            home = import_module(home_of[name], package)
        except ModuleNotFoundError as error:
            if extra is None:
                raise
            raise ModuleNotFoundError(
                f"{package}.{name} needs the extra {extra!r}: pip install 'awaken[{extra}]'",
                name=error.name,
            ) from error
        value = getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    vars(sys.modules[package]).update(__getattr__=find, __dir__=names)
    return find


def _unknown_name(package: str, name: str, otherwise: str | None) -> AttributeError | ImportError:
    # Not an AttributeError where there is an answer: `from … import` would drop its text.
    if not name.startswith("_") and not _has_submodule(package, name):
        instead: str | None = import_module("awaken.paths").find_public(package, name)
        if instead is not None:
            return ImportError(f"{package} has no {name}: use {instead}")
        if otherwise is not None:
            return ImportError(f"{package} has no {name}: {otherwise}")
    return AttributeError(f"module {package!r} has no attribute {name!r}")


def _has_submodule(package: str, name: str) -> bool:
    # `from awaken.ext import tasks` asks for the attribute before it imports the submodule.
    folders = getattr(sys.modules[package], "__path__", None)
    return folders is not None and PathFinder.find_spec(f"{package}.{name}", folders) is not None
