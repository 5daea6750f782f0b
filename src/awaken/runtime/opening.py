"""From what is known of a thread to a request a backend can carry out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from awaken.backend.local import ThreadContextSnapshot, new_phase_runtime
from awaken.clock import Clock
from awaken.codec import from_json
from awaken.contract.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendControl,
    BackendLocalRootContext,
    BackendRootRunRequest,
    BackendTranscriptCapability,
    DurableDelegates,
)
from awaken.contract.budget import Account
from awaken.contract.commits import Fence
from awaken.contract.control import (
    CancellationToken,
    DecisionQueue,
    InboxReceiver,
    InboxSender,
    inbox_channel,
)
from awaken.contract.events import EventSink
from awaken.contract.profile import ProfileStore
from awaken.contract.registry import ExecutionResolver
from awaken.contract.store import Store
from awaken.contract.threads import RunQuery, ThreadContext
from awaken.domain.budget import Spending
from awaken.domain.message import Message
from awaken.domain.run import PersistedState
from awaken.domain.transcript import effective_view
from awaken.errors import ModelPriceUnknown, PhaseError, ResolveFailed, StateError
from awaken.ids import Ids
from awaken.plugin.agent import ResolvedAgent, ResolvedBackendAgent, ResolvedExecution
from awaken.runtime.active import ActiveRun
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


class Opening(msgspec.Struct, kw_only=True):
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

    @property
    def fresh(self) -> tuple[Message, ...]:
        """The messages the run adds to the log."""
        asked = () if self.request.messages_already_persisted else self.request.messages
        return (*self.sent.messages, *asked)

    def inbox(self) -> tuple[InboxSender | None, InboxReceiver]:
        """The ends of the run's inbox; whoever brought one holds its writing end."""
        if self.request.run_inbox is not None:
            return None, self.request.run_inbox
        return inbox_channel()


def account_of(opening: Opening, agent: ResolvedExecution) -> Account | None:
    """What the run may use up, less what it has on record; nothing if nobody set a limit.

    Raises:
        ResolveFailed: it counts money, and nobody knows what the agent's model costs.
    """
    spec = agent.spec
    above, own = opening.inherited.budget, opening.request.budget or spec.budget
    if above is None and own is None:
        return None
    if above is not None:
        account: Account | None = above.child(own)
    else:
        account = Account(own, clock=opening.clock) if own is not None else None
    state = opening.choice.state
    if account is not None and isinstance(agent, ResolvedAgent) and agent.price is None:
        _check_price(account, agent)
    if account is not None and state is not None and SPENDING.name in state.extensions:
        known = from_json(state.extensions[SPENDING.name], Spending)
        account.restore(opening.choice.run_id, known)
    return account


def _check_price(account: Account, agent: ResolvedAgent) -> None:
    if any(level.budget.money is not None for level in account.chain()):
        raise ResolveFailed(str(ModelPriceUnknown(agent.spec.model_id, agent.spec.id)))


# -- agents here ------------------------------------------------------------------------------


def local_run(
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
    given_up = supersede(request, phases.store, identity, opening.ids, opening.clock.now_ms())
    marks = [*orphaned_results(context, choice, opening.ids), *given_up.marks]
    turn = last_turn(context, choice)
    history = visible_messages(
        [*context.messages, *marks], phases.store, turn, skipped=context.skipped
    )
    slot.store, slot.inbox = phases.store, sender
    slot.decisions = DecisionQueue(waits=request.wait_for_decisions)
    backend_request = BackendRootRunRequest(
        agent_id=agent.spec.id,
        messages=[*history, *opening.fresh],
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
        log_length=context.thread.message_count,
        uncommitted=[*marks, *opening.fresh],
        previous=choice.previous,
        last_turn=turn,
        calls=context.calls,
        acks=sent.acks,
        tickets=given_up.tickets,
        sends=given_up.sends,
        fence=opening.fence,
        leave=opening.leave,
        look=opening.look,
        request=request_snapshot(request),
        owner_inbox=sender,
        profile_store=opening.profiles,
        delegates=opening.delegates,
        budget=account_of(opening, agent),
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
    context, choice, slot, sent = opening.context, opening.choice, opening.slot, opening.sent
    request, abilities = opening.request, agent.backend().capabilities()
    identity = run_identity(request, choice.run_id, agent.spec.id)
    sender, receiver = opening.inbox()
    marks = orphaned_results(context, choice, opening.ids)
    log = [*context.messages, *marks]
    slot.inbox = sender
    # Decisions reach only a backend that can take them; nobody is told otherwise.
    slot.decisions = (
        DecisionQueue(waits=request.wait_for_decisions) if abilities.decisions else None
    )
    cooperative = abilities.cancellation.supports_cooperative_token
    backend_request = BackendRootRunRequest(
        agent_id=agent.spec.id,
        messages=[*effective_view(log, set(), skipped=context.skipped), *opening.fresh],
        new_messages=opening.fresh or request.messages,
        sink=opening.sink,
        resolver=opening.resolver,
        run_identity=identity,
        checkpoint_store=opening.store,
        control=BackendControl(
            cancellation_token=slot.token if cooperative else None, decision_rx=slot.decisions
        ),
        decisions=sent.decisions,
        overrides=request.overrides,
        frontend_tools=request.frontend_tools,
        inbox=receiver,
        is_continuation=choice.is_continuation,
        persisted_state=await _known_state(opening, agent.spec.id),
    )
    thread_context = ThreadContextSnapshot(
        log_length=context.thread.message_count,
        uncommitted=[*marks, *opening.fresh],
        previous=choice.previous,
        acks=sent.acks,
        fence=opening.fence,
        leave=opening.leave,
        request=request_snapshot(request),
        budget=account_of(opening, agent),
        depth=opening.inherited.depth,
        clock=opening.clock,
        ids=opening.ids,
    )
    return backend_request, thread_context


async def _known_state(opening: Opening, agent_id: str) -> PersistedState | None:
    """The state of the run that goes on; for a new one, that of the agent's last run here."""
    if opening.choice.state is not None:
        return opening.choice.state
    query = RunQuery(thread_id=opening.request.thread_id, agent_id=agent_id, limit=1)
    for record in await opening.store.list_runs(query):
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
