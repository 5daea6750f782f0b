"""Draws which package imports which: `python tools/import_graph.py graph.svg`.

Packages stand in the layers of `pyproject.toml`, so every arrow points down. An arrow that a longer
path implies is left out; `imports_table` lists every pair. A number counts import statements.
"""

from __future__ import annotations

import ast
import random
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf
from pathlib import Path

HOME = Path(__file__).parents[1]
Edge = tuple[str, str]

BOX, TALL, GAP, ROW, MARGIN, LANE = 124, 42, 24, 80, 28, 12
ATTEMPTS = 40
STYLE = """
.panel { fill: #ffffff; stroke: #d5dae3 }
.box { fill: #eef3fb; stroke: #5b7db1; stroke-width: 1.5 }
.module { fill: #f6f6f4; stroke: #9a9a92; stroke-dasharray: 4 3 }
.arrow { fill: none; stroke: #7689a6; stroke-width: 1.5 }
.head { fill: #7689a6 }
.label { fill: #ffffff }
text { font: 14px system-ui, sans-serif; fill: #1c2530; text-anchor: middle }
.small { font-size: 11px; fill: #566375 }
"""
DARK = """
.panel { fill: #171b22; stroke: #363e4b }
.box { fill: #243146; stroke: #7fa2d8 }
.module { fill: #22252a; stroke: #7d828b }
.arrow { stroke: #8296b5 }
.head { fill: #8296b5 }
.label { fill: #171b22 }
text { fill: #e8ecf2 }
.small { fill: #a9b4c4 }
"""


@dataclass(frozen=True)
class Tree:
    """The packages and modules directly in `awaken`, in layers, and what they import."""

    layers: Sequence[Sequence[str]]
    files: Mapping[str, int]
    """How many files each package has; modules are left out."""
    imports: Mapping[Edge, int]
    """Import statements between two packages."""


def main(path: Path) -> None:
    path.write_text(drawing(read_tree(HOME)))


# -- reading ----------------------------------------------------------------------------------


def read_tree(home: Path) -> Tree:
    """The tree of the project in a folder."""
    config = tomllib.loads((home / "pyproject.toml").read_text())
    contracts = config["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    source = home / "src" / "awaken"
    packages = sorted(path.parent.name for path in source.glob("*/__init__.py"))
    imports: Counter[Edge] = Counter()
    files: dict[str, int] = {}
    for package in packages:
        paths = list((source / package).rglob("*.py"))
        files[package] = len(paths)
        for path in paths:
            for imported in imported_by(path.read_text()):
                if imported in packages and imported != package:
                    imports[package, imported] += 1
    return Tree([layer.split(" | ") for layer in layers], files, imports)


def imported_by(code: str) -> Iterator[str]:
    """The packages of ours that each import statement names.

    Imports stand at the top of a file, or in an `if` there: the linter allows no others.
    """
    top = ast.parse(code).body
    within = [each for node in top if isinstance(node, ast.If) for each in node.body]
    for node in (*top, *within):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module == "awaken":
            yield from (alias.name for alias in node.names)
        elif node.module.startswith("awaken."):
            yield node.module.split(".")[1]


def direct(imports: Mapping[Edge, int]) -> dict[Edge, int]:
    """The imports that no longer path implies."""
    below: dict[str, set[str]] = {}
    for above, beneath in imports:
        below.setdefault(above, set()).add(beneath)

    def reached(start: str, without: str) -> set[str]:
        found: set[str] = set()
        ahead = below[start] - {without}
        while ahead:
            found |= ahead
            ahead = {each for one in ahead for each in below.get(one, ())} - found
        return found

    return {edge: count for edge, count in imports.items() if edge[1] not in reached(*edge)}


def imports_table(tree: Tree) -> str:
    """Every pair of packages, as a table in Markdown, from the top layer to the lowest."""
    lines = ["| package | imports, with the number of import statements |", "|---|---|"]
    order = [name for layer in tree.layers for name in layer if name in tree.files]
    for name in order:
        counts = [
            f"`{other}` {tree.imports[name, other]}"
            for other in order
            if (name, other) in tree.imports
        ]
        lines.append(f"| `{name}` | {', '.join(counts) or 'no other package'} |")
    return "\n".join(lines) + "\n"


# -- placing ----------------------------------------------------------------------------------


@dataclass
class Slot:
    """A place in a row: a package, or a lane that an arrow to a lower row passes through."""

    name: str
    width: int
    x: float = 0.0


class Layout:
    """Rows of slots. Arrows join slots of neighbouring rows only, so no arrow crosses a box."""

    def __init__(self, tree: Tree) -> None:
        self.rows = [
            [Slot(name, BOX) for name in layer if name in tree.files] for layer in tree.layers
        ]
        self.rows = [row for row in self.rows if row]
        self.paths: dict[Edge, list[Slot]] = {}
        home = {slot.name: slot for row in self.rows for slot in row}
        self._level = {slot.name: i for i, row in enumerate(self.rows) for slot in row}
        for edge in direct(tree.imports):
            top, bottom = (self._level[name] for name in edge)
            if top >= bottom:
                raise ValueError(f"{edge[0]} imports {edge[1]}, which does not stand beneath it")
            lanes = [Slot("", LANE) for _ in range(top + 1, bottom)]
            for row, lane in zip(self.rows[top + 1 : bottom], lanes, strict=True):
                row.append(lane)
            self.paths[edge] = [home[edge[0]], *lanes, home[edge[1]]]
        self._neighbours: dict[int, list[Slot]] = {}
        for path in self.paths.values():
            for one, other in pairwise(path):
                self._neighbours.setdefault(id(one), []).append(other)
                self._neighbours.setdefault(id(other), []).append(one)
        self._arrange()
        left = min(slot.x - slot.width / 2 for row in self.rows for slot in row)
        for row in self.rows:
            for slot in row:
                slot.x += MARGIN - left
        self.width = MARGIN + max(slot.x + slot.width / 2 for row in self.rows for slot in row)

    def _arrange(self) -> None:
        """Try some first orders, and keep the arrangement with the fewest crossings."""
        dice = random.Random(3)
        best: tuple[float, float] = (inf, inf)
        kept: list[tuple[Slot, float]] = []
        for _ in range(ATTEMPTS):
            for row in self.rows:
                dice.shuffle(row)
                self._spread(row, [0.0] * len(row))
            for turn in range(16):
                for row in self.rows if turn % 2 else reversed(self.rows):
                    row.sort(key=self._wanted)
                    self._spread(row, [self._wanted(slot) for slot in row])
            if (cost := self._cost()) < best:
                best, kept = cost, [(slot, slot.x) for row in self.rows for slot in row]
        for slot, x in kept:
            slot.x = x

    def _cost(self) -> tuple[float, float]:
        """How many arrows cross, and how far they go sideways."""
        stretches: dict[int, list[tuple[float, float]]] = {}
        for (above, _), path in self.paths.items():
            for level, (one, other) in enumerate(pairwise(path), self._level[above]):
                stretches.setdefault(level, []).append((one.x, other.x))
        crossings = sum(
            (a[0] - b[0]) * (a[1] - b[1]) < 0
            for row in stretches.values()
            for a, b in combinations(row, 2)
        )
        return crossings, sum(abs(a - b) for row in stretches.values() for a, b in row)

    def _wanted(self, slot: Slot) -> float:
        """The middle of what the slot is joined with."""
        others = self._neighbours.get(id(slot), [slot])
        return sum(other.x for other in others) / len(others)

    @staticmethod
    def _spread(row: list[Slot], wanted: list[float]) -> None:
        """Put the slots of a row near where they belong, in their order and without overlap."""
        offsets = [0.0]
        for one, other in pairwise(row):
            offsets.append(offsets[-1] + (one.width + other.width) / 2 + GAP)
        # Each group of touching slots stands where its members belong on the average.
        groups: list[list[float]] = []
        for at, offset in zip(wanted, offsets, strict=True):
            groups.append([at - offset])
            while len(groups) > 1 and _mean(groups[-2]) > _mean(groups[-1]):
                groups[-2:] = [groups[-2] + groups[-1]]
        starts = [_mean(group) for group in groups for _ in group]
        for slot, start, offset in zip(row, starts, offsets, strict=True):
            slot.x = start + offset


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# -- drawing ----------------------------------------------------------------------------------


def drawing(tree: Tree) -> str:
    """The graph as an SVG with a background of its own, light or dark as the reader prefers."""
    layout = Layout(tree)
    above, beneath = modules_around(tree)
    top = MARGIN + (ROW if above else 0)
    level = {id(slot): top + ROW * i for i, row in enumerate(layout.rows) for slot in row}
    bottom = top + ROW * len(layout.rows)
    width, height = round(layout.width), bottom + (ROW if beneath else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="Which package imports which">',
        f"<style>{STYLE}@media (prefers-color-scheme: dark) {{{DARK}}}</style>",
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto">'
        '<path class="head" d="M0 0 8 4 0 8z"/></marker>',
        f'<rect class="panel" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>',
    ]
    counts: list[str] = []
    for edge in layout.paths:
        points = ports(layout, edge, level)
        parts.append(arrow(points))
        counts.append(count_label(points, tree.imports[edge]))
    for row in layout.rows:
        for slot in row:
            if slot.name:
                note = f"{tree.files[slot.name]} files"
                parts.append(box("box", slot.name, note, slot.x, level[id(slot)], BOX))
    for names, y in ((above, MARGIN), (beneath, bottom)):
        if names:
            text = " · ".join(names)
            parts.append(box("module", text, "single modules", width / 2, y, 9 * len(text) + 24))
    return "\n".join([*parts, *counts, "</svg>"]) + "\n"


def modules_around(tree: Tree) -> tuple[list[str], list[str]]:
    """The single modules above the packages, and those beneath the first package."""
    above: list[str] = []
    beneath: list[str] = []
    side = above
    for layer in tree.layers:
        if any(name in tree.files for name in layer):
            side = beneath
        side += [name for name in layer if name not in tree.files]
    return above, beneath


def ports(layout: Layout, edge: Edge, level: Mapping[int, float]) -> list[tuple[float, float]]:
    """The points an arrow passes; arrows leave and reach a box side by side."""
    path = layout.paths[edge]
    leaving = sorted((p[1].x, e) for e, p in layout.paths.items() if e[0] == edge[0])
    coming = sorted((p[-2].x, e) for e, p in layout.paths.items() if e[1] == edge[1])
    points = [(path[0].x + shift(leaving, edge), level[id(path[0])] + TALL)]
    for lane in path[1:-1]:
        points += [(lane.x, level[id(lane)] - 6), (lane.x, level[id(lane)] + TALL + 6)]
    return [*points, (path[-1].x + shift(coming, edge), level[id(path[-1])] - 1)]


def shift(arrows: Sequence[tuple[float, Edge]], edge: Edge) -> float:
    """How far from the middle of a box one of its arrows begins or ends."""
    place = [each for _, each in arrows].index(edge)
    step = min(24, (BOX - 24) / len(arrows))
    return (place - (len(arrows) - 1) / 2) * step


def arrow(points: Sequence[tuple[float, float]]) -> str:
    drawn = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        drawn += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
    return f'<path class="arrow" marker-end="url(#head)" d="{drawn}"/>'


def count_label(points: Sequence[tuple[float, float]], count: int) -> str:
    """The number of imports, on the last stretch of an arrow, nearer to its head."""
    (x, y), (to_x, to_y) = points[-2:]
    at_x, at_y = x + 0.67 * (to_x - x), y + 0.58 * (to_y - y)
    wide = 6 + 7 * len(str(count))
    return (
        f'<rect class="label" x="{at_x - wide / 2:.1f}" y="{at_y - 7:.1f}" width="{wide}" '
        f'height="14" rx="3"/><text class="small" x="{at_x:.1f}" y="{at_y + 4:.1f}">{count}</text>'
    )


def box(kind: str, name: str, note: str, x: float, y: float, width: int) -> str:
    return (
        f'<rect class="{kind}" x="{x - width / 2:.1f}" y="{y:.1f}" width="{width}" height="{TALL}" '
        f'rx="6"/><text x="{x:.1f}" y="{y + 18:.1f}">{name}</text>'
        f'<text class="small" x="{x:.1f}" y="{y + 34:.1f}">{note}</text>'
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
