"""The protocol between an agent's process and its parent: one JSON object on each line.

The parent sends `start`, and perhaps `cancel`. The child sends `event`s while it runs, and ends
with `result` or `error`. A child whose stdin is closed exits at once, because its parent is gone.
`RunTree` decides which of the child's events its parent passes on.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Annotated, Any, cast

import msgspec

from awaken.codec import loads
from awaken.core.budget import Amount
from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    InferenceComplete,
    RunEvent,
    RunFinish,
    RunStart,
)
from awaken.core.identity import RunIdentity
from awaken.core.inference import InferenceOverride
from awaken.core.lifecycle import TerminationReason
from awaken.core.message import Message
from awaken.core.value import Value

log = logging.getLogger("awaken.backend.subprocess")
PROTOCOL = 1
CHILD_MODULE = "awaken.runtime.subprocess_main"
"""The module that the child runs. It is part of `awaken.runtime`, which this package may not
import, so it is only named here."""


# -- to the child -----------------------------------------------------------------------------


class EventsWanted(StrEnum):
    """Which events of its run the child sends."""

    NONE = "none"
    ACTIVITY = "activity"
    ALL = "all"


class StartRun(Value, frozen=True, kw_only=True, tag="start", tag_field="type"):
    """Run the agent at `agent` (`module:name`); the last `fresh` messages are the new input."""

    protocol: int
    agent: str
    target: str | None = None
    identity: RunIdentity
    messages: tuple[Message, ...]
    fresh: int
    overrides: InferenceOverride | None = None
    events: EventsWanted = EventsWanted.NONE


class CancelRun(Value, frozen=True, kw_only=True, tag="cancel", tag_field="type"):
    """Cancel the run."""


ToChild = StartRun | CancelRun


def read_to_child(line: bytes) -> ToChild:
    """
    Raises:
        msgspec.DecodeError: it is no message of this protocol.
    """
    message: ToChild = loads(line, cast("Any", ToChild))
    return message


# -- to the parent ----------------------------------------------------------------------------


class FailureKind(StrEnum):
    """Why the child could not finish its run."""

    AGENT_NOT_FOUND = "agent_not_found"
    NOT_READY = "not_ready"
    BROKE_OFF = "broke_off"


class EventMessage(Value, frozen=True, kw_only=True, tag="event", tag_field="type"):
    """An event of the run."""

    event: RunEvent


Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Quantity = Annotated[float, msgspec.Meta(ge=0, le=2.0**53)]


class Spent(Value, frozen=True, kw_only=True):
    """An `Amount` as the child sends it, with no negative values."""

    tokens: Count = 0
    money: Quantity = 0.0
    steps: Count = 0
    seconds: Quantity = 0.0

    @classmethod
    def of(cls, amount: Amount) -> Spent:
        return cls(
            tokens=amount.tokens, money=amount.money, steps=amount.steps, seconds=amount.seconds
        )

    def amount(self) -> Amount:
        return Amount(tokens=self.tokens, money=self.money, steps=self.steps, seconds=self.seconds)


class ResultMessage(Value, frozen=True, kw_only=True, tag="result", tag_field="type"):
    """How the run ended, and what it and all runs it started have spent; `asks_for` are the tools
    whose calls wait for an approver."""

    termination: TerminationReason
    response: str
    steps: Count
    tokens: Count
    asks_for: tuple[str, ...] = ()
    spent: Spent | None = None


class ErrorMessage(Value, frozen=True, kw_only=True, tag="error", tag_field="type"):
    """The run could not begin, or broke off."""

    kind: FailureKind
    message: str


FromChild = EventMessage | ResultMessage | ErrorMessage


def read_from_child(line: bytes) -> FromChild:
    """
    Raises:
        msgspec.DecodeError: it is no message of this protocol.
    """
    message: FromChild = loads(line, cast("Any", FromChild))
    return message


# -- which events a child may send ------------------------------------------------------------

MAX_RUNS = 10_000
"""The most runs for which a process may send events."""
_LATEST_MS = 2**53


class RunTree:
    """The runs for which a child process may send events.

    They are its own run and the descendants of it; all other events are dropped, because a process
    may be manipulated, and its events about other runs would reach the clients of those runs.

    A descendant names its parent run, and has its own thread with the same id as the run,
    like every delegate and task.
    """

    def __init__(self, identity: RunIdentity, wanted: EventsWanted) -> None:
        self._identity, self._wanted = identity, wanted
        self._threads = {identity.run_id: identity.thread_id}
        self._above = {identity.thread_id, identity.parent_run_id, identity.parent_thread_id}
        self._warned = False

    def admit(self, event: RunEvent) -> RunEvent | None:
        """The event as it may be passed on, or `None` if it may not."""
        if self._is_wanted(event) and self._is_of_tree(event):
            # Only events in our own store have a `seq`, which moves the cursors of readers.
            return event if event.seq is None else msgspec.structs.replace(event, seq=None)
        if not self._warned:
            self._warned = True
            log.warning(
                "agent %r: its process sent an event of run %.100r in thread %.100r, which is not "
                "its own: such events are dropped",
                self._identity.agent_id,
                event.run_id,
                event.thread_id,
            )
        return None

    def _is_wanted(self, event: RunEvent) -> bool:
        if self._wanted is EventsWanted.ALL:
            return True
        return event.run_id == self._identity.run_id and isinstance(
            event.event, ActivitySnapshot | ActivityDelta
        )

    def _is_of_tree(self, event: RunEvent) -> bool:
        if not 0 <= event.at_ms < _LATEST_MS or not self._names_itself(event):
            return False
        if isinstance(event.event, InferenceComplete) and _has_negative_usage(event.event):
            return False
        known = self._threads.get(event.run_id)
        if known is not None:
            return known == event.thread_id
        is_new = (
            event.parent_run_id in self._threads
            and event.thread_id == event.run_id
            and event.run_id not in self._above
            and len(self._threads) < MAX_RUNS
        )
        if is_new:
            self._threads[event.run_id] = event.thread_id
        return is_new

    def _names_itself(self, event: RunEvent) -> bool:
        """Whether an event that contains run ids contains those of its own run."""
        told = event.event
        if not isinstance(told, RunStart | RunFinish):
            return True
        names = [told, told.identity] if told.identity is not None else [told]
        return all((n.thread_id, n.run_id) == (event.thread_id, event.run_id) for n in names)


def _has_negative_usage(told: InferenceComplete) -> bool:
    used = () if told.usage is None else msgspec.structs.astuple(told.usage)
    return any(count is not None and count < 0 for count in (told.duration_ms, told.cost, *used))
