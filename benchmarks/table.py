"""Figures as a table to read and as a file to keep."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.others import Answer
from benchmarks.work import IMPORT, IMPORT_ONLY, MEMORY, WORKLOADS, Figure, Workload

FLOOR, GUARDED, OURS = "floor", "floor, guarded", "awaken"
ROWS: tuple[Workload | Figure, ...] = (*WORKLOADS, MEMORY, IMPORT, IMPORT_ONLY)

RESULTS = Path(__file__).with_name("results.json")


class Figures:
    """Samples by row and program, and why some are missing."""

    def __init__(self) -> None:
        self.samples: dict[str, dict[str, list[float]]] = {row.key: {} for row in ROWS}
        self.reasons: dict[str, dict[str, str]] = {row.key: {} for row in ROWS}
        self.versions: dict[str, str] = {}

    def add(self, key: str, program: str, *values: float) -> None:
        self.samples[key].setdefault(program, []).extend(values)

    def take(self, program: str, answer: Answer) -> None:
        for key, values in answer.samples.items():
            self.add(key, program, *values)
        for key, why in answer.reasons.items():
            self.reasons[key][program] = why

    def best(self, key: str, program: str) -> float | None:
        values = self.samples[key].get(program)
        return min(values) if values else None

    def verdict(self, row: Workload | Figure) -> str:
        """Whether ours keeps its budget, always or only when nothing disturbs it."""
        values = self.samples[row.key].get(OURS)
        if row.budget is None or not values:
            return ""
        if median(values) <= row.budget:
            return "within"
        return "best only" if min(values) <= row.budget else "OVER"

    # -- to read --------------------------------------------------------------------------------

    def table(self) -> str:
        peers = tuple(self.versions)
        head = ["", "", FLOOR, "guarded", "awaken", "median", "budget", "verdict", "× floor"]
        rows = [[*head, *peers], *(self._row(row, peers) for row in ROWS)]
        lines = [*_aligned(rows), "", *self._notes()]
        return "\n".join(lines)

    def _row(self, row: Workload | Figure, peers: Sequence[str]) -> list[str]:
        floor, ours = self.best(row.key, FLOOR), self.best(row.key, OURS)
        values = self.samples[row.key].get(OURS)
        return [
            row.title,
            row.unit,
            _number(floor),
            _number(self.best(row.key, GUARDED)),
            _number(ours),
            _number(median(values) if values else None),
            _number(row.budget),
            self.verdict(row),
            f"{ours / floor:.1f}" if ours and floor else "",
            *(self._peer(row.key, peer, ours) for peer in peers),
        ]

    def _peer(self, key: str, peer: str, ours: float | None) -> str:
        best = self.best(key, peer)
        if best is None:
            return "cannot" if peer in self.reasons[key] else ""
        return f"{_number(best)} (×{best / ours:.1f})" if ours else _number(best)

    def _notes(self) -> list[str]:
        notes = [
            f"Python {platform.python_version()}. CPU time; best of the samples unless it says "
            "median. guarded: the floor with a task and a timeout for each call."
        ]
        if self.versions:
            listed = ", ".join(f"{name} {version}" for name, version in self.versions.items())
            notes.append(f"In brackets: how many times ours. {listed}.")
        for key, reasons in self.reasons.items():
            notes += [f"{program} cannot do {key}: {why}" for program, why in reasons.items()]
        return notes

    # -- to keep --------------------------------------------------------------------------------

    def save(self) -> None:
        RESULTS.write_text(json.dumps(self._json(), indent=2, ensure_ascii=False) + "\n")

    def _json(self) -> Mapping[str, Any]:
        return {
            "python": platform.python_version(),
            "versions": self.versions,
            "rows": {row.key: self._row_json(row) for row in ROWS},
        }

    def _row_json(self, row: Workload | Figure) -> Mapping[str, Any]:
        return {
            "title": row.title,
            "unit": row.unit,
            "budget": row.budget,
            "verdict": self.verdict(row),
            "programs": {
                program: {
                    "best": _rounded(min(values)),
                    "median": _rounded(median(values)),
                    "samples": len(values),
                }
                for program, values in self.samples[row.key].items()
            },
            "reasons": self.reasons[row.key],
        }


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines


def _number(value: float | None) -> str:
    """Three digits, no more."""
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
