"""The record of a run, with the messages it read and wrote, and what it waits for.

`AgentRunResult` says how a run ended, and `CancelReceipt` lists the runs and calls that a cancel
reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self, TypedDict, Unpack

import msgspec

from awaken.codec import Json
from awaken.core.budget import Amount
from awaken.core.identity import Principal, RequestOrigin, RunIdentity
from awaken.core.lifecycle import RunStatus, StartCause, TerminationReason
from awaken.core.suspension import AskedCall, Decision, Ticket, ToolCallResumeMode
from awaken.core.tool import MAX_TAKEOVERS, ToolDescriptor
from awaken.core.value import Value, nullable
from awaken.errors import InvalidTransition


class RunKind(StrEnum):
    """Whether an agent works in the run, or a background task that has a record of its own."""

    AGENT = "agent"
    TASK = "task"


# Bound once: on Python 3.11 reaching a member through its enum costs as much as a call.
_RUNNING = RunStatus.RUNNING
_replace = msgspec.structs.replace

LEFT_RUNNING = "left_running"
"""The key of an error payload for a text about remote work that may go on after the run's end."""


class RunRecord(Value, frozen=True, kw_only=True):
    """The record of a run; timestamps are whole seconds, and milliseconds under names in `_ms`.

    A record is made by `begin` and replaced by `advance`, `wait` and `finish`, each of which gives
    the next revision. A transition that the table in `core.lifecycle` does not allow raises
    `InvalidTransition`. An ended run may be finished again, since the commit of its end may have to
    be repeated.

    `kind` tells whether an agent works in the run or a background task, whose `agent_id` is made of
    its name and belongs to no agent. `revision` orders records whose seconds are equal.
    `agent_changes` lists the changes of the agent since the run was recovered.
    `takeovers` is set from the death of a process that owned the run until a commit adds a message
    or the outcome of a call. `cancelled_by` is the id
    of the principal that had the run cancelled, if one was named. Stores keep the scalars;
    `state` and `output.message_ids` are put together when a record is read.
    """

    run_id: str
    thread_id: str
    agent_id: str
    kind: RunKind = RunKind.AGENT
    parent_run_id: str | None = nullable()
    request: RunRequestSnapshot | None = None
    input: RunMessageInput | None = None
    output: RunMessageOutput | None = None
    status: RunStatus
    termination_reason: TerminationReason | None = None
    final_output: str | None = None
    error_payload: Json = None
    dispatch_id: str | None = None
    session_id: str | None = None
    transport_request_id: str | None = None
    waiting: RunWaitingState | None = None
    outcome: RunOutcome | None = None
    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    updated_at: int
    steps: int = msgspec.field(default_factory=int)
    input_tokens: int = msgspec.field(default_factory=int)
    output_tokens: int = msgspec.field(default_factory=int)
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    thinking_tokens: int = 0
    cost: float | None = None
    state: PersistedState | None = nullable()
    revision: int = 0
    agent_fingerprint: str | None = None
    agent_changes: tuple[str, ...] = ()
    takeovers: Takeovers | None = None
    cancelled_by: str | None = None
    created_at_ms: int = 0
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    updated_at_ms: int = 0

    @property
    def next_cause(self) -> StartCause:
        """Why the run will start to work once more."""
        if self.status is RunStatus.CREATED:
            return StartCause.NEW
        if self.status is _RUNNING:
            return StartCause.RECOVERED
        tickets = self.waiting.tickets if self.waiting is not None else ()
        return StartCause.ANSWERED if tickets else StartCause.WOKEN

    # -- transitions --------------------------------------------------------------------------

    @classmethod
    def begin(
        cls,
        identity: RunIdentity,
        request: RunRequestSnapshot | None,
        at_ms: int,
        kind: RunKind = RunKind.AGENT,
    ) -> Self:
        """The record of a run that starts at `at_ms`."""
        at = at_ms // 1000
        return cls(
            run_id=identity.run_id,
            thread_id=identity.thread_id,
            agent_id=identity.agent_id,
            kind=kind,
            parent_run_id=identity.parent_run_id,
            request=request,
            status=_RUNNING,
            dispatch_id=identity.dispatch_id,
            session_id=identity.session_id,
            transport_request_id=identity.transport_request_id,
            created_at=at,
            started_at=at,
            updated_at=at,
            created_at_ms=at_ms,
            started_at_ms=at_ms,
            updated_at_ms=at_ms,
        )

    def advance(self, at_ms: int, **changes: Unpack[RunChanges]) -> Self:
        """The record of a run that works at `at_ms`, also if it was waiting before."""
        return self._moved(_RUNNING, at_ms, None, None, None, None, changes)

    def advance_step(
        self,
        at_ms: int,
        output: RunMessageOutput | None,
        steps: int,
        input_tokens: int,
        output_tokens: int,
    ) -> Self:
        """The same for a run that was running before, which is the case after most steps: without a
        dictionary of changes, and there is no wait and no end to clear."""
        if self.status is not _RUNNING:
            raise InvalidTransition(self.run_id, self.status.value, _RUNNING.value)
        return _replace(
            self,
            output=output,
            updated_at=at_ms // 1000,
            updated_at_ms=at_ms,
            steps=steps,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            revision=self.revision + 1,
        )

    def wait(
        self,
        at_ms: int,
        waiting: RunWaitingState,
        termination: TerminationReason | None = None,
        *,
        final_output: str | None = None,
        error_payload: Json = None,
        **changes: Unpack[RunChanges],
    ) -> Self:
        """The record of a run that waits from `at_ms` on. `termination` says how this activation of
        the run ended, if it did; the run itself stays open."""
        return self._moved(
            RunStatus.WAITING, at_ms, termination, final_output, error_payload, waiting, changes
        )

    def finish(
        self,
        at_ms: int,
        termination: TerminationReason,
        *,
        final_output: str | None = None,
        error_payload: Json = None,
        **changes: Unpack[RunChanges],
    ) -> Self:
        """The record of a run that is over at `at_ms`."""
        return self._moved(
            RunStatus.DONE, at_ms, termination, final_output, error_payload, None, changes
        )

    def taken_over(self, takeovers: Takeovers) -> Self:
        """The record of a run that another process recovers; its status stays as it is."""
        return _replace(self, takeovers=takeovers, revision=self.revision + 1)

    def _moved(
        self,
        status: RunStatus,
        at_ms: int,
        termination: TerminationReason | None,
        final_output: str | None,
        error_payload: Json,
        waiting: RunWaitingState | None,
        changes: RunChanges,
    ) -> Self:
        if not self.status.can_go_to(status):
            raise InvalidTransition(self.run_id, self.status.value, status.value)
        at, is_done = at_ms // 1000, status is RunStatus.DONE
        outcome = termination and RunOutcome(
            termination_reason=termination, final_output=final_output, error_payload=error_payload
        )
        return _replace(
            self,
            status=status,
            termination_reason=termination,
            final_output=final_output,
            error_payload=error_payload,
            outcome=outcome,
            waiting=waiting,
            started_at=at if self.started_at is None else self.started_at,
            finished_at=at if is_done else None,
            updated_at=at,
            started_at_ms=at_ms if self.started_at_ms is None else self.started_at_ms,
            finished_at_ms=at_ms if is_done else None,
            updated_at_ms=at_ms,
            revision=self.revision + 1,
            **changes,
        )

    # -- reading ------------------------------------------------------------------------------

    @property
    def is_task(self) -> bool:
        return self.kind is RunKind.TASK

    @property
    def is_abandoned(self) -> bool:
        """Whether so many processes died while they owned the run that no further one tries."""
        return self.takeovers is not None and self.takeovers.are_too_many

    @property
    def own_input(self) -> MessageSeqRange | None:
        """The messages of the run's own request: the last ones of the range it was given to read.

        Earlier versions stored only these in `input.range` if the thread had other messages.
        """
        given = self.input.range if self.input is not None else None
        count = self.request.input_message_count if self.request is not None else 0
        if given is None or given.from_seq > 1 or count == 0:
            return given
        return MessageSeqRange.new(max(1, given.to_seq - count + 1), given.to_seq)

    def waiting_reason(self) -> WaitingReason | None:
        if self.status is RunStatus.WAITING and self.waiting is not None:
            return self.waiting.reason
        return None

    def is_resumable_waiting(self) -> bool:
        return self.waiting_reason() is not None

    @property
    def is_delegated(self) -> bool:
        """Whether a tool call of another run started this run and waits for it."""
        call_id = self.request.parent_tool_call_id if self.request is not None else None
        return call_id is not None and self.parent_run_id is not None

    def is_background_task_waiting(self) -> bool:
        return self.waiting_reason() is WaitingReason.BACKGROUND_TASKS

    @property
    def left_running(self) -> str | None:
        """A text about remote work that may go on although the run has ended; usually `None`."""
        payload = self.error_payload
        text = payload.get(LEFT_RUNNING) if isinstance(payload, dict) else None
        return text if isinstance(text, str) else None


class RunChanges(TypedDict, total=False):
    """The fields a transition may change besides those that make up the transition itself."""

    agent_id: str
    agent_fingerprint: str | None
    request: RunRequestSnapshot | None
    input: RunMessageInput | None
    output: RunMessageOutput | None
    dispatch_id: str | None
    session_id: str | None
    transport_request_id: str | None
    steps: int
    input_tokens: int
    output_tokens: int
    state: PersistedState | None


# -- parts of the record ----------------------------------------------------------------------


class MessageSeqRange(Value, frozen=True, kw_only=True):
    """A range of positions in a log, both ends included. It may span messages of other runs; the
    list of ids beside it is exact."""

    from_seq: int
    to_seq: int

    @classmethod
    def new(cls, from_seq: int, to_seq: int) -> Self | None:
        return cls(from_seq=from_seq, to_seq=to_seq) if 0 < from_seq <= to_seq else None


class RunMessageInput(Value, frozen=True, kw_only=True):
    """The messages that the run was given."""

    thread_id: str
    range: MessageSeqRange | None = None
    trigger_message_ids: tuple[str, ...] = ()
    selected_message_ids: tuple[str, ...] = ()
    context_policy: Json = None
    compacted_snapshot_id: str | None = None


class RunMessageOutput(Value, frozen=True, kw_only=True):
    """The messages that the run wrote, in order."""

    thread_id: str
    range: MessageSeqRange | None = None
    message_ids: tuple[str, ...] = ()


class WaitingReason(StrEnum):
    """The reason why a run waits."""

    TOOL_PERMISSION = "tool_permission"
    USER_INPUT = "user_input"
    BACKGROUND_TASKS = "background_tasks"
    EXTERNAL_EVENT = "external_event"
    RATE_LIMIT = "rate_limit"
    MANUAL_PAUSE = "manual_pause"

    @classmethod
    def from_status_reason(cls, reason: str | None) -> WaitingReason:
        return _WAITING.get(reason or "", cls.EXTERNAL_EVENT)


_WAITING = {
    "input_required": WaitingReason.USER_INPUT,
    "user_input_required": WaitingReason.USER_INPUT,
    "auth_required": WaitingReason.TOOL_PERMISSION,
    "suspended": WaitingReason.TOOL_PERMISSION,
    "awaiting_tasks": WaitingReason.BACKGROUND_TASKS,
    "rate_limit": WaitingReason.RATE_LIMIT,
    "manual_pause": WaitingReason.MANUAL_PAUSE,
}


class RunWaitingTicket(AskedCall, frozen=True, kw_only=True):
    """A question that an approver has to answer before the run goes on, in the run's own record."""

    tool_call_id: str
    resume_mode: ToolCallResumeMode = msgspec.field(
        default_factory=lambda: ToolCallResumeMode.REPLAY_TOOL_CALL
    )
    updated_at: int

    @classmethod
    def of(cls, ticket: Ticket) -> Self:
        """The question of a ticket."""
        return cls(
            key=ticket.key,
            ticket_id=ticket.ticket_id,
            tool_call_id=ticket.call_id,
            tool_name=ticket.tool_name,
            arguments=ticket.arguments,
            resume_mode=ticket.resume_mode,
            reason=ticket.reason,
            updated_at=ticket.asked_at,
            digest=ticket.digest,
            expires_at=ticket.expires_at,
            asker=ticket.asker,
            message=ticket.message,
            response_schema=ticket.response_schema,
        )


class RunWaitingState(Value, frozen=True, kw_only=True):
    """Why a run waits, and the questions it waits for."""

    reason: WaitingReason
    ticket_ids: tuple[str, ...] = ()
    tickets: tuple[RunWaitingTicket, ...] = ()
    since_dispatch_id: str | None = None
    message: str | None = None


class RunOutcome(Value, frozen=True, kw_only=True):
    """How a run ended."""

    termination_reason: TerminationReason
    final_output: str | None = None
    error_payload: Json = None


class RunRequestSnapshot(Value, frozen=True, kw_only=True):
    """The request of a run, stored with its record.

    `backend` names the kind of backend that carries the run out remotely; it is `None` for a run
    that executes in an Awaken process. `principal` asked for the run, `user` is the end user it is
    for, and `labels` are for filters.
    """

    origin: RequestOrigin
    sender_id: str | None = None
    input_message_ids: tuple[str, ...] = ()
    input_message_count: int = 0
    request_extras: Json = None
    decisions: tuple[Decision, ...] = ()
    frontend_tools: tuple[ToolDescriptor, ...] = ()
    parent_thread_id: str | None = None
    parent_tool_call_id: str | None = None
    transport_request_id: str | None = None
    backend: str | None = None
    principal: Principal | None = None
    user: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class HasRequester(Protocol):
    """A request that says for whom it is."""

    @property
    def principal(self) -> Principal | None: ...
    @property
    def user(self) -> str | None: ...
    @property
    def labels(self) -> Mapping[str, str]: ...


class Requester(NamedTuple):
    """The principal and the end user that a run works for, and its labels for filters. The runs
    and tasks that it starts have the same requester."""

    principal: Principal | None = None
    user: str | None = None
    labels: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def of(cls, request: HasRequester | None) -> Requester:
        if request is None or not (request.principal or request.user or request.labels):
            return NO_REQUESTER
        return cls(request.principal, request.user, request.labels)

    def fields(self) -> dict[str, Any]:
        """These values, as fields of a request."""
        return {"principal": self.principal, "user": self.user, "labels": dict(self.labels)}


NO_REQUESTER = Requester()


class Takeovers(Value, frozen=True, kw_only=True):
    """How often in a row a run was taken over from a process that died while it owned the run.

    `beneath` is how many messages the threads of the run's open delegates had at the last takeover:
    while that number grows, the run makes progress. `levels` is how deeply open delegates are
    nested: each of them is abandoned before its parent run.
    """

    times: int
    beneath: int = 0
    levels: int = 0

    @property
    def are_too_many(self) -> bool:
        return self.times > MAX_TAKEOVERS + self.levels


def _no_extensions() -> dict[str, Any]:
    return {}


class PersistedState(Value, frozen=True, kw_only=True):
    """State as JSON, by key."""

    revision: int = msgspec.field(default_factory=int)
    extensions: dict[str, Any] = msgspec.field(default_factory=_no_extensions)


NO_STATE = PersistedState()
"""The state of a thread or run that has none. Like every state, it is not changed."""


# -- how a run ended --------------------------------------------------------------------------


class AgentRunResult(Value, frozen=True, kw_only=True):
    """How a run ended.

    `empty_twice` says whether its last answer was empty, also when the model was asked once more.
    `cost` is that of its own models, as far as their prices are known. `spent` is the spending
    of the run and all its descendants, if it has a budget.
    """

    run_id: str
    agent_id: str = ""
    response: str
    termination: TerminationReason
    steps: int
    empty_twice: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    thinking_tokens: int = 0
    cost: float | None = None
    tickets: tuple[RunWaitingTicket, ...] = ()
    waits: bool = False
    spent: Amount | None = None


class CancelOutcome(StrEnum):
    """The item was stopped, had finished before, or may still be running."""

    STOPPED = "stopped"
    FINISHED = "finished"
    UNKNOWN = "unknown"


class CancelItem(Value, frozen=True, kw_only=True):
    """A run, task or tool call that the cancel reached, and its outcome.

    `kind` is `run`, `task` or `call`; `run_id` is the run itself, or the run of the call. `note`
    explains an outcome that is not certain.
    """

    kind: str
    id: str
    name: str
    run_id: str
    outcome: CancelOutcome
    note: str | None = None


class CancelReceipt(Value, frozen=True, kw_only=True):
    """Everything that a cancel reached; true if there was something to cancel."""

    accepted: bool
    items: tuple[CancelItem, ...] = ()

    def __bool__(self) -> bool:
        return self.accepted

    @property
    def complete(self) -> bool:
        """Whether it is certain that nothing is still running."""
        return all(item.outcome is not CancelOutcome.UNKNOWN for item in self.items)

    def of(self, outcome: CancelOutcome) -> tuple[CancelItem, ...]:
        return tuple(item for item in self.items if item.outcome is outcome)
