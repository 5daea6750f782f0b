"""Where an agent runs: what a backend is asked, what it can do, what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from awaken.budget.account import Account
from awaken.codec import Json
from awaken.contract.events import EventSink
from awaken.contract.registry import ExecutionResolver
from awaken.contract.store import Store
from awaken.control.cancel import CancellationToken
from awaken.control.inbox import DecisionQueue, InboxReceiver, InboxSender
from awaken.domain.budget import Spending
from awaken.domain.identity import RunIdentity
from awaken.domain.inference import InferenceOverride
from awaken.domain.lifecycle import RunStatus, TerminationReason, to_run_status
from awaken.domain.message import Message
from awaken.domain.result import AgentRunResult
from awaken.domain.run import PersistedState, RunWaitingTicket
from awaken.domain.spec import RemoteEndpoint
from awaken.domain.suspension import Asker, Decision, ToolCallResume
from awaken.domain.tool import ToolDescriptor
from awaken.domain.value import Value
from awaken.errors import AgentLoopError, AwakenError

BACKEND_OUTPUT_STATE_KEY = "__runtime_backend_output"


# -- what a backend can do --------------------------------------------------------------------


class BackendCancellationCapability(StrEnum):
    """How a run can be interrupted once it started."""

    NONE = "none"
    COOPERATIVE_TOKEN = "cooperative_token"
    REMOTE_ABORT = "remote_abort"
    COOPERATIVE_TOKEN_AND_REMOTE_ABORT = "cooperative_token_and_remote_abort"

    @property
    def supports_cooperative_token(self) -> bool:
        return self in (
            BackendCancellationCapability.COOPERATIVE_TOKEN,
            BackendCancellationCapability.COOPERATIVE_TOKEN_AND_REMOTE_ABORT,
        )

    @property
    def supports_remote_abort(self) -> bool:
        return self in (
            BackendCancellationCapability.REMOTE_ABORT,
            BackendCancellationCapability.COOPERATIVE_TOKEN_AND_REMOTE_ABORT,
        )


class BackendContinuationCapability(StrEnum):
    """Where state lives between turns."""

    NONE = "none"
    IN_PROCESS_STATE = "in_process_state"
    REMOTE_STATE = "remote_state"

    @property
    def is_possible(self) -> bool:
        """Whether a run can be gone on with at all."""
        return self is not BackendContinuationCapability.NONE


class BackendWaitCapability(StrEnum):
    """Which waits the backend can tell apart from errors."""

    NONE = "none"
    INPUT = "input"
    AUTH = "auth"
    INPUT_AND_AUTH = "input_and_auth"


class BackendTranscriptCapability(StrEnum):
    """What the backend wants to read."""

    FULL_TRANSCRIPT = "full_transcript"
    INCREMENTAL_USER_MESSAGES_WITH_REMOTE_STATE = "incremental_user_messages_with_remote_state"
    SINGLE_PROMPT = "single_prompt"


class BackendOutputCapability(StrEnum):
    """What survives of the agent's output."""

    TEXT = "text"
    TEXT_AND_ARTIFACTS = "text_and_artifacts"


class BackendCapabilities(Value, frozen=True, kw_only=True):
    """What a backend can do; by default everything."""

    cancellation: BackendCancellationCapability = BackendCancellationCapability.COOPERATIVE_TOKEN
    decisions: bool = True
    overrides: bool = True
    frontend_tools: bool = True
    continuation: BackendContinuationCapability = BackendContinuationCapability.IN_PROCESS_STATE
    waits: BackendWaitCapability = BackendWaitCapability.INPUT_AND_AUTH
    transcript: BackendTranscriptCapability = BackendTranscriptCapability.FULL_TRANSCRIPT
    output: BackendOutputCapability = BackendOutputCapability.TEXT_AND_ARTIFACTS

    @classmethod
    def full(cls) -> BackendCapabilities:
        return cls()

    @classmethod
    def remote_stateless_text(cls) -> BackendCapabilities:
        return cls(
            cancellation=BackendCancellationCapability.NONE,
            decisions=False,
            overrides=False,
            frontend_tools=False,
            continuation=BackendContinuationCapability.NONE,
            waits=BackendWaitCapability.NONE,
            transcript=BackendTranscriptCapability.SINGLE_PROMPT,
            output=BackendOutputCapability.TEXT,
        )

    def unsupported_root_features(self, request: BackendRootRunRequest) -> list[str]:
        """What the request asks for and the backend cannot do, in a fixed order."""
        asked = {
            "decisions": (bool(request.decisions) or request.control.decision_rx is not None)
            and not self.decisions,
            "overrides": request.overrides is not None and not self.overrides,
            "frontend_tools": bool(request.frontend_tools) and not self.frontend_tools,
            "continuation": request.is_continuation
            and self.continuation is BackendContinuationCapability.NONE,
        }
        return [name for name, missing in asked.items() if missing]

    def unsupported_delegate_features(
        self, request: BackendDelegateRunRequest, *, is_local: bool = False
    ) -> list[str]:
        """The same for a delegate's request; only a run in this process can be given state."""
        asked = {
            "delegate_persistence": request.policy.persistence
            is not BackendDelegatePersistence.EPHEMERAL,
            "continuation": request.policy.continuation is not BackendDelegateContinuation.DISABLED
            and self.continuation is BackendContinuationCapability.NONE,
            "delegate_state_seed": request.state_seed is not None and not is_local,
        }
        return [name for name, missing in asked.items() if missing]


# -- what a backend is asked ------------------------------------------------------------------


class BackendParentContext(Value, frozen=True, kw_only=True):
    """The run, thread and call a delegate belongs to."""

    parent_run_id: str | None = None
    parent_thread_id: str | None = None
    parent_tool_call_id: str | None = None


class BackendControl(msgspec.Struct, kw_only=True, gc=False):
    """How the run can be steered while it goes on."""

    cancellation_token: CancellationToken | None = None
    decision_rx: DecisionQueue | None = None


class BackendLocalRootContext(msgspec.Struct, frozen=True, gc=False):
    """What only a local backend may see.

    `phase_runtime` is an `awaken.phase.engine.PhaseRuntime`. A caller that has prepared the run
    gives its `awaken.plugin.agent.ResolvedAgent` and its `awaken.contract.start.PreparedRun`.
    """

    phase_runtime: object
    agent: object | None = None
    start: object | None = None


class BackendDelegatePersistence(StrEnum):
    """What is kept of a delegate."""

    EPHEMERAL = "ephemeral"


class BackendDelegateContinuation(StrEnum):
    """Whether a delegate can be taken up again."""

    DISABLED = "disabled"


class BackendDelegatePolicy(Value, frozen=True, kw_only=True):
    """How a delegate is run."""

    persistence: BackendDelegatePersistence = BackendDelegatePersistence.EPHEMERAL
    continuation: BackendDelegateContinuation = BackendDelegateContinuation.DISABLED


SaveState = Callable[[Mapping[str, Json]], Awaitable[None]]
"""Keeps values by name in the run's state, and returns once they are durable."""


class BackendRootRunRequest(msgspec.Struct, kw_only=True, gc=False):
    """A run of its own. `messages` is the conversation, `new_messages` this turn's input.

    The run is on record before a backend is asked. `persisted_state` is what is known of it, or
    for a new run of the thread's run before it; `save_state` keeps what a crash must not lose, such
    as the name of the work on the other side, and is awaited before anything depends on it. A run
    that is cut short before anything was saved is begun again, as a new one.
    """

    agent_id: str
    messages: Sequence[Message]
    new_messages: Sequence[Message]
    sink: EventSink
    resolver: ExecutionResolver
    run_identity: RunIdentity
    checkpoint_store: Store | None = None
    control: BackendControl = msgspec.field(default_factory=BackendControl)
    decisions: Sequence[Decision] = ()
    overrides: InferenceOverride | None = None
    frontend_tools: Sequence[ToolDescriptor] = ()
    local: BackendLocalRootContext | None = None
    inbox: InboxReceiver | None = None
    is_continuation: bool = False
    persisted_state: PersistedState | None = None
    save_state: SaveState | None = None


class DurableDelegates(Protocol):
    """Runs delegates as runs of their own, which survive a crash with their parent."""

    async def run_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        """Run the delegate of `request.key`, go on with it, or say how it ended if it has.

        Raises:
            ExecutionBackendError: it could not be run.
            RunLeft: the runtime closes; somebody else will go on with it.
        """
        ...

    async def answered(self, run_id: str) -> None:
        """Wait until somebody has answered a delegate that waits, or it waits no more, or it is
        too late for an answer."""
        ...

    async def tell(self, key: str, event: Json) -> None:
        """Write an event to the delegate of `key`, as soon as its run has begun; its model reads it
        at the next step, whoever carries it on."""
        ...

    async def done_by(self, key: str) -> str | None:
        """What the delegate of `key`, and those beneath it, have done, for the model whose call
        ends without their answer: `before that it had done: …`.

        Returns `None` if no call of theirs has ended, and none may have taken effect.

        Raises:
            StoreError: it cannot be read.
        """
        ...


class BackendDelegateRunRequest(msgspec.Struct, kw_only=True):
    """A run on behalf of another.

    With `durable` it is kept, under a name made of `key`: the same key is the same run, also in
    another process, and `resume` answers the question that `asker` put. `depth` counts the agents
    above, `budget` is what the run it works for may still use up. `state_seed` is what the run's
    state begins with, as soon as its plugins are active.
    """

    agent_id: str
    messages: Sequence[Message]
    new_messages: Sequence[Message]
    sink: EventSink
    resolver: ExecutionResolver
    parent: BackendParentContext = msgspec.field(default_factory=BackendParentContext)
    control: BackendControl = msgspec.field(default_factory=BackendControl)
    policy: BackendDelegatePolicy = msgspec.field(default_factory=BackendDelegatePolicy)
    durable: DurableDelegates | None = None
    key: str = ""
    resume: ToolCallResume | None = None
    asker: Asker | None = None
    depth: int = 0
    budget: Account | None = None
    state_seed: PersistedState | None = None


class BackendAbortRequest(msgspec.Struct, kw_only=True):
    """Stop a run elsewhere, as well as can be."""

    agent_id: str
    run_identity: RunIdentity
    parent: BackendParentContext | None = None
    persisted_state: PersistedState | None = None
    is_continuation: bool = False


# -- what a backend answers -------------------------------------------------------------------


class BackendOutputArtifact(Value, frozen=True, kw_only=True):
    """Something made, besides text."""

    id: str | None = None
    name: str | None = None
    media_type: str | None = None
    content: Json


class BackendRunOutput(Value, frozen=True, kw_only=True):
    """What came out."""

    text: str | None = None
    artifacts: tuple[BackendOutputArtifact, ...] = ()
    raw: Json = None

    @classmethod
    def from_text(cls, text: str | None) -> BackendRunOutput:
        return cls(text=text)

    def text_or(self, fallback: str | None) -> str | None:
        """The text, empty or not, else the fallback."""
        return self.text if self.text is not None else fallback


class BackendStatusKind(StrEnum):
    """The seven ways a backend run can stand."""

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
    """How the run stands; only `completed` asks the termination what that means."""

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
        """Whether somebody has to do something before the run goes on."""
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
    """A backend's whole answer. `state` and `thread_state` are what a delegate leaves in its
    persistent keys, of run and thread scope; `tickets` are the questions of a run that waits,
    `spending` what it has used up. `left_running` says what may go on elsewhere though the run is
    over, and why; `done` what a delegate that broke off had done before. `run` is how a run in this
    process ended."""

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


# -- errors -----------------------------------------------------------------------------------


class ExecutionBackendError(AwakenError):
    """A backend could not run the agent; `is_over` says that surely nothing of the run goes on
    elsewhere."""

    prefix = "execution failed"
    is_over = False

    def __init__(self, message: str) -> None:
        super().__init__(f"{self.prefix}: {message}")
        self.message = message


class BackendAgentNotFound(ExecutionBackendError):
    """The backend knows no such agent."""

    prefix = "agent not found"


class ExecutionFailed(ExecutionBackendError):
    """The run could not be started or carried through."""


class RemoteError(ExecutionBackendError):
    """The other side failed."""

    prefix = "remote error"

    def __init__(self, message: str, *, is_over: bool = False) -> None:
        super().__init__(message)
        self.is_over = is_over


class BackendLoopError(ExecutionBackendError):
    """The agent loop failed; reads exactly as its error. `result` is how the run ended, where the
    backend can tell."""

    def __init__(self, error: AgentLoopError, result: BackendRunResult | None = None) -> None:
        super().__init__(str(error))
        self.args = (str(error),)
        self.error = error
        self.result = result


class ExecutionBackendFactoryError(AwakenError):
    """An endpoint a backend cannot be built from."""


# -- backends ---------------------------------------------------------------------------------


class ExecutionBackend:
    """A place agents run. By default it can do little and runs nothing: say what yours does."""

    def capabilities(self) -> BackendCapabilities:
        return BackendCapabilities.remote_stateless_text()

    async def abort(self, request: BackendAbortRequest) -> None:
        return

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        raise ExecutionFailed("backend does not support root execution")

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        raise ExecutionFailed("backend does not support delegated execution")


class ExecutionBackendFactory(Protocol):
    """Builds backends of one kind from endpoints."""

    def backend(self) -> str: ...

    def validate(self, endpoint: RemoteEndpoint) -> None:
        """Build and discard, unless a factory knows a quicker way.

        Raises:
            ExecutionBackendFactoryError: the endpoint cannot work.
        """
        self.build(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend: ...
