"""Carrying out submissions: from the command in the store to the run's request."""

from __future__ import annotations

from msgspec.structs import replace

from awaken.contract.commands import ThreadCommand
from awaken.contract.commits import Fence
from awaken.contract.submissions import Submission
from awaken.domain.lifecycle import RunStatus
from awaken.domain.result import AgentRunResult
from awaken.domain.run import RunRecord
from awaken.errors import ThreadAlreadyRunning
from awaken.runtime.request import RunRequest
from awaken.runtime.runtime import AgentRuntime


async def start(engine: AgentRuntime, record: RunRecord, fence: Fence) -> AgentRunResult:
    """Start a submitted run whose thread this process has claimed.

    Raises:
        ThreadAlreadyRunning: the submission was withdrawn, or another process has carried it out.
        AgentLoopError: the run failed.
    """
    try:
        commands = await engine.store.load_commands(record.thread_id)
        mine = (one for one in commands if one.run_id == record.run_id)
        command = next((one for one in mine if one.submission is not None), None)
        if command is None or command.submission is None:
            raise ThreadAlreadyRunning(record.thread_id)
    except BaseException:
        await engine.store.release(fence)
        raise
    request = replace(request_of(command.submission), rewinds_to=command.rewinds_to)
    return await engine.run(request, fence=fence)


def request_of(submission: Submission) -> RunRequest:
    """The request for the run of a submission. The run is left open when the runtime closes."""
    return RunRequest(
        thread_id=submission.thread_id,
        run_id_hint=submission.run_id,
        agent_id=submission.agent_id,
        messages=submission.messages,
        overrides=submission.overrides,
        budget=submission.budget,
        frontend_tools=submission.frontend_tools,
        wait_for_decisions=False,
        left_on_close=True,
        origin=submission.origin,
        adapter=submission.adapter,
        dispatch_id=submission.dispatch_id,
        session_id=submission.session_id,
        transport_request_id=submission.transport_request_id,
        principal=submission.principal,
        user=submission.user,
        labels=submission.labels,
        rewind_to=submission.rewind_to,
        deps_key=submission.deps_key,
    )


async def withdraw(engine: AgentRuntime, run_id: str) -> RunRecord | None:
    """Cancel a submitted run that has not started. Returns its record, or `None` if there is no
    such run, or if its thread's owner is starting it and gets the cancel."""
    record = await engine.store.load_run(run_id)
    if record is None or record.status is not RunStatus.CREATED:
        return None
    cancel = ThreadCommand.cancel(record.thread_id, run_id, at_ms=engine.clock.now_ms())
    await engine.store.send(cancel)
    await engine.deliver(record.thread_id)
    record = await engine.store.load_run(run_id)
    return record if record is not None and record.status is RunStatus.DONE else None
