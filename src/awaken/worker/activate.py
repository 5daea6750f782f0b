"""Activating a run: selecting the run for a request, and preparing it for the engine or a backend.

`activate` reads the claimed thread and selects the run and its agent. `prepare_local` makes the
`RunSetup` of an agent that runs in this process. For an agent on a remote backend, `prepare_remote`
also makes the request to that backend.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from awaken.backend import remote
from awaken.backend.local import new_run_state, store_decisions
from awaken.core.account import Account
from awaken.core.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendControl,
    BackendRootRunRequest,
)
from awaken.core.budget import Budget
from awaken.core.event import EventSink, RunEvent
from awaken.core.identity import RunMode
from awaken.core.inbox import DecisionQueue, inbox_channel
from awaken.core.lifecycle import RunStatus, Suspended
from awaken.core.message import Message, Role
from awaken.core.rewind import before_hidden, positions
from awaken.core.run import AgentRunResult, PersistedState
from awaken.core.state.run_keys import SPENDING
from awaken.core.state.store import StateStore
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery, ThreadContext
from awaken.core.transcript import effective_view
from awaken.engine.large_content import load_media
from awaken.engine.phases import PhaseRuntime
from awaken.engine.run_setup import (
    NOT_IN_VIEW,
    FirstCommit,
    RunControls,
    RunServices,
    RunSetup,
    ThreadContextSnapshot,
)
from awaken.errors import (
    DecisionRefused,
    InvalidResume,
    ModelPriceUnknown,
    PhaseError,
    ResolveFailed,
    StateError,
)
from awaken.plugin.resolved_agent import ResolvedAgent, ResolvedBackendAgent, ResolvedExecution
from awaken.worker.attempt import Attempt, MustEndFirst
from awaken.worker.budgets import Accounts
from awaken.worker.live_runs import ActiveRun
from awaken.worker.prepare import (
    NO_COMMANDS,
    PendingCommands,
    RunSelection,
    add_rewind,
    build_missing_results,
    complete_request,
    drop_calls,
    filter_stale_decisions,
    last_step,
    list_superseded_calls,
    public_seed,
    request_snapshot,
    restore_state,
    run_identity,
    select_run,
    set_active_agent,
    sort_commands,
    supersede,
    visible_messages,
)
from awaken.worker.read_thread import (
    agent_before,
    can_hand_over,
    read_between,
    resolve_and_read,
    with_rewind,
)
from awaken.worker.remote_answers import Answers, asks_itself, grant, load_answers
from awaken.worker.request import RunRequest

# -- selecting a run --------------------------------------------------------------------------


async def activate(
    attempt: Attempt, slot: ActiveRun, fence: Fence, services: RunServices, controls: RunControls
) -> Activation | MustEndFirst:
    """Store the request's decisions, read its thread, resolve its agent, and select its run.

    Raises:
        InvalidResume: the run cannot be continued, or a decision answers no open question.
    """
    request, store, clock = attempt.request, services.store, services.clock
    assert store is not None, "a worker has a store"
    refused: DecisionRefused | None = None
    if request.decisions:
        try:
            await store.decide(request.thread_id, request.decisions, at_ms=clock.now_ms())
        except DecisionRefused as error:
            refused = error
    if request.rewind_to is not None:
        request = await with_rewind(store, request)
    agent, context = await resolve_and_read(store, request, services.resolver)
    if refused is not None and not _knows_its_questions(agent, request):
        raise InvalidResume(refused) from refused
    if context.is_new and request.names_no_run:
        run, commands = RunSelection(run_id=services.ids.new()), NO_COMMANDS
    else:
        run = await select_run(request, context, store, services.ids)
        commands = sort_commands(context.commands, run)
    if request.decisions and not request.messages and not run.is_continuation:
        raise InvalidResume("these answers were given before, and their run is over")
    if request.run_mode is RunMode.INTERNAL_WAKE and not (run.previous or commands.messages):
        raise InvalidResume("another run has read the messages for which the thread was woken")
    if commands.cancelled and request.messages and request.continue_run_id is None:
        return MustEndFirst(run.run_id)
    if run.previous is not None:
        before = agent_before(services.resolver, run.previous, agent)
        if request.messages and not request.continue_run_id and not can_hand_over(before, agent):
            now = clock.now_ms()
            await store.send(ThreadCommand.cancel(request.thread_id, run.run_id, at_ms=now))
            return MustEndFirst(run.run_id)
        request, agent = complete_request(request, run.previous), before
    return Activation(
        request=request,
        sink=attempt.sink,
        slot=slot,
        fence=fence,
        agent=agent,
        context=context,
        run=run,
        commands=commands,
        services=services,
        controls=controls,
    )


def _knows_its_questions(agent: ResolvedExecution, request: RunRequest) -> bool:
    """Whether the agent's backend, which keeps its questions, has to judge the answers."""
    return isinstance(agent, ResolvedBackendAgent) and request.agent_id in (None, agent.spec.id)


class Activation(msgspec.Struct, kw_only=True):
    """One activation of a run: the claim on the thread, the thread as read under the claim, and the
    selected run and agent.

    `commands` are those that waited for the run. `slot` is the run's slot among the live runs of
    this process. `answers` are the answers to the questions of a remote run. `pending_commits`
    receives the commits that the store did not take before the run failed.

    The garbage collector has to track this struct: the slot leads to the run's task.
    """

    request: RunRequest
    sink: EventSink
    slot: ActiveRun
    fence: Fence
    agent: ResolvedExecution
    context: ThreadContext
    run: RunSelection
    commands: PendingCommands
    services: RunServices
    controls: RunControls
    answers: Answers | None = None
    pending_commits: list[ThreadCommit] = msgspec.field(default_factory=list)

    @property
    def own_budget(self) -> Budget | None:
        """The limits of the run itself: those of its request, else its agent's."""
        return self.request.budget or self.agent.spec.budget

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The messages the run adds to the log."""
        asked = () if self.request.messages_already_persisted else self.request.messages
        return (*self.commands.messages, *asked)

    @property
    def is_cut_short(self) -> bool:
        """Whether the run continues after its process died: its record still says that it runs."""
        previous = self.run.previous
        return previous is not None and previous.status is RunStatus.RUNNING

    @property
    def is_abandoned(self) -> bool:
        """Whether the run is only to be ended: too many processes in a row died with it."""
        previous = self.run.previous
        return self.run.is_continuation and previous is not None and previous.is_abandoned

    @property
    def is_only_ended(self) -> bool:
        """Whether the run only has to be ended, for which it needs no dependencies."""
        previous = self.run.previous
        return self.commands.cancelled or (previous is not None and previous.is_abandoned)

    @property
    def may_be_undelivered(self) -> bool:
        """Whether a remote run's backend may not have received the last input: the run was cut
        short, or waited for more budget."""
        return self.is_cut_short or (self.answers is not None and self.answers.is_about_budget)

    @property
    def is_unbegun(self) -> bool:
        """Whether a remote run was interrupted before its backend saved any state."""
        state = self.run.state
        known = state.extensions.keys() if state is not None else set()
        return self.may_be_undelivered and not known - {SPENDING.name}

    @property
    def undelivered_ids(self) -> Collection[str]:
        """The ids of the messages that a remote run's backend may not have received."""
        previous = self.run.previous if self.may_be_undelivered else None
        source = previous.input if previous is not None else None
        return source.trigger_message_ids if source is not None else ()

    @property
    def asks_for_more(self) -> bool:
        """Whether the request has new input, and does not only continue a run."""
        return self.request.continue_run_id is None and bool(
            self.new_messages or self.request.messages
        )

    @property
    def store(self) -> Store:
        """The worker's store."""
        store = self.services.store
        assert store is not None, "a worker has a store"
        return store

    def open_inbox(self) -> None:
        """Give the run its inbox: the request's own, or a new one whose writing end the slot
        gets."""
        sender = None
        receiver = self.request.run_inbox
        if receiver is None:
            sender, receiver = inbox_channel()
        self.controls.inbox = receiver
        self.slot.inbox = self.controls.owner_inbox = sender


async def open_account(activation: Activation, accounts: Accounts, parent: Account | None) -> None:
    """Give the run its account, within that of its parent run.

    Raises:
        ResolveFailed: it counts money, and the price of the agent's model is unknown.
    """
    run, agent = activation.run, activation.agent
    account = activation.controls.budget = await accounts.open(
        run.run_id,
        activation.own_budget,
        parent,
        run.state,
        activation.context,
        activation.request.parent_run_id,
    )
    costs_money = account is not None and account.counts_money and not activation.commands.cancelled
    if costs_money and isinstance(agent, ResolvedAgent) and agent.price is None:
        raise ResolveFailed(str(ModelPriceUnknown(agent.spec.model_id, agent.spec.id)))


def _with_share(request: RunRequest, account: Account | None) -> RunRequest:
    """The request with the delegate's share of its parent's budget, so that its record keeps it."""
    parent = account.parent if account is not None else None
    if account is None or parent is None or parent.budget.share == 1:
        return request
    return msgspec.structs.replace(request, budget=account.budget)


# -- agents in this process -------------------------------------------------------------------

_FEW_EVENTS = 50
"""More events than a step has, apart from those of its calls."""


async def prepare_local(
    activation: Activation, agent: ResolvedAgent
) -> tuple[PhaseRuntime, RunSetup]:
    """The setup for a run in this process, and a phase runtime with its restored state.

    Raises:
        PhaseError: the stored state does not fit the agent's keys any more.
    """
    context, run, controls = activation.context, activation.run, activation.controls
    slot, request = activation.slot, activation.request
    store = new_run_state(agent.env)
    activation.open_inbox()
    try:
        agent.env.bind(store, controls.owner_inbox)
        if not context.is_new:
            restore_state(store, context, run)
    except StateError as error:
        raise PhaseError(error) from error
    if not context.is_new:
        if request.rewinds_to is not None:
            drop_calls(store)
        set_active_agent(store, request, agent.spec.id)
    decisions = activation.commands.decisions  # those of the request are among them
    if decisions:
        decisions = filter_stale_decisions(store, decisions)
    slot.state = store
    slot.decisions = controls.decision_rx = DecisionQueue(waits=request.wait_for_decisions)
    setup = _build_setup(activation, agent)
    setup.thread.calls, setup.thread.stream = context.calls, context.stream_log
    if request.state:
        setup.first_commit.state_seed = public_seed(request.state, agent.env)
    if not context.is_new:
        await _add_history(activation, setup, store, has_decisions=bool(decisions))
    if decisions:
        store_decisions(store, decisions)
    return PhaseRuntime(store), setup


def _build_setup(activation: Activation, agent: ResolvedExecution) -> RunSetup:
    """The parts of a setup that runs in this process and remote runs have in common."""
    context, run, request = activation.context, activation.run, activation.request
    messages, commands = activation.new_messages, activation.commands
    return RunSetup(
        identity=run_identity(request, run.run_id, agent.spec.id),
        sink=activation.sink,
        services=activation.services,
        controls=activation.controls,
        thread=ThreadContextSnapshot(
            log_length=context.thread.message_count,
            event_count=context.thread.event_count,
            previous=run.previous,
            fence=activation.fence,
        ),
        first_commit=FirstCommit(
            messages=messages,
            acks=commands.acks,
            request=request_snapshot(
                _with_share(request, activation.controls.budget), commands.messages
            ),
        ),
        messages=(*context.leading, *messages),
        overrides=request.settings,
        frontend_tools=request.frontend_tools,
        is_continuation=run.is_continuation,
        topic=activation.slot.topic,
        pending_commits=activation.pending_commits,
    )


async def _add_history(
    activation: Activation, setup: RunSetup, store: StateStore, *, has_decisions: bool
) -> None:
    """Add the history of the thread to a setup: the messages of earlier runs, and for the first
    commit the results, tickets and events of their open calls."""
    context, run, request = activation.context, activation.run, activation.request
    first, thread = setup.first_commit, setup.thread
    results = build_missing_results(context, run, setup.services.ids)
    calls = () if has_decisions else list_superseded_calls(request, store)
    if calls:
        results += await supersede(calls, store, setup.identity, setup.services, first)
    add_rewind(first, request, context)
    thread.last_step = last_step(context, run)
    log = [*context.messages, *results]
    shown = visible_messages(
        log, store, thread.last_step, skipped=context.skipped, hidden=context.hidden
    )
    setup.messages = (*context.leading, *shown, *first.messages)
    first.messages = (*results, *first.messages)
    thread.log = _with_gaps(context)
    if activation.is_cut_short:
        thread.recent_events = await _load_last_events(activation, thread.last_step)


def _with_gaps(context: ThreadContext) -> Sequence[Message]:
    """The end of the thread's log that was read, with each message in its position."""
    if not context.hidden:
        return context.messages
    skipped = context.skipped
    log = [NOT_IN_VIEW] * (context.thread.message_count - skipped)
    for seq, message in zip(positions(context.hidden, skipped), context.messages, strict=False):
        log[seq - skipped - 1] = message
    return log


async def _load_last_events(activation: Activation, step: Message | None) -> Sequence[RunEvent]:
    """The last durable events of the thread, among them those of the step that was cut short."""
    thread, calls = activation.context.thread, step.tool_calls if step is not None else None
    after = max(0, thread.event_count - _FEW_EVENTS - 4 * len(calls or ()))
    return await activation.store.load_events(thread.id, after=after)


# -- agents on a remote backend ---------------------------------------------------------------


async def prepare_remote(
    activation: Activation, agent: ResolvedBackendAgent
) -> tuple[BackendRootRunRequest, RunSetup]:
    """The request for a remote run, with what its backend supports, and the run's setup."""
    answers = await _take_answers(activation)
    context, run, slot = activation.context, activation.run, activation.slot
    request, abilities = activation.request, agent.backend().capabilities()
    services, controls = activation.services, activation.controls
    activation.open_inbox()
    setup = _build_setup(activation, agent)
    first = setup.first_commit
    results = build_missing_results(context, run, services.ids)
    log, skipped = await _conversation(activation)
    new = _list_input(activation, log)
    view = effective_view([*log, *results], set(), skipped=skipped, hidden=context.hidden)
    shown = [*view, *first.messages]
    if services.blobs is not None:
        new = tuple(await load_media(services.blobs, new))
        shown = await load_media(services.blobs, shown)
    slot.state = None
    # Only a backend that takes decisions gets them; a caller that sends some is refused otherwise.
    slot.decisions = controls.decision_rx = (
        DecisionQueue(waits=request.wait_for_decisions) if abilities.decisions else None
    )
    controls.asks_itself = await asks_itself(activation.store, request)
    controls.denied = grant(controls.budget, run.run_id, answers)
    first.messages, first.tickets = (*results, *first.messages), answers.closed
    assert first.request is not None, "a setup has the request's snapshot"
    first.request = msgspec.structs.replace(first.request, backend=remote.backend_kind(agent))
    add_rewind(first, request, context)
    setup.is_continuation = run.is_continuation and not activation.is_unbegun
    cooperative = abilities.cancellation.supports_cooperative_token
    backend_request = BackendRootRunRequest(
        agent_id=agent.spec.id,
        messages=shown,
        new_messages=new,
        sink=setup.sink,
        resolver=services.resolver,
        run_identity=setup.identity,
        checkpoint_store=services.store,
        control=BackendControl(
            cancellation_token=slot.token if cooperative else None, decision_rx=slot.decisions
        ),
        decisions=answers.others,
        overrides=request.settings,
        frontend_tools=request.frontend_tools,
        inbox=controls.inbox,
        is_continuation=setup.is_continuation,
        persisted_state=await _load_state(activation, agent.spec.id),
    )
    return backend_request, setup


def _list_input(activation: Activation, log: Sequence[Message]) -> tuple[Message, ...]:
    """The messages that the backend has not received: the new ones, and earlier ones if the run was
    interrupted. `log` is the end of the thread's log."""
    request, new = activation.request, activation.new_messages
    if activation.is_unbegun:
        new = (*_list_unanswered(log), *new)
    elif request.messages_already_persisted:
        new = (*request.messages, *new)
    if ids := activation.undelivered_ids:
        known = {message.id for message in new}
        new = (*[m for m in log if m.id in ids and m.id not in known], *new)
    return new


async def _take_answers(activation: Activation) -> Answers:
    """The answers to a remote run's questions. Those for its agent become messages of the run."""
    sent = activation.commands
    answers = activation.answers = await load_answers(
        activation.store, activation.run.previous, sent.decisions or activation.request.decisions
    )
    activation.commands = msgspec.structs.replace(
        sent, messages=(*sent.messages, *answers.messages)
    )
    return answers


async def _conversation(activation: Activation) -> tuple[Sequence[Message], int]:
    """The end of the thread's log, and how many messages before it are left out.

    If a run was interrupted, its backend may have received none of the last input: the end then
    reaches back at least to the last message that is not a user's.
    """
    log, skipped = activation.context.messages, activation.context.skipped
    while activation.may_be_undelivered and skipped and len(_list_unanswered(log)) == len(log):
        more = min(skipped, max(1, len(log)))
        before, skipped = skipped, before_hidden(activation.context.hidden, skipped - more)
        log = [*await read_between(activation.store, activation.context, skipped, before), *log]
    return log, skipped


def _list_unanswered(log: Sequence[Message]) -> Sequence[Message]:
    """The user messages at the end of the log, which have no answer yet."""
    count = 0
    while count < len(log) and log[-count - 1].role is Role.USER:
        count += 1
    return log[len(log) - count :]


async def _load_state(activation: Activation, agent_id: str) -> PersistedState | None:
    """The state of a continued run; for a new run, that of the agent's last run in the thread."""
    run = activation.run
    if run.state is not None and not activation.is_unbegun:
        return run.state
    query = RunQuery(thread_id=activation.request.thread_id, agent_id=agent_id, limit=2)
    for record in await activation.store.list_runs(query):
        if record.run_id == run.run_id:
            continue
        state = await activation.store.load_run_state(record.run_id)
        kept = {
            name: value
            for name, value in state.extensions.items()
            if name not in (BACKEND_OUTPUT_STATE_KEY, SPENDING.name)
        }
        return PersistedState(revision=state.revision, extensions=kept) if kept else None
    return None


# -- after a run ------------------------------------------------------------------------------


async def has_command(store: Store, thread_id: str, paused: AgentRunResult) -> bool:
    """Whether a run that has just paused has a command waiting and its thread has no owner.

    Messages do not count for a run that waits for a decision: they cannot resume it.
    """
    thread = await store.load_thread(thread_id)
    commands = await store.load_commands(thread_id)
    decides = isinstance(paused.termination, Suspended)
    return (
        thread is not None
        and thread.owner is None
        and any(
            command.run_id in (None, paused.run_id)
            for command in commands
            if not decides or command.kind is not CommandKind.MESSAGES
        )
    )


async def has_ended(store: Store, failure: BaseException, request: RunRequest) -> bool:
    """Whether `failure` only says that the run which the request was to end is already done."""
    if not isinstance(failure, InvalidResume) or request.continue_run_id is None:
        return False
    run = await store.load_run(request.continue_run_id)
    return run is None or run.status is RunStatus.DONE
