"""Throughput: runs in different threads at once, which share transactions."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from awaken import Runtime
from benchmarks.durable.disk import MS, Transactions
from benchmarks.durable.figures import CROWDS, LEVELS, crowd_of
from benchmarks.durable.ours import StepModel, address, agent
from benchmarks.table import OURS, Figures

STEPS = 40


def measure(figures: Figures, repeat: int, folder: Path) -> None:
    """Turn by turn, each in a file of its own."""
    for turn in range(repeat):
        for level in LEVELS:
            for runs in CROWDS:
                path = folder / f"crowd-{level}-{runs}-{turn}.db"
                found = asyncio.run(sample(path, runs, level))
                for kind, value in found._replace(cpu=found.cpu * MS)._asdict().items():
                    figures.add(crowd_of(kind, level, runs).key, OURS, value)
                path.unlink()


class Sample(NamedTuple):
    """What some runs did together, whole runs and not only their steps."""

    steps: float  # a second
    transactions: float  # a second
    shared: float  # commits and claims in one transaction
    cpu: float  # seconds a step


async def sample(path: Path, runs: int, synchronous: str) -> Sample:
    """`runs` runs of `STEPS` steps in a new file."""
    bench = agent(StepModel(STEPS), STEPS)
    async with Runtime([bench], store=address(path, synchronous)) as runtime:
        await runtime.run("bench", "go")
        counter, commits = Transactions(path), _commits(path)
        before = counter.count()
        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.gather(*(runtime.run("bench", "go") for _ in range(runs)))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        transactions = counter.count() - before
        writes = _commits(path) - commits + runs
    counter.close()
    steps = runs * STEPS
    return Sample(steps / wall, transactions / wall, writes / transactions, cpu / steps)


def _commits(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        (count,) = db.execute("SELECT count(*) FROM commits").fetchone()
        return int(count)
