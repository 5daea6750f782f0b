"""Counts lines by package: `python tools/lines.py [BEFORE]`.

`BEFORE` is the folder of another checkout; the table then shows its lines of code beside ours.
A line is code, prose (docstrings and comments) or blank. The length of a function includes its
docstring.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
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
    tree = ast.parse(text)
    prose = {line for node in ast.walk(tree) for line in docstring_lines(node)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            prose.add(token.start[0])
    lines = text.splitlines()
    blank = sum(
        not line.strip() and number not in prose for number, line in enumerate(lines, start=1)
    )
    functions = [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{name}:{node.name}")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return Lines(
        files=1,
        code=len(lines) - len(prose) - blank,
        prose=len(prose),
        blank=blank,
        largest=(len(lines), name),
        longest=max(functions, default=(0, "")),
    )


def docstring_lines(node: ast.AST) -> range:
    """The lines of a text that stands by itself, which is how docstrings are written."""
    match node:
        case ast.Expr(value=ast.Constant(value=str()), lineno=first, end_lineno=int(last)):
            return range(first, last + 1)
    return range(0)


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
