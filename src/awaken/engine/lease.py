"""Waiting for the lease before a run starts an effect."""

from __future__ import annotations

import asyncio

from awaken.engine.live_run import LiveRun
from awaken.errors import LeaseLost


async def wait_for_lease(run: LiveRun) -> None:
    """Wait until this process may start an effect again.

    If that takes too long, the run is left without a commit: its task is cancelled, and another
    process continues it.
    """
    try:
        await run.lease.regained()
    except LeaseLost:
        run.controls.give_up()
        await asyncio.Event().wait()
