"""What a run tells the world: one closed union, and the envelope it travels in."""

from __future__ import annotations

from typing import Any

import msgspec

from awaken.codec import Json
from awaken.domain.identity import RunIdentity
from awaken.domain.inference import TokenUsage
from awaken.domain.lifecycle import TerminationReason
from awaken.domain.message import Message
from awaken.domain.suspension import ResumedOutcome, ToolCallOutcome
from awaken.domain.tool import ToolResult
from awaken.domain.value import Value, snake_case


class Event(Value, frozen=True, kw_only=True, tag_field="event_type", tag=snake_case):
    """The base of the union."""


class RunStart(Event, frozen=True, kw_only=True):
    """A run begins, or goes on after a pause."""

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    identity: RunIdentity | None = None


class RunFinish(Event, frozen=True, kw_only=True):
    """A run ended; with termination `suspended`, it pauses."""

    thread_id: str
    run_id: str
    identity: RunIdentity | None = None
    result: Json = None
    termination: TerminationReason


class StepStart(Event, frozen=True, kw_only=True):
    """A turn begins; `message_id` is the id its assistant message will have.

    It comes again before the turn has ended where an answer reached the output limit: what follows
    is the next piece of it, a message of its own.
    """

    message_id: str = msgspec.field(default_factory=str)


class StepEnd(Event, frozen=True, kw_only=True):
    """A turn is over and durable."""


class TextDelta(Event, frozen=True, kw_only=True):
    """A piece of the answer."""

    delta: str


class ReasoningDelta(Event, frozen=True, kw_only=True):
    """A piece of the model's reasoning."""

    delta: str


class ReasoningEncryptedValue(Event, frozen=True, kw_only=True):
    """Reasoning only the provider can read."""

    encrypted_value: str


class ToolCallStart(Event, frozen=True, kw_only=True):
    """The model begins to write a call."""

    id: str
    name: str


class ToolCallDelta(Event, frozen=True, kw_only=True):
    """A piece of a call's arguments."""

    id: str
    args_delta: str


class ToolCallReady(Event, frozen=True, kw_only=True):
    """A call is written in full."""

    id: str
    name: str
    arguments: Json


class ToolCallStreamDelta(Event, frozen=True, kw_only=True):
    """A tool's own output, while it runs."""

    id: str
    name: str
    delta: str


class ToolCallDone(Event, frozen=True, kw_only=True):
    """A call ended, or waits for somebody; `message_id` names its tool message."""

    id: str
    message_id: str
    result: ToolResult
    outcome: ToolCallOutcome


class ToolCallResumed(Event, frozen=True, kw_only=True):
    """A suspended call ended; `outcome` says whether by an answer or without one.

    `message_id` names its tool message, `reason` is why the call ended so, or what the approver
    said, and `by` who answered. Events kept by earlier versions have `target_id` and `result` only.
    """

    target_id: str
    result: Json
    message_id: str = ""
    name: str = ""
    outcome: ResumedOutcome | None = None
    reason: str | None = None
    by: str | None = None


class ToolCallCancel(Event, frozen=True, kw_only=True):
    """A half-written call was dropped."""

    id: str
    name: str
    reason: str


class StreamReset(Event, frozen=True, kw_only=True):
    """Discard this turn's deltas: the model starts over, or what it said does not stay."""

    reason: str


class InferenceComplete(Event, frozen=True, kw_only=True):
    """The model answered; `cost` is there if its price is known."""

    model: str
    usage: TokenUsage | None = None
    cost: float | None = None
    duration_ms: int


class MessagesSnapshot(Event, frozen=True, kw_only=True):
    """The whole conversation."""

    messages: tuple[Message, ...]


class ActivitySnapshot(Event, frozen=True, kw_only=True):
    """What a tool is doing, in full."""

    message_id: str
    activity_type: str
    content: Json
    replace: bool | None = None


class ActivityDelta(Event, frozen=True, kw_only=True):
    """What changed in what a tool is doing, as a JSON patch."""

    message_id: str
    activity_type: str
    patch: list[Json]


class StateSnapshot(Event, frozen=True, kw_only=True):
    """The run's persistent state: `{revision, extensions}`."""

    snapshot: Json


class StateDelta(Event, frozen=True, kw_only=True):
    """What changed in the run's state, as a JSON patch."""

    delta: list[Json]


class Error(Event, frozen=True, kw_only=True):
    """The run broke off."""

    message: str
    code: str | None = None


AgentEvent = (
    RunStart
    | RunFinish
    | StepStart
    | StepEnd
    | TextDelta
    | ReasoningDelta
    | ReasoningEncryptedValue
    | ToolCallStart
    | ToolCallDelta
    | ToolCallReady
    | ToolCallStreamDelta
    | ToolCallDone
    | ToolCallResumed
    | ToolCallCancel
    | StreamReset
    | InferenceComplete
    | MessagesSnapshot
    | ActivitySnapshot
    | ActivityDelta
    | StateSnapshot
    | StateDelta
    | Error
)

DURABLE = (
    RunStart,
    RunFinish,
    StepStart,
    StepEnd,
    ToolCallReady,
    ToolCallDone,
    ToolCallResumed,
    ToolCallCancel,
    InferenceComplete,
    Error,
)
"""Kept with the commit that makes them true; the rest is for whoever listens."""


def is_terminal(event: AgentEvent) -> bool:
    return isinstance(event, RunFinish | Error)


def extract_response(result: Any) -> str:
    """The answer in a `run_finish.result`, or nothing."""
    response = result.get("response") if isinstance(result, dict) else None
    return response if isinstance(response, str) else ""


class RunEvent(Value, frozen=True, kw_only=True):
    """An event and where it belongs; `seq` is its place in the thread if it is durable."""

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    at_ms: int
    seq: int | None = None
    event: AgentEvent
