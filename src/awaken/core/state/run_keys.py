"""The runtime's own state keys of runs and threads, with their values and updates.

Some keys record which parts of a thread are in blobs, so that no run has to search its message log
for them.
"""

from __future__ import annotations

import msgspec

from awaken.codec import Json, read_back
from awaken.core.budget import Spending
from awaken.core.lifecycle import RunStatus, TerminationReason
from awaken.core.spec import AgentOverlay
from awaken.core.state.call_keys import TOOL_CALL_STATES
from awaken.core.state.command import FailedAction, QueuedAction
from awaken.core.state.key import BuiltInKey, Merge, Scope, StateKey
from awaken.core.state.step_keys import CONTEXT_MESSAGES, CONTEXT_THROTTLE
from awaken.core.value import Value, nullable
from awaken.core.window import Cut

_replace = msgspec.structs.replace
# A constant, because on Python 3.11 reading an enum member costs as much as a function call.
_RUNNING, _DONE = RunStatus.RUNNING, RunStatus.DONE


# -- run lifecycle ----------------------------------------------------------------------------


class RunLifecycleState(Value, frozen=True, kw_only=True):
    """The status of the run.

    `status_reason` is a short text; `termination` is the same reason as a full value.
    """

    run_id: str = msgspec.field(default_factory=str)
    status: RunStatus = msgspec.field(default_factory=lambda: RunStatus.RUNNING)
    status_reason: str | None = None
    updated_at: int = msgspec.field(default_factory=int)
    step_count: int = msgspec.field(default_factory=int)
    termination: TerminationReason | None = None


class Start(Value, frozen=True, kw_only=True):
    """A new run starts: its id is set and its step count goes back to 0."""

    run_id: str
    updated_at: int = 0


class StepCompleted(Value, frozen=True, kw_only=True):
    """The run has completed one more step; its status stays."""

    updated_at: int = 0


class SetWaiting(Value, frozen=True, kw_only=True):
    """The run now waits, for an answer or for background work."""

    reason: str
    updated_at: int = 0


class SetRunning(Value, frozen=True, kw_only=True):
    """The run continues."""

    updated_at: int = 0


class Done(Value, frozen=True, kw_only=True):
    """The run is over. A hook ends a run by writing this."""

    reason: str
    updated_at: int = 0
    termination: TerminationReason | None = None


LifecycleUpdate = Start | StepCompleted | SetWaiting | SetRunning | Done


def _lifecycle(state: RunLifecycleState, update: LifecycleUpdate) -> RunLifecycleState:
    reason: str | None = None
    termination: TerminationReason | None = None
    match update:
        case StepCompleted():
            if state.status is _DONE:
                return state
            return _replace(state, step_count=state.step_count + 1, updated_at=update.updated_at)
        case Start():
            if not state.status.can_go_to(_RUNNING):
                return state
            return RunLifecycleState(
                run_id=update.run_id, status=_RUNNING, updated_at=update.updated_at, step_count=0
            )
        case Done():
            if type(update.reason) is not str or type(update.updated_at) is not int:
                read_back(update, Done)  # a hook has made it; it raises what is wrong
            target, reason, termination = _DONE, update.reason, update.termination
        case SetRunning():
            target = _RUNNING
        case SetWaiting():
            target, reason = RunStatus.WAITING, update.reason
    if not state.status.can_go_to(target):
        return state
    return _replace(
        state,
        status=target,
        status_reason=reason,
        updated_at=update.updated_at,
        termination=termination,
    )


def _read_lifecycle(json: Json) -> RunLifecycleState:
    if isinstance(json, dict):
        for old in ("done_reason", "pause_reason"):
            if old in json:
                json = {k: v for k, v in json.items() if k != old} | {"status_reason": json[old]}
    return msgspec.convert(json, RunLifecycleState)


RUN_LIFECYCLE: StateKey[RunLifecycleState, LifecycleUpdate] = BuiltInKey(
    "__runtime.run_lifecycle",
    initial=RunLifecycleState,
    apply=_lifecycle,
    decode=_read_lifecycle,
)
"""The status of the run. A hook ends the run by updating this key with `Done`."""


# -- pending work -----------------------------------------------------------------------------


class PendingWork(Value, frozen=True, kw_only=True):
    """The plugins that still have work running.

    A set of owners, not one flag, so that two plugins can have pending work at the same time.
    """

    has_pending: bool = msgspec.field(default_factory=bool)
    owners: tuple[str, ...] = ()


class SetPending(Value, frozen=True, kw_only=True):
    """Say whether the plugin `owner` has work running."""

    pending: bool
    owner: str = ""


def _pending(value: PendingWork, update: SetPending) -> PendingWork:
    owners = {*value.owners} - {update.owner}
    if update.pending:
        owners.add(update.owner)
    return PendingWork(has_pending=bool(owners), owners=tuple(sorted(owners)))


PENDING_WORK: StateKey[PendingWork, SetPending] = BuiltInKey(
    "__runtime.pending_work", initial=PendingWork, apply=_pending, merge=Merge.COMMUTATIVE
)


# -- budgets ----------------------------------------------------------------------------------


SPENDING: StateKey[Spending, Spending] = BuiltInKey(
    "__runtime.spending",
    initial=Spending,
    apply=lambda value, more: value + more,
    merge=Merge.COMMUTATIVE,
)


# -- empty answers ----------------------------------------------------------------------------


EMPTY_TWICE: StateKey[int, int] = StateKey(
    "__runtime.empty_twice", initial=int, apply=lambda _, step: step
)
"""The latest step, counted from 1, in which the model gave an empty answer, was asked once more,
and gave an empty answer again; 0 if there was none."""


# -- structured output ------------------------------------------------------------------------


OUTPUT_TRIES: StateKey[int, int] = BuiltInKey(
    "__runtime.output_tries", initial=int, apply=lambda _, tries: tries
)


FINAL_OUTPUT: StateKey[str, str] = BuiltInKey(
    "__runtime.final_output", initial=str, apply=lambda _, text: text
)
"""The output of the run, as text, if it is not what the model wrote last."""


# -- calls that are to be tried again ---------------------------------------------------------


def _count_retry(counts: dict[str, int], tool: str) -> dict[str, int]:
    return {**counts, tool: counts.get(tool, 0) + 1}


TOOL_RETRIES: StateKey[dict[str, int], str] = BuiltInKey(
    "__runtime.tool_retries",
    initial=dict[str, int],
    apply=_count_retry,
    merge=Merge.COMMUTATIVE,
    type=dict[str, int],
)
"""How often calls of each tool were to be tried again, by tool id; an update is a tool's id."""


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


PENDING_ACTIONS: StateKey[tuple[QueuedAction, ...], PushAction | RemoveAction] = BuiltInKey(
    "__runtime.pending_scheduled_actions",
    initial=tuple,
    apply=_queue,
    # Each push carries its own id and each removal names one, so their order does not matter.
    merge=Merge.COMMUTATIVE,
    type=tuple[QueuedAction, ...],
)

FAILED_ACTIONS: StateKey[tuple[FailedAction, ...], FailedAction] = BuiltInKey(
    "__runtime.failed_scheduled_actions",
    initial=tuple,
    apply=lambda value, failed: (*value[-FAILED_ACTIONS_KEPT + 1 :], failed),
    merge=Merge.COMMUTATIVE,
    type=tuple[FailedAction, ...],
)


# -- the active agent -------------------------------------------------------------------------


ACTIVE_AGENT: StateKey[str | None, str | None] = BuiltInKey(
    "__runtime.active_agent", initial=lambda: None, scope=Scope.THREAD, type=str | None
)


class PutOverlay(Value, frozen=True, kw_only=True):
    """Set the overlay of an agent; `None` removes it."""

    agent: str
    overlay: AgentOverlay | None = None


def _overlays(value: dict[str, AgentOverlay], update: PutOverlay) -> dict[str, AgentOverlay]:
    others = {agent: overlay for agent, overlay in value.items() if agent != update.agent}
    return others if update.overlay is None else {**others, update.agent: update.overlay}


AGENT_OVERLAYS: StateKey[dict[str, AgentOverlay], PutOverlay] = BuiltInKey(
    "__runtime.agent_overlays",
    initial=dict,
    apply=_overlays,
    scope=Scope.THREAD,
    type=dict[str, AgentOverlay],
)
"""The overlays by agent name; each applies while its agent is the active one."""


# -- stop policies ----------------------------------------------------------------------------


RECENT_TEXTS = 64


class StopConditionStats(Value, frozen=True, kw_only=True):
    """The figures that stop policies decide by."""

    step_count: int = msgspec.field(default_factory=int)
    total_input_tokens: int = msgspec.field(default_factory=int)
    total_output_tokens: int = msgspec.field(default_factory=int)
    started_at_ms: int | None = nullable()
    elapsed_ms: int = msgspec.field(default_factory=int)
    consecutive_errors: int = msgspec.field(default_factory=int)
    last_tool_names: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    last_response_text: str = msgspec.field(default_factory=str)
    recent_response_texts: tuple[str, ...] = msgspec.field(default_factory=lambda: ())


def _drop_last_response(stats: StopConditionStats) -> StopConditionStats:
    # The message log has the last answer already: storing it here too would double every commit.
    return _replace(stats, last_response_text="")


STOP_STATS: StateKey[StopConditionStats, StopConditionStats] = BuiltInKey(
    "__runtime.stop_condition_stats",
    initial=StopConditionStats,
    apply=lambda _, stats: stats,
    encode=_drop_last_response,
)


# -- the context window -----------------------------------------------------------------------


class ContextWindowState(Value, frozen=True, kw_only=True):
    """Where the conversation was cut, and how far our token estimates are off.

    `factor` is the model's own token count divided by our estimate. The value changes when more
    messages have to be left out, or when an answer's usage corrects the factor.
    """

    cut: Cut = Cut()
    factor: float = 1.0


CONTEXT_WINDOW: StateKey[ContextWindowState, ContextWindowState] = BuiltInKey(
    "__context_window", initial=ContextWindowState, scope=Scope.THREAD
)


# -- blobs ------------------------------------------------------------------------------------


HAS_LARGE_RESULTS: StateKey[bool, bool] = BuiltInKey(
    "__runtime.large_results", initial=bool, scope=Scope.THREAD, type=bool
)
"""Tool results of the thread were kept as blobs: its runs offer `read_result`."""

HAS_BLOB_MEDIA: StateKey[bool, bool] = BuiltInKey(
    "__runtime.blob_media", initial=bool, scope=Scope.THREAD, type=bool
)
"""Messages of the thread refer to media in blobs: they are loaded before a model is asked."""


# -- all keys of the loop ---------------------------------------------------------------------


LOOP_STATE_KEYS: tuple[StateKey[object, object], ...] = (
    RUN_LIFECYCLE,
    TOOL_CALL_STATES,
    CONTEXT_THROTTLE,
    CONTEXT_MESSAGES,
    PENDING_WORK,
    SPENDING,
    EMPTY_TWICE,
    OUTPUT_TRIES,
    FINAL_OUTPUT,
    TOOL_RETRIES,
    ACTIVE_AGENT,
    AGENT_OVERLAYS,
    PENDING_ACTIONS,
    FAILED_ACTIONS,
)  # type: ignore[assignment]  # erased: the tuple only registers them
