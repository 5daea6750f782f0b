"""Would the tests notice? Change the code a little, one place at a time, and see which tests fail.

    python tools/mutate.py --sample 10 loop/run.py loop/step.py stores/sqlite/commit.py
    python tools/mutate.py loop/calls.py:286 runtime/operations.py:220

Modules are named as they stand under `src/awaken`; with `:LINE` only that line is changed. The work
is done in a copy: the checkout is never touched. A first run of the tests records which of them
execute which line of the named modules; a change is then tried with those that execute its line,
the quickest first. A line that no test executes in its own process is tried with `--else`.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TESTS_A_CHANGE = 60
SECONDS_A_CHANGE = 150

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ADDED: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_CHOSEN = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Change(NamedTuple):
    """One small change of a module."""

    module: str
    line: int
    was: str
    now: str
    source: str


# -- changes ----------------------------------------------------------------------------------


def changes_of(module: str, source: str) -> Iterator[Change]:
    """Every change there is to try in a module."""
    tree = ast.parse(source)
    passed_over = _not_code(tree)
    for node in ast.walk(tree):
        if node in passed_over:
            continue
        for now in _changed(node):
            was = ast.get_source_segment(source, node) or ""
            text = ast.unparse(ast.fix_missing_locations(now))
            yield Change(module, _at(node)[0], was, text, _spliced(source, node, text))


def _not_code(tree: ast.Module) -> set[ast.AST]:
    """Annotations, docstrings, decorators, defaults of fields, and lines that only log."""
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            found.append(node.annotation)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            found.append(node.returns)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.append(node)
        if isinstance(node, ast.Expr) and ast.unparse(node).startswith("log."):
            found.append(node)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found.append(node)
        if isinstance(node, ast.ClassDef):
            found.extend(node.keywords)
            found.extend(node.decorator_list)
    return {inner for node in found for inner in ast.walk(node)}


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            other = copy.copy(node)
            other.test = ast.UnaryOp(ast.Not(), test)
            yield other
        case ast.Compare(ops=[op]) if type(op) in _COMPARED:
            yield ast.Compare(node.left, [_COMPARED[type(op)]()], node.comparators)
        case ast.BoolOp(op=op):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), node.values)
        case ast.BinOp(op=op) if type(op) in _ADDED:
            yield ast.BinOp(node.left, _ADDED[type(op)](), node.right)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in _CHOSEN:
            yield ast.Call(ast.Name(_CHOSEN[name]), node.args, node.keywords)
        case ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign() | ast.Delete():
            yield ast.Pass()
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield ast.Pass()
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))


def _at(node: ast.AST) -> tuple[int, int, int, int]:
    """First line and column of a node, and those behind its end; columns count bytes."""
    assert isinstance(node, ast.stmt | ast.expr)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _spliced(source: str, node: ast.AST, text: str) -> str:
    first, column, last, end = _at(node)
    lines = source.encode().splitlines(keepends=True)
    before, after = lines[first - 1][:column], lines[last - 1][end:]
    if isinstance(node, ast.expr):
        text = f"({text})"
    text = text.replace("\n", "\n" + " " * column)
    return b"".join([*lines[: first - 1], before, text.encode(), after, *lines[last:]]).decode()


# -- which tests run which lines --------------------------------------------------------------


def trace(tree: Path, modules: list[str], tests: list[str]) -> dict[str, list[str]]:
    """Tests by `module:line`, the quickest first."""
    out = tree / "traced.json"
    watched = json.dumps([str(tree / "src/awaken" / module) for module in modules])
    ran = subprocess.run(
        [*_pytest(), "-n", "2", "-p", "trace_lines", *tests],
        cwd=tree,
        env=_environment(tree) | {"TRACE_LINES_OF": watched, "TRACE_LINES_TO": str(out)},
        check=False,
    )
    parts = sorted(tree.glob("traced.json.*"))
    if ran.returncode or not parts:
        raise SystemExit("the tests do not pass as they are")
    found: dict[str, list[tuple[float, str]]] = {}
    for part in parts:
        for test, (seconds, lines) in json.loads(part.read_text()).items():
            for line in lines:
                found.setdefault(line, []).append((seconds, test))
    return {line: [test for _, test in sorted(tests)] for line, tests in found.items()}


def _pytest() -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


def _environment(tree: Path) -> dict[str, str]:
    path = f"{tree / 'src'}{os.pathsep}{tree / 'tools'}"
    return os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


# -- trying -----------------------------------------------------------------------------------


class Answer(Enum):
    """What the tests made of a change."""

    NOTICED = "noticed"
    MISSED = "missed"
    ENDLESS = "endless"
    """They did not end in time: the change made something wait for ever, or they were too slow."""


def tried(tree: Path, change: Change, tests: list[str]) -> Answer:
    file = tree / "src/awaken" / change.module
    as_it_was = file.read_text()
    file.write_text(change.source)
    try:
        ran = subprocess.run(
            [*_pytest(), "-n", "0", "-x", *tests],
            cwd=tree,
            env=_environment(tree),
            capture_output=True,
            timeout=SECONDS_A_CHANGE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer.ENDLESS
    finally:
        file.write_text(as_it_was)
    return Answer.NOTICED if ran.returncode else Answer.MISSED


def copied(to: Path) -> Path:
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    for name in files.stdout.splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)
    kit = Path("tests/kit/node_modules")
    if (ROOT / kit).is_dir():
        (to / kit).symlink_to(ROOT / kit)
    return to


def chosen(names: list[str], sample: int | None, seed: int) -> list[Change]:
    """Changes to try, no two of a module's on one line if they are a sample."""
    pick, found = random.Random(seed), []
    for name in names:
        module, _, line = name.partition(":")
        source = (ROOT / "src/awaken" / module).read_text()
        all_of_it = list(changes_of(module, source))
        if line:
            all_of_it = [change for change in all_of_it if change.line == int(line)]
        elif sample is not None:
            pick.shuffle(all_of_it)
            all_of_it = list({change.line: change for change in all_of_it}.values())[:sample]
        found.extend(all_of_it)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--sample", type=int, help="so many changes a module, at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests", nargs="+", default=["tests"], help="where to look for tests")
    parser.add_argument("--else", dest="otherwise", nargs="+", default=["tests/recovery"])
    asked = parser.parse_args()
    changes = chosen(asked.modules, asked.sample, asked.seed)
    print(f"{len(changes)} changes", flush=True)
    with tempfile.TemporaryDirectory() as home:
        trees = [copied(Path(home) / str(n)) for n in range(asked.jobs)]
        lines = trace(trees[0], sorted({change.module for change in changes}), asked.tests)
        free = list(trees)

        def attempt(change: Change) -> tuple[Change, Answer, int]:
            tests = lines.get(f"{change.module}:{change.line}", [])
            tree = free.pop()
            try:
                answer = tried(tree, change, tests[:TESTS_A_CHANGE] or asked.otherwise)
            finally:
                free.append(tree)
            return change, answer, len(tests)

        answers: Counter[Answer] = Counter()
        with ThreadPoolExecutor(asked.jobs) as pool:
            for change, answer, count in pool.map(attempt, changes):
                answers[answer] += 1
                if answer is not Answer.NOTICED:
                    was, now = (" ".join(t.split())[:70] for t in (change.was, change.now))
                    where = f"{change.module}:{change.line} ({count} tests)"
                    print(f"{answer.value} {where} {was} → {now}")
                    sys.stdout.flush()
    print(*(f"{answer.value} {answers[answer]}" for answer in Answer), f"of {len(changes)}")


if __name__ == "__main__":
    main()
