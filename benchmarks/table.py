"""Figures as a table to read and as a file to keep."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.durable.figures import FIGURES
from benchmarks.others import Answer
from benchmarks.work import IMPORT, IMPORT_ONLY, MEMORY, WORKLOADS, Figure, Workload

FLOOR, GUARDED, OURS, BEFORE = "floor", "floor, guarded", "awaken", "awaken, before"
LOOP: tuple[Workload | Figure, ...] = (*WORKLOADS, MEMORY, IMPORT, IMPORT_ONLY)
ROWS: tuple[Workload | Figure, ...] = (*LOOP, *FIGURES)

RESULTS = Path(__file__).with_name("results.json")


class Figures:
    """Samples by row and program on one Python, and why some are missing."""

    def __init__(self, python: str) -> None:
        self.python = python
        self.samples: dict[str, dict[str, list[float]]] = {row.key: {} for row in ROWS}
        self.reasons: dict[str, dict[str, str]] = {row.key: {} for row in ROWS}
        self.versions: dict[str, str] = {}
        self.pythons: dict[str, str] = {}
        self.load = [_load()]

    def add(self, key: str, program: str, *values: float) -> None:
        self.samples[key].setdefault(program, []).extend(values)

    def take(self, program: str, answer: Answer) -> None:
        self.pythons[program] = answer.python
        for key, values in answer.samples.items():
            self.add(key, program, *values)
        for key, why in answer.reasons.items():
            self.reasons[key][program] = why

    def best(self, key: str, program: str) -> float | None:
        values = self.samples[key].get(program)
        return _best(_ROWS[key], values) if values else None

    def verdict(self, row: Workload | Figure) -> str:
        """Whether ours keeps its budget, always or only when nothing disturbs it."""
        values = self.samples[row.key].get(OURS)
        if row.budget is None or not values:
            return ""
        over = self.samples[row.over].get(OURS) if isinstance(row, Workload) and row.over else None
        if median(values) - (median(over) if over else 0) <= row.budget:
            return "within"
        return "best only" if min(values) - (min(over) if over else 0) <= row.budget else "OVER"

    # -- to read --------------------------------------------------------------------------------

    def table(self) -> str:
        peers = tuple(self.versions)
        head = ["", "", FLOOR, "guarded", "before", OURS, "median", "budget", "verdict", "× floor"]
        head.append("Python")
        rows = [[*head, *peers], *(self._row(row, peers) for row in LOOP)]
        lines = [*aligned(rows), "", *self._notes()]
        return "\n".join(lines)

    def _row(self, row: Workload | Figure, peers: Sequence[str]) -> list[str]:
        floor, ours = self.best(row.key, FLOOR), self.best(row.key, OURS)
        values = self.samples[row.key].get(OURS)
        return [
            row.title,
            row.unit,
            number(floor),
            number(self.best(row.key, GUARDED)),
            number(self.best(row.key, BEFORE)),
            number(ours),
            number(median(values) if values else None),
            number(row.budget),
            self.verdict(row),
            f"{ours / floor:.1f}" if ours and floor else "",
            self.pythons.get(OURS, self.python),
            *(self._peer(row.key, peer, ours) for peer in peers),
        ]

    def _peer(self, key: str, peer: str, ours: float | None) -> str:
        best = self.best(key, peer)
        if best is None:
            return "cannot" if peer in self.reasons[key] else ""
        return f"{number(best)} (×{best / ours:.1f})" if ours else number(best)

    def _notes(self) -> list[str]:
        notes = [
            "CPU time; best of the samples unless it says median. guarded: the floor with a task "
            "and a timeout for each call. before: the checkout of --beside. Python: its version, "
            "and whether it was configured with --enable-optimizations (PGO) and LTO, or plain.",
            f"{_machine()}; load of the last minute: {self.load[0]} at first, {_load()} at last.",
        ]
        if self.versions:
            listed = ", ".join(f"{name} {version}" for name, version in self.versions.items())
            notes.append(f"In brackets: how many times ours. {listed}.")
        for row in LOOP:
            reasons = self.reasons[row.key]
            notes += [f"{program} cannot do {row.key}: {why}" for program, why in reasons.items()]
        return notes

    # -- to keep --------------------------------------------------------------------------------

    def save(self, path: Path = RESULTS) -> None:
        """Write what was measured on this Python; what was not, stays as an earlier run has left
        it, and so do the figures of other Pythons."""
        before = json.loads(path.read_text()) if path.exists() else {}
        series = series_of(self.python)
        pythons = {**before, series: self._json(before.get(series, {}))}
        ordered = {each: pythons[each] for each in sorted(pythons, key=_rank, reverse=True)}
        path.write_text(json.dumps(ordered, indent=2, ensure_ascii=False) + "\n")

    def _json(self, before: Mapping[str, Any]) -> Mapping[str, Any]:
        rows = before.get("rows", {})
        return {
            "machine": _machine(),
            "load": [*self.load, _load()],
            "versions": {**before.get("versions", {}), **self.versions},
            "rows": {
                row.key: self._row_json(row, rows.get(row.key, {}))
                for row in ROWS
                if self.samples[row.key] or row.key in rows
            },
        }

    def _row_json(self, row: Workload | Figure, before: Mapping[str, Any]) -> Mapping[str, Any]:
        samples = self.samples[row.key]
        earlier = {
            program: {**figure, "earlier": True}
            for program, figure in before.get("programs", {}).items()
            if program not in (*samples, *self.reasons[row.key], BEFORE)
        }
        if not samples:
            return {**before, "programs": earlier}
        return {
            "title": row.title,
            "unit": row.unit,
            "budget": row.budget,
            "verdict": self.verdict(row),
            "programs": {
                program: {
                    "best": _rounded(_best(row, values)),
                    "median": _rounded(median(values)),
                    "samples": len(values),
                    "python": self.pythons.get(program, self.python),
                }
                for program, values in samples.items()
            }
            | earlier,
            "reasons": self.reasons[row.key] or before.get("reasons", {}),
        }


_ROWS = {row.key: row for row in ROWS}


def series_of(build: str) -> str:
    """What the figures of a Python are kept under: `3.14 PGO+LTO` of `3.14.6 PGO+LTO`."""
    version, marks = build.split()
    return f"{version.rpartition('.')[0]} {marks}"


def _rank(series: str) -> tuple[bool, tuple[int, ...]]:
    """Optimised Pythons stand before plain ones, and newer ones before older ones."""
    version, marks = series.split()
    return marks != "plain", tuple(map(int, version.split(".")))


def _best(row: Workload | Figure, values: Sequence[float]) -> float:
    return max(values) if isinstance(row, Figure) and row.more else min(values)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines


def number(value: float | None) -> str:
    """Three digits, no more."""
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _machine() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def _load() -> float:
    return round(os.getloadavg()[0], 1)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
