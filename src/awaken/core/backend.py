"""Backends, which run agents: their base class, capabilities, requests, results and errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from awaken.codec import Json
from awaken.core.account import Account
from awaken.core.aio.cancel import CancellationToken
from awaken.core.budget import Spending
from awaken.core.deps import RunDeps
from awaken.core.event import EventSink
from awaken.core.identity import RunIdentity
from awaken.core.inbox import DecisionQueue, InboxReceiver, InboxSender
from awaken.core.inference import InferenceOverride
from awaken.core.lifecycle import RunStatus, TerminationReason, to_run_status
from awaken.core.message import Message
from awaken.core.registry import ExecutionResolver
from awaken.core.run import AgentRunResult, PersistedState, RunWaitingTicket
from awaken.core.spec import RemoteEndpoint
from awaken.core.store.store import Store
from awaken.core.suspension import Asker, Decision, ToolCallResume
from awaken.core.tool import ToolDescriptor
from awaken.core.value import Value
from awaken.errors import AgentLoopError, AwakenError


class ExecutionBackend:
    """The base class of backends. By default it supports little and refuses to run agents."""

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
        """Check an endpoint. By default this builds a backend and discards it.

        Raises:
            ExecutionBackendFactoryError: no backend can be built from the endpoint.
        """
        self.build(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend: ...


# -- what a backend can do --------------------------------------------------------------------


class BackendCancellationCapability(StrEnum):
    """How a run can be cancelled once it has started."""

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
    """Where the state of a run is kept between turns."""

    NONE = "none"
    IN_PROCESS_STATE = "in_process_state"
    REMOTE_STATE = "remote_state"

    @property
    def is_possible(self) -> bool:
        """Whether a run can be continued at all."""
        return self is not BackendContinuationCapability.NONE


class BackendWaitCapability(StrEnum):
    """Which kinds of waiting the backend reports as waiting, and not as errors."""

    NONE = "none"
    INPUT = "input"
    AUTH = "auth"
    INPUT_AND_AUTH = "input_and_auth"


class BackendTranscriptCapability(StrEnum):
    """How much of the conversation the backend wants in a request."""

    FULL_TRANSCRIPT = "full_transcript"
    INCREMENTAL_USER_MESSAGES_WITH_REMOTE_STATE = "incremental_user_messages_with_remote_state"
    SINGLE_PROMPT = "single_prompt"


class BackendOutputCapability(StrEnum):
    """The parts of the agent's output that the backend returns."""

    TEXT = "text"
    TEXT_AND_ARTIFACTS = "text_and_artifacts"


class BackendCapabilities(Value, frozen=True, kw_only=True):
    """The features that a backend supports; by default all."""

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
        """The features that the request needs and the backend lacks, in a fixed order."""
        missing_by_name = {
            "decisions": (bool(request.decisions) or request.control.decision_rx is not None)
            and not self.decisions,
            "overrides": request.overrides is not None and not self.overrides,
            "frontend_tools": bool(request.frontend_tools) and not self.frontend_tools,
            "continuation": request.is_continuation
            and self.continuation is BackendContinuationCapability.NONE,
        }
        return [name for name, missing in missing_by_name.items() if missing]

    def unsupported_delegate_features(
        self, request: BackendDelegateRunRequest, *, is_local: bool = False
    ) -> list[str]:
        """The features that a delegate's request needs and the backend lacks.

        Only a local backend supports a state seed.
        """
        missing_by_name = {
            "delegate_persistence": request.policy.persistence
            is not BackendDelegatePersistence.EPHEMERAL,
            "continuation": request.policy.continuation is not BackendDelegateContinuation.DISABLED
            and self.continuation is BackendContinuationCapability.NONE,
            "delegate_state_seed": request.state_seed is not None and not is_local,
        }
        return [name for name, missing in missing_by_name.items() if missing]


# -- requests to a backend --------------------------------------------------------------------


class BackendControl(msgspec.Struct, kw_only=True):
    """How a run is controlled from outside: a token to cancel it, a queue of answers for it."""

    cancellation_token: CancellationToken | None = None
    decision_rx: DecisionQueue | None = None


class BackendLocalRootContext(msgspec.Struct, frozen=True):
    """The parts of a request that only a local backend gets.

    `phase_runtime` is an `awaken.engine.phases.PhaseRuntime`. A caller that has resolved the agent
    gives its `awaken.plugin.resolved_agent.ResolvedAgent`.
    """

    phase_runtime: object
    agent: object | None = None


SaveState = Callable[[Mapping[str, Json]], Awaitable[None]]
"""Stores values by name in the run's state, and returns once they are durable."""


class BackendRootRunRequest(msgspec.Struct, kw_only=True):
    """A request to run an agent. `messages` is the conversation, `new_messages` this turn's input.

    The run's record is stored before the backend gets this. `persisted_state` is the stored state
    of the run; for a new run, that of the thread's previous run. `save_state` stores what a crash
    must not lose, such as the id of a remote task; await it before anything depends on the value. A
    run that is interrupted before anything was saved is started again, as a new one.
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


class BackendParentContext(Value, frozen=True, kw_only=True):
    """The run, thread and tool call that started a delegate."""

    parent_run_id: str | None = None
    parent_thread_id: str | None = None
    parent_tool_call_id: str | None = None


class BackendDelegatePersistence(StrEnum):
    """How much of a delegate's run is stored."""

    EPHEMERAL = "ephemeral"


class BackendDelegateContinuation(StrEnum):
    """Whether a delegate's run can be continued later."""

    DISABLED = "disabled"


class BackendDelegatePolicy(Value, frozen=True, kw_only=True):
    """How a delegate is run."""

    persistence: BackendDelegatePersistence = BackendDelegatePersistence.EPHEMERAL
    continuation: BackendDelegateContinuation = BackendDelegateContinuation.DISABLED


class DurableDelegates(Protocol):
    """Runs delegates as durable runs, which are recovered after a crash like their parent."""

    async def run_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        """Start the delegate of `request.key`, continue it, or return its result if it has ended.

        Raises:
            ExecutionBackendError: the delegate could not be run.
            RunLeft: the runtime is closing; another worker will continue the delegate.
        """
        ...

    async def wait_for_answer(self, run_id: str) -> None:
        """Wait until a waiting delegate has an answer, its question has expired, or it no longer
        waits."""
        ...

    async def send_event(self, thread_id: str, key: str, event: Json) -> None:
        """Send an event to the delegate of the call `key` of a thread, once its run has started.

        Its model reads the event at the next step, whichever process runs the delegate.
        """
        ...

    async def summarize_delegate(self, thread_id: str, key: str) -> str | None:
        """A summary of the actions of the delegate of the call `key` of a thread, and of the
        delegates below it: `before that it had done: …`

        The text is for the model whose call ends without the delegate's answer. Returns `None` if
        none of their calls has ended or may have taken effect.

        Raises:
            StoreError: the delegate's thread cannot be read.
        """
        ...


class BackendDelegateRunRequest(msgspec.Struct, kw_only=True):
    """A request to run an agent as a delegate of another run.

    With `durable` the run is stored under an id made from the parent's thread and `key`: the same
    key is the same run, also in another process. `resume` is the answer to the question described
    by `asker`. `depth` counts its ancestors, `budget` is the account of its parent run.
    `state_seed` is the initial state, applied once the run's plugins are active. `deps` are the
    dependencies that the parent run passes on.
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
    deps: RunDeps | None = None


class BackendAbortRequest(msgspec.Struct, kw_only=True):
    """A request to stop a remote run; the backend does its best."""

    agent_id: str
    run_identity: RunIdentity
    parent: BackendParentContext | None = None
    persisted_state: PersistedState | None = None
    is_continuation: bool = False


# -- what a backend returns -------------------------------------------------------------------


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
    are the questions of a waiting run, `spending` is what the run has spent. `left_running` is a
    text about work that may go on remotely although the run has ended, and why. `done` is the
    summary of the actions of a delegate that broke off. `run` is how a run in this process ended.
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


BACKEND_OUTPUT_STATE_KEY = "__runtime_backend_output"


# -- errors -----------------------------------------------------------------------------------


class ExecutionBackendError(AwakenError):
    """A backend could not run the agent.

    `is_over` means that no part of the run can still be running remotely.
    """

    prefix = "execution failed"
    is_over = False

    def __init__(self, message: str) -> None:
        super().__init__(f"{self.prefix}: {message}")
        self.message = message


class BackendAgentNotFound(ExecutionBackendError):
    """The backend has no agent with this id."""

    prefix = "agent not found"


class ExecutionFailed(ExecutionBackendError):
    """The run could not be started or finished."""


class RemoteError(ExecutionBackendError):
    """The remote side failed."""

    prefix = "remote error"

    def __init__(self, message: str, *, is_over: bool = False) -> None:
        super().__init__(message)
        self.is_over = is_over


class BackendLoopError(ExecutionBackendError):
    """The agent loop failed; has the same text as its error.

    `result` is the result of the run, if the backend knows it.
    """

    def __init__(self, error: AgentLoopError, result: BackendRunResult | None = None) -> None:
        super().__init__(str(error))
        self.args = (str(error),)
        self.error = error
        self.result = result


class ExecutionBackendFactoryError(AwakenError):
    """A backend cannot be built from this endpoint."""
