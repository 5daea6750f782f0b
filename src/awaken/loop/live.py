"""A run while it lives: everything the loop's functions share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from awaken.budget.account import Account
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import loads
from awaken.contract.backend import DurableDelegates
from awaken.contract.commands import ThreadCommand
from awaken.contract.commits import CallEntry, Commits, Fence, ThreadCommit
from awaken.contract.events import EventSink
from awaken.contract.llm import RoutingKey
from awaken.contract.profile import ProfileStore
from awaken.contract.registry import AgentResolver
from awaken.contract.streams import StreamPiece
from awaken.contract.tool import ToolCallContext
from awaken.control.cancel import CancellationToken, interruptible
from awaken.control.inbox import DecisionQueue, InboxReceiver, InboxSender
from awaken.domain.budget import Amount
from awaken.domain.event import AgentEvent
from awaken.domain.identity import RunIdentity
from awaken.domain.inference import InferenceOverride
from awaken.domain.lifecycle import TerminationReason
from awaken.domain.message import Message, MessageMetadata
from awaken.domain.phase import Phase
from awaken.domain.run import PersistedState, RunRecord, RunRequestSnapshot, RunWaitingTicket
from awaken.domain.ticket import Ticket
from awaken.domain.tool import ToolDescriptor
from awaken.domain.value import Value
from awaken.errors import Cancelled
from awaken.ids import UUID7, Ids
from awaken.loop.journal import Journal
from awaken.loop.purse import Purse
from awaken.loop.transcript import Transcript
from awaken.phase.engine import PhaseRuntime
from awaken.plugin.agent import ResolvedAgent, changes_since
from awaken.plugin.context import PhaseContext
from awaken.state.command import Command
from awaken.tool import FrontEndTool

log = logging.getLogger("awaken.loop")


class AgentRunResult(Value, frozen=True, kw_only=True):
    """How a run ended; `spent` is what it has used up, with all it started, if it has a budget.

    `cost` is that of its own models, as far as their prices are known.
    """

    run_id: str
    agent_id: str = ""
    response: str
    termination: TerminationReason
    steps: int
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    thinking_tokens: int = 0
    cost: float | None = None
    tickets: tuple[RunWaitingTicket, ...] = ()
    waits: bool = False
    spent: Amount | None = None


def taken_before(record: RunRecord | None) -> dict[str, Any]:
    """What a run took before, besides tokens in and out, by the fields of its record."""
    if record is None:
        return {}
    names = ("cache_read_tokens", "cache_creation_tokens", "thinking_tokens", "cost")
    return {name: value for name in names if (value := getattr(record, name))}


class AgentLoopParams(msgspec.Struct, kw_only=True, gc=False):
    """What a run is started with.

    `messages` is the conversation as the model may see it, this turn's input at its end.
    `uncommitted` is what the first commit adds to a raw log of `log_length` messages, the last of
    which are in `log`, with `acks`, `tickets` and, behind the run's start, `events`; `previous` is
    the record of the run if it goes on from an earlier one, `last_turn` the last message with calls
    as it stands in the log, `calls` what the ledger knows of it, and `stream` what has come of the
    answer it had asked for. With `leave` the run stops at the end of a step, to be carried on
    elsewhere; `look` brings what was sent to it and has not arrived; `unkept` gets the commits that
    are still to be made if the store is away when it breaks off. `budget` is what it may use up,
    `depth` how many agents are above it, `state_seed` what its state begins with.
    """

    resolver: AgentResolver
    agent_id: str
    runtime: PhaseRuntime
    sink: EventSink
    messages: Sequence[Message]
    run_identity: RunIdentity
    checkpoint_store: Commits | None = None
    cancellation_token: CancellationToken | None = None
    decision_rx: DecisionQueue | None = None
    overrides: InferenceOverride | None = None
    frontend_tools: Sequence[ToolDescriptor] = ()
    inbox: InboxReceiver | None = None
    owner_inbox: InboxSender | None = None
    is_continuation: bool = False
    agent: ResolvedAgent | None = None
    uncommitted: Sequence[Message] = ()
    log: Sequence[Message] = ()
    log_length: int = 0
    previous: RunRecord | None = None
    request: RunRequestSnapshot | None = None
    profile_store: ProfileStore | None = None
    clock: Clock = SYSTEM_CLOCK
    ids: Ids = UUID7
    fence: Fence | None = None
    leave: CancellationToken | None = None
    look: Callable[[], Awaitable[None]] | None = None
    last_turn: Message | None = None
    calls: Sequence[CallEntry] = ()
    stream: Sequence[StreamPiece] = ()
    acks: Sequence[int] = ()
    events: Sequence[AgentEvent] = ()
    tickets: Sequence[Ticket] = ()
    sends: Sequence[ThreadCommand] = ()
    delegates: DurableDelegates | None = None
    budget: Account | None = None
    depth: int = 0
    state_seed: PersistedState | None = None
    unkept: list[ThreadCommit] = msgspec.field(default_factory=list)


def _taken_up(record: RunRecord | None, agent: ResolvedAgent) -> RunRecord | None:
    """The record of a run that goes on with its agent as it is now."""
    if record is None or record.agent_id != agent.spec.id:
        return record
    changes = changes_since(record.agent_fingerprint, agent)
    if not changes:
        return record
    log.warning("run %s goes on; changed since it began: %s", record.run_id, ", ".join(changes))
    return msgspec.structs.replace(
        record,
        agent_fingerprint=agent.fingerprint,
        agent_changes=tuple(sorted({*record.agent_changes, *changes})),
    )


class LiveRun:
    """One run. Functions of the loop take it first; nobody else holds it."""

    __slots__ = (
        "_around",
        "agent",
        "agents",
        "budget",
        "clock",
        "created_at_ms",
        "cut_off",
        "decisions",
        "delegates",
        "depth",
        "ending",
        "frontend_tools",
        "identity",
        "ids",
        "in_step",
        "inbox",
        "input_count",
        "input_tokens",
        "journal",
        "last_turn",
        "leave",
        "ledger",
        "look",
        "message_id",
        "metadata",
        "output_tokens",
        "overrides",
        "owner_inbox",
        "phases",
        "profile",
        "profile_store",
        "purse",
        "record",
        "request",
        "resolver",
        "routing_key",
        "steps",
        "store",
        "stream",
        "streamed",
        "task",
        "token",
        "took",
        "transcript",
        "until_cancelled",
        "window",
    )

    def __init__(self, params: AgentLoopParams, agent: ResolvedAgent) -> None:
        self.resolver = params.resolver
        self.phases = params.runtime
        self.phases.look_for_actions()
        self.store = params.runtime.store
        self.identity = params.run_identity
        self.routing_key = RoutingKey(
            thread_id=params.run_identity.thread_id, run_id=params.run_identity.run_id
        )
        self.token = params.cancellation_token
        self.task: asyncio.Task[Any] | None = None
        self.decisions = params.decision_rx
        self.inbox = params.inbox
        self.owner_inbox = params.owner_inbox
        self.overrides = params.overrides
        self.frontend_tools = tuple(params.frontend_tools)
        self.clock, self.ids = params.clock, params.ids
        self.budget, self.depth = params.budget, params.depth
        self.purse = Purse(params.budget, params.run_identity.run_id) if params.budget else None
        self.delegates = params.delegates
        self.profile_store = params.profile_store
        self.created_at_ms = self.clock.now_ms()
        self.record = _taken_up(params.previous, agent)
        self.request = params.request
        # Counted here too: the lifecycle takes no more steps once a policy has closed it.
        self.steps = params.previous.steps if params.previous else 0
        self.input_tokens = params.previous.input_tokens if params.previous else 0
        self.took = taken_before(params.previous)
        self.output_tokens = params.previous.output_tokens if params.previous else 0
        self.journal = Journal(
            params.sink,
            params.checkpoint_store,
            self.identity,
            self.clock,
            params.log_length,
            params.fence,
            begins=params.previous is None,
            unkept=params.unkept,
        )
        self.journal.acks.extend(params.acks)
        self.journal.tickets.extend(params.tickets)
        self.journal.sends.extend(params.sends)
        self.last_turn = params.last_turn
        self.leave, self.look = params.leave, params.look
        self.ledger = {entry.key: entry for entry in params.calls}
        self.stream = params.stream
        self.input_count = len(params.uncommitted)
        self.transcript = Transcript(
            params.messages, params.uncommitted, params.log, params.log_length
        )
        self.window: object | None = None
        self.in_step = self.ending = False
        self.message_id = ""
        # The calls, by id and name, that were begun in an answer and are not in the log yet.
        self.streamed: Sequence[tuple[str, str]] = ()
        # What was said of the step's answer before it reached the output limit, and went on.
        self.cut_off = ""
        # Until the next step begins, what is said (a late result) belongs to the last one.
        last_step = max(0, self.steps - 1)
        self.metadata = MessageMetadata(run_id=self.identity.run_id, step_index=last_step)
        self.agents: dict[str, ResolvedAgent] = {}
        self._around: ToolCallContext | None = None
        self.use(agent)

    def begin(self, task: asyncio.Task[Any] | None) -> None:
        """Know the task the run is; what it waits for in `until_cancelled` ends with its token."""
        self.task = task
        self.until_cancelled = interruptible(self.token, task)

    @property
    def response(self) -> str:
        """What the run said last; of an answer with a shape, the object alone."""
        last = self.transcript.last
        if last is None:
            return ""
        if self.agent.spec.output is None:
            return last.text()
        # Models that can write nothing but objects of that shape begin anew where others go on.
        text = last.last_text()
        return self.cut_off + text if self.cut_off and not _is_object(text) else text

    def use(self, agent: ResolvedAgent) -> None:
        """Take an agent, with the tools of this run's client beside its own.

        Raises:
            ToolIdConflict: the client brings a tool the agent has.
        """
        if agent.spec.id not in self.agents:
            for descriptor in self.frontend_tools:
                agent = agent.with_tool(FrontEndTool(descriptor))
        self.agents[agent.spec.id] = agent
        self.agent = agent
        self.profile = agent.env.profile_access(self.profile_store)

    def around_calls(self) -> ToolCallContext:
        """What all calls may see of the run; to be copied, and filled in for one."""
        known, journal = self._around, self.journal
        if (
            known is not None
            and known.agent_spec is self.agent.spec
            and (journal.live or known.forward is None)
        ):
            return known
        self._around = ToolCallContext(
            call_id="",
            tool_name="",
            run_identity=self.identity,
            agent_spec=self.agent.spec,
            snapshot=self.store.snapshot(),
            activity_sink=journal.tell if journal.live else None,
            cancellation_token=self.token,
            profile_access=self.profile,
            forward=journal.pass_on if journal.live else None,
            services=self.agent.env.services,
            delegates=self.delegates,
            budget=self.budget,
            depth=self.depth,
        )
        return self._around

    def enter_step(self, message_id: str | None = None) -> None:
        """Begin a step, or go on with one: its message has an id, its messages one producer."""
        self.message_id = self.ids.new() if message_id is None else message_id
        self.cut_off = ""
        self.in_step = True
        self.metadata = MessageMetadata(run_id=self.identity.run_id, step_index=self.steps)

    def has_news(self) -> bool:
        """Whether something happened that no commit has kept yet."""
        return self.transcript.has_pending or self.journal.has_pending

    def is_left(self) -> bool:
        """Whether somebody else is to carry the run on."""
        return self.leave is not None and self.leave.is_cancelled()

    def is_cancelled(self) -> bool:
        return self.token is not None and self.token.is_cancelled()

    def check_token(self) -> None:
        """
        Raises:
            Cancelled: somebody cancelled the run.
        """
        if self.token is not None and self.token.is_cancelled():
            raise Cancelled

    def context(self, phase: Phase, **extra: Any) -> PhaseContext:
        return PhaseContext(
            phase=phase,
            snapshot=self.store.snapshot(),
            agent_spec=self.agent.spec,
            run_identity=self.identity,
            messages=self.transcript.view(),
            profile_access=self.profile,
            **extra,
        )

    def is_busy(self, phase: Phase) -> bool:
        """Whether a phase has anything to do."""
        if self.phases.has_actions:
            return True
        env = self.agent.env
        return bool(env.hooks[phase]) and env.is_busy(phase, self.store.snapshot())

    async def phase(
        self, phase: Phase, *, seed: Command | None = None, final: bool = False, **extra: Any
    ) -> None:
        """Run a phase; a `final` one also runs when the run is cancelled.

        Raises:
            Cancelled: somebody cancelled the run.
            StateError: a hook or a command failed.
        """
        token = None if final else self.token
        ctx = self.context(phase, cancellation_token=token, **extra)
        with interruptible(token, self.task):
            await self.phases.run_phase(self.agent.env, ctx, seed=seed)


def _is_object(text: str) -> bool:
    try:
        return isinstance(loads(text), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
