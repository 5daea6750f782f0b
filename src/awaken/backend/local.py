"""Agents in this process."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import assert_never

import msgspec

from awaken.backend.background import BackgroundControlResolver
from awaken.budget.account import Account
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.contract.backend import (
    BackendAgentNotFound,
    BackendCapabilities,
    BackendDelegateRunRequest,
    BackendLoopError,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    DurableDelegates,
    ExecutionBackend,
    ExecutionFailed,
)
from awaken.contract.background import AMBIENT_TASK_JOURNAL
from awaken.contract.commands import ThreadCommand
from awaken.contract.commits import CallEntry, Fence, ThreadCommit
from awaken.contract.profile import ProfileStore
from awaken.contract.streams import StreamPiece
from awaken.control.cancel import CancellationToken
from awaken.control.inbox import InboxSender, inbox_channel
from awaken.domain.event import AgentEvent
from awaken.domain.identity import RunIdentity, RunOrigin
from awaken.domain.lifecycle import (
    BehaviorRequested,
    Blocked,
    CancelledEnd,
    Failed,
    NaturalEnd,
    Stopped,
    Suspended,
    TerminationReason,
)
from awaken.domain.message import Message
from awaken.domain.run import PersistedState, RunRecord, RunRequestSnapshot
from awaken.domain.ticket import Ticket
from awaken.errors import (
    AgentLoopError,
    AgentNotFound,
    AwakenError,
    InvalidResume,
    KeyEncode,
    PhaseError,
    StateError,
)
from awaken.ext.background import cancel_tasks_of, current_background_task_context
from awaken.ids import UUID7, Ids
from awaken.loop import (
    AgentLoopParams,
    AgentRunResult,
    LoopStatePlugin,
    prepare_resume,
    run_agent_loop,
)
from awaken.phase.engine import PhaseRuntime
from awaken.plugin.agent import ResolvedAgent
from awaken.plugin.env import ExecutionEnv, install_plugin
from awaken.state.runtime_keys import RUN_LIFECYCLE
from awaken.state.store import StateStore, UnknownKeyPolicy

_OURS = "__runtime."
log = logging.getLogger("awaken.backend")


class ThreadContextSnapshot(msgspec.Struct, kw_only=True, gc=False):
    """What the runtime has read already, so that a run does not read it again.

    Of a run elsewhere also whether it `asks_itself`, because nobody else puts its questions, and
    why it was `denied` more than its budget, if somebody was asked.
    """

    agent: ResolvedAgent | None = None
    log: Sequence[Message] = ()
    log_length: int = 0
    uncommitted: Sequence[Message] = ()
    previous: RunRecord | None = None
    last_turn: Message | None = None
    calls: Sequence[CallEntry] = ()
    stream: Sequence[StreamPiece] = ()
    acks: Sequence[int] = ()
    events: Sequence[AgentEvent] = ()
    tickets: Sequence[Ticket] = ()
    sends: Sequence[ThreadCommand] = ()
    fence: Fence | None = None
    leave: CancellationToken | None = None
    look: Callable[[], Awaitable[None]] | None = None
    request: RunRequestSnapshot | None = None
    owner_inbox: InboxSender | None = None
    profile_store: ProfileStore | None = None
    delegates: DurableDelegates | None = None
    budget: Account | None = None
    depth: int = 0
    asks_itself: bool = False
    denied: str | None = None
    clock: Clock = SYSTEM_CLOCK
    ids: Ids = UUID7
    unkept: list[ThreadCommit] = msgspec.field(default_factory=list)


class LocalBackend(ExecutionBackend):
    """Runs agents on this event loop. It can do everything.

    Args:
        profile_store, clock, ids: what delegates run with; a root request brings its own.
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
        """Run an agent for its own sake.

        Raises:
            ExecutionFailed: the request has no local context.
            BackendLoopError: the run broke off.
        """
        result = await self.execute_root_with_thread_context(request, None)
        return _backend_result(request.agent_id, result, None)

    async def execute_root_with_thread_context(
        self, request: BackendRootRunRequest, context: ThreadContextSnapshot | None
    ) -> AgentRunResult:
        """The same, with what is already known of the thread."""
        phases = request.local.phase_runtime if request.local is not None else None
        if not isinstance(phases, PhaseRuntime):
            raise ExecutionFailed("local root execution requires a phase runtime context")
        if context is None:
            context = await read_thread(request)
        if request.decisions:
            try:
                prepare_resume(phases.store, request.decisions)
            except StateError as error:
                raise BackendLoopError(PhaseError(error)) from error
            except InvalidResume as error:
                raise BackendLoopError(error) from error
        params = AgentLoopParams(
            resolver=request.resolver,
            agent_id=request.agent_id,
            agent=context.agent,
            runtime=phases,
            sink=request.sink,
            checkpoint_store=request.checkpoint_store,
            messages=request.messages,
            uncommitted=context.uncommitted,
            log=context.log,
            log_length=context.log_length,
            previous=context.previous,
            last_turn=context.last_turn,
            calls=context.calls,
            stream=context.stream,
            acks=context.acks,
            events=context.events,
            tickets=context.tickets,
            sends=context.sends,
            fence=context.fence,
            leave=context.leave,
            look=context.look,
            request=context.request,
            run_identity=request.run_identity,
            cancellation_token=request.control.cancellation_token,
            decision_rx=request.control.decision_rx,
            overrides=request.overrides,
            frontend_tools=request.frontend_tools,
            inbox=request.inbox,
            owner_inbox=context.owner_inbox,
            is_continuation=request.is_continuation,
            profile_store=context.profile_store,
            delegates=context.delegates,
            budget=context.budget,
            depth=context.depth,
            clock=context.clock,
            ids=context.ids,
            unkept=context.unkept,
        )
        return await _run_loop(params)

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        """Run an agent on behalf of another: its own store, nothing kept, no one to ask.

        Raises:
            BackendAgentNotFound: there is no such agent.
            ExecutionFailed: it cannot be set up, or not with that state.
            BackendLoopError: the run broke off.
        """
        context = current_background_task_context()
        resolver = BackgroundControlResolver(
            request.resolver, context, clock=self._clock, ids=self._ids
        )
        try:
            agent = resolver.resolve(request.agent_id)
        except AwakenError as error:
            kind = BackendAgentNotFound if isinstance(error, AgentNotFound) else ExecutionFailed
            raise kind(f"failed to resolve agent '{request.agent_id}': {error}") from error
        # In a task that can be written to, this run reads what is written.
        own_inbox = context.take_inbox() if context is not None else None
        owner_inbox, inbox = own_inbox or inbox_channel()
        try:
            phases = new_phase_runtime(agent.env)
            agent.env.bind(phases.store, owner_inbox)
            seed = _checked_seed(request.state_seed, agent.env)
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
        above = request.budget
        account = above.child(above.share(agent.spec.budget)) if above is not None else None
        params = AgentLoopParams(
            resolver=resolver,
            agent_id=request.agent_id,
            agent=agent,
            runtime=phases,
            sink=request.sink,
            messages=request.messages,
            run_identity=identity,
            cancellation_token=request.control.cancellation_token,
            decision_rx=request.control.decision_rx,
            inbox=inbox,
            owner_inbox=owner_inbox,
            profile_store=self._profile_store,
            budget=account,
            depth=request.depth,
            state_seed=seed,
            clock=self._clock,
            ids=self._ids,
        )
        # Nothing is kept of this run: no journal can tell it how its tasks ended, and of one that
        # it leaves behind nobody would ever hear.
        mark = AMBIENT_TASK_JOURNAL.set(None)
        try:
            result = await _run_loop(params)
        except BackendLoopError as error:
            broken = _broken_off(params, error)
            error.result = _with_state(_backend_result(request.agent_id, broken, None), params)
            raise
        finally:
            AMBIENT_TASK_JOURNAL.reset(mark)
            cancel_tasks_of(run_id)
        return _with_state(_backend_result(request.agent_id, result, owner_inbox), params)


def _checked_seed(seed: PersistedState | None, env: ExecutionEnv) -> PersistedState | None:
    """What of a seed a run begins with: all but the runtime's own keys, which tell of another run.

    Raises:
        UnknownKey: nobody has registered one of the keys.
        KeyDecode: a value does not fit its key.
    """
    if seed is None:
        return None
    new_phase_runtime(env).store.apply_seed(seed, UnknownKeyPolicy.ERROR)
    kept = {name: value for name, value in seed.extensions.items() if not name.startswith(_OURS)}
    return PersistedState(revision=seed.revision, extensions=kept)


def _broken_off(params: AgentLoopParams, error: BackendLoopError) -> AgentRunResult:
    """How a run ended whose loop failed."""
    lifecycle = params.runtime.store.read(RUN_LIFECYCLE)
    return AgentRunResult(
        run_id=params.run_identity.run_id,
        response="",
        termination=Failed(value=str(error)),
        steps=lifecycle.step_count if lifecycle is not None else 0,
    )


def _with_state(result: BackendRunResult, params: AgentLoopParams) -> BackendRunResult:
    """A delegate's result, with the state it leaves and what it has used up."""
    store, run_id = params.runtime.store, params.run_identity.run_id
    try:
        result.state, result.thread_state = store.export_run_scoped(), store.export_thread_scoped()
    except KeyEncode as error:
        log.warning("the state of run %s cannot be told: %s", run_id, error)
    result.spending = params.budget.spending_of(run_id) if params.budget is not None else None
    return result


def new_phase_runtime(env: ExecutionEnv) -> PhaseRuntime:
    """A fresh store with the loop's own keys and the env's, and the phases over it."""
    store = StateStore(env.keys)
    if not store.is_registered(RUN_LIFECYCLE.name):
        install_plugin(store, LoopStatePlugin())
    return PhaseRuntime(store)


async def _run_loop(params: AgentLoopParams) -> AgentRunResult:
    try:
        return await run_agent_loop(params)
    except AgentLoopError as error:
        raise BackendLoopError(error) from error


async def read_thread(request: BackendRootRunRequest) -> ThreadContextSnapshot:
    store, identity = request.checkpoint_store, request.run_identity
    if store is None:
        return ThreadContextSnapshot(uncommitted=request.new_messages)
    context = await store.load_context(identity.thread_id, tail=0)
    previous = context.open_run if context is not None else None
    return ThreadContextSnapshot(
        log_length=context.thread.message_count if context is not None else 0,
        uncommitted=request.new_messages,
        previous=previous if previous and previous.run_id == identity.run_id else None,
    )


def _backend_result(
    agent_id: str, result: AgentRunResult, inbox: InboxSender | None
) -> BackendRunResult:
    response = result.response or None
    return BackendRunResult(
        agent_id=agent_id,
        status=map_termination(result.termination),
        termination=result.termination,
        response=response,
        output=BackendRunOutput.from_text(response),
        steps=result.steps,
        run_id=result.run_id,
        inbox=inbox,
    )


def map_termination(termination: TerminationReason) -> BackendRunStatus:
    """How a local run's end looks from outside."""
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
