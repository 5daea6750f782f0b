"""What a backend can do, and refusing what it cannot (02 §2.2, §2.3, §2.8)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
import pytest
from backend_requests import (
    ASKS,
    asks_for_everything,
    delegate_request,
    live_channel,
    root_request,
)

from awaken.backend import (
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendDelegateContinuation,
    BackendDelegatePersistence,
    BackendDelegatePolicy,
    BackendDelegateRunRequest,
    BackendOutputCapability,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    BackendTranscriptCapability,
    BackendWaitCapability,
    ExecutionBackend,
    ExecutionFailed,
    LocalBackend,
    execute_resolved_delegate_execution,
    execution_capabilities,
    validate_delegate_execution_request,
    validate_root_execution_request,
)
from awaken.core.inference import InferenceOverride
from awaken.core.lifecycle import NATURAL_END
from awaken.core.spec import AgentSpec
from awaken.plugin.resolved_agent import ResolvedAgent, ResolvedBackendAgent
from awaken.testing import ScriptedModel

pytestmark = pytest.mark.anyio

FULL = BackendCapabilities.full()
REMOTE = BackendCapabilities.remote_stateless_text()
LACKING: dict[str, Any] = {
    "decisions": False,
    "overrides": False,
    "frontend_tools": False,
    "continuation": BackendContinuationCapability.NONE,
}


def resolve(backend: ExecutionBackend) -> ResolvedBackendAgent:
    return ResolvedBackendAgent(
        AgentSpec(id="remote", model_id="m", system_prompt=""), backend=backend
    )


# -- the presets ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "full", "remote"),
    [
        (
            "cancellation",
            BackendCancellationCapability.COOPERATIVE_TOKEN,
            BackendCancellationCapability.NONE,
        ),
        ("decisions", True, False),
        ("overrides", True, False),
        ("frontend_tools", True, False),
        (
            "continuation",
            BackendContinuationCapability.IN_PROCESS_STATE,
            BackendContinuationCapability.NONE,
        ),
        ("waits", BackendWaitCapability.INPUT_AND_AUTH, BackendWaitCapability.NONE),
        (
            "transcript",
            BackendTranscriptCapability.FULL_TRANSCRIPT,
            BackendTranscriptCapability.SINGLE_PROMPT,
        ),
        ("output", BackendOutputCapability.TEXT_AND_ARTIFACTS, BackendOutputCapability.TEXT),
    ],
)
def test_the_presets_field_by_field(field: str, full: object, remote: object) -> None:
    """02 §2.3: `full()` and `remote_stateless_text()`."""
    assert getattr(FULL, field) is full
    assert getattr(REMOTE, field) is remote


def test_who_has_the_presets() -> None:
    """02 §2.3, §2.7: `full()` is the default value; a backend that says nothing can do little."""
    assert BackendCapabilities() == FULL
    assert LocalBackend().capabilities() == FULL
    assert ExecutionBackend().capabilities() == REMOTE
    assert len(BackendCapabilities.__struct_fields__) == 8


# -- the enums --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "token", "abort"),
    [
        (BackendCancellationCapability.NONE, False, False),
        (BackendCancellationCapability.COOPERATIVE_TOKEN, True, False),
        (BackendCancellationCapability.REMOTE_ABORT, False, True),
        (BackendCancellationCapability.COOPERATIVE_TOKEN_AND_REMOTE_ABORT, True, True),
    ],
)
def test_ways_to_cancel(
    capability: BackendCancellationCapability, token: bool, abort: bool
) -> None:
    """02 §2.2: which values mean a token, and which an abort."""
    assert capability.supports_cooperative_token is token
    assert capability.supports_remote_abort is abort


@pytest.mark.parametrize(
    ("enum", "values"),
    [
        (
            BackendCancellationCapability,
            "none cooperative_token remote_abort cooperative_token_and_remote_abort",
        ),
        (BackendContinuationCapability, "none in_process_state remote_state"),
        (BackendWaitCapability, "none input auth input_and_auth"),
        (
            BackendTranscriptCapability,
            "full_transcript incremental_user_messages_with_remote_state single_prompt",
        ),
        (BackendOutputCapability, "text text_and_artifacts"),
        (BackendDelegatePersistence, "ephemeral"),
        (BackendDelegateContinuation, "disabled"),
    ],
)
def test_values_are_written_as_their_names(enum: type[StrEnum], values: str) -> None:
    """02 §2.2, §2.4: the values, in their order, in the snake_case of their names."""
    assert [member.value for member in enum] == values.split()
    assert [member.name.lower() for member in enum] == values.split()


# -- what a root request asks for -------------------------------------------------------------


@pytest.mark.parametrize("feature", ASKS)
def test_each_feature_of_a_root_request_is_checked(feature: str) -> None:
    """02 §2.3: refused by a backend that lacks only this, taken by one that has only this."""
    request = root_request(**ASKS[feature])
    lacks = msgspec.structs.replace(FULL, **{feature: LACKING[feature]})
    has = msgspec.structs.replace(REMOTE, **{feature: getattr(FULL, feature)})

    assert lacks.unsupported_root_features(request) == [feature]
    assert has.unsupported_root_features(request) == []
    assert lacks.unsupported_root_features(root_request()) == []


def test_what_a_root_request_lacks_is_named_in_a_fixed_order() -> None:
    """02 §2.3: decisions, overrides, frontend_tools, continuation."""
    assert REMOTE.unsupported_root_features(asks_for_everything()) == [
        "decisions",
        "overrides",
        "frontend_tools",
        "continuation",
    ]
    assert FULL.unsupported_root_features(asks_for_everything()) == []


def test_a_decision_channel_alone_asks_for_decisions() -> None:
    """02 §2.3: decisions given, or a channel to give them by."""
    assert REMOTE.unsupported_root_features(root_request(control=live_channel())) == ["decisions"]


@pytest.mark.parametrize("overrides", [InferenceOverride(), InferenceOverride(temperature=0.1)])
def test_overrides_count_even_if_every_field_is_empty(overrides: InferenceOverride) -> None:
    """02 §2.3: overrides present."""
    assert REMOTE.unsupported_root_features(root_request(overrides=overrides)) == ["overrides"]


def test_state_elsewhere_is_enough_to_continue() -> None:
    """02 §2.3: only `none` refuses a continuation."""
    able = msgspec.structs.replace(REMOTE, continuation=BackendContinuationCapability.REMOTE_STATE)

    assert able.unsupported_root_features(root_request(is_continuation=True)) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("cancellation", value) for value in BackendCancellationCapability],
        *[("waits", value) for value in BackendWaitCapability],
        *[("transcript", value) for value in BackendTranscriptCapability],
        *[("output", value) for value in BackendOutputCapability],
    ],
)
def test_the_other_fields_are_never_checked(field: str, value: StrEnum) -> None:
    """02 §2.3: cancellation, waits, transcript and output make no difference."""
    capabilities = msgspec.structs.replace(FULL, **{field: value})
    request = asks_for_everything()
    request.control = live_channel()

    assert capabilities.unsupported_root_features(request) == []
    assert capabilities.unsupported_delegate_features(delegate_request()) == []


# -- what a delegate's request asks for -------------------------------------------------------

KEPT: Any = "kept"
"""Values no policy has yet: the seeds have one each."""


@pytest.mark.parametrize("capabilities", [FULL, REMOTE])
def test_a_delegate_that_is_to_be_kept_is_refused_by_every_backend(
    capabilities: BackendCapabilities,
) -> None:
    """02 §2.3: `delegate_persistence`, whatever the backend says."""
    request = delegate_request(policy=BackendDelegatePolicy(persistence=KEPT))

    assert capabilities.unsupported_delegate_features(request) == ["delegate_persistence"]


@pytest.mark.parametrize(
    ("continuation", "missing"),
    [
        (BackendContinuationCapability.NONE, ["continuation"]),
        (BackendContinuationCapability.IN_PROCESS_STATE, []),
        (BackendContinuationCapability.REMOTE_STATE, []),
    ],
)
def test_a_delegate_that_is_to_be_continued_needs_state(
    continuation: BackendContinuationCapability, missing: list[str]
) -> None:
    """02 §2.3: `continuation`, unless the backend has some."""
    request = delegate_request(policy=BackendDelegatePolicy(continuation=KEPT))
    capabilities = BackendCapabilities(continuation=continuation)

    assert capabilities.unsupported_delegate_features(request) == missing


def test_what_a_delegate_lacks_is_named_in_a_fixed_order() -> None:
    """02 §2.3: delegate_persistence, continuation; the default policy asks for nothing."""
    everything = BackendDelegatePolicy(persistence=KEPT, continuation=KEPT)

    assert REMOTE.unsupported_delegate_features(delegate_request(policy=everything)) == [
        "delegate_persistence",
        "continuation",
    ]
    assert REMOTE.unsupported_delegate_features(delegate_request()) == []


# -- choosing and refusing --------------------------------------------------------------------


class Willing(ExecutionBackend):
    """Takes everything, and remembers it."""

    def __init__(self, capabilities: BackendCapabilities = REMOTE) -> None:
        self._capabilities = capabilities
        self.asked: list[BackendRootRunRequest | BackendDelegateRunRequest] = []

    def capabilities(self) -> BackendCapabilities:
        return self._capabilities

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        self.asked.append(request)
        return BackendRunResult(
            agent_id=request.agent_id, status=BackendRunStatus.completed(), termination=NATURAL_END
        )


@pytest.mark.parametrize("feature", ASKS)
def test_a_root_request_beyond_the_backend_is_refused(feature: str) -> None:
    """02/B9: with `does not support: {name}`, before anything happened."""
    with pytest.raises(ExecutionFailed) as caught:
        validate_root_execution_request(resolve(ExecutionBackend()), root_request(**ASKS[feature]))

    assert str(caught.value) == (
        f"execution failed: agent 'remote' backend does not support: {feature}"
    )


def test_all_that_is_missing_is_named_at_once() -> None:
    """02/B9, §2.8: joined by a comma and a space."""
    with pytest.raises(ExecutionFailed) as caught:
        validate_root_execution_request(resolve(ExecutionBackend()), asks_for_everything())

    assert caught.value.message == (
        "agent 'remote' backend does not support: "
        "decisions, overrides, frontend_tools, continuation"
    )


def test_what_the_backend_can_do_is_not_refused() -> None:
    """02/B9, §2.8: nothing is asked, or nothing is missing."""
    validate_root_execution_request(resolve(ExecutionBackend()), root_request())
    validate_root_execution_request(resolve(Willing(FULL)), asks_for_everything())
    validate_delegate_execution_request(resolve(ExecutionBackend()), delegate_request())


async def test_a_delegate_beyond_the_backend_is_refused_before_it_is_asked() -> None:
    """02/B9, §2.8: validate, then execute."""
    backend = Willing()
    everything = BackendDelegatePolicy(persistence=KEPT, continuation=KEPT)
    request = delegate_request(policy=everything)

    with pytest.raises(ExecutionFailed) as caught:
        await execute_resolved_delegate_execution(resolve(backend), request)

    assert caught.value.message == (
        "agent 'remote' backend does not support: delegate_persistence, continuation"
    )
    with pytest.raises(ExecutionFailed, match="delegate_persistence, continuation"):
        validate_delegate_execution_request(resolve(backend), request)
    assert backend.asked == []


async def test_a_delegate_runs_on_its_own_backend() -> None:
    """02 §2.8: the non-local backend's `execute_delegate`, with the request as it is."""
    backend, request = Willing(), delegate_request()

    result = await execute_resolved_delegate_execution(resolve(backend), request)

    assert backend.asked == [request]
    assert result.status == BackendRunStatus.completed()


def test_a_local_agent_has_the_local_backend() -> None:
    """02 §2.8: Local is LocalBackend's, anything else its own backend's."""
    local = ResolvedAgent.new("local", "m", "sys", ScriptedModel([]))

    assert execution_capabilities(local) == FULL
    assert execution_capabilities(resolve(ExecutionBackend())) == REMOTE
    validate_root_execution_request(local, asks_for_everything())
