"""Reading docstrings for a model: the description, and a line for each parameter.

The styles of Google, NumPy and Sphinx are read; other sections are left out.
"""

from __future__ import annotations

import inspect
import itertools
import re
import textwrap
from typing import NamedTuple

_SECTIONS = (
    "args|arguments|parameters|params|keyword args|keyword arguments|other parameters|returns?|"
    "yields?|raises?|warns?|examples?|notes?|references|see also|attributes|todo"
)
# Compiled when the first docstring is read, and kept by `re`.
_GOOGLE_SECTION = rf"(?i)({_SECTIONS}):\s*$"
_GOOGLE_ENTRY = r"\*{0,2}(\w+)(?:\s*\(.*?\))?\s*:\s*(.*)"
_NUMPY_RULE = r"-{3,}\s*$"
_NUMPY_ENTRY = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"
_SPHINX_FIELD = r"(?i):[a-z]+(?:\s[^:]*)?:(?:\s|$)"
_SPHINX_PARAM = (
    r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)"
)
_ABOUT_PARAMETERS = ("arg", "param", "keyword", "other param")


class Docstring(NamedTuple):
    """The text before the first section, and the text of each parameter."""

    description: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Parse a docstring in any of the three styles."""
    lines = inspect.cleandoc(text or "").splitlines()
    starts = [i for i in range(len(lines)) if _style(lines, i)]
    parameters: dict[str, str] = {}
    for start, end in itertools.pairwise([*starts, len(lines)]):
        parameters |= _section(lines[start:end], _style(lines, start))
    description = lines[: starts[0]] if starts else lines
    return Docstring("\n".join(description).strip(), parameters)


def _style(lines: list[str], i: int) -> str:
    """The style of the section that begins at line `i`; empty if none does."""
    line, after = lines[i], lines[i + 1 : i + 2]
    if re.match(_SPHINX_FIELD, line):
        return "sphinx"
    if line.strip() and after and re.match(_NUMPY_RULE, after[0]):
        return "numpy"
    if re.match(_GOOGLE_SECTION, line):
        body = next((other for other in lines[i + 1 :] if other.strip()), "")
        return "google" if body.startswith((" ", "\t")) else ""
    return ""


def _section(lines: list[str], style: str) -> dict[str, str]:
    """The texts of the parameters in one section; empty if it is about something else."""
    if style == "sphinx":
        found = re.match(_SPHINX_PARAM, lines[0])
        return {found[1]: _joined([found[2], *_until_blank(lines[1:])])} if found else {}
    if not lines[0].strip().lower().startswith(_ABOUT_PARAMETERS):
        return {}
    if style == "numpy":
        return _entries(lines[2:], _NUMPY_ENTRY)
    body = [line for line in lines[1:] if not line or line.startswith((" ", "\t"))]
    return _entries(textwrap.dedent("\n".join(body)).splitlines(), _GOOGLE_ENTRY)


def _entries(lines: list[str], entry: str) -> dict[str, str]:
    """The entries of a section. An entry starts at the margin; indented lines below belong to
    it."""
    texts: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        found = None if line.startswith((" ", "\t")) else re.match(entry, line)
        if found is None:
            current.append(line)
            continue
        current = list(found.groups()[1:])
        for name in found[1].split(","):
            texts[name.strip().lstrip("*")] = current
    return {name: _joined(text) for name, text in texts.items() if _joined(text)}


def _until_blank(lines: list[str]) -> list[str]:
    return lines[: next((i for i, line in enumerate(lines) if not line.strip()), len(lines))]


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
