"""W4: a durable step in threads of any length, and the start of a run in them."""

from __future__ import annotations

import asyncio
import gc
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from awaken import Runtime
from awaken.core.store.commits import ThreadCommit
from awaken.ids import UUID7
from benchmarks.durable import floor
from benchmarks.durable.disk import KB, MS, Disk, Reading
from benchmarks.durable.figures import growth_of
from benchmarks.durable.fill import THREAD, WARM
from benchmarks.durable.ours import MeteredModel, address, agent
from benchmarks.table import FLOOR, OURS, Figures

STEPS = 99
"""With its first and its last commit a run makes 200: snapshots stay as far back as they were."""

WARM_STEPS, FLOOR_COMMITS = 5, 200
WINDOW = 200
"""Messages the agent's context policy keeps."""

LARGEST_COPIED = 10_000


def measure(figures: Figures, repeat: int, files: Mapping[int, Path], bare: Path) -> None:
    """Turn by turn, so that all sizes and the floor, in the file `bare`, see the same machine."""
    few = max(repeat // 2, 1)
    for _ in range(few):
        for size, path in files.items():
            found = asyncio.run(sample(_fresh(path, size), size, window=WINDOW, newest=True))
            step = found.steps.of(STEPS)
            _add(figures, size, {"newest_cpu": step.cpu * MS, "newest_wal": step.wal * KB})
    for _ in range(repeat):
        _add(figures, 0, _step(asyncio.run(floor.measure(bare, FLOOR_COMMITS))), FLOOR)
        for size, path in files.items():
            found = asyncio.run(sample(_fresh(path, size), size, window=WINDOW))
            start, rest = found.start, found.whole.cpu - found.steps.cpu
            _add(figures, size, _step(found.steps.of(STEPS)))
            unkept = asyncio.run(sample(_fresh(path, size), size, window=WINDOW, keep=False))
            step = unkept.steps.of(STEPS)
            _add(figures, size, {"unkept_cpu": step.cpu * MS, "unkept_wal": step.wal * KB})
            _add(
                figures,
                size,
                {
                    "start": start.wall * MS,
                    "start_cpu": start.cpu * MS,
                    "start_read": start.read * KB,
                    "fixed": rest * MS,
                },
            )
    for _ in range(few):
        for size, path in files.items():
            found = asyncio.run(sample(_fresh(path, size), size, window=None))
            _add(
                figures,
                size,
                {
                    "whole_cpu": found.steps.of(STEPS).cpu * MS,
                    "whole_start": found.start.wall * MS,
                    "whole_read": found.start.read * KB,
                },
            )


def _fresh(path: Path, size: int) -> Path:
    """A copy to write to, so that the thread is as long as it is said to be.

    The largest file is used as it is: there, what runs before have added does not count.
    """
    if size > LARGEST_COPIED:
        return path
    return Path(shutil.copyfile(path, path.with_name("fresh.db")))


def _step(step: Reading) -> dict[str, float]:
    return {
        "cpu": step.cpu * MS,
        "wall": step.wall * MS,
        "wal": step.wal * KB,
        "disk": step.written * KB,
    }


def _add(figures: Figures, size: int, values: Mapping[str, float], program: str = OURS) -> None:
    for kind, value in values.items():
        figures.add(growth_of(kind, size).key, program, value)


# -- one run ----------------------------------------------------------------------------------


class Sample(NamedTuple):
    """One run: its start, its steps (divide by `STEPS`), and all of it."""

    start: Reading
    steps: Reading
    whole: Reading


async def sample(
    path: Path, size: int, *, window: int | None, newest: bool = False, keep: bool = True
) -> Sample:
    """A run in the file's thread, by a process that has just opened the file.

    What it needs of the thread has to be read from the file; statements are prepared, and modules
    imported, by a short run in another thread. That one is newer, and lies behind the one that is
    measured, unless `newest`: SQLite adds rows more cheaply at the end of a table. Without `keep`,
    what the model is asked is not kept.
    """
    disk = Disk(path)
    model = MeteredModel(disk.take)
    bench = agent(model, STEPS, window=window)
    async with Runtime([bench], store=address(path), keep_requests=keep) as runtime:
        thread = THREAD if size else UUID7.new()
        if not size:
            await runtime.store.commit(ThreadCommit(thread_id=thread, expected_length=0))
        model.expect(WARM_STEPS)
        await runtime.run("bench", "go", thread=WARM if newest else UUID7.new())
        model.expect(STEPS)
        gc.collect()
        disk.settle()
        begun = disk.take()
        await runtime.run("bench", "go", thread=thread)
        ended = disk.take()
    first, last = model.readings
    if window is not None and model.shown > window + 1:
        raise AssertionError(f"the model was shown {model.shown} messages, not {window}")
    return Sample(first.since(begun), last.since(first), ended.since(begun))
