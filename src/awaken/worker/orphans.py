"""Resuming runs without an owner, and ending cancelled ones, with or without their agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

from awaken.core.event import EventSink
from awaken.core.identity import RequestOrigin
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import InferenceRequest, LlmStreamEvent
from awaken.core.registry import ExecutionResolver
from awaken.core.run import AgentRunResult, RunRecord
from awaken.core.store.commits import Fence
from awaken.core.thread import Thread
from awaken.engine.registry import RegistryHandle
from awaken.errors import (
    ConfigError,
    InvalidResume,
    PhaseError,
    ResolveFailed,
    ThreadAlreadyRunning,
    ThreadOwned,
    UnreadableRecord,
)
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.worker.request import RunRequest
from awaken.worker.worker import Worker

AT_ONCE = 16
log = logging.getLogger("awaken.runtime")


def is_elsewhere(run: RunRecord) -> bool:
    """Whether a backend runs the run, so that only a process with its agent can stop it."""
    return run.request is not None and run.request.backend is not None


def has_agent(runtime: Worker, run: RunRecord) -> bool:
    return run.agent_id in runtime.registry.snapshot().agent_ids()


async def recover_run(
    runtime: Worker,
    run: RunRecord,
    sink: EventSink | None = None,
    *,
    agent_id: str | None = None,
    fence: Fence | None = None,
) -> AgentRunResult:
    """Continue a run from its last commit, with the thread's last active agent unless `agent_id`
    names one. `fence` is the claim on the thread, if the caller has made one.

    Raises:
        ThreadAlreadyRunning: another process owns the run, or has ended it meanwhile.
        AgentLoopError: it failed.
    """
    asked = run.request
    request = RunRequest(
        thread_id=run.thread_id,
        continue_run_id=run.run_id,
        agent_id=agent_id,
        wait_for_decisions=False,
        left_on_close=True,
        parent_run_id=run.parent_run_id,
        parent_thread_id=asked.parent_thread_id if asked is not None else None,
        dispatch_id=run.dispatch_id,
        session_id=run.session_id,
        transport_request_id=run.transport_request_id,
        origin=asked.origin if asked is not None else RequestOrigin.USER,
    )
    try:
        return await runtime.run(request, sink, fence=fence)
    except InvalidResume as error:
        now = await runtime.store.load_run(run.run_id)
        if now is None or now.status is RunStatus.DONE:
            # Another process has ended the run meanwhile.
            raise ThreadAlreadyRunning(run.thread_id) from error
        raise


async def end_all(runtime: Worker, threads: Sequence[Thread]) -> None:
    """End the open runs of cancelled threads. Runs that have an owner end there; those that cannot
    be read are left, with their cancels, until they can.

    Parent runs are ended before the runs they started, since their end also cancels those.
    """
    room = asyncio.Semaphore(AT_ONCE)
    failures: list[Exception] = []

    async def end(thread: Thread) -> None:
        async with room:
            try:
                await _end_one(runtime, thread)
            except UnreadableRecord as error:
                log.warning("the open run of thread %s is not ended: %s", thread.id, error)
            except Exception as error:
                failures.append(error)

    for thread in threads:
        runtime.cancel_by_run_id(thread.open_run_id or "")
    for level in levels(threads):
        async with asyncio.TaskGroup() as group:
            for thread in level:
                group.create_task(end(thread))
    if failures:
        raise failures[0]


def levels(threads: Sequence[Thread]) -> list[list[Thread]]:
    """The threads grouped by depth: a thread comes one group after its parent, if that is given."""
    known = {thread.id: thread for thread in threads}
    found: list[list[Thread]] = []
    for thread in threads:
        depth, above = 0, known.get(thread.parent_thread_id or "")
        while above is not None:
            depth, above = depth + 1, known.get(above.parent_thread_id or "")
        while len(found) <= depth:
            found.append([])
        found[depth].append(thread)
    return found


async def _end_one(runtime: Worker, thread: Thread) -> None:
    if thread.id in runtime.pending_commits:
        await runtime.pending_commits.retry(thread.id)
        if thread.id in runtime.pending_commits:
            return  # the held commits, which know how its calls ended, have to be made first
    elif thread.owner is not None:
        return  # the owner gets the cancel command
    run = await runtime.store.load_run(thread.open_run_id or "")
    if run is not None and run.status is not RunStatus.DONE:
        await end_cancelled(runtime, run)


async def end_cancelled(runtime: Worker, run: RunRecord) -> None:
    """End a cancelled run that has no owner: it is resumed, and reads its waiting cancel command.

    A run on a backend whose agent is not registered here is left to a process that has the agent.
    """
    try:
        if run.is_task:
            return await runtime.tasks.get_journal().end_interrupted(run, cancelled=True)
        if has_agent(runtime, run):
            try:
                await recover_run(runtime, run)
                return
            except (PhaseError, ResolveFailed) as error:
                log.warning("run %s cannot be ended by its agent: %s", run.run_id, error)
        if not is_elsewhere(run):
            await end_without_agent(runtime, run)
    except (ThreadAlreadyRunning, ThreadOwned):
        return  # its owner is alive, and gets the cancel command
    except InvalidResume as over:
        log.info("run %s could not be ended: %s", run.run_id, over)


# -- agents that are not registered here ------------------------------------------------------


async def end_without_agent(runtime: Worker, run: RunRecord) -> AgentRunResult:
    """End a cancelled run with a stand-in for its agent.

    Raises:
        ThreadAlreadyRunning: another process owns the run, or has ended it meanwhile.
    """
    registry: RegistryHandle[ExecutionResolver] = RegistryHandle(_StandInResolver(run.agent_id))
    stand_in = Worker(
        registry,
        runtime.store,
        clock=runtime.clock,
        ids=runtime.ids,
        bus=runtime.bus,
        make_task_journal=runtime.tasks.make_journal,
    )
    return await recover_run(stand_in, run, agent_id=run.agent_id)


class _UncallableModel:
    """The model of the stand-in agent. It cannot be called; ending a run needs no model."""

    name = "nobody"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        raise ConfigError(
            "the agent of the run is not in this process, so its model cannot be asked"
        )
        yield


class _StandInResolver:
    """A resolver with one agent, which has the given id and neither tools nor plugins."""

    def __init__(self, agent_id: str) -> None:
        self._agent = ResolvedAgent.new(agent_id, _UncallableModel.name, "", _UncallableModel())

    def agent_ids(self) -> list[str]:
        return [self._agent.spec.id]

    def resolve(self, agent_id: str) -> ResolvedAgent:
        return self._agent

    resolve_execution = resolve
