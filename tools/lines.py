"""Counts lines by package: `python tools/lines.py [BEFORE]`.

`BEFORE` is the folder of another checkout; the table then shows its lines of code beside ours.
A line is code, prose (docstrings and comments) or blank. The length of a function includes its
docstring.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).parents[1]
MODULES = "modules"


@dataclass(frozen=True)
class Lines:
    """What a file, or all files of a package, consist of."""

    files: int = 0
    code: int = 0
    prose: int = 0
    blank: int = 0
    largest: tuple[int, str] = (0, "")
    longest: tuple[int, str] = (0, "")

    def __add__(self, other: Lines) -> Lines:
        return Lines(
            self.files + other.files,
            self.code + other.code,
            self.prose + other.prose,
            self.blank + other.blank,
            max(self.largest, other.largest),
            max(self.longest, other.longest),
        )


def main(before: Path | None) -> None:
    for row in table(packages_of(HOME), packages_of(before) if before else None):
        print(row)


def packages_of(home: Path) -> dict[str, Lines]:
    """The lines of each package of a project, and of its single modules together."""
    source = home / "src" / "awaken"
    found: dict[str, Lines] = {}
    for path in sorted(source.rglob("*.py")):
        name, *beneath = path.relative_to(source).parts
        package = name if beneath else MODULES
        lines = count(path.read_text(), "/".join((name, *beneath)))
        found[package] = found.get(package, Lines()) + lines
    return found


def count(text: str, name: str) -> Lines:
    """The lines of one file."""
    lines = text.splitlines()
    prose: set[int] = set()
    quoted: set[int] = set()  # within a text that is part of the code
    functions = [(0, "")]
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
                prose.update(range(first, last + 1))
            case ast.Constant(value=str()) | ast.JoinedStr() if node.end_lineno:
                quoted.update(range(node.lineno + 1, node.end_lineno + 1))
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.end_lineno:
                length = node.end_lineno - node.lineno + 1
                functions.append((length, f"{name}:{node.name}"))
    blank = 0
    for number, line in enumerate(lines, start=1):
        if number not in prose and number not in quoted:
            blank += not line.strip()
            if line.lstrip().startswith("#"):
                prose.add(number)
    code = len(lines) - len(prose) - blank
    return Lines(1, code, len(prose), blank, (len(lines), name), max(functions))


def table(now: Mapping[str, Lines], before: Mapping[str, Lines] | None) -> Iterator[str]:
    """The rows of a table in Markdown, with a sum at the end."""
    then = "" if before is None else " code before |"
    yield f"| package | files |{then} code | prose | blank | largest file | longest function |"
    yield f"|---|--:|{'--:|' if then else ''}--:|--:|--:|---|---|"
    for name in sorted({*now, *(before or ())}):
        old = None if before is None else before.get(name, Lines())
        yield row(name, now.get(name, Lines()), old)
    total = None if before is None else sum(before.values(), Lines())
    yield row("all", sum(now.values(), Lines()), total)


def row(name: str, now: Lines, before: Lines | None) -> str:
    then = "" if before is None else f" {before.code:,} |"
    return (
        f"| `{name}` | {now.files} |{then} {now.code:,} | {now.prose:,} | {now.blank:,} "
        f"| {named(now.largest)} | {named(now.longest)} |"
    )


def named(of: tuple[int, str]) -> str:
    return f"{of[0]}: `{of[1]}`" if of[1] else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
