"""What a backend can do, in finer words than yes and no, and what a request needs of it.

`BackendCapabilities` is what every backend states. A profile says more: which decisions, which
overrides, what lasts. A backend that has one is `Profiled`; any other's is read off its
capabilities, and the two never contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

from awaken.contract.backend import (
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendDelegateContinuation,
    BackendDelegatePersistence,
    BackendDelegateRunRequest,
    BackendOutputCapability,
    BackendRootRunRequest,
    BackendTranscriptCapability,
    BackendWaitCapability,
    ExecutionBackend,
)
from awaken.domain.value import Value


class BackendDecisionCapability(StrEnum):
    """When a backend takes answers to what its runs ask: while they wait, later, or both."""

    NONE = "none"
    LIVE_ONLY = "live_only"
    DURABLE_RESUME = "durable_resume"
    LIVE_AND_DURABLE = "live_and_durable"


class BackendOverrideCapability(StrEnum):
    """What of an inference a request may change."""

    NONE = "none"
    INFERENCE_PARAMS = "inference_params"
    MODEL_AND_PARAMS = "model_and_params"


class BackendFrontendToolCapability(StrEnum):
    """What becomes of tools the client runs: they are told of, or their calls also come back."""

    NONE = "none"
    DESCRIPTORS_ONLY = "descriptors_only"
    EXECUTABLE = "executable"


class BackendPersistenceCapability(StrEnum):
    """What outlives a run: nothing, its checkpoints, or a conversation over many of them."""

    EPHEMERAL = "ephemeral"
    CHECKPOINT = "checkpoint"
    CROSS_SESSION = "cross_session"


_Cancellation = BackendCancellationCapability
_Continuation = BackendContinuationCapability
_Decisions = BackendDecisionCapability
_Overrides = BackendOverrideCapability
_FrontendTools = BackendFrontendToolCapability
_Persistence = BackendPersistenceCapability
_Waits = BackendWaitCapability
_Transcript = BackendTranscriptCapability
_Output = BackendOutputCapability

# -- what satisfies what ----------------------------------------------------------------------

Satisfies = Mapping[StrEnum, frozenset[StrEnum]]
"""To each value, those it is good enough for."""


def _rising(kind: type[StrEnum]) -> Satisfies:
    """Each value is good enough for itself and for those before it."""
    values = list(kind)
    return {value: frozenset(values[: place + 1]) for place, value in enumerate(values)}


def _either_or_both(kind: type[StrEnum]) -> Satisfies:
    """Nothing, one thing, another thing, both."""
    nothing, one, other, both = kind
    return {
        nothing: frozenset({nothing}),
        one: frozenset({nothing, one}),
        other: frozenset({nothing, other}),
        both: frozenset(kind),
    }


_SATISFIES: Mapping[str, Satisfies] = {
    "cancellation": _either_or_both(_Cancellation),
    "continuation": _rising(_Continuation),
    "decisions": _either_or_both(_Decisions),
    "overrides": _rising(_Overrides),
    "frontend_tools": _rising(_FrontendTools),
    "persistence": _rising(_Persistence),
    "waits": _either_or_both(_Waits),
    "transcript": {
        _Transcript.FULL_TRANSCRIPT: frozenset(_Transcript),
        _Transcript.INCREMENTAL_USER_MESSAGES_WITH_REMOTE_STATE: frozenset(_Transcript),
        _Transcript.SINGLE_PROMPT: frozenset({_Transcript.SINGLE_PROMPT}),
    },
    "output": _rising(_Output),
}
"""In the order in which a request is held against a profile."""


class Mismatch(Value, frozen=True, kw_only=True):
    """Something a request needs and a backend has not got."""

    capability: str
    required: str
    actual: str

    def __str__(self) -> str:
        return f"{self.capability}: needs {self.required}, has {self.actual}"


# -- what a request needs ---------------------------------------------------------------------


class BackendRequirements(Value, frozen=True, kw_only=True):
    """What a request needs of a backend; by default nothing that any backend lacks."""

    cancellation: BackendCancellationCapability = _Cancellation.NONE
    continuation: BackendContinuationCapability = _Continuation.NONE
    decisions: BackendDecisionCapability = _Decisions.NONE
    overrides: BackendOverrideCapability = _Overrides.NONE
    frontend_tools: BackendFrontendToolCapability = _FrontendTools.NONE
    persistence: BackendPersistenceCapability = _Persistence.EPHEMERAL
    waits: BackendWaitCapability = _Waits.NONE
    transcript: BackendTranscriptCapability = _Transcript.SINGLE_PROMPT
    output: BackendOutputCapability = _Output.TEXT

    @classmethod
    def of_root(cls, request: BackendRootRunRequest) -> BackendRequirements:
        """What a run of its own needs.

        How it can be cancelled, what it waits for and what it reads and writes are no matter of
        the request: whoever runs it goes by what the backend has.
        """
        return cls(
            continuation=_continuation(request.is_continuation),
            decisions=_decisions(
                seeded=bool(request.decisions), live=request.control.decision_rx is not None
            ),
            overrides=_overrides(request),
            frontend_tools=_FrontendTools.EXECUTABLE
            if request.frontend_tools
            else _FrontendTools.NONE,
        )

    @classmethod
    def of_delegate(cls, request: BackendDelegateRunRequest) -> BackendRequirements:
        """What a run on behalf of another needs."""
        policy = request.policy
        kept = policy.persistence is not BackendDelegatePersistence.EPHEMERAL
        return cls(
            continuation=_continuation(
                policy.continuation is not BackendDelegateContinuation.DISABLED
            ),
            persistence=_Persistence.CHECKPOINT if kept else _Persistence.EPHEMERAL,
        )


def _continuation(needed: bool) -> BackendContinuationCapability:
    return _Continuation.IN_PROCESS_STATE if needed else _Continuation.NONE


def _decisions(*, seeded: bool, live: bool) -> BackendDecisionCapability:
    if seeded and live:
        return _Decisions.LIVE_AND_DURABLE
    if seeded:
        return _Decisions.DURABLE_RESUME
    return _Decisions.LIVE_ONLY if live else _Decisions.NONE


def _overrides(request: BackendRootRunRequest) -> BackendOverrideCapability:
    if request.overrides is None:
        return _Overrides.NONE
    if request.overrides.upstream_model is not None:
        return _Overrides.MODEL_AND_PARAMS
    return _Overrides.INFERENCE_PARAMS


# -- what a backend has -----------------------------------------------------------------------


class BackendProfile(Value, frozen=True, kw_only=True):
    """What a backend can do; by default what one in this process can."""

    cancellation: BackendCancellationCapability = _Cancellation.COOPERATIVE_TOKEN
    continuation: BackendContinuationCapability = _Continuation.IN_PROCESS_STATE
    decisions: BackendDecisionCapability = _Decisions.LIVE_AND_DURABLE
    overrides: BackendOverrideCapability = _Overrides.MODEL_AND_PARAMS
    frontend_tools: BackendFrontendToolCapability = _FrontendTools.EXECUTABLE
    persistence: BackendPersistenceCapability = _Persistence.CHECKPOINT
    waits: BackendWaitCapability = _Waits.INPUT_AND_AUTH
    transcript: BackendTranscriptCapability = _Transcript.FULL_TRANSCRIPT
    output: BackendOutputCapability = _Output.TEXT_AND_ARTIFACTS

    @classmethod
    def full_local(cls) -> BackendProfile:
        return cls()

    @classmethod
    def remote_stateless_text(cls) -> BackendProfile:
        return cls(
            cancellation=_Cancellation.NONE,
            continuation=_Continuation.NONE,
            decisions=_Decisions.NONE,
            overrides=_Overrides.NONE,
            frontend_tools=_FrontendTools.NONE,
            persistence=_Persistence.EPHEMERAL,
            waits=_Waits.NONE,
            transcript=_Transcript.SINGLE_PROMPT,
            output=_Output.TEXT,
        )

    def check(self, requirements: BackendRequirements) -> list[Mismatch]:
        """Everything the backend has not got, in a fixed order."""
        return [
            Mismatch(capability=name, required=required.value, actual=actual.value)
            for name, satisfies in _SATISFIES.items()
            if (required := getattr(requirements, name))
            not in satisfies[actual := getattr(self, name)]
        ]

    @classmethod
    def from_capabilities(cls, capabilities: BackendCapabilities) -> BackendProfile:
        """The profile that says the same: a plain yes is the strongest there is."""
        return cls(
            cancellation=capabilities.cancellation,
            continuation=capabilities.continuation,
            decisions=_Decisions.LIVE_AND_DURABLE if capabilities.decisions else _Decisions.NONE,
            overrides=_Overrides.MODEL_AND_PARAMS if capabilities.overrides else _Overrides.NONE,
            frontend_tools=_FrontendTools.EXECUTABLE
            if capabilities.frontend_tools
            else _FrontendTools.NONE,
            persistence=_LASTING[capabilities.continuation],
            waits=capabilities.waits,
            transcript=capabilities.transcript,
            output=capabilities.output,
        )

    def to_capabilities(self) -> BackendCapabilities:
        """The same in fewer words: a yes where the backend can do some of it.

        So nothing the profile allows is refused; the profile may refuse more.
        """
        return BackendCapabilities(
            cancellation=self.cancellation,
            decisions=self.decisions is not _Decisions.NONE,
            overrides=self.overrides is not _Overrides.NONE,
            frontend_tools=self.frontend_tools is not _FrontendTools.NONE,
            continuation=self.continuation,
            waits=self.waits,
            transcript=self.transcript,
            output=self.output,
        )


_LASTING = {
    _Continuation.NONE: _Persistence.EPHEMERAL,
    _Continuation.IN_PROCESS_STATE: _Persistence.CHECKPOINT,
    _Continuation.REMOTE_STATE: _Persistence.CROSS_SESSION,
}


@runtime_checkable
class Profiled(Protocol):
    """A backend that says more of itself than its capabilities do."""

    def profile(self) -> BackendProfile: ...


def profile_of(backend: ExecutionBackend) -> BackendProfile:
    """The backend's own profile, or what its capabilities come to."""
    if isinstance(backend, Profiled):
        return backend.profile()
    return BackendProfile.from_capabilities(backend.capabilities())
