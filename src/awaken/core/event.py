"""The events of a run.

They are one closed union. A run sends each event to its event sink; clients get it in an envelope,
`RunEvent`.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import msgspec

from awaken.codec import Json, dumps_text
from awaken.core.identity import RunIdentity
from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import StartCause, TerminationReason
from awaken.core.message import Message, Thinking
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import ResumedOutcome, ToolCallOutcome
from awaken.core.tool import ToolKind, ToolResult
from awaken.core.value import Value, snake_case


class Event(Value, frozen=True, kw_only=True, tag_field="event_type", tag=snake_case):
    """The base class of all events."""


class RunStart(Event, frozen=True, kw_only=True):
    """A run starts, or continues after a pause or in another process, as `cause` says.

    Events stored by earlier versions have no cause.
    """

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    identity: RunIdentity | None = None
    cause: StartCause | None = None


class RunFinish(Event, frozen=True, kw_only=True):
    """A run has ended; with termination `suspended`, it has paused, and `tickets` are the questions
    it waits for. `usage`, `cost` and `steps` are those of the whole run so far."""

    thread_id: str
    run_id: str
    identity: RunIdentity | None = None
    result: Json = None
    termination: TerminationReason
    tickets: tuple[RunWaitingTicket, ...] = ()
    usage: TokenUsage | None = None
    cost: float | None = None
    steps: int = 0


class StepStart(Event, frozen=True, kw_only=True):
    """A step of the agent `agent_id` starts; its assistant message will have the id `message_id`.

    It comes again within a step if the answer reached the output limit: the rest of the answer is
    a message of its own.
    """

    message_id: str = msgspec.field(default_factory=str)
    agent_id: str | None = None


class StepEnd(Event, frozen=True, kw_only=True):
    """A step has ended and is durable."""


class TextDelta(Event, frozen=True, kw_only=True):
    """A part of the answer's text."""

    delta: str


class ReasoningDelta(Event, frozen=True, kw_only=True):
    """A part of the model's reasoning."""

    delta: str


class ReasoningEncryptedValue(Event, frozen=True, kw_only=True):
    """Reasoning that only the provider can read."""

    encrypted_value: str


class ToolCallStart(Event, frozen=True, kw_only=True):
    """The model starts to write a tool call."""

    id: str
    name: str


class ToolCallDelta(Event, frozen=True, kw_only=True):
    """A part of a tool call's arguments."""

    id: str
    args_delta: str


class ToolCallReady(Event, frozen=True, kw_only=True):
    """The model has finished writing a tool call."""

    id: str
    name: str
    arguments: Json


class ToolCallStreamDelta(Event, frozen=True, kw_only=True):
    """A part of a running tool's output."""

    id: str
    name: str
    delta: str


class ToolCallDone(Event, frozen=True, kw_only=True):
    """A tool call has ended or been suspended; `message_id` is the id of its tool message.

    `kind` and `title` are those of its tool; a title that equals the tool's id is left out.
    `started_at_ms` is when the tool began, if it did. A suspended call is answered by `ticket_key`,
    with the `digest` of its question, until `expires_at` (in milliseconds).
    """

    id: str
    message_id: str
    result: ToolResult
    outcome: ToolCallOutcome
    kind: ToolKind = ToolKind.OTHER
    title: str = ""
    started_at_ms: int | None = None
    ticket_key: str | None = None
    digest: str | None = None
    expires_at: int | None = None


class ToolCallResumed(Event, frozen=True, kw_only=True):
    """A suspended tool call has ended, with an answer or without one, as `outcome` says.

    `message_id` is the id of its tool message and `text` what that message says, or the beginning
    of it. `edited` are the arguments that the call ran with, if the approver changed them. `reason`
    is why the call ended so or what the approver said, `by` is the approver. Events
    stored by earlier versions have only `target_id` and `result`.
    """

    target_id: str
    result: Json
    message_id: str = ""
    name: str = ""
    outcome: ResumedOutcome | None = None
    reason: str | None = None
    by: str | None = None
    text: str | None = None
    edited: Json = None


class ToolCallCancel(Event, frozen=True, kw_only=True):
    """A tool call that was not written to its end was dropped."""

    id: str
    name: str
    reason: str


class StreamReset(Event, frozen=True, kw_only=True):
    """Discard this step's deltas: the model starts over, or its answer is not kept.

    With `from_seq`, durable events that were sent ahead with that `seq` or a higher one are void,
    too: the commit that was to store them was not made.
    """

    reason: str
    from_seq: int | None = None


def _no_outputs() -> dict[str, str]:
    return {}


class StepSnapshot(Event, frozen=True, kw_only=True):
    """An answer as far as it has arrived, for a reader that has missed a part of it.

    It replaces the deltas that the reader has of this step. `calls` are the ids, names and
    arguments (as text) of the calls that the model has begun to write, `outputs` the streamed text
    of running tools, by call id.
    """

    message_id: str
    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    outputs: dict[str, str] = msgspec.field(default_factory=_no_outputs)

    @classmethod
    def of(cls, message: Message) -> Self:
        """The whole of an answer that is in the log."""
        thoughts = [block.thinking for block in message.content if isinstance(block, Thinking)]
        calls = [
            (call.id, call.name, dumps_text(call.arguments)) for call in message.tool_calls or ()
        ]
        return cls(
            message_id=message.id or "",
            text=message.text(),
            reasoning="".join(thoughts),
            calls=tuple(calls),
        )


class InferenceComplete(Event, frozen=True, kw_only=True):
    """A model call has ended; `cost` is set if the model's price is known."""

    model: str
    usage: TokenUsage | None = None
    cost: float | None = None
    duration_ms: int


class ContextCompacted(Event, frozen=True, kw_only=True):
    """From now on the model is shown a summary, the message `summary_message_id`, in place of the
    messages from position `from_seq` to `to_seq` of the log."""

    summary_message_id: str
    from_seq: int
    to_seq: int


class MessagesRewound(Event, frozen=True, kw_only=True):
    """The thread was rewound: the messages from position `from_seq` to `to_seq` of the log are out
    of view from now on. `message_id` is the first of them. A client reads the messages anew."""

    message_id: str
    from_seq: int
    to_seq: int


class MessagesSnapshot(Event, frozen=True, kw_only=True):
    """The whole conversation."""

    messages: tuple[Message, ...]


class ActivitySnapshot(Event, frozen=True, kw_only=True):
    """The current activity of a tool."""

    message_id: str
    activity_type: str
    content: Json
    replace: bool | None = None


class ActivityDelta(Event, frozen=True, kw_only=True):
    """A change of a tool's activity, as a JSON patch."""

    message_id: str
    activity_type: str
    patch: list[Json]


class StateSnapshot(Event, frozen=True, kw_only=True):
    """The run's public state: `{revision, extensions}`, with the keys declared `public` only."""

    snapshot: Json


class StateDelta(Event, frozen=True, kw_only=True):
    """A change of the run's public state since the last `StateSnapshot`, as a JSON patch."""

    delta: list[Json]


class Error(Event, frozen=True, kw_only=True):
    """The run failed."""

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
    | StepSnapshot
    | InferenceComplete
    | ContextCompacted
    | MessagesRewound
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
    ContextCompacted,
    MessagesRewound,
    Error,
)
"""The events that are stored with a commit; the others are transient."""


def is_terminal(event: AgentEvent) -> bool:
    """Whether this is the last event of a run."""
    return isinstance(event, RunFinish | Error)


def extract_response(result: Any) -> str:
    """The answer in a `run_finish.result`, or an empty text."""
    response = result.get("response") if isinstance(result, dict) else None
    return response if isinstance(response, str) else ""


class RunEvent(Value, frozen=True, kw_only=True):
    """An event with its thread and run, and its place in the thread.

    - `seq` is the position of a durable event among the thread's durable events, from 1.
    - `ahead`: a durable event that was sent before its commit. Its `seq` is a promise: if the
      owner dies first, the next owner gives that number to another event. Only an event with a
      `seq` that was not sent ahead moves a cursor: it says that everything up to it is stored.
    - `live` is `(epoch, n)`: the claim under which the owner sent the event, and the event's number
      among all that it sent in the thread under that claim, from 1. It is `None` in events that
      were read from a store.
    - `again`: a durable event that was stored before, sent once more when a run is continued.
    """

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    at_ms: int
    seq: int | None = None
    ahead: bool = False
    live: tuple[int, int] | None = None
    again: bool = False
    event: AgentEvent


class EventSink(Protocol):
    """Receives a run's events in order. The run awaits `emit`, so a slow sink slows the model."""

    async def emit(self, event: RunEvent) -> None: ...

    async def close(self) -> None: ...


class NullEventSink:
    """Discards all events. With this sink, the loop does not make transient events at all."""

    async def emit(self, event: RunEvent) -> None:
        return

    async def close(self) -> None:
        return


class CollectingSink:
    """Collects all events in a list."""

    def __init__(self) -> None:
        self._events: list[RunEvent] = []

    async def emit(self, event: RunEvent) -> None:
        self._events.append(event)

    async def close(self) -> None:
        return

    def events(self) -> list[RunEvent]:
        return list(self._events)

    def take(self) -> list[RunEvent]:
        events, self._events = self._events, []
        return events
