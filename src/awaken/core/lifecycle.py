"""The life of a run: its statuses, its nine phases, why it starts, and how it ends.

The statuses say which may follow which.
"""

from __future__ import annotations

from enum import StrEnum

from awaken.codec import Json, from_json
from awaken.core.value import Value


class RunStatus(StrEnum):
    """The status of a run; only `done` is final."""

    CREATED = "created"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"

    @property
    def is_terminal(self) -> bool:
        return self is RunStatus.DONE

    def can_go_to(self, other: RunStatus) -> bool:
        """Whether a run of this status may get the other one next."""
        return other in _RUN_MOVES[self]


_RUN_MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.CREATED: frozenset({RunStatus.CREATED, RunStatus.RUNNING, RunStatus.DONE}),
    RunStatus.RUNNING: frozenset({RunStatus.RUNNING, RunStatus.WAITING, RunStatus.DONE}),
    RunStatus.WAITING: frozenset({RunStatus.RUNNING, RunStatus.WAITING, RunStatus.DONE}),
    RunStatus.DONE: frozenset({RunStatus.DONE}),
}


class Phase(StrEnum):
    """The phases that hooks can be registered for; `tool_gate` takes gates and policies only."""

    RUN_START = "run_start"
    STEP_START = "step_start"
    BEFORE_INFERENCE = "before_inference"
    AFTER_INFERENCE = "after_inference"
    TOOL_GATE = "tool_gate"
    BEFORE_TOOL_EXECUTE = "before_tool_execute"
    AFTER_TOOL_EXECUTE = "after_tool_execute"
    STEP_END = "step_end"
    RUN_END = "run_end"


class StartCause(StrEnum):
    """Why a run starts to work, at first or once more.

    `new`: it is a new run. `answered`: it waited for answers, and has them or they are overdue.
    `recovered`: the process that ran it died or abandoned it. `woken`: it waited for background
    work or for messages, and a result or a message has arrived.
    """

    NEW = "new"
    ANSWERED = "answered"
    RECOVERED = "recovered"
    WOKEN = "woken"


# -- how a run can end ------------------------------------------------------------------------


AWAITING_TASKS = "awaiting_tasks"
SUSPENDED = "suspended"


class StoppedReason(Value, frozen=True, kw_only=True):
    """The policy that stopped a run, and its reason."""

    code: str
    detail: str | None = None


class NaturalEnd(Value, frozen=True, kw_only=True, tag="natural_end", tag_field="type"):
    """The model gave an answer without tool calls."""


class BehaviorRequested(
    Value, frozen=True, kw_only=True, tag="behavior_requested", tag_field="type"
):
    """A plugin ended the run."""


class CancelledEnd(Value, frozen=True, kw_only=True, tag="cancelled", tag_field="type"):
    """The run was cancelled."""


class Suspended(Value, frozen=True, kw_only=True, tag="suspended", tag_field="type"):
    """The run waits for a decision."""


class Blocked(Value, frozen=True, kw_only=True, tag="blocked", tag_field="type"):
    """A gate refused a tool call, or the agent of a hand-off could not be used."""

    value: str


class Stopped(Value, frozen=True, kw_only=True, tag="stopped", tag_field="type"):
    """A stop policy fired."""

    value: StoppedReason


class Failed(Value, frozen=True, kw_only=True, tag="error", tag_field="type"):
    """The run failed with an error."""

    value: str


TerminationReason = (
    NaturalEnd | BehaviorRequested | CancelledEnd | Suspended | Blocked | Stopped | Failed
)

NATURAL_END = NaturalEnd()
BEHAVIOR_REQUESTED = BehaviorRequested()
CANCELLED = CancelledEnd()
SUSPENDED_END = Suspended()

_NEXT_MOVES = {
    "max_rounds": "give the agent a higher max_rounds, or send another message to go on",
    "budget": "give the run a larger budget",
}


def explain_unfinished(reason: TerminationReason) -> str | None:
    """Why a run that ended like this has not finished, and what to do; `None` if it has."""
    match reason:
        case NaturalEnd() | BehaviorRequested():
            return None
        case CancelledEnd():
            return "it was cancelled"
        case Suspended():
            return (
                "it waits for answers to its tickets: pass answers={ticket: True}, or call decide"
            )
        case Blocked(value=why):
            return f"it was blocked: {why}"
        case Stopped(value=stopped):
            detail = f" ({stopped.detail})" if stopped.detail else ""
            text = f"it was stopped before it had finished: {stopped.code}{detail}"
            return f"{text}; {_NEXT_MOVES[stopped.code]}" if stopped.code in _NEXT_MOVES else text
        case Failed(value=why):
            return f"it failed: {why}"


def to_run_status(reason: TerminationReason) -> tuple[RunStatus, str | None]:
    """The status of a run that ended for this reason, and its reason string."""
    match reason:
        case Suspended():
            return RunStatus.WAITING, None
        case NaturalEnd():
            return RunStatus.DONE, "natural"
        case BehaviorRequested():
            return RunStatus.DONE, "behavior_requested"
        case CancelledEnd():
            return RunStatus.DONE, "cancelled"
        case Blocked(value=why):
            return RunStatus.DONE, f"blocked:{why}"
        case Stopped(value=stopped):
            return RunStatus.DONE, f"stopped:{stopped.code}"
        case Failed():
            return RunStatus.DONE, "error"


_FIXED: dict[str, TerminationReason] = {
    "natural": NATURAL_END,
    "behavior_requested": BEHAVIOR_REQUESTED,
    "cancelled": CANCELLED,
}


def from_done_reason(text: str) -> TerminationReason:
    """The termination for a reason string; unknown text gives `Failed`."""
    if text in _FIXED:
        return _FIXED[text]
    prefix, colon, rest = text.partition(":")
    if colon and prefix == "blocked":
        return Blocked(value=rest)
    if colon and prefix == "stopped":
        return Stopped(value=StoppedReason(code=rest))
    if colon and prefix == "error":
        return Failed(value=rest)
    return Failed(value=text)


def read_termination(value: Json) -> TerminationReason:
    """A termination from JSON; the old name `plugin_requested` is understood."""
    if isinstance(value, dict) and value.get("type") == "plugin_requested":
        return BEHAVIOR_REQUESTED
    reason: TerminationReason = from_json(value, TerminationReason)
    return reason
