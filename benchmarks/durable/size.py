"""How large a file gets."""

from __future__ import annotations

import asyncio
from pathlib import Path

from awaken import Runtime
from benchmarks.durable.disk import MB, Disk
from benchmarks.durable.figures import SIZE, SMALL_STEPS
from benchmarks.durable.ours import StepModel, address, agent
from benchmarks.table import OURS, Figures


def measure(figures: Figures, path: Path) -> None:
    figures.add(SIZE.key, OURS, asyncio.run(sample(path, SMALL_STEPS)) * MB)


async def sample(path: Path, steps: int) -> int:
    """Bytes after one run of `steps` small steps, once everything is closed."""
    async with Runtime([agent(StepModel(steps), steps)], store=address(path)) as runtime:
        await runtime.run("bench", "go")
    return Disk(path).size()
