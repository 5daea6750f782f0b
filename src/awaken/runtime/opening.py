"""From what is known of a thread to a request a backend can carry out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

import msgspec

from awaken.backend import remote
from awaken.backend.local import ThreadContextSnapshot, new_phase_runtime
from awaken.budget.account import Account
from awaken.clock import Clock
from awaken.contract.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendControl,
    BackendLocalRootContext,
    BackendRootRunRequest,
    BackendTranscriptCapability,
    DurableDelegates,
)
from awaken.contract.commits import Fence
from awaken.contract.events import EventSink
from awaken.contract.profile import ProfileStore
from awaken.contract.registry import ExecutionResolver
from awaken.contract.store import Store
from awaken.contract.threads import RunQuery, ThreadContext
from awaken.control.cancel import CancellationToken
from awaken.control.inbox import DecisionQueue, InboxReceiver, InboxSender, inbox_channel
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message, Role
from awaken.domain.run import PersistedState
from awaken.domain.transcript import effective_view
from awaken.errors import ModelPriceUnknown, PhaseError, ResolveFailed, StateError
from awaken.ids import Ids
from awaken.plugin.agent import ResolvedAgent, ResolvedBackendAgent, ResolvedExecution
from awaken.runtime.accounts import Accounts
from awaken.runtime.active import ActiveRun
from awaken.runtime.answers import Answers, answers_to, asks_itself, grant
from awaken.runtime.prepare import (
    RunChoice,
    Sent,
    fitting,
    hand_to,
    last_turn,
    orphaned_results,
    request_snapshot,
    restore_state,
    run_identity,
    supersede,
    visible_messages,
)
from awaken.runtime.request import Inherited, RunRequest
from awaken.state.runtime_keys import SPENDING


class Opening(msgspec.Struct, kw_only=True, gc=False):
    """A run that is about to start: what was asked, what was read, and what it is given."""

    request: RunRequest
    slot: ActiveRun
    sink: EventSink
    fence: Fence
    context: ThreadContext
    choice: RunChoice
    sent: Sent
    resolver: ExecutionResolver
    inherited: Inherited
    store: Store
    profiles: ProfileStore | None
    clock: Clock
    ids: Ids
    leave: CancellationToken
    look: Callable[[], Awaitable[None]]
    delegates: DurableDelegates
    accounts: Accounts
    answers: Answers | None = None

    @property
    def fresh(self) -> tuple[Message, ...]:
        """The messages the run adds to the log."""
        asked = () if self.request.messages_already_persisted else self.request.messages
        return (*self.sent.messages, *asked)

    @property
    def is_cut_short(self) -> bool:
        """Whether the run was carried on by a process that is gone."""
        previous = self.choice.previous
        return previous is not None and previous.status is RunStatus.RUNNING

    @property
    def is_abandoned(self) -> bool:
        """Whether the run is not to be carried on: one process after another died with it."""
        previous = self.choice.previous
        return self.choice.is_continuation and previous is not None and previous.is_abandoned

    @property
    def may_be_untold(self) -> bool:
        """Whether the backend of a run elsewhere may not have heard what its last turn was about:
        it was cut short, or had to wait for more to use up."""
        return self.is_cut_short or (self.answers is not None and self.answers.is_about_budget)

    @property
    def is_unbegun(self) -> bool:
        """Whether a run elsewhere was interrupted before anything of its work was saved."""
        state = self.choice.state
        known = state.extensions.keys() if state is not None else set()
        return self.may_be_untold and not known - {SPENDING.name}

    @property
    def untold(self) -> Collection[str]:
        """The ids of messages a run elsewhere was to go on with when it was interrupted, if nothing
        was saved since: whether its backend has taken them."""
        previous = self.choice.previous if self.may_be_untold else None
        source = previous.input if previous is not None else None
        return source.trigger_message_ids if source is not None else ()

    @property
    def asks_for_more(self) -> bool:
        """Whether there is more to do than to go on with a run."""
        return self.request.continue_run_id is None and bool(self.fresh or self.request.messages)

    def inbox(self) -> tuple[InboxSender | None, InboxReceiver]:
        """The ends of the run's inbox; whoever brought one holds its writing end."""
        if self.request.run_inbox is not None:
            return None, self.request.run_inbox
        return inbox_channel()


async def account_of(opening: Opening, agent: ResolvedExecution) -> Account | None:
    """What the run may use up; nothing if nobody set a limit.

    Raises:
        ResolveFailed: it counts money, and nobody knows what the agent's model costs.
    """
    choice, own = opening.choice, opening.request.budget or agent.spec.budget
    if (
        own is None
        and opening.inherited.budget is None
        and not opening.accounts.holds(choice.run_id)
    ):
        return None
    account = await opening.accounts.open(
        choice.run_id,
        own,
        opening.inherited.budget,
        choice.state,
        opening.context,
        opening.request.parent_run_id,
    )
    costs_money = account is not None and account.counts_money and not opening.sent.cancelled
    if costs_money and isinstance(agent, ResolvedAgent) and agent.price is None:
        raise ResolveFailed(str(ModelPriceUnknown(agent.spec.model_id, agent.spec.id)))
    return account


def _with_share(request: RunRequest, account: Account | None) -> RunRequest:
    """The request, with the share of its parent's budget that stays a delegate's over restarts."""
    above = account.parent if account is not None else None
    if account is None or above is None or above.budget.share == 1:
        return request
    return msgspec.structs.replace(request, budget=account.budget)


# -- agents here ------------------------------------------------------------------------------


async def local_run(
    opening: Opening, agent: ResolvedAgent
) -> tuple[BackendRootRunRequest, ThreadContextSnapshot]:
    """Everything a run in this process needs: its state, its conversation, its controls."""
    context, choice, slot, sent = opening.context, opening.choice, opening.slot, opening.sent
    phases = new_phase_runtime(agent.env)
    sender, receiver = opening.inbox()
    try:
        agent.env.bind(phases.store, sender)
        restore_state(phases.store, context, choice)
    except StateError as error:
        raise PhaseError(error) from error
    hand_to(phases.store, opening.request, agent.spec.id)
    decisions = fitting(phases.store, sent.decisions)
    request = msgspec.structs.replace(opening.request, decisions=decisions)
    identity = run_identity(request, choice.run_id, agent.spec.id)
    given_up = await supersede(
        request,
        phases.store,
        identity,
        opening.delegates,
        opening.ids,
        opening.clock.now_ms(),
    )
    marks = [*orphaned_results(context, choice, opening.ids), *given_up.marks]
    turn, account = last_turn(context, choice), await account_of(opening, agent)
    history = visible_messages(
        [*context.messages, *marks], phases.store, turn, skipped=context.skipped
    )
    slot.store, slot.inbox = phases.store, sender
    slot.decisions = DecisionQueue(waits=request.wait_for_decisions)
    backend_request = BackendRootRunRequest(
        agent_id=agent.spec.id,
        messages=[*context.leading, *history, *opening.fresh],
        new_messages=request.messages,
        sink=opening.sink,
        resolver=opening.resolver,
        run_identity=identity,
        checkpoint_store=opening.store,
        control=BackendControl(cancellation_token=slot.token, decision_rx=slot.decisions),
        decisions=decisions,
        overrides=request.overrides,
        frontend_tools=request.frontend_tools,
        local=BackendLocalRootContext(phases),
        inbox=receiver,
        is_continuation=choice.is_continuation,
    )
    thread_context = ThreadContextSnapshot(
        agent=agent,
        log=context.messages,
        log_length=context.thread.message_count,
        uncommitted=[*marks, *opening.fresh],
        previous=choice.previous,
        last_turn=turn,
        calls=context.calls,
        stream=context.stream,
        acks=sent.acks,
        events=given_up.events,
        tickets=given_up.tickets,
        sends=given_up.sends,
        fence=opening.fence,
        leave=opening.leave,
        look=opening.look,
        request=request_snapshot(_with_share(request, account), sent.messages),
        owner_inbox=sender,
        profile_store=opening.profiles,
        delegates=opening.delegates,
        budget=account,
        depth=opening.inherited.depth,
        clock=opening.clock,
        ids=opening.ids,
    )
    return backend_request, thread_context


# -- agents elsewhere -------------------------------------------------------------------------


async def remote_run(
    opening: Opening, agent: ResolvedBackendAgent
) -> tuple[BackendRootRunRequest, ThreadContextSnapshot]:
    """Everything a run elsewhere needs, as far as its backend can use it."""
    answers = await _take_answers(opening)
    context, choice, slot, sent = opening.context, opening.choice, opening.slot, opening.sent
    request, abilities = opening.request, agent.backend().capabilities()
    identity = run_identity(request, choice.run_id, agent.spec.id)
    sender, receiver = opening.inbox()
    marks = orphaned_results(context, choice, opening.ids)
    account = await account_of(opening, agent)
    log, skipped = await _conversation(opening)
    new = opening.fresh
    if opening.is_unbegun:
        new = (*_unanswered(log), *new)
    elif request.messages_already_persisted:
        new = (*request.messages, *new)
    if opening.untold:
        known = {message.id for message in new}
        untold = [m for m in log if m.id in opening.untold and m.id not in known]
        new = (*untold, *new)
    slot.store, slot.inbox = None, sender
    # Decisions reach only a backend that can take them; nobody is told otherwise.
    slot.decisions = (
        DecisionQueue(waits=request.wait_for_decisions) if abilities.decisions else None
    )
    cooperative = abilities.cancellation.supports_cooperative_token
    backend_request = BackendRootRunRequest(
        agent_id=agent.spec.id,
        messages=[*effective_view([*log, *marks], set(), skipped=skipped), *opening.fresh],
        new_messages=new,
        sink=opening.sink,
        resolver=opening.resolver,
        run_identity=identity,
        checkpoint_store=opening.store,
        control=BackendControl(
            cancellation_token=slot.token if cooperative else None, decision_rx=slot.decisions
        ),
        decisions=answers.others,
        overrides=request.overrides,
        frontend_tools=request.frontend_tools,
        inbox=receiver,
        is_continuation=choice.is_continuation and not opening.is_unbegun,
        persisted_state=await _known_state(opening, agent.spec.id),
    )
    thread_context = ThreadContextSnapshot(
        log_length=context.thread.message_count,
        uncommitted=[*marks, *opening.fresh],
        previous=choice.previous,
        acks=sent.acks,
        tickets=answers.closed,
        fence=opening.fence,
        leave=opening.leave,
        request=msgspec.structs.replace(
            request_snapshot(_with_share(request, account), sent.messages),
            backend=remote.backend_kind(agent),
        ),
        budget=account,
        depth=opening.inherited.depth,
        asks_itself=await asks_itself(opening.store, request),
        denied=grant(account, choice.run_id, answers),
        clock=opening.clock,
        ids=opening.ids,
    )
    return backend_request, thread_context


async def _take_answers(opening: Opening) -> Answers:
    """What the run is answered; what its agent is to hear of it becomes a message."""
    sent = opening.sent
    answers = opening.answers = await answers_to(
        opening.store, opening.choice.previous, sent.decisions or opening.request.decisions
    )
    opening.sent = msgspec.structs.replace(sent, messages=(*sent.messages, *answers.told))
    return answers


async def _conversation(opening: Opening) -> tuple[Sequence[Message], int]:
    """The log as it was read, and how much of its beginning is left out.

    Nobody knows how much the other side has been told by a run that was interrupted: its backend
    gets to see at least all that nobody has answered.
    """
    log, skipped = opening.context.messages, opening.context.skipped
    while opening.may_be_untold and skipped and len(_unanswered(log)) == len(log):
        more = min(skipped, max(1, len(log)))
        thread_id, skipped = opening.request.thread_id, skipped - more
        log = [*await opening.store.load_messages(thread_id, after=skipped, limit=more), *log]
    return log, skipped


def _unanswered(log: Sequence[Message]) -> Sequence[Message]:
    """What users have said since somebody answered last."""
    count = 0
    while count < len(log) and log[-count - 1].role is Role.USER:
        count += 1
    return log[len(log) - count :]


async def _known_state(opening: Opening, agent_id: str) -> PersistedState | None:
    """The state of the run that goes on; for a new one, that of the agent's last run here."""
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


def wants_whole_log(agent: ResolvedBackendAgent) -> bool:
    """Whether the other side has to be told the conversation from its beginning."""
    abilities = agent.backend().capabilities()
    return abilities.transcript is BackendTranscriptCapability.FULL_TRANSCRIPT
