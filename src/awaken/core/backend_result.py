"""What a backend returns: the output of a run, its status, and how it ended."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from awaken.codec import Json
from awaken.core.budget import Spending
from awaken.core.inbox import InboxSender
from awaken.core.lifecycle import RunStatus, TerminationReason, to_run_status
from awaken.core.result import AgentRunResult
from awaken.core.run import PersistedState, RunWaitingTicket
from awaken.core.value import Value


class BackendOutputArtifact(Value, frozen=True, kw_only=True):
    """An output other than the text, such as a file."""

    id: str | None = None
    name: str | None = None
    media_type: str | None = None
    content: Json


class BackendRunOutput(Value, frozen=True, kw_only=True):
    """The output of a run: text, artifacts, and the backend's raw answer."""

    text: str | None = None
    artifacts: tuple[BackendOutputArtifact, ...] = ()
    raw: Json = None

    @classmethod
    def from_text(cls, text: str | None) -> BackendRunOutput:
        return cls(text=text)

    def text_or(self, fallback: str | None) -> str | None:
        """The text if there is one, even an empty one, else the fallback."""
        return self.text if self.text is not None else fallback


class BackendStatusKind(StrEnum):
    """The seven statuses of a backend run."""

    COMPLETED = "completed"
    WAITING_INPUT = "waiting_input"
    WAITING_AUTH = "waiting_auth"
    SUSPENDED = "suspended"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


_WAITING = frozenset(
    {
        BackendStatusKind.WAITING_INPUT,
        BackendStatusKind.WAITING_AUTH,
        BackendStatusKind.SUSPENDED,
    }
)
_REASONS = {
    BackendStatusKind.WAITING_INPUT: "input_required",
    BackendStatusKind.WAITING_AUTH: "auth_required",
    BackendStatusKind.SUSPENDED: "suspended",
    BackendStatusKind.TIMEOUT: "timeout",
    BackendStatusKind.FAILED: "error",
    BackendStatusKind.CANCELLED: "cancelled",
}


class BackendRunStatus(Value, frozen=True, kw_only=True):
    """The status of a backend run.

    What `completed` means for the run record depends on the termination; no other kind does.
    """

    kind: BackendStatusKind
    message: str | None = None

    @classmethod
    def completed(cls) -> BackendRunStatus:
        return cls(kind=BackendStatusKind.COMPLETED)

    @classmethod
    def waiting_input(cls, message: str | None = None) -> BackendRunStatus:
        return cls(kind=BackendStatusKind.WAITING_INPUT, message=message)

    @classmethod
    def waiting_auth(cls, message: str | None = None) -> BackendRunStatus:
        return cls(kind=BackendStatusKind.WAITING_AUTH, message=message)

    @classmethod
    def suspended(cls, message: str | None = None) -> BackendRunStatus:
        return cls(kind=BackendStatusKind.SUSPENDED, message=message)

    @classmethod
    def failed(cls, message: str) -> BackendRunStatus:
        return cls(kind=BackendStatusKind.FAILED, message=message)

    @classmethod
    def cancelled(cls) -> BackendRunStatus:
        return cls(kind=BackendStatusKind.CANCELLED)

    @classmethod
    def timeout(cls) -> BackendRunStatus:
        return cls(kind=BackendStatusKind.TIMEOUT)

    @property
    def is_waiting(self) -> bool:
        """Whether the run needs input, authorization or an answer before it can continue."""
        return self.kind in _WAITING

    def __str__(self) -> str:
        return self.kind.value if self.message is None else f"{self.kind.value}: {self.message}"

    def durable_run_status(self, termination: TerminationReason) -> RunStatus:
        if self.kind is BackendStatusKind.COMPLETED:
            return to_run_status(termination)[0]
        return RunStatus.WAITING if self.kind in _WAITING else RunStatus.DONE

    def durable_status_reason(self, termination: TerminationReason) -> str | None:
        if self.kind is BackendStatusKind.COMPLETED:
            return to_run_status(termination)[1]
        return _REASONS[self.kind]

    def result_status_label(self, termination: TerminationReason) -> str:
        if self.kind is BackendStatusKind.COMPLETED:
            return to_run_status(termination)[0].value
        return self.kind.value


class BackendRunResult(msgspec.Struct, kw_only=True):
    """The result of a backend run.

    `state` and `thread_state` are a delegate's persistent keys, of run and thread scope. `tickets`
    are the questions of a waiting run, `spending` is what the run has spent. `left_running` says
    what may still be running remotely although the run has ended, and why. `done` says what a
    delegate that broke off had done before. `run` is how a run in this process ended.
    """

    agent_id: str
    status: BackendRunStatus
    termination: TerminationReason
    status_reason: str | None = None
    response: str | None = None
    output: BackendRunOutput = msgspec.field(default_factory=BackendRunOutput)
    steps: int = 0
    run_id: str | None = None
    inbox: InboxSender | None = None
    state: PersistedState | None = None
    thread_state: PersistedState | None = None
    tickets: tuple[RunWaitingTicket, ...] = ()
    spending: Spending | None = None
    left_running: str | None = None
    done: str | None = None
    run: AgentRunResult | None = None
