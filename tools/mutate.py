"""Would the tests notice? Change the code a little, one place at a time, and see which tests fail.

    python tools/mutate.py engine=100 stores/sqlite=40 core/state=20
    python tools/mutate.py engine/tool_calls.py:286 worker/operations.py:220

Modules and packages are named as they stand under `src/awaken`. With `=N` so many of their changes
are tried, picked at random; with `:LINE` only that line is changed. The work is done in a copy: the
checkout is never touched. A first run of the tests records which of them execute which line of the
named modules; a change is then tried with those that execute its line, the quickest first. Tests
that fail as the code stands are named and left out. A line that no test executes in its own process
is tried with `--else`. With `--lines FILE` the first run is kept, for as long as no line moves.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import json
import math
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS_A_CHANGE = 60
SECONDS_A_CHANGE = 150

# What tests need besides our own code is imported once, by the process their own are forked from.
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload([plugin.module for plugin in entry_points(group="pytest11")])
_FIRST = 4
"""So many tests are played before the modules of the others are imported, which takes longest."""
_KEPT = 250
"""So many tests are remembered for a line; some lines are run by all of them."""
_QUIETLY = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")

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
    statement: int
    """The first line of the statement it is in."""
    was: str
    now: str
    source: str


# -- changes ----------------------------------------------------------------------------------


def changes_of(module: str, source: str) -> Iterator[Change]:
    """Every change there is to try in a module."""
    tree = ast.parse(source)
    passed_over = _not_code(tree)
    statements = _statements(tree)
    for node in ast.walk(tree):
        if node in passed_over:
            continue
        for now in _changed(node):
            was = ast.get_source_segment(source, node) or ""
            text = ast.unparse(ast.fix_missing_locations(now))
            changed = _spliced(source, node, text)
            yield Change(module, _at(node)[0], statements[node], was, text, changed)


def _statements(tree: ast.Module) -> dict[ast.AST, int]:
    """The first line of the innermost statement that each node is in."""
    found: dict[ast.AST, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            found.update((inner, node.lineno) for inner in ast.walk(node))
    return found


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


def trace(tree: Path, modules: list[str], tests: list[str], jobs: int) -> dict[str, list[str]]:
    """Tests by `module:line`, the quickest first."""
    out = tree / "traced.json"
    watched = json.dumps([str(tree / "src/awaken" / module) for module in modules])
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *_QUIETLY, "-n", str(jobs), "-p", "trace_lines", *tests],
        cwd=tree,
        env=_environment(tree) | {"TRACE_LINES_OF": watched, "TRACE_LINES_TO": str(out)},
        check=False,
    )
    parts = sorted(tree.glob("traced.json.*"))
    if ran.returncode not in (0, 1) or not parts:
        raise SystemExit("the tests could not be run")
    found: dict[str, list[tuple[float, str]]] = {}
    for part in parts:
        for test, (seconds, lines) in json.loads(part.read_text()).items():
            for line in lines:
                found.setdefault(line, []).append((seconds, test))
    return {line: [test for _, test in sorted(tests)[:_KEPT]] for line, tests in found.items()}


def _environment(tree: Path) -> dict[str, str]:
    path = f"{tree / 'src'}{os.pathsep}{tree / 'tools'}"
    return os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": ""}


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
    _write(file, change.source)
    try:
        return _ended(tree, tests)
    finally:
        _write(file, as_it_was)


def _write(file: Path, source: str) -> None:
    """Write a module and forget its compiled form, which may be of the same second and length."""
    file.write_text(source)
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()


def _ended(tree: Path, tests: list[str]) -> Answer:
    """Run tests in a process group of their own, so that nothing they started outlives them."""
    ran = _FORKED.Process(target=_play, args=(tree, tests))
    ran.start()
    ran.join(SECONDS_A_CHANGE)
    answer = Answer.ENDLESS if ran.is_alive() else Answer.NOTICED if ran.exitcode else Answer.MISSED
    with contextlib.suppress(ProcessLookupError):
        os.killpg(ran.pid or 0, signal.SIGKILL)
    ran.join()
    return answer


def _play(tree: Path, tests: list[str]) -> None:
    os.setsid()
    os.chdir(tree)
    os.environ.update(_environment(tree))
    sys.dont_write_bytecode = False
    sys.path[:0] = [str(tree / "src"), str(tree / "tools")]
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    for some in (tests[:_FIRST], tests[_FIRST:]):
        if some and (code := pytest.main([*_QUIETLY, "-n", "0", "-x", *some])):
            sys.exit(code)


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


def chosen(names: list[str], seed: int) -> list[Change]:
    """Changes to try, no two on one line if they are a sample; in an order of chance, so that those
    tried in a run that had too little time are a sample as well."""
    pick, found = random.Random(seed), []
    for name in names:
        place, _, sample = name.partition("=")
        place, _, line = place.partition(":")
        changes = [change for module in _modules(place) for change in _changes(module)]
        if line:
            changes = [change for change in changes if change.line == int(line)]
        if sample:
            pick.shuffle(changes)
            by_line = {(change.module, change.line): change for change in changes}
            changes = list(by_line.values())[: int(sample)]
        found.extend(changes)
    pick.shuffle(found)
    return found


def _modules(place: str) -> list[str]:
    """A module, or those of a package, not of packages within it."""
    here = ROOT / "src/awaken"
    if place.endswith(".py"):
        return [place]
    return sorted(str(file.relative_to(here)) for file in (here / place).glob("*.py"))


def _changes(module: str) -> Iterator[Change]:
    return changes_of(module, (ROOT / "src/awaken" / module).read_text())


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("places", nargs="+", help="module.py, module.py:LINE, package or package=N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests", nargs="+", default=["tests"], help="where to look for tests")
    parser.add_argument("--else", dest="otherwise", nargs="+", default=["tests/recovery"])
    parser.add_argument("--most", type=int, default=TESTS_A_CHANGE, help="so many tests a change")
    parser.add_argument("--minutes", type=float, help="begin no other change after so long")
    parser.add_argument("--lines", type=Path, help="keep which test runs which line in this file")
    ask = parser.parse_args()
    for test in [*ask.tests, *ask.otherwise]:
        if not (ROOT / test.partition("::")[0]).exists():
            parser.error(f"there are no tests in {test}")
    return ask


def lines_of(tree: Path, ask: argparse.Namespace) -> dict[str, list[str]]:
    """Tests by line of all modules that were named, from the file if there is one."""
    if ask.lines and ask.lines.is_file():
        kept: dict[str, list[str]] = json.loads(ask.lines.read_text())
        return kept
    places = [re.split("[=:]", name)[0] for name in ask.places]
    modules = sorted({module for place in places for module in _modules(place)})
    found = trace(tree, modules, ask.tests, ask.jobs)
    if ask.lines:
        ask.lines.write_text(json.dumps(found))
    return found


def tell(changes: Counter[tuple[str, Answer]]) -> None:
    """How many changes were noticed, by package and in all."""
    for package in sorted({package for package, _ in changes}):
        counts = [changes[package, answer] for answer in Answer]
        told = ", ".join(f"{answer.value} {n}" for answer, n in zip(Answer, counts, strict=True))
        print(f"{package}: {told} of {sum(counts)}")
    noticed = sum(n for (_, answer), n in changes.items() if answer is Answer.NOTICED)
    print(f"in all: noticed {noticed} of {sum(changes.values())}")


def main() -> None:
    ask = asked()
    changes = chosen(ask.places, ask.seed)
    print(f"{len(changes)} changes", flush=True)
    answers: Counter[tuple[str, Answer]] = Counter()
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(ask.jobs) as pool:
        trees = [copied(Path(home) / str(n)) for n in range(ask.jobs)]
        lines = lines_of(trees[0], ask)
        until = time.monotonic() + 60 * (ask.minutes or math.inf)

        def attempt(change: Change) -> tuple[Change, Answer, int] | None:
            if time.monotonic() > until:
                return None
            at = (f"{change.module}:{line}" for line in (change.line, change.statement))
            tests = next((lines[line] for line in at if line in lines), [])
            tree = trees.pop()
            try:
                answer = tried(tree, change, tests[: ask.most] or ask.otherwise)
            finally:
                trees.append(tree)
            return change, answer, len(tests)

        for change, answer, count in filter(None, pool.map(attempt, changes)):
            answers[change.module.rpartition("/")[0], answer] += 1
            if answer is not Answer.NOTICED:
                was, now = (" ".join(t.split())[:70] for t in (change.was, change.now))
                where = f"{change.module}:{change.line} ({count} tests)"
                print(f"{answer.value} {where} {was} → {now}", flush=True)
    tell(answers)


if __name__ == "__main__":
    main()
