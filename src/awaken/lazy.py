"""Modules whose names are loaded when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str,
    homes: Mapping[str, str],
    foreign: Mapping[str, str] | None = None,
    *,
    extra: str | None = None,
    beside: Sequence[str] = (),
    otherwise: str | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns a `__getattr__` and a `__dir__` for a module.

    The first use of a name imports the module that defines it and keeps the value. So
    `from awaken.ext import background` is cheap, and `background.TaskOptions` imports what task
    options need. For type checkers, the module imports the same names under `TYPE_CHECKING`.

    Args:
        package: the `__name__` of the module that gets the two functions.
        homes: the names that each module defines, separated by blanks. A package may write its own
            modules with a leading dot, as in `.limits`.
        foreign: names of other libraries that people look for here, and what to write instead.
        beside: modules in which to look for a name that is not here, to say so.
        otherwise: what an error for a name that is nowhere says besides.
        extra: the extra of the installation that the modules need; an error for a module that is
            missing says how to install it.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if foreign is not None and name in foreign:
            # Not an AttributeError, of which `from … import` would drop the text.
            raise ImportError(f"{package} has no {name}: use {foreign[name]}")
        if name not in home_of:
            for other in () if name.startswith("_") else beside:
                if name in import_module(other).__all__:
                    raise ImportError(f"{package} has no {name}: use {other}.{name}")
            if otherwise is not None and not name.startswith("_"):
                raise ImportError(f"{package} has no {name}: {otherwise}")
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
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

    return find, names
