"""`Worker`: takes requests, claims their threads, and runs their agents.

`error_for_caller` translates the errors of a run's task for the caller of the run.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from functools import partial
from typing import assert_never

import msgspec

from awaken.backend import remote
from awaken.backend.dispatch import validate_root_execution_request
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.aio.callbacks import Callbacks
from awaken.core.aio.cancel import interruptible, is_cancellation
from awaken.core.aio.owned_tasks import OwnedTasks, start_task, wait_task
from awaken.core.backend import BackendLoopError, ExecutionBackendError
from awaken.core.blobs import RunBlobs, blobs_of
from awaken.core.bus import LiveBus
from awaken.core.defaults import MAX_RUNS
from awaken.core.deps import DepsMakers, RunDeps
from awaken.core.event import EventSink, NullEventSink
from awaken.core.profile import ProfileStore, profiles_of
from awaken.core.registry import ExecutionResolver
from awaken.core.run import AgentRunResult, Requester
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.task import CURRENT_TASK, MakeTaskJournal
from awaken.core.thread import Thread
from awaken.core.tool import ToolEffect
from awaken.core.tool_context import traits_of
from awaken.engine import run_agent_loop
from awaken.engine.registry import RegistryHandle
from awaken.engine.run_setup import RunControls, RunServices
from awaken.errors import (
    AwakenError,
    InvalidResume,
    ResolveFailed,
    RunLeft,
    RuntimeFailed,
    RuntimeFault,
    ThreadAlreadyRunning,
    ThreadOwned,
    describe,
)
from awaken.ids import UUID7, Ids
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.tool.thread_pool import DEFAULT_LIMIT, ToolThreads
from awaken.worker.activate import (
    Activation,
    activate,
    has_command,
    has_ended,
    open_account,
    prepare_local,
    prepare_remote,
)
from awaken.worker.attempt import (
    Attempt,
    AttemptEnded,
    AttemptOutcome,
    AttemptRefused,
    MustEndFirst,
    StartOver,
)
from awaken.worker.budgets import Accounts
from awaken.worker.claims import ClaimUse
from awaken.worker.command_listener import CommandListener
from awaken.worker.crash_loop import count_takeover, end_abandoned
from awaken.worker.delegates import Delegates
from awaken.worker.dependencies import Dependencies, use_deps
from awaken.worker.live_control import RunAccess
from awaken.worker.live_runs import ActiveRun, ActiveRuns
from awaken.worker.messages import Messages
from awaken.worker.pending_commits import PendingCommits
from awaken.worker.request import ParentContext, RunRequest, WhenBusy
from awaken.worker.shutdown import OneLoop, Stopping, cancel_and_wait
from awaken.worker.task_host import WorkerTaskHost

log = logging.getLogger("awaken.runtime")
RESOLVER: ContextVar[ExecutionResolver | None] = ContextVar("awaken_resolver", default=None)
"""The agents that runs of the running code use, if they are not those of the registry."""
_NO_SINK, _NO_PARENT = NullEventSink(), ParentContext()


class Worker(Stopping):
    """Claims the threads of requests and runs their agents. Each thread has at most one live run.

    Subscribers of `waited` are called with the seconds from the submission of a run, or the time
    that it names, to its start here; those of `taken_over` with each claim on a thread whose owner
    has died.
    """

    def __init__(
        self,
        registry: RegistryHandle[ExecutionResolver],
        store: Store,
        *,
        bus: LiveBus,
        make_task_journal: MakeTaskJournal,
        profiles: ProfileStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = UUID7,
        tool_threads: int = DEFAULT_LIMIT,
        max_runs: int = MAX_RUNS,
        keep_requests: bool = True,
        blobs: RunBlobs | None = None,
        deps: DepsMakers | None = None,
    ) -> None:
        super().__init__(store, clock, ActiveRuns())
        self.max_runs = max_runs
        self.keep_requests = keep_requests
        self.commands = CommandListener(store)
        self.active.changes.subscribe(self._unsubscribe_when_idle)
        self.owned = OwnedTasks(log)
        self.bus = bus
        self.registry = registry
        self.profiles = profiles
        self.blobs = blobs
        self.ids = ids
        self.tool_threads = ToolThreads(tool_threads)
        self.one_loop = OneLoop()
        self.skipped_runs: dict[str, str] = {}
        """The open runs that were found and are not resumed here, and why."""
        self.deps = Dependencies(store, deps or {})
        self.waited: Callbacks[float] = Callbacks()
        self.taken_over: Callbacks[Fence] = Callbacks()
        self.delegates = Delegates(
            self.run,
            store,
            clock,
            self.active,
            lambda: self.closed,
            self.deliver,
            self._find_effect,
        )
        self.accounts = Accounts(store, clock)
        self.claims.released.subscribe(self.unattended.notify)
        self.pending_commits = PendingCommits(store, self.claims)
        self.messages = Messages(store, clock, self.deliver, self.run, self.owned)
        self.tasks = WorkerTaskHost(self, make_task_journal)
        store.lease.add_lost_callback(self._on_claim_lost)

    # -- running ------------------------------------------------------------------------------

    async def run(
        self,
        request: RunRequest,
        sink: EventSink | None = None,
        parent_context: ParentContext | None = None,
        *,
        fence: Fence | None = None,
    ) -> AgentRunResult:
        """Run an agent until the run ends or pauses. A paused run waits for an answer, for input,
        or for a background task. With `fence`, the caller has claimed the thread; it is released
        when the run ends, pauses or cannot start.

        Raises:
            ConfigError: the runtime belongs to another event loop.
            ThreadAlreadyRunning: the thread, or the run, is live in this or another process.
            AgentNotFound, ResolveFailed: the agent cannot run.
            InvalidResume: the run cannot be continued, or a decision answers no open question.
            RewindRefused: no message in view has the id `rewind_to`.
            ThreadBusy: the thread cannot be rewound while a run of it is open.
            RunLeft: the runtime was closed before the run ended; another process can recover it.
            AgentLoopError: the run failed; its record says why.
        """
        request = request.signed()
        try:
            slot = self._reserve_slot(request) or await self._wait_for_slot(request)
        except BaseException:
            if fence is not None:
                await self.claims.release(fence)
            raise
        slot.left_on_close = request.left_on_close
        self.commands.subscribe(self.on_command)
        # The run has its own task: cancelling the caller must not interrupt a commit.
        task = slot.task = start_task(
            self._drive(request, slot, sink or _NO_SINK, parent_context or _NO_PARENT, fence)
        )
        try:
            await wait_task(task)
            return task.result()
        except asyncio.CancelledError:
            if not task.done():
                await cancel_and_wait(task, slot)
            elif task.cancelled() and (slot.is_fenced_off or self.leave_of(request).is_cancelled()):
                # The runtime cancelled the task, not the caller: another process continues the run.
                raise RunLeft(slot.run_id or request.thread_id) from None
            raise
        except Interrupted as error:
            raise error.interrupt from None

    async def run_to_completion(self, request: RunRequest) -> AgentRunResult:
        """Like `run`, without a sink."""
        return await self.run(request)

    async def _drive(
        self,
        request: RunRequest,
        slot: ActiveRun,
        sink: EventSink,
        parent_context: ParentContext,
        fence: Fence | None,
    ) -> AgentRunResult:
        """The body of a run's task: attempt the request until its run has ended or paused.

        `attempts` is a stack: if another run of the thread has to end first, ending it is attempted
        before the request is attempted again. All attempts use the same slot.
        """
        self.tasks.set_context_variables(is_root=not parent_context.depth)
        attempts, paused = [Attempt(request, sink)], None
        result: AgentRunResult | None = None
        try:
            while True:
                attempt = attempts[-1]
                outcome = await self._attempt(attempt, slot, parent_context, fence)
                fence = None
                match outcome:
                    case AttemptEnded() if len(attempts) > 1:
                        attempts.pop()
                    case AttemptEnded(has_command=True):
                        # A command arrived before the thread was released: continue with it.
                        paused = outcome.result
                        attempts = [attempt.continue_run(paused.run_id, attempt.sink)]
                    case AttemptEnded():
                        result = outcome.result
                        return result
                    case MustEndFirst():
                        attempts.append(attempt.continue_run(outcome.run_id, _NO_SINK))
                    case StartOver():
                        pass
                    case AttemptRefused() if paused is not None:
                        result = paused  # another process has continued it first
                        return result
                    case AttemptRefused() if len(attempts) > 1 and await has_ended(
                        self.store, outcome.error, attempt.request
                    ):
                        attempts.pop()
                    case AttemptRefused():
                        raise outcome.error from outcome.error.__cause__
                    case _:
                        assert_never(outcome)
                slot.renew()
        finally:
            await self._free_slot(slot, result, sys.exception())

    async def _attempt(
        self,
        attempt: Attempt,
        slot: ActiveRun,
        parent_context: ParentContext,
        fence: Fence | None,
    ) -> AttemptOutcome:
        """Claim the thread, prepare the request's run, and execute it. Afterwards the thread is
        released, whatever the outcome."""
        activation: Activation | MustEndFirst | None = None
        outcome: AttemptOutcome
        try:
            fence = fence or await self._claim(attempt.request, slot)
            activation = await self._activate(attempt, slot, fence, parent_context)
            if isinstance(activation, MustEndFirst):
                outcome = activation
            elif isinstance(activation.agent, ResolvedAgent) and not activation.is_abandoned:
                phases, setup = await prepare_local(activation, activation.agent)
                if self._begin(activation):
                    await self.deliver(slot.thread_id)
                outcome = AttemptEnded(await run_agent_loop(activation.agent, phases, setup))
            else:
                outcome = await self._run_on_backend(activation)
            if isinstance(outcome, AttemptEnded) and outcome.result.waits:
                # In here, so that an error in it is made one for the caller, too.
                has_command = await self._has_new_command(slot, outcome.result)
                outcome = AttemptEnded(outcome.result, has_command)
        except BaseException as error:
            if fence is not None:
                await self._release_thread(fence, _pending_commits(activation), error)
            failure = error_for_caller(error)
            if isinstance(failure, InvalidResume | ThreadAlreadyRunning):
                return AttemptRefused(failure)
            raise failure from failure.__cause__
        if isinstance(outcome, AttemptEnded):
            self.claims.drop(fence)  # the run's last commit has released the thread
        else:
            await self._release_thread(fence, _pending_commits(activation))
        return outcome

    async def _has_new_command(self, slot: ActiveRun, paused: AgentRunResult) -> bool:
        """Whether a command waits for a run that has just paused.

        A caller that cancels the run leaves that to the run while its slot is taken, so the store
        is read again if the cancel came during the first read.
        """
        if await has_command(self.store, slot.thread_id, paused):
            return True
        return slot.token.is_cancelled() and await has_command(self.store, slot.thread_id, paused)

    async def _free_slot(
        self, slot: ActiveRun, result: AgentRunResult | None, error: BaseException | None
    ) -> None:
        """Free the slot of a run that has ended, paused or failed, after its dependencies were
        closed, and report its thread as unattended if commands may wait there.

        This is done in the run's own task, so that a client that has read the run's last event can
        start the next run at once.
        """
        try:
            if slot.deps is not None:
                await use_deps(slot, None, error)
        finally:
            slot.release()
        waits = result is not None and result.waits
        if not waits:
            self.deps.forget(slot.run_id)
        if waits or slot.has_unread_commands or slot.notified_before_start or slot.has_queued_run:
            self.unattended.notify(slot.thread_id)

    def _reserve_slot(self, request: RunRequest) -> ActiveRun | None:
        """The slot of the request's thread. Returns `None` if the request has to wait for it."""
        if self.is_stopping:
            raise RuntimeFault(f"the runtime is {'closed' if self.closed else 'draining'}")
        self.one_loop.bind()
        self.pending_commits.start_retrying()
        try:
            return self.active.reserve(request.thread_id)
        except ThreadAlreadyRunning:
            if request.when_busy is not WhenBusy.QUEUE:
                raise
            return None

    async def _wait_for_slot(self, request: RunRequest) -> ActiveRun:
        """Wait until the thread has no live run here, and return its slot."""
        while (holder := self.active.find_by_thread(request.thread_id)) is not None:
            await holder.wait_ended(None)
            if self.is_stopping:
                raise RuntimeFault("the runtime was closed while the request waited")
        return self.active.reserve(request.thread_id)

    async def _release_thread(
        self, fence: Fence, commits: Sequence[ThreadCommit], error: BaseException | None = None
    ) -> None:
        """Release the thread after an attempt that did not end its run regularly. If some of the
        run's commits were not made yet, make them later, and release the thread after them.

        A run that ends releases its thread with its last commit; a failed one may not have.
        """
        if isinstance(error, GeneratorExit) and is_cancellation(error):
            self.claims.drop(fence)
            return  # the coroutine is being closed and must not await
        if commits:
            self.pending_commits.add(
                fence, commits, partial(self._on_thread_released, fence.thread_id)
            )
            return
        await self.claims.release(fence)

    def _on_claim_lost(self, fence: Fence) -> None:
        """Leave the run of a thread that another process has claimed."""
        run = self.active.find_by_thread(fence.thread_id)
        if run is not None and run.fence == fence:
            run.abandon()

    async def _on_thread_released(self, thread_id: str) -> None:
        self.unattended.notify(thread_id)

    async def _run_on_backend(self, activation: Activation) -> AttemptEnded | StartOver:
        """Run an agent on its backend, or end a run that was taken over too often.

        A request that the backend cannot carry out is refused before anything is started.
        """
        agent = activation.agent
        if activation.is_abandoned or isinstance(agent, ResolvedAgent):
            return await end_abandoned(activation)
        request, setup = await prepare_remote(activation, agent)
        created_at = self.clock.now_ms()
        if not activation.commands.cancelled:
            can_go_on = agent.backend().capabilities().continuation.is_possible
            if activation.is_cut_short and not can_go_on:
                setup.first_commit.messages, setup.first_commit.acks = (), ()
                if activation.asks_for_more:
                    # This request gets a run of its own: its sink must not see the old one end.
                    request.sink = setup.sink = NullEventSink()
                ended = await remote.fail_interrupted(agent, request, created_at, setup)
                return StartOver() if activation.asks_for_more else AttemptEnded(ended)
            validate_root_execution_request(agent, request)
        if not self.store.lease.held:
            await self.store.lease.wait_held()
        if self._begin(activation):
            await self.deliver(activation.slot.thread_id)
        ended = await remote.execute_remote_root_lifecycle(
            agent, request, created_at, activation.slot.token, request.persisted_state, setup=setup
        )
        return AttemptEnded(ended)

    def _begin(self, activation: Activation) -> bool:
        """Let commands reach the run from now on; those in its context were read already. Returns
        whether a command came before, so that the caller has to deliver the thread's commands."""
        slot = activation.slot
        slot.begin(activation.fence, activation.context.commands)
        self.claims.mark(activation.fence, ClaimUse.LIVE)
        for command in activation.context.commands:
            self.taken.notify(command)
        if activation.commands.cancelled:
            slot.token.cancel()
        was_notified, slot.notified_before_start = slot.notified_before_start, False
        return was_notified

    async def _claim(self, request: RunRequest, slot: ActiveRun) -> Fence:
        """Claim the thread before it is read. The claim lasts until the run ends or pauses.

        Raises:
            ThreadAlreadyRunning: another process owns the thread, and the request does not queue.
        """
        if self.pending_commits:
            await self.pending_commits.flush_thread(request.thread_id)
        while True:
            try:
                return await self.claims.claim(request.thread_id)
            except ThreadOwned as owned:
                if request.when_busy is not WhenBusy.QUEUE:
                    raise ThreadAlreadyRunning(request.thread_id, owned.owner) from owned
            with interruptible(slot.token):
                await self.store.wait_released(request.thread_id)

    async def _activate(
        self, attempt: Attempt, slot: ActiveRun, fence: Fence, parent_context: ParentContext
    ) -> Activation | MustEndFirst:
        """Read the thread, resolve the agent, select the run, and give it its slot, its
        dependencies and its account.

        Raises:
            InvalidResume: the run cannot be continued, or a decision answers no open question.
        """
        if fence.taken_from is not None:
            self.taken_over.notify(fence)
            await count_takeover(self.store, fence, self.clock.now_ms())
        request = attempt.request
        if request.decisions:
            await self.delegates.check_answers(request.thread_id)
        access = RunAccess(self, request.thread_id)
        controls = RunControls(
            cancellation_token=slot.token,
            leave=self.leave_of(request),
            look=access.deliver,
            depth=parent_context.depth,
            lease=self.store.lease,
            give_up=access.abandon,
        )
        activation = await activate(attempt, slot, fence, self._services(), controls)
        if isinstance(activation, MustEndFirst):
            return activation
        request, run_id = activation.request, activation.run.run_id
        self.active.name(slot, run_id)
        slot.controls = controls
        slot.topic = self.bus.topic(fence)
        slot.requester = Requester.of(request)
        deps = None
        if (self.deps.types or request.deps is not None) and not activation.is_only_ended:
            deps = await self.deps.find(
                activation.agent.spec.id, request, run_id, parent_context.deps
            )
            await use_deps(slot, deps)
        if deps is not None or activation.context.thread.scope:
            activation.services = _narrow(activation.services, activation.context.thread, deps)
        parent = parent_context.budget
        if activation.own_budget or parent is not None or self.accounts.is_open(run_id):
            await open_account(activation, self.accounts, parent)
        return activation

    def _services(self) -> RunServices:
        return RunServices(
            resolver=self._resolver(),
            store=self.store,
            profiles=self.profiles,
            delegates=self.delegates,
            blobs=self.blobs,
            keep_requests=self.keep_requests,
            clock=self.clock,
            ids=self.ids,
        )

    def _find_effect(self, agent_id: str, tool_name: str) -> ToolEffect | None:
        """The effect of an agent's tool; `None` if this process has no such agent or tool."""
        try:
            agent = self.registry.snapshot().resolve_execution(agent_id)
        except AwakenError:
            return None
        tool = agent.tools.get(tool_name) if isinstance(agent, ResolvedAgent) else None
        return None if tool is None else traits_of(tool).effect

    def _resolver(self) -> ExecutionResolver:
        """The resolver for the run's agents. In a background task, the agents it resolves can
        cancel that task."""
        resolver, task = RESOLVER.get() or self.registry.snapshot(), CURRENT_TASK.get()
        if task is None:
            return resolver
        return task.wrap_resolver(resolver, clock=self.clock, ids=self.ids)

    def _unsubscribe_when_idle(self, run: ActiveRun) -> None:
        """Stop listening for other processes' commands when the last live run has ended."""
        if run.has_ended and not self.active:
            self.commands.unsubscribe(self.on_command)


def _pending_commits(activation: Activation | MustEndFirst | None) -> Sequence[ThreadCommit]:
    """The commits of an attempt that the store did not take yet."""
    return activation.pending_commits if isinstance(activation, Activation) else ()


def _narrow(services: RunServices, thread: Thread, deps: RunDeps | None) -> RunServices:
    """The services for a run of one tenant, with its dependencies."""
    return msgspec.structs.replace(
        services,
        profiles=profiles_of(services.profiles, thread.scope),
        blobs=blobs_of(services.blobs, thread.scope),
        deps=deps,
    )


# -- errors of runs ---------------------------------------------------------------------------


def error_for_caller(error: BaseException) -> BaseException:
    """The error to raise to the caller of a run.

    Errors of user code are handled before; a Ctrl-C in the runtime's own code arrives here. An
    error that `except Exception` would miss is wrapped, unless it is the run's own cancellation.
    """
    if isinstance(error, BackendLoopError):
        return error.error
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return Interrupted(error)
    failure: AwakenError
    if isinstance(error, ExecutionBackendError):
        failure = ResolveFailed(error.message)
    elif isinstance(error, Exception) or is_cancellation(error):
        return error
    else:
        failure = RuntimeFailed(f"{type(error).__name__}: {describe(error)}")
    failure.__cause__ = error
    return failure


class Interrupted(Exception):
    """Carries a `KeyboardInterrupt` or `SystemExit` from a run's task to the run's caller. Raised
    in the task itself, it would stop the event loop."""

    def __init__(self, interrupt: KeyboardInterrupt | SystemExit) -> None:
        super().__init__()
        self.interrupt = interrupt
