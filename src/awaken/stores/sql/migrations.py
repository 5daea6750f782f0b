"""Numbered migrations, read from the package. The last number is the version of a database."""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from typing import NamedTuple

_NAME = re.compile(r"(\d{4})_\w+\.sql")


class Migration(NamedTuple):
    """The step from version `number - 1` to `number`."""

    number: int
    name: str
    script: str


@functools.cache
def load_migrations(dialect: str) -> tuple[Migration, ...]:
    """All migrations of a dialect, in order and without a gap."""
    found = sorted(
        Migration(int(match[1]), file.name, file.read_text("utf-8"))
        for file in files(__package__).joinpath(dialect).iterdir()
        if (match := _NAME.fullmatch(file.name))
    )
    numbers = [step.number for step in found]
    if numbers != list(range(1, len(found) + 1)):
        raise RuntimeError(f"migrations of {dialect} are not numbered 1, 2, 3, …: {numbers}")
    return tuple(found)
