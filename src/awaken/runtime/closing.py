"""Ending live runs, and waiting for that, though not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from awaken.runtime.active import ActiveRun

CANCEL_GRACE = 5.0
"""How long a run that is to end may take, in seconds."""


async def cancel_and_wait(run: asyncio.Future[None], slot: ActiveRun) -> None:
    """Cancel a run whose caller is gone, and wait until it has ended."""
    slot.token.cancel()
    try:
        await asyncio.wait([run], timeout=CANCEL_GRACE)
    finally:
        run.cancel()
    await asyncio.wait([run], timeout=CANCEL_GRACE)


async def wait_or_tear_down(runs: Iterable[ActiveRun], grace: float) -> None:
    """Wait for runs that are to end; those that have not in time are torn down."""
    tasks = [run.task for run in runs if run.task is not None]
    if not tasks:
        return
    _, stuck = await asyncio.wait(tasks, timeout=grace)
    for task in stuck:
        task.cancel()
    if stuck:
        await asyncio.wait(stuck, timeout=CANCEL_GRACE)
