"""Packages whose parts are loaded when one of their names is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__`, which finds a name in the module that has it and keeps it, and
    its `__dir__`.

    `from awaken.ext import background` costs next to nothing then, and `background.TaskOptions`
    loads what it takes. For those who read types, the package imports the same names under
    `TYPE_CHECKING`.

    Args:
        package: the package's `__name__`.
        homes: the names in each module, with blanks between them; the module as seen from the
            package, as in `.limits`.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return find, names
