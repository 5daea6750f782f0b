"""Instructions a unit of work takes: `python -m benchmarks.instructions`, a table.

Counted by valgrind, so the load of the machine does not matter; two counts of one state differ by
less than one in a hundred. Each workload runs in two processes that differ only in their number of
runs: the difference is the runs themselves. `--beside PATH`, another checkout's `src`, counts that,
too. Minutes, as valgrind slows a program down fifty times.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import build, start_runs, with_bytecode
from benchmarks.ours import Awaken
from benchmarks.work import IMPORT, WORKLOADS, Tally, Unsupported

ROOT = Path(__file__).parent.parent
WARM_UP = 3
RUNS = {
    "start": 40,
    "w1": 4,
    "w1_many": 1,
    "w2": 2,
    "sv7_floor": 4,
    "sv7": 4,
    "w3": 4,
    "w5": 1,
    "w6": 4,
}
"""How many runs more the second process makes."""
CROWD = 50
"""How many runs W5 has at once here; its figure is of one of them."""
UNSUPPORTED = 3
"""The status of a process that cannot do the work."""
CHOICES = (*RUNS, IMPORT.key)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("--beside", type=Path, metavar="PATH", help="another checkout's src")
    parser.add_argument("--only", choices=CHOICES, action="append", help="this work alone")
    parser.add_argument("--runs", nargs=2, metavar=("KEY", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.runs:
        key, count = options.runs
        return asyncio.run(work(key, int(count)))
    if shutil.which("valgrind") is None:
        parser.exit(1, "valgrind is not installed here: instructions cannot be counted\n")
    sources = [ROOT / "src"] if options.beside is None else [options.beside, ROOT / "src"]
    columns = ["now"] if options.beside is None else ["before", "now", "now : before"]
    print(f"| instructions, Python {build()} | {' | '.join(columns)} |")
    print(f"|---|{'---|' * len(columns)}")
    for key in options.only or CHOICES:
        counts = [count_unit(key, source) for source in sources]
        cells = ["–" if count is None else f"{count:,}" for count in counts]
        if len(counts) > 1:
            before, now = counts
            cells.append(f"{now / before:.3f}" if before and now else "–")
        print(f"| {TITLES[key]} | {' | '.join(cells)} |", flush=True)


TITLES = {workload.key: workload.title for workload in WORKLOADS} | {IMPORT.key: IMPORT.title}


def count_unit(key: str, source: Path) -> int | None:
    """Instructions of one unit of a workload; of the whole process for the import. Returns `None`
    if that checkout cannot do it."""
    if key == IMPORT.key:
        return count(source, "-c", Awaken.imports)
    workload = next(workload for workload in WORKLOADS if workload.key == key)
    few, many = (
        count(source, "-m", "benchmarks.instructions", "--runs", key, str(runs))
        for runs in (0, RUNS[key])
    )
    if few is None or many is None:
        return None
    return (many - few) // (RUNS[key] * min(workload.at_once, CROWD) * workload.per)


def count(source: Path, *arguments: str) -> int | None:
    """Instructions of a whole process that imports awaken from `source`. Returns `None` if that
    checkout cannot do the work."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    environment = {
        **with_bytecode(),
        "PYTHONPATH": f"{source.resolve()}{os.pathsep}{ROOT}",
        "PYTHONHASHSEED": "0",
    }
    program = [sys.executable, *arguments]
    # Once without counting, so that no compiling of modules is counted.
    if subprocess.run(program, env=environment, check=False).returncode == UNSUPPORTED:
        return None
    done = subprocess.run(
        [*valgrind, *program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"valgrind failed:\n{done.stderr}")
    return int(found[1])


async def work(key: str, runs: int) -> None:
    workload = next(workload for workload in WORKLOADS if workload.key == key)
    at_once = min(workload.at_once, CROWD)
    try:
        async with workload.open(Awaken(), Tally()) as run:
            for _ in range(WARM_UP):
                await run()
            # A full collection costs as much as many steps, and is due only now and then.
            gc.collect()
            gc.freeze()
            for _ in range(runs):
                await start_runs(run, at_once)
    except Unsupported:
        sys.exit(UNSUPPORTED)


if __name__ == "__main__":
    main()
