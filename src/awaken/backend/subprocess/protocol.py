"""The protocol between an agent's process and its parent: one JSON object on each line.

The parent sends `start`, and perhaps `cancel`. The child sends `event`s while it runs, and ends
with `result` or `error`. A child whose stdin is closed exits at once, because its parent is gone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, cast

import msgspec

from awaken.codec import loads
from awaken.core.budget import Amount
from awaken.core.event import RunEvent
from awaken.core.identity import RunIdentity
from awaken.core.inference import InferenceOverride
from awaken.core.lifecycle import TerminationReason
from awaken.core.message import Message
from awaken.core.value import Value

PROTOCOL = 1
CHILD_MODULE = "awaken.runtime.subprocess_main"
"""The module that the child runs. It uses `front`, which this package may not import, so it is only
named here."""


class EventsWanted(StrEnum):
    """Which events of its run the child sends."""

    NONE = "none"
    ACTIVITY = "activity"
    ALL = "all"


class FailureKind(StrEnum):
    """Why the child could not finish its run."""

    AGENT_NOT_FOUND = "agent_not_found"
    NOT_READY = "not_ready"
    BROKE_OFF = "broke_off"


# -- to the child -----------------------------------------------------------------------------


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


# -- to the parent ----------------------------------------------------------------------------


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


class RunEnded(Value, frozen=True, kw_only=True, tag="result", tag_field="type"):
    """How the run ended, and what it and all runs it started have spent; `asks_for` are the tools
    whose calls wait for an approver."""

    termination: TerminationReason
    response: str
    steps: Count
    tokens: Count
    asks_for: tuple[str, ...] = ()
    spent: Spent | None = None


class RunBroken(Value, frozen=True, kw_only=True, tag="error", tag_field="type"):
    """The run could not begin, or broke off."""

    kind: FailureKind
    message: str


FromChild = EventMessage | RunEnded | RunBroken


def read_to_child(line: bytes) -> ToChild:
    """
    Raises:
        msgspec.DecodeError: it is no message of this protocol.
    """
    message: ToChild = loads(line, cast("Any", ToChild))
    return message


def read_from_child(line: bytes) -> FromChild:
    """
    Raises:
        msgspec.DecodeError: it is no message of this protocol.
    """
    message: FromChild = loads(line, cast("Any", FromChild))
    return message
