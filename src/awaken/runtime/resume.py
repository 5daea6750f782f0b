"""Resuming runs one by one, for programs that show what each of them does.

A runtime that recovers resumes all of them by itself.
"""

from __future__ import annotations

from awaken.core.event import EventSink
from awaken.core.identity import RequestOrigin
from awaken.core.run import RunRecord
from awaken.runtime.result import RunResult
from awaken.runtime.runtime import Runtime
from awaken.runtime.stream import RunStream
from awaken.worker import RunRequest, operations
from awaken.worker import orphans as ending


def has_agent(runtime: Runtime, run: RunRecord) -> bool:
    """Whether the runtime has the agent of a run."""
    return ending.has_agent(runtime.engine, run)


async def list_abandoned(runtime: Runtime) -> list[RunRecord]:
    """The open runs and background tasks that no process owns and this runtime can resume."""
    return await operations.list_recoverable(runtime.engine)


async def resume_run(runtime: Runtime, run: RunRecord) -> RunResult:
    """Resume a run from its last commit. Returns how it ended. The agent may be missing if the run
    only has to be ended.

    Raises:
        ThreadAlreadyRunning: another process has resumed the run.
        AgentLoopError: the run broke off.
    """
    return RunResult.of(run.thread_id, await operations.continue_run(runtime.engine, run))


async def resume_task(runtime: Runtime, task: RunRecord) -> None:
    """Resume a background task, or end it if it cannot go on. Returns while the task is running."""
    await operations.recover_task(runtime.engine, task)


def stream_resumed(runtime: Runtime, run: RunRecord) -> RunStream:
    """Resume a run from its last commit, with the options of its first request, and read its
    events. The run waits for answers to its tickets."""
    engine = runtime.engine
    request = RunRequest(
        thread_id=run.thread_id,
        continue_run_id=run.run_id,
        wait_for_decisions=True,
        parent_run_id=run.parent_run_id,
        dispatch_id=run.dispatch_id,
        session_id=run.session_id,
        transport_request_id=run.transport_request_id,
        origin=run.request.origin if run.request is not None else RequestOrigin.USER,
    )

    async def start(sink: EventSink) -> RunResult:
        return RunResult.of(run.thread_id, await engine.run(request, sink))

    return RunStream(engine, start)
