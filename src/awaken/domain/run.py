"""The record of a run, and the stretches of the log it read and wrote."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

import msgspec

from awaken.codec import Json
from awaken.domain.identity import RequestOrigin
from awaken.domain.lifecycle import RunStatus, TerminationReason
from awaken.domain.recovery import MOST_TAKEOVERS
from awaken.domain.suspension import Asker, Decision, ToolCallResumeMode
from awaken.domain.tool import ToolDescriptor
from awaken.domain.value import Value, nullable

LEFT_RUNNING = "left_running"
"""The key of an error payload that says what a run elsewhere may have left behind."""


class MessageSeqRange(Value, frozen=True, kw_only=True):
    """An inclusive hull of positions in a log; the id list beside it is exact."""

    from_seq: int
    to_seq: int

    @classmethod
    def new(cls, from_seq: int, to_seq: int) -> Self | None:
        return cls(from_seq=from_seq, to_seq=to_seq) if 0 < from_seq <= to_seq else None


class RunMessageInput(Value, frozen=True, kw_only=True):
    """What the run was given."""

    thread_id: str
    range: MessageSeqRange | None = None
    trigger_message_ids: tuple[str, ...] = ()
    selected_message_ids: tuple[str, ...] = ()
    context_policy: Json = None
    compacted_snapshot_id: str | None = None


class RunMessageOutput(Value, frozen=True, kw_only=True):
    """What the run wrote, in append order."""

    thread_id: str
    range: MessageSeqRange | None = None
    message_ids: tuple[str, ...] = ()


class WaitingReason(StrEnum):
    """What a waiting run waits for."""

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


class RunWaitingTicket(Value, frozen=True, kw_only=True):
    """A question somebody has to answer before the run goes on, by `expires_at` if that is given.
    `key` is its unique name; `ticket_id` and `tool_call_id` may repeat in other turns.

    An answer that names the `digest` is refused if something else is asked by then. With an
    `asker`, `tool_name` and `arguments` are those of the call of that run.
    """

    ticket_id: str
    tool_call_id: str
    tool_name: str
    arguments: Json = None
    resume_mode: ToolCallResumeMode = msgspec.field(
        default_factory=lambda: ToolCallResumeMode.REPLAY_TOOL_CALL
    )
    reason: str | None = None
    updated_at: int
    digest: str | None = None
    expires_at: int | None = None
    asker: Asker | None = None
    key: str | None = None

    def __hash__(self) -> int:
        """Tickets can be keys of `answers`; their arguments alone could not be hashed."""
        return hash(self.key)


class RunWaitingState(Value, frozen=True, kw_only=True):
    """Why a run waits, and for whom."""

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
    """What was asked for, kept with the run.

    `backend` names the kind of backend that carries the run out elsewhere; a run in a process of
    ours has none.
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


class Takeovers(Value, frozen=True, kw_only=True):
    """How often in a row a run was taken over from a process that died with it.

    `beneath` is how many messages the threads of its open delegates had at the last one: as long as
    that grows, the run gets ahead. `levels` is how many delegates are open one beneath the other:
    each of them is given up before the run it works for.
    """

    times: int
    beneath: int = 0
    levels: int = 0

    @property
    def are_too_many(self) -> bool:
        return self.times > MOST_TAKEOVERS + self.levels


def _no_extensions() -> dict[str, Any]:
    return {}


class PersistedState(Value, frozen=True, kw_only=True):
    """State as JSON, by key."""

    revision: int = msgspec.field(default_factory=int)
    extensions: dict[str, Any] = msgspec.field(default_factory=_no_extensions)


class RunRecord(Value, frozen=True, kw_only=True):
    """Everything worth knowing about a run; timestamps are whole seconds.

    `revision` orders records whose seconds are equal. `agent_changes` says what of the agent was
    another when the run was taken up again. `takeovers` is there from when a process died with the
    run until a commit adds a message or the outcome of a call. Stores keep the scalars; `state` and
    `output.message_ids` are put together when a record is read.
    """

    run_id: str
    thread_id: str
    agent_id: str
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

    @property
    def is_abandoned(self) -> bool:
        """Whether so many processes died with the run that it is not carried on any more."""
        return self.takeovers is not None and self.takeovers.are_too_many

    @property
    def own_input(self) -> MessageSeqRange | None:
        """The messages the run was asked with: the last ones of what it was given to read.

        Earlier versions kept only these in `input.range` where the thread had others before.
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
        """Whether the run was asked for by a call of another run, which waits for it."""
        asked = self.request.parent_tool_call_id if self.request is not None else None
        return asked is not None and self.parent_run_id is not None

    def is_background_task_waiting(self) -> bool:
        return self.waiting_reason() is WaitingReason.BACKGROUND_TASKS

    @property
    def left_running(self) -> str | None:
        """What of a run elsewhere may still be at work though the run has ended, and why."""
        payload = self.error_payload
        told = payload.get(LEFT_RUNNING) if isinstance(payload, dict) else None
        return told if isinstance(told, str) else None
