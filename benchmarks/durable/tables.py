"""The figures of durable work as tables to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from benchmarks.durable.figures import (
    CROWDS,
    LEVELS,
    PEER_SIZES,
    SIZE,
    SIZES,
    SMALL_STEPS,
    WORDS,
    crowd_of,
    growth_of,
    notice_of,
)
from benchmarks.table import FLOOR, OURS, Figures, aligned, number

STEP = {"cpu": "CPU ms", "wall": "wall ms", "wal": "WAL KB", "disk": "disk KB"}
NEWEST = {"newest_cpu": "newest: CPU ms", "newest_wal": "WAL KB"}
UNKEPT = {"unkept_cpu": "keep_requests=False: CPU ms", "unkept_wal": "WAL KB"}
START = {"start": "start ms", "start_cpu": "CPU ms", "start_read": "read KB", "fixed": "rest ms"}
WHOLE = {"whole_cpu": "step CPU ms", "whole_start": "start ms", "whole_read": "read KB"}


def tables(figures: Figures) -> str:
    parts = [
        "W4 one durable step: two commits, synchronous=FULL",
        *_growth(figures, {**STEP, **NEWEST}, SIZES[0]),
        f"floor: one bare commit of one row; our step, two commits, is × {_times_floor(figures)} "
        "of it in CPU",
        "",
        "the same step with requests kept, and without (keep_requests=False)",
        *_growth(figures, {"cpu": "CPU ms", "wal": "WAL KB", **UNKEPT}, SIZES[0]),
        "",
        "the start of a run: from asking for it to asking the model; rest: CPU of a run but its "
        "steps",
        *_growth(figures, START, SIZES[1]),
        "",
        "the same agent without a window, which reads and sends the whole log",
        *_growth(figures, WHOLE, SIZES[1]),
        "",
        "throughput",
        *_crowds(figures),
        "",
        f"file after {SMALL_STEPS} small steps: {number(figures.best(SIZE.key, OURS))} MB",
        "",
        "noticing another process",
        *_notices(figures),
    ]
    if figures.versions:
        parts += ["", "beside others", *_peers(figures)]
    return "\n".join(parts)


def _growth(figures: Figures, kinds: dict[str, str], first: int) -> list[str]:
    """A row for each size, then how the last compares to the first, budgets and the floor."""
    rows = [["messages", *kinds.values()]]
    for size in SIZES:
        values = [figures.best(growth_of(kind, size).key, OURS) for kind in kinds]
        rows.append([f"{size:,}", *map(number, values)])
    rows.append([f"{SIZES[-1]:,} : {first:,}", *(_drift(figures, kind, first) for kind in kinds)])
    budgets = [growth_of(kind, 0).budget for kind in kinds]
    if any(budgets):
        rows.append(["at most", *map(number, budgets)])
        rows.append(["", *(_verdict(figures, kind) for kind in kinds)])
    floors = [figures.best(growth_of(kind, 0).key, FLOOR) for kind in kinds]
    if any(floors):
        rows.append([FLOOR, *map(number, floors)])
    return aligned(rows)


def _drift(figures: Figures, kind: str, first: int) -> str:
    before = figures.best(growth_of(kind, first).key, OURS)
    after = figures.best(growth_of(kind, SIZES[-1]).key, OURS)
    return f"× {after / before:.2f}" if before and after else ""


def _verdict(figures: Figures, kind: str) -> str:
    """The worst of the sizes'."""
    found = {figures.verdict(growth_of(kind, size)) for size in SIZES}
    return next((word for word in ("OVER", "best only", "within") if word in found), "")


def _times_floor(figures: Figures) -> str:
    ours = figures.best(growth_of("cpu", SIZES[-1]).key, OURS)
    floor = figures.best(growth_of("cpu", 0).key, FLOOR)
    return f"{ours / floor:.1f}" if ours and floor else "?"


def _crowds(figures: Figures) -> list[str]:
    head = ["synchronous", "runs", "steps/s", "CPU ms a step", "transactions/s", "commits in one"]
    rows = [head]
    for level in LEVELS:
        for runs in CROWDS:
            best = [
                figures.best(crowd_of(kind, level, runs).key, OURS) for kind in ("steps", "cpu")
            ]
            usual = [
                median(figures.samples[crowd_of(kind, level, runs).key][OURS])
                for kind in ("transactions", "shared")
            ]
            rows.append([level, str(runs), *map(number, (*best, *usual))])
    return aligned(rows)


def _notices(figures: Figures) -> list[str]:
    rows = [["", "median ms", "longest ms", "at most"]]
    for word in WORDS:
        row = notice_of(word)
        values = figures.samples[row.key].get(OURS, [])
        if values:
            rows.append([word, number(median(values)), number(max(values)), number(row.budget)])
    return aligned(rows)


def _peers(figures: Figures) -> list[str]:
    """Ours and each peer that has such figures, with how many times ours."""
    columns = {
        **{f"CPU ms at {size:,}": growth_of("cpu", size).key for size in PEER_SIZES},
        **{f"disk KB at {size:,}": growth_of("disk", size).key for size in PEER_SIZES},
        f"file MB after {SMALL_STEPS}": SIZE.key,
    }
    programs = [name for name in figures.versions if figures.best(SIZE.key, name) is not None]
    rows = [["", *columns]]
    for name in (OURS, *programs):
        rows.append([name, *_compared(figures, columns.values(), name)])
    return aligned(rows)


def _compared(figures: Figures, keys: Iterable[str], program: str) -> Sequence[str]:
    cells = []
    for key in keys:
        value, ours = figures.best(key, program), figures.best(key, OURS)
        times = f" (×{value / ours:.1f})" if value and ours and program != OURS else ""
        cells.append(number(value) + times)
    return cells
