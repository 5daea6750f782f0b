"""The state of a thread's summaries: the finished ones and the one being made."""

from __future__ import annotations

import msgspec

from awaken.core.state.key import Scope, StateKey
from awaken.core.value import Value

KEPT = 16
"""How many summaries, failures and skipped ones are remembered; older ones are only counted."""

_replace = msgspec.structs.replace


class InFlight(Value, frozen=True, kw_only=True):
    """A summary, being made, of all messages up to a certain one."""

    task_id: str
    boundary_message_id: str
    started_at_ms: int


class CompactionBoundary(Value, frozen=True, kw_only=True):
    """A summary in the log, at `summary_seq`, that replaces all messages up to a certain one."""

    boundary_message_id: str
    summary_message_id: str
    summary_seq: int | None = None
    pre_tokens: int
    post_tokens: int
    at_ms: int


class CompactionMishap(Value, frozen=True, kw_only=True):
    """A summary that failed or was not worth using, and why."""

    task_id: str
    boundary_message_id: str
    reason: str
    at_ms: int


class CompactionState(Value, frozen=True, kw_only=True):
    """The latest of each; `total_compactions` counts all summaries that were used."""

    boundaries: tuple[CompactionBoundary, ...] = ()
    failures: tuple[CompactionMishap, ...] = ()
    skipped: tuple[CompactionMishap, ...] = ()
    total_compactions: int = 0
    in_flight: InFlight | None = None

    @property
    def last_summary_seq(self) -> int | None:
        """The position of the last summary in the log, or `None`."""
        return self.boundaries[-1].summary_seq if self.boundaries else None

    def is_about(self, task_id: str) -> bool:
        """Whether `task_id` is the summary being made."""
        return self.in_flight is not None and self.in_flight.task_id == task_id


# -- updates ----------------------------------------------------------------------------------


class Begin(Value, frozen=True, kw_only=True, tag="begin", tag_field="type"):
    """Note that a summary is being made; refused while another one is."""

    flight: InFlight


class Complete(Value, frozen=True, kw_only=True, tag="complete", tag_field="type"):
    """The summary is in the log."""

    task_id: str
    boundary: CompactionBoundary


class Fail(Value, frozen=True, kw_only=True, tag="fail", tag_field="type"):
    """The summary could not be made."""

    mishap: CompactionMishap


class Skip(Value, frozen=True, kw_only=True, tag="skip", tag_field="type"):
    """The summary was made, but is not worth using."""

    mishap: CompactionMishap


class Forget(Value, frozen=True, kw_only=True, tag="forget", tag_field="type"):
    """The summary will never be finished or used: its process, or the messages it replaces, are
    gone."""

    task_id: str


CompactionUpdate = Begin | Complete | Fail | Skip | Forget


def _apply(state: CompactionState, update: CompactionUpdate) -> CompactionState:
    """The next state; an update about any summary but the one being made changes nothing."""
    if isinstance(update, Begin):
        return state if state.in_flight else _replace(state, in_flight=update.flight)
    about = update.mishap.task_id if isinstance(update, Fail | Skip) else update.task_id
    if not state.is_about(about):
        return state
    state = _replace(state, in_flight=None)
    match update:
        case Complete(boundary=boundary):
            return _replace(
                state,
                boundaries=(*state.boundaries, boundary)[-KEPT:],
                total_compactions=state.total_compactions + 1,
            )
        case Fail(mishap=mishap):
            return _replace(state, failures=(*state.failures, mishap)[-KEPT:])
        case Skip(mishap=mishap):
            return _replace(state, skipped=(*state.skipped, mishap)[-KEPT:])
        case _:
            return state


COMPACTION: StateKey[CompactionState, CompactionUpdate] = StateKey(
    "__context_compaction", initial=CompactionState, apply=_apply, scope=Scope.THREAD
)
