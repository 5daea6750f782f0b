"""Hooks for programs that count or show the runs of a runtime.

`RuntimeCallbacks` reports what happens in a runtime. The other names read the records of runs and
background tasks in a store.
"""

from __future__ import annotations

import asyncio

from awaken.core.aio.callbacks import Callbacks
from awaken.core.run import AgentRunResult
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import Fence
from awaken.core.task import TASK_AGENT, StoredTask
from awaken.runtime.runtime import Runtime
from awaken.worker.delegates import parent_of, spending_in
from awaken.worker.live_runs import ActiveRun
from awaken.worker.operations import descendants

__all__ = ["TASK_AGENT", "StoredTask", "descendants", "parent_of", "spending_in"]


class RuntimeCallbacks:
    """The callbacks of one runtime, by what they are called with.

    - `waited`: the seconds that a submission waited for its start.
    - `commands`: a command that a run has taken.
    - `takeovers`: the fence of a thread that was claimed from another process.
    - `ended`: the result of an activation, or `None` if it was cancelled or failed with an error.
    """

    def __init__(self, runtime: Runtime) -> None:
        engine = runtime.engine
        self.waited: Callbacks[float] = engine.waited
        self.commands: Callbacks[ThreadCommand] = engine.taken
        self.takeovers: Callbacks[Fence] = engine.taken_over
        self.ended: Callbacks[AgentRunResult | None] = Callbacks()
        engine.active.changes.subscribe(self._change)

    def _change(self, run: ActiveRun) -> None:
        if run.has_ended and run.task is not None:
            run.task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[AgentRunResult]) -> None:
        failed = task.cancelled() or task.exception() is not None
        self.ended.notify(None if failed else task.result())
