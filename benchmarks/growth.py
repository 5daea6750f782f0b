"""What costs at growing sizes: `python -m benchmarks.growth`, a table.

With `--beside PATH`, the `src` of another checkout, both are measured in turn, in processes of
their own, and each line has both figures: the other's, and this one's. Every figure is the best of
its samples. `--only` measures one kind of work; `steps` are W1 to W5.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import NamedTuple

from benchmarks import growing
from benchmarks.durable import growth
from benchmarks.durable.disk import KB, MS
from benchmarks.measure import memory, sample
from benchmarks.ours import Awaken
from benchmarks.work import WORKLOADS

ROOT = Path(__file__).parent.parent
Samples = dict[str, float]


class Kind(NamedTuple):
    """One thing that grows, and the sizes it is measured at."""

    title: str
    measure: Callable[[int], Coroutine[None, None, Samples]]
    sizes: tuple[int, ...]
    rounds: int | None = None
    """How often at most; filling a store with many threads takes its time."""


KINDS = {
    "calls": Kind("calls in one durable step", growing.parallel_calls, (10, 100, 500)),
    "keys": Kind("keys in the state", growing.state_keys, (10, 1_000, 10_000)),
    "hooks": Kind("hooks in a phase", growing.hooks, (0, 1, 5, 20)),
    "results": Kind("KiB of a tool's result", growing.large_results, (1, 60, 1_024, 10_240)),
    "threads": Kind("threads in the store, µs", growing.threads, (100, 10_000, 100_000), 1),
}
STEPS, MEMORY = "steps", "memory"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--beside", type=Path, metavar="PATH", help="another checkout's src")
    parser.add_argument("--repeat", type=int, default=5, help="samples of each figure")
    parser.add_argument("--only", choices=(*KINDS, STEPS), action="append", help="this kind alone")
    parser.add_argument("--sample", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sample:
        print(json.dumps(take(options.sample)))
        return
    sources = [ROOT / "src"] if options.beside is None else [options.beside, ROOT / "src"]
    for source in sources:
        if not (source / "awaken").is_dir():
            parser.error(f"{source} has no folder awaken: give a checkout's src")
    names = options.only or [*KINDS, STEPS]
    columns = ["now"] if options.beside is None else ["before", "now", "now : before"]
    print(f"| what | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name in names:
        for line in lines(name, sources, options.repeat):
            print(line, flush=True)


# -- the parent: children in turn ---------------------------------------------------------------


def lines(name: str, sources: list[Path], repeat: int) -> list[str]:
    """The rows of one kind of work: its best figures, one column a source."""
    kind = KINDS.get(name)
    rounds = repeat if kind is None or kind.rounds is None else min(repeat, kind.rounds)
    parts = [name] if kind is not None else [name, MEMORY]
    best: list[Samples] = [{} for _ in sources]
    for _ in range(rounds):
        for found, source in zip(best, sources, strict=True):
            for part in parts:
                for row, value in child(part, source).items():
                    found[row] = min(value, found.get(row, value))
    return [_line(row, [found[row] for found in best]) for row in best[-1]]


def child(part: str, source: Path) -> Samples:
    """One sample of each figure of a part, by a process that imports awaken from `source`."""
    environment = {**os.environ, "PYTHONPATH": f"{source.resolve()}{os.pathsep}{ROOT}"}
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth", "--sample", part],
        env=environment,
        stdout=subprocess.PIPE,
        check=True,
    )
    samples: Samples = json.loads(answer.stdout)
    return samples


def _line(row: str, values: list[float]) -> str:
    cells = [_number(value) for value in values]
    if len(values) > 1:
        cells.append(f"{values[-1] / values[0]:.2f}" if values[0] else "")
    return f"| {row} | " + " | ".join(cells) + " |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# -- a child: one part ---------------------------------------------------------------------------


def take(part: str) -> Samples:
    """One sample of each figure of a part."""
    if part == MEMORY:
        return {"W5 memory a run, KiB": memory(Awaken())}
    if part == STEPS:
        return steps()
    kind = KINDS[part]
    return {
        f"{size:,} {kind.title}: {name}": value
        for size in kind.sizes
        for name, value in asyncio.run(kind.measure(size)).items()
    }


def steps() -> Samples:
    """W1 to W5; of W4, the step in a new thread."""
    found = {
        f"{workload.title}, {workload.unit}": sample(workload, Awaken())
        for workload in WORKLOADS
        if workload.key in ("w1", "w1_many", "w2", "w3", "w5")
    }
    with tempfile.TemporaryDirectory() as folder:
        run = asyncio.run(growth.sample(Path(folder) / "growth.db", 0, window=growth.WINDOW))
    step = run.steps.of(growth.STEPS)
    found["W4 one durable step, CPU ms"] = step.cpu * MS
    found["W4 one durable step, KB to the log"] = step.wal * KB
    return found


if __name__ == "__main__":
    main()
