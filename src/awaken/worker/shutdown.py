"""Ending live runs within a limited time, and closing plugins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from awaken.core.aio.cancel import is_ours
from awaken.core.defaults import CANCEL_GRACE
from awaken.core.result import AgentRunResult
from awaken.errors import HookFailed
from awaken.plugin.hook import Closes
from awaken.worker.live_runs import ActiveRun

log = logging.getLogger("awaken.runtime")


async def cancel_and_wait(run: asyncio.Task[AgentRunResult], slot: ActiveRun) -> None:
    """Cancel a run whose caller was cancelled, and wait for its end.

    If its cancellation token does not end it in time, its asyncio task is cancelled.
    """
    slot.token.cancel()
    try:
        await asyncio.wait([run], timeout=CANCEL_GRACE)
    finally:
        run.cancel()
    await asyncio.wait([run], timeout=CANCEL_GRACE)


async def wait_or_tear_down(runs: Iterable[ActiveRun], grace: float) -> None:
    """Wait for runs that were told to end. After `grace` seconds, cancel the asyncio tasks of the
    remaining ones, and later cancel them again, which also interrupts their cleanup."""
    tasks = [run.task for run in runs if run.task is not None]
    if not tasks:
        return
    _, stuck = await asyncio.wait(tasks, timeout=grace)
    for _ in range(2):
        for task in stuck:
            task.cancel()
        if stuck:
            _, stuck = await asyncio.wait(stuck, timeout=CANCEL_GRACE)


async def close_plugins(plugins: Iterable[Closes], *, leave: bool) -> HookFailed | None:
    """Close every plugin, also after one has failed. Returns the first failure, else `None`."""
    first: HookFailed | None = None
    for plugin in plugins:
        name = getattr(plugin, "id", type(plugin).__name__)
        try:
            await plugin.close(leave=leave)
        except BaseException as error:
            if is_ours(error):
                raise
            log.exception("plugin %r could not be closed", name)
            if first is None:
                first = HookFailed(name, "close", error)
                first.__cause__ = error
    return first
