"""The keys the runtime itself keeps, their values and their updates."""

from __future__ import annotations

import msgspec

from awaken.codec import Json
from awaken.domain.budget import Spending
from awaken.domain.context_message import ContextMessage, ThrottleEntry
from awaken.domain.inference import InferenceOverride
from awaken.domain.lifecycle import RunStatus, TerminationReason
from awaken.domain.overlay import AgentOverlay
from awaken.domain.suspension import (
    Asker,
    ToolCallResume,
    ToolCallResumeMode,
    ToolCallStatus,
)
from awaken.domain.value import Value, nullable
from awaken.state.command import FailedAction, QueuedAction
from awaken.state.key import Merge, Scope, StateKey

_replace = msgspec.structs.replace


# -- run lifecycle ----------------------------------------------------------------------------


class RunLifecycleState(Value, frozen=True, kw_only=True):
    """Where the run stands. `termination` keeps what the reason string loses."""

    run_id: str = msgspec.field(default_factory=str)
    status: RunStatus = msgspec.field(default_factory=lambda: RunStatus.RUNNING)
    status_reason: str | None = None
    updated_at: int = msgspec.field(default_factory=int)
    step_count: int = msgspec.field(default_factory=int)
    termination: TerminationReason | None = None


class Start(Value, frozen=True, kw_only=True):
    """A new run."""

    run_id: str
    updated_at: int = 0


class StepCompleted(Value, frozen=True, kw_only=True):
    """One more step; the status stays."""

    updated_at: int = 0


class SetWaiting(Value, frozen=True, kw_only=True):
    """The run waits."""

    reason: str
    updated_at: int = 0


class SetRunning(Value, frozen=True, kw_only=True):
    """The run goes on."""

    updated_at: int = 0


class Done(Value, frozen=True, kw_only=True):
    """The run is over. A hook ends a run by writing this."""

    reason: str
    updated_at: int = 0
    termination: TerminationReason | None = None


LifecycleUpdate = Start | StepCompleted | SetWaiting | SetRunning | Done


def _lifecycle(state: RunLifecycleState, update: LifecycleUpdate) -> RunLifecycleState:
    match update:
        case StepCompleted():
            if state.status is RunStatus.DONE:
                return state
            return _replace(state, step_count=state.step_count + 1, updated_at=update.updated_at)
        case Start():
            target, changes = RunStatus.RUNNING, {"run_id": update.run_id, "step_count": 0}
        case SetRunning():
            target, changes = RunStatus.RUNNING, {}
        case SetWaiting():
            target, changes = RunStatus.WAITING, {"status_reason": update.reason}
        case Done():
            target, changes = RunStatus.DONE, {"status_reason": update.reason}
    if not state.status.can_go_to(target):
        return state
    return _replace(
        state,
        status=target,
        updated_at=update.updated_at,
        **{
            "status_reason": None,
            "termination": update.termination if isinstance(update, Done) else None,
            **changes,
        },
    )


def _read_lifecycle(json: Json) -> RunLifecycleState:
    if isinstance(json, dict):
        for old in ("done_reason", "pause_reason"):
            if old in json:
                json = {k: v for k, v in json.items() if k != old} | {"status_reason": json[old]}
    return msgspec.convert(json, RunLifecycleState)


RUN_LIFECYCLE: StateKey[RunLifecycleState, LifecycleUpdate] = StateKey(
    "__runtime.run_lifecycle",
    initial=RunLifecycleState,
    apply=_lifecycle,
    decode=_read_lifecycle,
)
"""How the run stands. A hook ends the run by updating it with `Done`."""


# -- tool calls -------------------------------------------------------------------------------


class ToolCallState(Value, frozen=True, kw_only=True):
    """Where one call stands.

    `key` is its line in the ledger, `asked` how many questions it has put; `digest` and
    `expires_at` are those of the last one, `asker` the run it was put for.
    """

    call_id: str
    tool_name: str
    arguments: Json
    status: ToolCallStatus = msgspec.field(default_factory=lambda: ToolCallStatus.NEW)
    updated_at: int = msgspec.field(default_factory=int)
    resume_mode: ToolCallResumeMode = msgspec.field(
        default_factory=lambda: ToolCallResumeMode.REPLAY_TOOL_CALL
    )
    suspension_id: str | None = None
    suspension_reason: str | None = None
    resume_input: ToolCallResume | None = None
    key: str = ""
    asked: int = 0
    digest: str | None = None
    expires_at: int | None = None
    asker: Asker | None = None

    @property
    def question_key(self) -> str:
        """The unique name of the last question the call has put."""
        return self.key if self.asked <= 1 else f"{self.key}#{self.asked}"

    @property
    def asks_about(self) -> tuple[str, Json]:
        """The tool and the arguments that somebody is to decide about."""
        if self.asker is not None:
            return self.asker.tool_name, self.asker.arguments
        return self.tool_name, self.arguments

    def with_resume_mode(self, mode: ToolCallResumeMode) -> ToolCallState:
        return _replace(self, resume_mode=mode)

    def with_suspension(self, id: str | None, reason: str | None) -> ToolCallState:
        return _replace(self, suspension_id=_trim(id), suspension_reason=_trim(reason))


def _trim(text: str | None) -> str | None:
    return (text.strip() or None) if text is not None else None


def _no_calls() -> dict[str, ToolCallState]:
    return {}


class ToolCallStatesValue(Value, frozen=True, kw_only=True):
    """The calls of the latest step that made some, by id."""

    calls: dict[str, ToolCallState] = msgspec.field(default_factory=_no_calls)
    turn: str = ""


class PutCall(Value, frozen=True, kw_only=True):
    """Set one call, if its old status may go there; the first of a new turn forgets the old ones.

    A turn is named by its assistant message; without one the call belongs to those already there.
    """

    call: ToolCallState
    turn: str | None = None


class ClearCalls(Value, frozen=True, kw_only=True):
    """Forget all calls: a new step begins."""


ToolCallUpdate = PutCall | ClearCalls


def _tool_calls(state: ToolCallStatesValue, update: ToolCallUpdate) -> ToolCallStatesValue:
    if isinstance(update, ClearCalls):
        return ToolCallStatesValue(turn=state.turn)
    call, turn = update.call, state.turn if update.turn is None else update.turn
    if turn != state.turn:
        return ToolCallStatesValue(calls={call.call_id: call}, turn=turn)
    old = state.calls.get(call.call_id)
    if old is not None and not old.status.can_go_to(call.status):
        return state
    return ToolCallStatesValue(calls={**state.calls, call.call_id: call}, turn=turn)


TOOL_CALL_STATES: StateKey[ToolCallStatesValue, ToolCallUpdate] = StateKey(
    "__runtime.tool_call_states",
    initial=ToolCallStatesValue,
    apply=_tool_calls,
    merge=Merge.COMMUTATIVE,
    scope=Scope.THREAD,
)


# -- context messages -------------------------------------------------------------------------


class NoteThrottle(Value, frozen=True, kw_only=True):
    """A context message was accepted in a step."""

    key: str
    entry: ThrottleEntry


CONTEXT_THROTTLE: StateKey[dict[str, ThrottleEntry], NoteThrottle] = StateKey(
    "__runtime.context_throttle",
    initial=dict,
    apply=lambda value, note: {**value, note.key: note.entry},
    type=dict[str, ThrottleEntry],
)


class UpsertContext(Value, frozen=True, kw_only=True):
    """Put a message, replacing one of the same key."""

    message: ContextMessage


class RemoveContext(Value, frozen=True, kw_only=True):
    """Take out the messages whose key is `key`, or starts with it."""

    key: str
    prefix: bool = False


class AfterEmit(Value, frozen=True, kw_only=True):
    """Take out what is not meant to be sent again."""


class ClearContext(Value, frozen=True, kw_only=True):
    """Take out everything."""


ContextUpdate = UpsertContext | RemoveContext | AfterEmit | ClearContext


def _context(value: dict[str, ContextMessage], update: ContextUpdate) -> dict[str, ContextMessage]:
    match update:
        case UpsertContext(message=message):
            return {**value, message.key: message}
        case RemoveContext(key=key, prefix=prefix):
            return {
                k: m for k, m in value.items() if not (k == key or (prefix and k.startswith(key)))
            }
        case AfterEmit():
            return {k: m for k, m in value.items() if m.persistent and not m.consume_after_emit}
        case ClearContext():
            return {}


CONTEXT_MESSAGES: StateKey[dict[str, ContextMessage], ContextUpdate] = StateKey(
    "__runtime.context_message_store",
    initial=dict,
    apply=_context,
    merge=Merge.COMMUTATIVE,
    type=dict[str, ContextMessage],
)


# -- pending work -----------------------------------------------------------------------------


class PendingWork(Value, frozen=True, kw_only=True):
    """Who still has something running: the set of owners, so that two can wait at once."""

    has_pending: bool = msgspec.field(default_factory=bool)
    owners: tuple[str, ...] = ()


class SetPending(Value, frozen=True, kw_only=True):
    """An owner's work is, or is no longer, under way."""

    pending: bool
    owner: str = ""


def _pending(value: PendingWork, update: SetPending) -> PendingWork:
    owners = {*value.owners} - {update.owner}
    if update.pending:
        owners.add(update.owner)
    return PendingWork(has_pending=bool(owners), owners=tuple(sorted(owners)))


PENDING_WORK: StateKey[PendingWork, SetPending] = StateKey(
    "__runtime.pending_work", initial=PendingWork, apply=_pending, merge=Merge.COMMUTATIVE
)


# -- budgets ----------------------------------------------------------------------------------

SPENDING: StateKey[Spending, Spending] = StateKey(
    "__runtime.spending",
    initial=Spending,
    apply=lambda value, more: value + more,
    merge=Merge.COMMUTATIVE,
)


# -- answers of a given shape -----------------------------------------------------------------

OUTPUT_TRIES: StateKey[int, int] = StateKey(
    "__runtime.output_tries", initial=int, apply=lambda _, tries: tries
)


# -- accumulators of one step -----------------------------------------------------------------


class ToolFilter(Value, frozen=True, kw_only=True):
    """Which tools this step may offer: the union of the include lists, less the exclusions."""

    excluded: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    include_only: tuple[tuple[str, ...], ...] = msgspec.field(default_factory=lambda: ())

    def passes(self, tool_id: str) -> bool:
        if self.include_only and not any(tool_id in ids for ids in self.include_only):
            return False
        return tool_id not in self.excluded


class ExcludeTool(Value, frozen=True, kw_only=True):
    """Do not offer one tool."""

    tool_id: str


class IncludeOnly(Value, frozen=True, kw_only=True):
    """Offer only these (and what other lists name)."""

    tool_ids: tuple[str, ...]


class ClearFilter(Value, frozen=True, kw_only=True):
    """Offer everything again."""


def _filter(value: ToolFilter, update: ExcludeTool | IncludeOnly | ClearFilter) -> ToolFilter:
    match update:
        case ExcludeTool(tool_id=tool_id):
            return _replace(value, excluded=(*value.excluded, tool_id))
        case IncludeOnly(tool_ids=ids):
            return _replace(value, include_only=(*value.include_only, ids))
        case ClearFilter():
            return ToolFilter()


TOOL_FILTER: StateKey[ToolFilter, ExcludeTool | IncludeOnly | ClearFilter] = StateKey(
    "__runtime.tool_filter_state",
    initial=ToolFilter,
    apply=_filter,
    merge=Merge.COMMUTATIVE,
    persistent=False,
)


INFERENCE_OVERRIDE: StateKey[InferenceOverride, InferenceOverride | None] = StateKey(
    "__runtime.inference_override_state",
    initial=InferenceOverride,
    apply=lambda value, update: InferenceOverride() if update is None else value.merge(update),
    merge=Merge.COMMUTATIVE,
    persistent=False,
)


# -- scheduled actions ------------------------------------------------------------------------

FAILED_ACTIONS_KEPT = 100


class PushAction(Value, frozen=True, kw_only=True):
    """Queue an action."""

    item: QueuedAction


class RemoveAction(Value, frozen=True, kw_only=True):
    """Take an action out of the queue."""

    id: int


def _queue(
    value: tuple[QueuedAction, ...], update: PushAction | RemoveAction
) -> tuple[QueuedAction, ...]:
    if isinstance(update, PushAction):
        return (*value, update.item)
    return tuple(item for item in value if item.id != update.id)


PENDING_ACTIONS: StateKey[tuple[QueuedAction, ...], PushAction | RemoveAction] = StateKey(
    "__runtime.pending_scheduled_actions",
    initial=tuple,
    apply=_queue,
    # Pushes carry their own ids and removals name one, so writers may come in any order.
    merge=Merge.COMMUTATIVE,
    type=tuple[QueuedAction, ...],
)

FAILED_ACTIONS: StateKey[tuple[FailedAction, ...], FailedAction] = StateKey(
    "__runtime.failed_scheduled_actions",
    initial=tuple,
    apply=lambda value, failed: (*value[-FAILED_ACTIONS_KEPT + 1 :], failed),
    merge=Merge.COMMUTATIVE,
    type=tuple[FailedAction, ...],
)


# -- who is speaking --------------------------------------------------------------------------

ACTIVE_AGENT: StateKey[str | None, str | None] = StateKey(
    "__runtime.active_agent", initial=lambda: None, scope=Scope.THREAD, type=str | None
)


class PutOverlay(Value, frozen=True, kw_only=True):
    """Lay something over an agent, or nothing any more."""

    agent: str
    overlay: AgentOverlay | None = None


def _overlays(value: dict[str, AgentOverlay], update: PutOverlay) -> dict[str, AgentOverlay]:
    others = {agent: overlay for agent, overlay in value.items() if agent != update.agent}
    return others if update.overlay is None else {**others, update.agent: update.overlay}


AGENT_OVERLAYS: StateKey[dict[str, AgentOverlay], PutOverlay] = StateKey(
    "__runtime.agent_overlays",
    initial=dict,
    apply=_overlays,
    scope=Scope.THREAD,
    type=dict[str, AgentOverlay],
)
"""What is laid over agents, by their names, while they speak."""


# -- stop policies ----------------------------------------------------------------------------

RECENT_TEXTS = 64


class StopConditionStats(Value, frozen=True, kw_only=True):
    """What stop policies look at."""

    step_count: int = msgspec.field(default_factory=int)
    total_input_tokens: int = msgspec.field(default_factory=int)
    total_output_tokens: int = msgspec.field(default_factory=int)
    started_at_ms: int | None = nullable()
    elapsed_ms: int = msgspec.field(default_factory=int)
    consecutive_errors: int = msgspec.field(default_factory=int)
    last_tool_names: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    last_response_text: str = msgspec.field(default_factory=str)
    recent_response_texts: tuple[str, ...] = msgspec.field(default_factory=lambda: ())


def _stored_stats(stats: StopConditionStats) -> StopConditionStats:
    # The last answer is in the log already: writing it again would double every commit.
    return _replace(stats, last_response_text="")


STOP_STATS: StateKey[StopConditionStats, StopConditionStats] = StateKey(
    "__runtime.stop_condition_stats",
    initial=StopConditionStats,
    apply=lambda _, stats: stats,
    encode=_stored_stats,
)


LOOP_STATE_KEYS: tuple[StateKey[object, object], ...] = (
    RUN_LIFECYCLE,
    TOOL_CALL_STATES,
    CONTEXT_THROTTLE,
    CONTEXT_MESSAGES,
    PENDING_WORK,
    SPENDING,
    OUTPUT_TRIES,
    ACTIVE_AGENT,
    AGENT_OVERLAYS,
    PENDING_ACTIONS,
    FAILED_ACTIONS,
)  # type: ignore[assignment]  # erased: the tuple only registers them
