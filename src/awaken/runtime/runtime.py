"""The engine: one request in, one run through, and control while it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from awaken.backend.local import LocalBackend, ThreadContextSnapshot, new_phase_runtime
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.contract.backend import (
    BackendControl,
    BackendLocalRootContext,
    BackendLoopError,
    BackendRootRunRequest,
    ExecutionBackendError,
)
from awaken.contract.commits import Commits
from awaken.contract.control import DecisionQueue, InboxSender, inbox_channel
from awaken.contract.events import EventSink, NullEventSink
from awaken.contract.profile import ProfileStore
from awaken.domain.message import Message
from awaken.domain.suspension import Decision, ToolCallResume
from awaken.errors import (
    InvalidResume,
    PhaseError,
    ResolveError,
    ResolveFailed,
    StateError,
    UnknownKey,
)
from awaken.ids import UUID7, Ids
from awaken.loop import AgentRunResult
from awaken.plugin.agent import ResolvedAgent
from awaken.registry import RegistryHandle, RegistryResolver
from awaken.runtime import active
from awaken.runtime.active import ActiveRun, ActiveRuns
from awaken.runtime.prepare import (
    RunChoice,
    ThreadFacts,
    choose_agent,
    choose_run,
    hand_to,
    request_snapshot,
    restore_state,
    run_identity,
    supersede,
    visible_messages,
)
from awaken.runtime.request import RunRequest

CANCEL_GRACE = 5.0


class AgentRuntime:
    """Runs agents, one run a thread at a time."""

    def __init__(
        self,
        registry: RegistryHandle[RegistryResolver],
        commits: Commits,
        *,
        profiles: ProfileStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = UUID7,
    ) -> None:
        self.registry = registry
        self.commits = commits
        self.profiles = profiles
        self.clock = clock
        self.ids = ids
        self.active = ActiveRuns()

    # -- running ------------------------------------------------------------------------------

    async def run(self, request: RunRequest, sink: EventSink | None = None) -> AgentRunResult:
        """Run an agent to its end, or until it waits for somebody who is not there.

        Raises:
            ThreadAlreadyRunning: the thread, or the run, is live.
            AgentNotFound, ResolveFailed: the agent cannot run.
            InvalidResume: the run to continue, or a decision, does not fit.
            AgentLoopError: the run broke off; its record says so.
        """
        slot = self.active.reserve(request.thread_id)
        ended: asyncio.Future[AgentRunResult] = asyncio.get_running_loop().create_future()
        # A task of its own: a caller who is cancelled must not tear the run out of a commit.
        task = asyncio.ensure_future(self._own(request, slot, sink or NullEventSink(), ended))
        slot.task = task
        try:
            return await ended
        except asyncio.CancelledError:
            await _cancel(task, slot)
            raise

    async def run_to_completion(self, request: RunRequest) -> AgentRunResult:
        """The same, where nobody listens."""
        return await self.run(request)

    async def _own(
        self,
        request: RunRequest,
        slot: ActiveRun,
        sink: EventSink,
        ended: asyncio.Future[AgentRunResult],
    ) -> None:
        """Be a run's task: free its slot at the end, and tell whoever still waits."""
        try:
            result = await self._run(request, slot, sink)
        except asyncio.CancelledError:
            slot.release()
            ended.cancel()
            raise
        except Exception as error:
            slot.release()
            if not ended.done():
                ended.set_exception(error)
        else:
            slot.release()
            if not ended.done():
                ended.set_result(result)

    async def _run(self, request: RunRequest, slot: ActiveRun, sink: EventSink) -> AgentRunResult:
        backend_request, context = await self._prepare(request, slot, sink)
        try:
            return await LocalBackend().execute_root_with_thread_context(backend_request, context)
        except BackendLoopError as error:
            cause = error.error.cause
            if request.decisions and isinstance(cause, UnknownKey):
                raise InvalidResume(cause) from cause
            raise error.error from error.error.__cause__
        except ExecutionBackendError as error:
            raise ResolveFailed(error.message) from error

    async def _prepare(
        self, request: RunRequest, slot: ActiveRun, sink: EventSink
    ) -> tuple[BackendRootRunRequest, ThreadContextSnapshot]:
        """Read the thread, find the agent, and choose the run."""
        facts = await ThreadFacts.read(self.commits, request.thread_id)
        if request.decisions and facts.latest is None:
            raise InvalidResume(f"thread '{request.thread_id}' has no run that waits for an answer")
        resolver = self.registry.snapshot()
        agent = _resolve(resolver, choose_agent(request, facts, resolver.agent_ids))
        choice = await choose_run(request, facts, self.commits, self.ids)
        self.active.name(slot, choice.run_id)
        return self._assemble(request, slot, sink, facts, choice, resolver, agent)

    def _assemble(
        self,
        request: RunRequest,
        slot: ActiveRun,
        sink: EventSink,
        facts: ThreadFacts,
        choice: RunChoice,
        resolver: RegistryResolver,
        agent: ResolvedAgent,
    ) -> tuple[BackendRootRunRequest, ThreadContextSnapshot]:
        """Everything the run needs: its state, its conversation, its controls."""
        phases = new_phase_runtime(agent.env)
        sender: InboxSender | None
        sender, receiver = inbox_channel()
        if request.run_inbox is not None:
            # Whoever gave the inbox holds its writing end.
            sender, receiver = None, request.run_inbox
        try:
            agent.env.bind(phases.store, sender)
            restore_state(phases.store, facts, choice)
        except StateError as error:
            raise PhaseError(error) from error
        hand_to(phases.store, request, agent.spec.id)
        marks = supersede(request, phases.store, self.ids)
        fresh = () if request.messages_already_persisted else request.messages
        history = visible_messages([*facts.messages, *marks], phases.store)
        slot.store, slot.inbox = phases.store, sender
        slot.decisions = DecisionQueue() if request.wait_for_decisions else None
        backend_request = BackendRootRunRequest(
            agent_id=agent.spec.id,
            messages=[*history, *fresh],
            new_messages=request.messages,
            sink=sink,
            resolver=resolver,
            run_identity=run_identity(request, choice.run_id, agent.spec.id),
            checkpoint_store=self.commits,
            control=BackendControl(cancellation_token=slot.token, decision_rx=slot.decisions),
            decisions=request.decisions,
            overrides=request.overrides,
            frontend_tools=request.frontend_tools,
            local=BackendLocalRootContext(phases),
            inbox=receiver,
            is_continuation=choice.is_continuation,
        )
        context = ThreadContextSnapshot(
            agent=agent,
            log_length=len(facts.messages),
            uncommitted=[*marks, *fresh],
            previous=choice.previous,
            request=request_snapshot(request),
            owner_inbox=sender,
            profile_store=self.profiles,
            clock=self.clock,
            ids=self.ids,
        )
        return backend_request, context

    # -- control ------------------------------------------------------------------------------

    def cancel(self, id: str) -> bool:
        """Cancel a live run by its run or thread id; false if there is none."""
        return active.cancel(self.active.find(id))

    def cancel_by_thread(self, thread_id: str) -> bool:
        return active.cancel(self.active.find_by_thread(thread_id))

    def cancel_by_run_id(self, run_id: str) -> bool:
        return active.cancel(self.active.find_by_run(run_id))

    async def cancel_and_wait_by_thread(
        self, thread_id: str, timeout: float = CANCEL_GRACE
    ) -> bool:
        """Cancel a thread's run and wait for its slot; true only if it was freed in time."""
        run = self.active.find_by_thread(thread_id)
        if run is None:
            return False
        run.token.cancel()
        return await run.wait_ended(timeout)

    async def cancel_all(self) -> None:
        """Cancel every live run and wait; one that does not end in time is torn down."""
        live = self.active.all()
        for run in live:
            run.token.cancel()
        tasks = [run.task for run in live if run.task is not None]
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=CANCEL_GRACE)
            await _tear_down(stuck)

    def send_decision(self, id: str, target: str, decision: ToolCallResume) -> bool:
        """Answer a suspended call of a live run; false, and nothing changed, if it does not fit."""
        return active.send_decisions(self.active.find(id), [(target, decision)])

    def send_decisions(self, thread_id: str, decisions: Sequence[Decision]) -> bool:
        """Answer several calls at once: all of them, or none."""
        return active.send_decisions(self.active.find_by_thread(thread_id), decisions)

    def send_messages(self, id: str, messages: Sequence[Message]) -> bool:
        """Write to a live run; the model reads it at its next step."""
        return active.send_messages(self.active.find(id), messages)


async def _cancel(run: asyncio.Future[None], slot: ActiveRun) -> None:
    """Cancel a run whose caller is gone, and wait until it has ended, though not for ever."""
    slot.token.cancel()
    try:
        await asyncio.wait([run], timeout=CANCEL_GRACE)
    finally:
        run.cancel()
    await asyncio.wait([run], timeout=CANCEL_GRACE)


async def _tear_down(tasks: Collection[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_GRACE)


def _resolve(resolver: RegistryResolver, agent_id: str) -> ResolvedAgent:
    try:
        execution = resolver.resolve_execution(agent_id)
    except ResolveError as error:
        raise ResolveFailed(str(error)) from error
    if not isinstance(execution, ResolvedAgent):
        raise ResolveFailed(
            f"agent '{agent_id}' runs on backend {execution.spec.endpoint!r}; "
            "this runtime starts local agents only"
        )
    return execution
