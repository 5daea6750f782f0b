"""Where a durable step's time and bytes go: `python -m benchmarks.durable.where`.

CPU by thread, by statement on the writer's thread, and by part on the event loop's; and the pages
each table adds to the log.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import struct
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from operator import itemgetter
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar
from unittest.mock import patch

from awaken import Runtime
from awaken.core.store.commits import ThreadCommit
from benchmarks.durable.disk import Disk
from benchmarks.durable.ours import MeteredModel, address, agent
from benchmarks.where import INTERVAL, Samples

STEPS, SAMPLED_STEPS = 200, 4_000
PARTS = {
    "the run, from the model to the next model call": ("run.py", "run_agent_loop"),
    "… of that asking the model": ("inference.py", "ask_model"),
    "… of that the two checkpoints, but for waiting": ("checkpoint.py", "persist_checkpoint"),
    "… of those the commits": ("journal.py", "_make"),
    "… of those packing": ("delta.py", "pack"),
    "… of those handing over to the writer": ("engine.py", "write"),
    "answers on their way back": ("jobs.py", "_set_results"),
}


class ClockedConnection(sqlite3.Connection):
    """Counts calls and CPU seconds of each statement's first words, while it is told to."""

    counting: ClassVar[bool] = False
    calls: ClassVar[dict[str, int]] = {}
    seconds: ClassVar[dict[str, float]] = {}

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if not self.counting:
            return super().execute(sql, *values)
        started = time.thread_time()
        cursor = super().execute(sql, *values)
        name = " ".join(sql.split()[:3])
        spent = time.thread_time() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + spent
        self.calls[name] = self.calls.get(name, 0) + 1
        return cursor


class BusySamples(Samples):
    """Leaves out what finds the event loop waiting: then it is another thread's time."""

    def take(self, signal: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_name != "select":
            super().take(signal, frame)


def clocks() -> dict[str, float]:
    """CPU seconds of each thread, by the first words of its name."""
    return {
        thread.name.partition(" /")[0]: time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        for thread in threading.enumerate()
        if thread.ident is not None
    }


async def run(path: Path, model: MeteredModel[Any], steps: int) -> None:
    """A run of `steps` steps in a new thread that is not the file's newest."""
    async with Runtime([agent(model, steps)], store=address(path)) as runtime:
        await runtime.store.commit(ThreadCommit(thread_id="older", expected_length=0))
        model.expect(5)
        await runtime.run("bench", "go", thread="newer")
        Disk(path).settle()
        model.expect(steps)
        await runtime.run("bench", "go", thread="older")


def print_threads(folder: Path) -> None:
    model = MeteredModel(clocks)
    asyncio.run(run(folder / "threads.db", model, STEPS))
    before, after = model.readings
    print("CPU by thread")
    for name, seconds in after.items():
        print(f"{(seconds - before.get(name, 0)) / STEPS * 1e6:8.1f} µs  {name}")


def print_statements(folder: Path) -> None:
    clocked = ClockedConnection

    def toggle() -> None:
        clocked.counting = not clocked.counting
        if clocked.counting:
            clocked.calls.clear()
            clocked.seconds.clear()

    with patch.object(sqlite3, "connect", partial(sqlite3.connect, factory=clocked)):
        asyncio.run(run(folder / "statements.db", MeteredModel(toggle), STEPS))
    print("\nCPU by statement")
    for name, seconds in sorted(clocked.seconds.items(), key=itemgetter(1), reverse=True)[:8]:
        print(f"{seconds / STEPS * 1e6:8.1f} µs  {clocked.calls[name] / STEPS:5.2f} ×  {name}")


def print_parts(folder: Path) -> None:
    samples = BusySamples()
    model = MeteredModel(partial(_sampling, samples))
    asyncio.run(run(folder / "parts.db", model, SAMPLED_STEPS))
    before, after = model.readings
    step = (after - before) / SAMPLED_STEPS * 1e6
    print(f"\nthe event loop's {step:.0f} µs, with the timer on; {samples.total:,} samples")
    for name, part in PARTS.items():
        share = samples.found[part] / samples.total
        print(f"{share * step:8.1f} µs  {share:6.1%}  {name}")


def _sampling(samples: Samples) -> float:
    """Begin to take samples, or end; returns the thread's CPU time."""
    on = signal.getitimer(signal.ITIMER_PROF)[0] > 0
    signal.signal(signal.SIGPROF, samples.take)
    signal.setitimer(signal.ITIMER_PROF, 0 if on else INTERVAL, INTERVAL)
    return time.thread_time()


# -- pages ------------------------------------------------------------------------------------


def print_pages(folder: Path) -> None:
    path = folder / "pages.db"
    log = Path(f"{path}-wal")
    model = MeteredModel(lambda: log.read_bytes())
    asyncio.run(run(path, model, STEPS))
    before, after = model.readings
    owners = _owners(path)
    pages = Counter(owners[number] for number in _pages(after)[len(_pages(before)) :])
    print(f"\npages in the log: {pages.total() / STEPS:.1f} a step")
    for (name, kind), count in pages.most_common(10):
        print(f"{count / STEPS:8.2f}  {name}, {kind}")


def _pages(log: bytes) -> list[int]:
    """The numbers of the pages in a write-ahead log, in order (SQLite's `walformat.html`)."""
    (size,) = struct.unpack_from(">I", log, 8)
    return [struct.unpack_from(">I", log, at)[0] for at in _frames(log, size)]


def _frames(log: bytes, page_size: int) -> Iterator[int]:
    """Where frames of this log begin; what is left of an earlier one has another salt."""
    for at in range(32, len(log), 24 + page_size):
        if log[at + 8 : at + 16] != log[16:24]:
            return
        yield at


def _owners(path: Path) -> dict[int, tuple[str, str]]:
    """Whose page each one is: the table or index, and which kind of page."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT pageno, name, pagetype FROM dbstat").fetchall()
    return {number: (name, kind) for number, name, kind in rows}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="awaken-bench-") as name:
        folder = Path(name)
        print_threads(folder)
        print_statements(folder)
        print_parts(folder)
        print_pages(folder)


if __name__ == "__main__":
    main()
