"""Activating a run: choosing the run that a request leads to, and preparing it for its backend.

`choose` finds the run and its agent, and an `Opening` is made of them. `local_run` turns that into
the request for an agent in this process, `remote_run` into the request for an agent on a remote
backend. Both also make the `PreparedRun` from which the code that drives the run starts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from awaken.backend import remote
from awaken.backend.local import new_phase_runtime
from awaken.clock import Clock
from awaken.core.account import Account
from awaken.core.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendControl,
    BackendLocalRootContext,
    BackendRootRunRequest,
)
from awaken.core.budget import Budget
from awaken.core.event import EventSink, RunEvent
from awaken.core.identity import RunIdentity, RunMode
from awaken.core.inbox import DecisionQueue, InboxReceiver, inbox_channel
from awaken.core.lifecycle import RunStatus, Suspended
from awaken.core.message import Message, Role
from awaken.core.registry import ExecutionResolver
from awaken.core.rewind import before_hidden, positions
from awaken.core.run import AgentRunResult, PersistedState
from awaken.core.state.run_keys import SPENDING
from awaken.core.state.store import StateStore
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery, ThreadContext
from awaken.core.transcript import effective_view
from awaken.engine.large_content import loaded
from awaken.engine.prepared_run import (
    NOT_IN_VIEW,
    FirstCommit,
    PreparedRun,
    RunControls,
    RunServices,
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
from awaken.ids import Ids
from awaken.plugin.resolved_agent import ResolvedAgent, ResolvedBackendAgent, ResolvedExecution
from awaken.worker.attempt import MustEndFirst
from awaken.worker.budgets import Accounts
from awaken.worker.delegates import Delegates
from awaken.worker.live_runs import ActiveRun
from awaken.worker.prepare import (
    NOTHING_SENT,
    RunChoice,
    Sent,
    add_rewind,
    build_missing_results,
    choose_run,
    complete_request,
    drop_calls,
    filter_stale_decisions,
    last_step,
    list_superseded_calls,
    public_seed,
    request_snapshot,
    restore_state,
    run_identity,
    set_active_agent,
    supersede,
    take_commands,
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

# -- choosing a run ---------------------------------------------------------------------------


async def choose(
    store: Store,
    delegates: Delegates,
    resolver: ExecutionResolver,
    clock: Clock,
    ids: Ids,
    request: RunRequest,
) -> Chosen | MustEndFirst:
    """Store the request's decisions, read its thread, resolve its agent, and choose its run.

    Raises:
        InvalidResume: the run cannot be continued, or a decision answers no open question.
    """
    refused: DecisionRefused | None = None
    if request.decisions:
        await delegates.check_answers(request.thread_id)
        try:
            await store.decide(request.thread_id, request.decisions, at_ms=clock.now_ms())
        except DecisionRefused as error:
            refused = error
    if request.rewind_to is not None:
        request = await with_rewind(store, request)
    agent, context = await resolve_and_read(store, request, resolver)
    if refused is not None and not _knows_its_questions(agent, request):
        raise InvalidResume(refused) from refused
    if context.is_new and request.names_no_run:
        choice, sent = RunChoice(run_id=ids.new()), NOTHING_SENT
    else:
        choice = await choose_run(request, context, store, ids)
        sent = take_commands(context.commands, choice)
    if request.decisions and not request.messages and not choice.is_continuation:
        raise InvalidResume("these answers were given before, and their run is over")
    if request.run_mode is RunMode.INTERNAL_WAKE and not (choice.previous or sent.messages):
        raise InvalidResume("another run has read the messages for which the thread was woken")
    if sent.cancelled and request.messages and request.continue_run_id is None:
        return MustEndFirst(choice.run_id)
    if choice.previous is None:
        return Chosen(request, agent, context, choice, sent)
    before = agent_before(resolver, choice.previous, agent)
    if request.messages and not request.continue_run_id and not can_hand_over(before, agent):
        now = clock.now_ms()
        await store.send(ThreadCommand.cancel(request.thread_id, choice.run_id, at_ms=now))
        return MustEndFirst(choice.run_id)
    return Chosen(complete_request(request, choice.previous), before, context, choice, sent)


class Chosen(msgspec.Struct, frozen=True):
    """A request as its run takes it, the run's agent and thread, and the commands it was sent."""

    request: RunRequest
    agent: ResolvedExecution
    context: ThreadContext
    choice: RunChoice
    sent: Sent


def _knows_its_questions(agent: ResolvedExecution, request: RunRequest) -> bool:
    """Whether the agent's backend, which keeps its questions, has to judge the answers."""
    return isinstance(agent, ResolvedBackendAgent) and request.agent_id in (None, agent.spec.id)


# -- a run that is being prepared -------------------------------------------------------------


class Opening(msgspec.Struct, kw_only=True):
    """A run that is being prepared: the caller's request, and what the store has of its thread.

    `choice` says which run this is: a new one, or one that goes on. `sent` holds the commands that
    waited for it. `slot` is its place among the live runs of this process. `answers` are the
    answers to the questions of a remote run. `unkept` receives the commits that the store did not
    take before the run broke off.
    """

    request: RunRequest
    sink: EventSink
    slot: ActiveRun
    fence: Fence
    agent: ResolvedExecution
    context: ThreadContext
    choice: RunChoice
    sent: Sent
    store: Store
    resolver: ExecutionResolver
    services: RunServices
    controls: RunControls
    answers: Answers | None = None
    unkept: list[ThreadCommit] = msgspec.field(default_factory=list)

    @property
    def own_budget(self) -> Budget | None:
        """The limits of the run itself: those of its request, else its agent's."""
        return self.request.budget or self.agent.spec.budget

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The messages the run adds to the log."""
        asked = () if self.request.messages_already_persisted else self.request.messages
        return (*self.sent.messages, *asked)

    @property
    def is_cut_short(self) -> bool:
        """Whether the run goes on after its process died: its record still says that it runs."""
        previous = self.choice.previous
        return previous is not None and previous.status is RunStatus.RUNNING

    @property
    def is_abandoned(self) -> bool:
        """Whether the run is only to be ended: too many processes in a row died with it."""
        previous = self.choice.previous
        return self.choice.is_continuation and previous is not None and previous.is_abandoned

    @property
    def may_be_undelivered(self) -> bool:
        """Whether a remote run's backend may not have received the last input: the run was cut
        short, or waited for more budget."""
        return self.is_cut_short or (self.answers is not None and self.answers.is_about_budget)

    @property
    def is_unbegun(self) -> bool:
        """Whether a remote run was interrupted before its backend saved any state."""
        state = self.choice.state
        known = state.extensions.keys() if state is not None else set()
        return self.may_be_undelivered and not known - {SPENDING.name}

    @property
    def undelivered_ids(self) -> Collection[str]:
        """The ids of the messages that a remote run's backend may not have received."""
        previous = self.choice.previous if self.may_be_undelivered else None
        source = previous.input if previous is not None else None
        return source.trigger_message_ids if source is not None else ()

    @property
    def asks_for_more(self) -> bool:
        """Whether the request has new input, and does not only continue a run."""
        return self.request.continue_run_id is None and bool(
            self.new_messages or self.request.messages
        )

    def open_inbox(self) -> InboxReceiver:
        """The run's inbox: the request's own, or a new one whose writing end the slot gets."""
        sender = None
        receiver = self.request.run_inbox
        if receiver is None:
            sender, receiver = inbox_channel()
        self.slot.inbox = self.controls.owner_inbox = sender
        return receiver


async def open_account(opening: Opening, accounts: Accounts, above: Account | None) -> None:
    """Give the run its account, within that of the run above it.

    Raises:
        ResolveFailed: it counts money, and the price of the agent's model is unknown.
    """
    choice, agent = opening.choice, opening.agent
    account = opening.controls.budget = await accounts.open(
        choice.run_id,
        opening.own_budget,
        above,
        choice.state,
        opening.context,
        opening.request.parent_run_id,
    )
    costs_money = account is not None and account.counts_money and not opening.sent.cancelled
    if costs_money and isinstance(agent, ResolvedAgent) and agent.price is None:
        raise ResolveFailed(str(ModelPriceUnknown(agent.spec.model_id, agent.spec.id)))


def _with_share(request: RunRequest, account: Account | None) -> RunRequest:
    """The request with the delegate's share of its parent's budget, so that its record keeps it."""
    above = account.parent if account is not None else None
    if account is None or above is None or above.budget.share == 1:
        return request
    return msgspec.structs.replace(request, budget=account.budget)


# -- agents in this process -------------------------------------------------------------------

_FEW_EVENTS = 50
"""More events than a step has, apart from those of its calls."""


class _Past(msgspec.Struct, kw_only=True, gc=False):
    """What a thread's earlier runs have left for the next one.

    `log` is the end of its log, `shown` are the messages in it that the model sees, `marks` the
    tool messages that close earlier calls. `step` is the last message with calls of a run that goes
    on, `told` are the last events, if it was cut short.
    """

    log: Sequence[Message] = ()
    shown: Sequence[Message] = ()
    marks: Sequence[Message] = ()
    step: Message | None = None
    told: Sequence[RunEvent] = ()


_NO_PAST = _Past()


async def local_run(opening: Opening, agent: ResolvedAgent) -> BackendRootRunRequest:
    """The request for a run in this process, with its restored state and its conversation.

    Raises:
        PhaseError: the stored state does not fit the agent's keys any more.
    """
    context, choice, slot, sent = opening.context, opening.choice, opening.slot, opening.sent
    services, controls, request = opening.services, opening.controls, opening.request
    phases = new_phase_runtime(agent.env)
    store = phases.store
    inbox = opening.open_inbox()
    try:
        agent.env.bind(store, controls.owner_inbox)
        if not context.is_new:
            restore_state(store, context, choice)
    except StateError as error:
        raise PhaseError(error) from error
    if not context.is_new:
        if request.rewinds_to is not None:
            drop_calls(store)
        set_active_agent(store, request, agent.spec.id)
    decisions = filter_stale_decisions(store, sent.decisions) if sent.decisions else ()
    if decisions or request.decisions:
        request = msgspec.structs.replace(request, decisions=decisions)
    identity = run_identity(request, choice.run_id, agent.spec.id)
    first = FirstCommit(
        acks=sent.acks,
        request=request_snapshot(_with_share(request, controls.budget), sent.messages),
        state_seed=public_seed(request.state, agent.env) if request.state else None,
    )
    past = _NO_PAST if context.is_new else await _past(opening, request, store, identity, first)
    new_messages = opening.new_messages
    first.messages = (*past.marks, *new_messages)
    slot.state = store
    slot.decisions = controls.decision_rx = DecisionQueue(waits=request.wait_for_decisions)
    start = PreparedRun(
        services=services,
        controls=controls,
        thread=ThreadContextSnapshot(
            log=past.log,
            log_length=context.thread.message_count,
            event_count=context.thread.event_count,
            previous=choice.previous,
            last_step=past.step,
            calls=context.calls,
            stream=context.stream_log,
            told=past.told,
            fence=opening.fence,
        ),
        first=first,
        topic=slot.topic,
        unkept=opening.unkept,
    )
    return BackendRootRunRequest(
        agent_id=agent.spec.id,
        messages=(*context.leading, *past.shown, *new_messages),
        new_messages=request.messages,
        sink=opening.sink,
        resolver=opening.resolver,
        run_identity=identity,
        checkpoint_store=opening.store,
        control=controls,
        decisions=decisions,
        overrides=request.overrides,
        frontend_tools=request.frontend_tools,
        local=BackendLocalRootContext(phases, agent, start),
        inbox=inbox,
        is_continuation=choice.is_continuation,
    )


async def _past(
    opening: Opening,
    request: RunRequest,
    store: StateStore,
    identity: RunIdentity,
    first: FirstCommit,
) -> _Past:
    """What the thread's earlier runs have left. `first` gets what the run's first commit writes
    about it."""
    context, choice, services = opening.context, opening.choice, opening.services
    marks = build_missing_results(context, choice, services.ids)
    if superseded := list_superseded_calls(request, store):
        marks = [*marks, *await supersede(superseded, store, identity, services, first)]
    add_rewind(first, request, context)
    step = last_step(context, choice)
    log = [*context.messages, *marks]
    shown = visible_messages(log, store, step, skipped=context.skipped, hidden=context.hidden)
    told = await _load_last_events(opening, step) if opening.is_cut_short else ()
    return _Past(log=_with_gaps(context), shown=shown, marks=marks, step=step, told=told)


def _with_gaps(context: ThreadContext) -> Sequence[Message]:
    """The end of the thread's log that was read, with each message in its position."""
    if not context.hidden:
        return context.messages
    skipped = context.skipped
    log = [NOT_IN_VIEW] * (context.thread.message_count - skipped)
    for seq, message in zip(positions(context.hidden, skipped), context.messages, strict=False):
        log[seq - skipped - 1] = message
    return log


async def _load_last_events(opening: Opening, step: Message | None) -> Sequence[RunEvent]:
    """The last durable events of the thread, among them those of the step that was cut short."""
    thread, calls = opening.context.thread, step.tool_calls if step is not None else None
    after = max(0, thread.event_count - _FEW_EVENTS - 4 * len(calls or ()))
    return await opening.store.load_events(thread.id, after=after)


# -- agents on a remote backend ---------------------------------------------------------------


async def remote_run(
    opening: Opening, agent: ResolvedBackendAgent
) -> tuple[BackendRootRunRequest, PreparedRun]:
    """The request for a remote run, with what its backend supports, and the prepared run."""
    answers = await _take_answers(opening)
    context, choice, slot, sent = opening.context, opening.choice, opening.slot, opening.sent
    request, abilities = opening.request, agent.backend().capabilities()
    services, controls = opening.services, opening.controls
    inbox = opening.open_inbox()
    marks = build_missing_results(context, choice, services.ids)
    log, skipped = await _conversation(opening)
    new = opening.new_messages
    if opening.is_unbegun:
        new = (*_list_unanswered(log), *new)
    elif request.messages_already_persisted:
        new = (*request.messages, *new)
    if opening.undelivered_ids:
        known = {message.id for message in new}
        undelivered = [m for m in log if m.id in opening.undelivered_ids and m.id not in known]
        new = (*undelivered, *new)
    view = effective_view([*log, *marks], set(), skipped=skipped, hidden=context.hidden)
    shown = [*view, *opening.new_messages]
    if services.blobs is not None:
        new = tuple(await loaded(services.blobs, new))
        shown = await loaded(services.blobs, shown)
    slot.state = None
    # Only a backend that takes decisions gets them; a caller that sends some is refused otherwise.
    slot.decisions = controls.decision_rx = (
        DecisionQueue(waits=request.wait_for_decisions) if abilities.decisions else None
    )
    controls.asks_itself = await asks_itself(opening.store, request)
    controls.denied = grant(controls.budget, choice.run_id, answers)
    cooperative = abilities.cancellation.supports_cooperative_token
    backend_request = BackendRootRunRequest(
        agent_id=agent.spec.id,
        messages=shown,
        new_messages=new,
        sink=opening.sink,
        resolver=opening.resolver,
        run_identity=run_identity(request, choice.run_id, agent.spec.id),
        checkpoint_store=opening.store,
        control=BackendControl(
            cancellation_token=slot.token if cooperative else None, decision_rx=slot.decisions
        ),
        decisions=answers.others,
        overrides=request.overrides,
        frontend_tools=request.frontend_tools,
        inbox=inbox,
        is_continuation=choice.is_continuation and not opening.is_unbegun,
        persisted_state=await _load_state(opening, agent.spec.id),
    )
    start = PreparedRun(
        services=services,
        controls=controls,
        thread=ThreadContextSnapshot(
            log_length=context.thread.message_count,
            event_count=context.thread.event_count,
            previous=choice.previous,
            fence=opening.fence,
        ),
        topic=slot.topic,
        first=FirstCommit(
            messages=[*marks, *opening.new_messages],
            acks=sent.acks,
            tickets=answers.closed,
            request=msgspec.structs.replace(
                request_snapshot(_with_share(request, controls.budget), sent.messages),
                backend=remote.backend_kind(agent),
            ),
        ),
    )
    add_rewind(start.first, request, context)
    return backend_request, start


async def _take_answers(opening: Opening) -> Answers:
    """The answers to a remote run's questions. Those for its agent become messages of the run."""
    sent = opening.sent
    answers = opening.answers = await load_answers(
        opening.store, opening.choice.previous, sent.decisions or opening.request.decisions
    )
    opening.sent = msgspec.structs.replace(sent, messages=(*sent.messages, *answers.told))
    return answers


async def _conversation(opening: Opening) -> tuple[Sequence[Message], int]:
    """The end of the thread's log, and how many messages before it are left out.

    If a run was interrupted, its backend may have received none of the last input: the end then
    reaches back at least to the last message that is not a user's.
    """
    log, skipped = opening.context.messages, opening.context.skipped
    while opening.may_be_undelivered and skipped and len(_list_unanswered(log)) == len(log):
        more = min(skipped, max(1, len(log)))
        before, skipped = skipped, before_hidden(opening.context.hidden, skipped - more)
        log = [*await read_between(opening.store, opening.context, skipped, before), *log]
    return log, skipped


def _list_unanswered(log: Sequence[Message]) -> Sequence[Message]:
    """The user messages at the end of the log, which have no answer yet."""
    count = 0
    while count < len(log) and log[-count - 1].role is Role.USER:
        count += 1
    return log[len(log) - count :]


async def _load_state(opening: Opening, agent_id: str) -> PersistedState | None:
    """The state of a run that goes on; for a new run, that of the agent's last run here."""
    choice = opening.choice
    if choice.state is not None and not opening.is_unbegun:
        return choice.state
    query = RunQuery(thread_id=opening.request.thread_id, agent_id=agent_id, limit=2)
    for record in await opening.store.list_runs(query):
        if record.run_id == choice.run_id:
            continue
        state = await opening.store.load_run_state(record.run_id)
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
