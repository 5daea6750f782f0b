"""The backend that runs agents in this process."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import assert_never

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.account import Account
from awaken.core.backend import (
    BackendAgentNotFound,
    BackendCapabilities,
    BackendDelegateRunRequest,
    BackendLoopError,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackend,
    ExecutionFailed,
)
from awaken.core.deps import RunDeps
from awaken.core.identity import RunIdentity, RunOrigin
from awaken.core.inbox import inbox_channel
from awaken.core.lifecycle import (
    BehaviorRequested,
    Blocked,
    CancelledEnd,
    Failed,
    NaturalEnd,
    RunStatus,
    Stopped,
    Suspended,
    TerminationReason,
)
from awaken.core.profile import ProfileStore
from awaken.core.registry import ExecutionResolver
from awaken.core.run import AgentRunResult, PersistedState, RunRecord
from awaken.core.state.key import OWN
from awaken.core.state.run_keys import RUN_LIFECYCLE
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.core.store.store import Store
from awaken.core.suspension import Decision
from awaken.core.task import AMBIENT_TASK_JOURNAL
from awaken.engine import LoopStatePlugin, prepare_resume, run_agent_loop
from awaken.engine.phases import PhaseRuntime
from awaken.engine.run_setup import (
    FirstCommit,
    RunControls,
    RunServices,
    RunSetup,
    ThreadContextSnapshot,
)
from awaken.errors import (
    AgentLoopError,
    AgentNotFound,
    AwakenError,
    KeyEncode,
    PhaseError,
    StateError,
)
from awaken.ext.tasks import lazy_tasks as background
from awaken.ids import UUID7, Ids
from awaken.plugin.env import ExecutionEnv, install_plugin
from awaken.plugin.resolved_agent import ResolvedAgent

log = logging.getLogger("awaken.backend")


class LocalBackend(ExecutionBackend):
    """Runs agents on this event loop. It has all capabilities.

    Args:
        profile_store, clock, ids: services for the runs.
    """

    def __init__(
        self,
        *,
        profile_store: ProfileStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = UUID7,
    ) -> None:
        self._profile_store = profile_store
        self._clock, self._ids = clock, ids

    def capabilities(self) -> BackendCapabilities:
        return BackendCapabilities.full()

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        """Run an agent that is not a delegate of another run.

        Raises:
            ExecutionFailed: the request has no local context.
            BackendLoopError: the run failed.
        """
        local = request.local
        phases = local.phase_runtime if local is not None else None
        if local is None or not isinstance(phases, PhaseRuntime):
            raise ExecutionFailed("local root execution requires a phase runtime context")
        services = self._services(request.resolver, store=request.checkpoint_store)
        setup = await load_setup(request, services)
        try:
            if request.decisions:
                store_decisions(phases.store, request.decisions)
            phases.look_for_actions()
            agent = local.agent
            if not isinstance(agent, ResolvedAgent):
                agent = request.resolver.resolve(request.agent_id)
            result = await run_agent_loop(agent, phases, setup)
        except AgentLoopError as error:
            raise BackendLoopError(error) from error
        return _backend_result(request.agent_id, result)

    def _services(
        self,
        resolver: ExecutionResolver,
        *,
        store: Store | None = None,
        deps: RunDeps | None = None,
    ) -> RunServices:
        return RunServices(
            resolver=resolver,
            store=store,
            profiles=self._profile_store,
            clock=self._clock,
            ids=self._ids,
            deps=deps,
        )

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        """Run a delegate with its own in-memory state. Its run is not stored.

        Raises:
            BackendAgentNotFound: there is no such agent.
            ExecutionFailed: the run, or its initial state, cannot be set up.
            BackendLoopError: the run failed.
        """
        context = background.current_background_task_context()
        resolver = background.BackgroundControlResolver(
            request.resolver, context, clock=self._clock, ids=self._ids
        )
        try:
            agent = resolver.resolve(request.agent_id)
        except AwakenError as error:
            kind = BackendAgentNotFound if isinstance(error, AgentNotFound) else ExecutionFailed
            raise kind(f"failed to resolve agent '{request.agent_id}': {error}") from error
        # In a background task with an inbox, this run reads the messages sent to the task.
        own_inbox = context.take_inbox() if context is not None else None
        owner_inbox, inbox = own_inbox or inbox_channel()
        try:
            store = new_run_state(agent.env)
            agent.env.bind(store, owner_inbox)
            seed = _filter_seed(request.state_seed, agent.env)
        except StateError as error:
            raise ExecutionFailed(str(error)) from error
        run_id = self._ids.new()
        identity = RunIdentity(
            thread_id=run_id,
            run_id=run_id,
            parent_thread_id=request.parent.parent_thread_id,
            parent_run_id=request.parent.parent_run_id,
            agent_id=request.agent_id,
            origin=RunOrigin.SUBAGENT,
        ).with_parent_tool_call_id(request.parent.parent_tool_call_id)
        parent_account = request.budget
        account = (
            parent_account.child(parent_account.share(agent.spec.budget))
            if parent_account is not None
            else None
        )
        control = request.control
        controls = RunControls(
            cancellation_token=control.cancellation_token,
            decision_rx=control.decision_rx,
            inbox=inbox,
            owner_inbox=owner_inbox,
            budget=account,
            depth=request.depth,
        )
        setup = RunSetup(
            identity=identity,
            sink=request.sink,
            services=self._services(resolver, deps=request.deps),
            controls=controls,
            thread=ThreadContextSnapshot(),
            first_commit=FirstCommit(state_seed=seed),
            messages=request.messages,
        )
        # This run is not stored, so a journal could not report to it how its tasks ended. They get
        # none, and are cancelled with the run.
        mark = AMBIENT_TASK_JOURNAL.set(None)
        try:
            result = await run_agent_loop(agent, PhaseRuntime(store), setup)
        except AgentLoopError as error:
            failed = _backend_result(request.agent_id, _build_failure(store, run_id, error))
            raise BackendLoopError(error, _add_state(failed, store, account)) from error
        finally:
            AMBIENT_TASK_JOURNAL.reset(mark)
            background.cancel_tasks_of(run_id)
        ended = _backend_result(request.agent_id, result)
        ended.inbox = owner_inbox
        return _add_state(ended, store, account)


def store_decisions(store: StateStore, decisions: Sequence[Decision]) -> None:
    """Store the decisions for the calls that wait for them.

    Raises:
        InvalidResume: a decision fits no waiting call.
        PhaseError: the state does not accept one.
    """
    try:
        prepare_resume(store, decisions)
    except StateError as error:
        raise PhaseError(error) from error


def _filter_seed(seed: PersistedState | None, env: ExecutionEnv) -> PersistedState | None:
    """The seed without the runtime's own keys, which describe the run that left the state.

    Raises:
        UnknownKey: a key is not registered.
        KeyDecode: a value cannot be decoded by its key.
    """
    if seed is None:
        return None
    new_run_state(env).apply_seed(seed, UnknownKeyPolicy.ERROR)
    kept = {name: value for name, value in seed.extensions.items() if not name.startswith(OWN)}
    return PersistedState(revision=seed.revision, extensions=kept)


def _build_failure(store: StateStore, run_id: str, error: AgentLoopError) -> AgentRunResult:
    """The result of a run whose loop failed."""
    lifecycle = store.read(RUN_LIFECYCLE)
    return AgentRunResult(
        run_id=run_id,
        response="",
        termination=Failed(value=str(error)),
        steps=lifecycle.step_count if lifecycle is not None else 0,
    )


def _add_state(
    result: BackendRunResult, store: StateStore, account: Account | None
) -> BackendRunResult:
    """A delegate's result, with its final state and its spending."""
    try:
        result.state, result.thread_state = store.export_run_scoped(), store.export_thread_scoped()
    except KeyEncode as error:
        log.warning("the state of run %s cannot be told: %s", result.run_id, error)
    result.spending = account.spending_of(result.run_id or "") if account is not None else None
    return result


def new_run_state(env: ExecutionEnv) -> StateStore:
    """A new state store that has the env's keys and the loop's."""
    store = StateStore(env.keys)
    if not store.is_registered(RUN_LIFECYCLE.name):
        install_plugin(store, LoopStatePlugin())
    return store


async def load_setup(request: BackendRootRunRequest, services: RunServices) -> RunSetup:
    """The setup for a backend request. The thread is read from the request's store."""
    identity, control = request.run_identity, request.control
    thread = ThreadContextSnapshot()
    store = services.store
    context = await store.load_context(identity.thread_id, tail=0) if store is not None else None
    if context is not None:
        thread.log_length = context.thread.message_count
        if context.open_run is not None and context.open_run.run_id == identity.run_id:
            thread.previous = reset_ended_record(context.open_run)
    return RunSetup(
        identity=identity,
        sink=request.sink,
        services=services,
        controls=RunControls(
            cancellation_token=control.cancellation_token,
            decision_rx=control.decision_rx,
            inbox=request.inbox,
        ),
        thread=thread,
        first_commit=FirstCommit(messages=request.new_messages),
        messages=request.messages,
        overrides=request.overrides,
        frontend_tools=request.frontend_tools,
        is_continuation=request.is_continuation,
    )


def reset_ended_record(record: RunRecord) -> RunRecord:
    """The record for a run whose id was used before: an ended run begins again."""
    if record.status is not RunStatus.DONE:
        return record
    return msgspec.structs.replace(record, status=RunStatus.CREATED)


def _backend_result(agent_id: str, result: AgentRunResult) -> BackendRunResult:
    response = result.response or None
    return BackendRunResult(
        agent_id=agent_id,
        status=map_termination(result.termination),
        termination=result.termination,
        response=response,
        output=BackendRunOutput.from_text(response),
        steps=result.steps,
        run_id=result.run_id,
        run=result,
    )


def map_termination(termination: TerminationReason) -> BackendRunStatus:
    """The backend status for the end of a local run."""
    match termination:
        case NaturalEnd() | BehaviorRequested():
            return BackendRunStatus.completed()
        case CancelledEnd():
            return BackendRunStatus.cancelled()
        case Stopped(value=stopped):
            detail = f" ({stopped.detail})" if stopped.detail else ""
            return BackendRunStatus.failed(f"stopped: {stopped.code}{detail}")
        case Blocked(value=reason):
            return BackendRunStatus.failed(f"blocked: {reason}")
        case Suspended():
            return BackendRunStatus.suspended()
        case Failed(value=message):
            return BackendRunStatus.failed(message)
        case _:
            assert_never(termination)
