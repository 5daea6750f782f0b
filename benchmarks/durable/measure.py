"""All durable work, measured in one folder of the disk."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.durable import crowd, growth, notice, size
from benchmarks.durable.figures import SIZES
from benchmarks.durable.fill import fill
from benchmarks.table import Figures


def measure_durable(figures: Figures, repeat: int, say: Callable[[str], None]) -> None:
    """
    Raises:
        Unsupported: the system does not tell what has to be known.
    """
    # `TMPDIR` chooses the disk: one that lives in memory has no fsync to speak of.
    with tempfile.TemporaryDirectory(prefix="awaken-bench-") as name:
        folder = Path(name)
        say(f"long threads, in {folder}")
        files = asyncio.run(fill(folder, SIZES))
        say("W4 durable steps")
        growth.measure(figures, repeat, files, folder / "floor.db")
        say("durable steps of many runs at once")
        crowd.measure(figures, max(repeat // 2, 1), folder)
        say("file size")
        size.measure(figures, folder / "size.db")
        say("noticing another process")
        notice.measure(figures, folder / "notice.db")
