"""What a backend can do in finer words, and what a request needs of it (02 §2.16)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
import pytest
from backend_requests import (
    ASKS,
    DECISIONS,
    FRONTEND_TOOLS,
    asks_for_everything,
    delegate_request,
    live_channel,
    root_request,
)
from hypothesis import given
from hypothesis import strategies as st

from awaken.backend import (
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendDecisionCapability,
    BackendDelegatePolicy,
    BackendFrontendToolCapability,
    BackendOutputCapability,
    BackendOverrideCapability,
    BackendPersistenceCapability,
    BackendProfile,
    BackendRequirements,
    BackendRootRunRequest,
    BackendTranscriptCapability,
    BackendWaitCapability,
    ExecutionBackend,
    LocalBackend,
    Mismatch,
    Profiled,
    profile_of,
)
from awaken.domain.inference import InferenceOverride

KINDS: dict[str, type[StrEnum]] = {
    "cancellation": BackendCancellationCapability,
    "continuation": BackendContinuationCapability,
    "decisions": BackendDecisionCapability,
    "overrides": BackendOverrideCapability,
    "frontend_tools": BackendFrontendToolCapability,
    "persistence": BackendPersistenceCapability,
    "waits": BackendWaitCapability,
    "transcript": BackendTranscriptCapability,
    "output": BackendOutputCapability,
}
"""In the order of §2.16."""

FULL = BackendProfile.full_local()
REMOTE = BackendProfile.remote_stateless_text()


# -- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (BackendDecisionCapability, "none live_only durable_resume live_and_durable"),
        (BackendOverrideCapability, "none inference_params model_and_params"),
        (BackendFrontendToolCapability, "none descriptors_only executable"),
        (BackendPersistenceCapability, "ephemeral checkpoint cross_session"),
    ],
)
def test_the_values_of_a_profile(kind: type[StrEnum], values: str) -> None:
    """02 §2.16: four kinds of its own, in the snake_case of their names."""
    assert [member.value for member in kind] == values.split()
    assert [member.name.lower() for member in kind] == values.split()


@pytest.mark.parametrize(
    ("field", "full", "remote"),
    [
        ("cancellation", "cooperative_token", "none"),
        ("continuation", "in_process_state", "none"),
        ("decisions", "live_and_durable", "none"),
        ("overrides", "model_and_params", "none"),
        ("frontend_tools", "executable", "none"),
        ("persistence", "checkpoint", "ephemeral"),
        ("waits", "input_and_auth", "none"),
        ("transcript", "full_transcript", "single_prompt"),
        ("output", "text_and_artifacts", "text"),
    ],
)
def test_the_presets_of_a_profile_field_by_field(field: str, full: str, remote: str) -> None:
    """02 §2.16: `full_local()` and the remote preset; the other five as in §2.3."""
    assert getattr(FULL, field) == full
    assert getattr(REMOTE, field) == remote
    assert BackendProfile() == FULL


# -- what satisfies what ----------------------------------------------------------------------

BEYOND: dict[str, set[tuple[str, str]]] = {
    # (required, actual): what is not good enough, all of it
    "cancellation": {
        ("cooperative_token", "none"),
        ("remote_abort", "none"),
        ("cooperative_token_and_remote_abort", "none"),
        ("cooperative_token", "remote_abort"),
        ("remote_abort", "cooperative_token"),
        ("cooperative_token_and_remote_abort", "cooperative_token"),
        ("cooperative_token_and_remote_abort", "remote_abort"),
    },
    "continuation": {
        ("in_process_state", "none"),
        ("remote_state", "none"),
        ("remote_state", "in_process_state"),
    },
    "decisions": {
        ("live_only", "none"),
        ("durable_resume", "none"),
        ("live_and_durable", "none"),
        ("live_only", "durable_resume"),
        ("durable_resume", "live_only"),
        ("live_and_durable", "live_only"),
        ("live_and_durable", "durable_resume"),
    },
    "overrides": {
        ("inference_params", "none"),
        ("model_and_params", "none"),
        ("model_and_params", "inference_params"),
    },
    "frontend_tools": {
        ("descriptors_only", "none"),
        ("executable", "none"),
        ("executable", "descriptors_only"),
    },
    "persistence": {
        ("checkpoint", "ephemeral"),
        ("cross_session", "ephemeral"),
        ("cross_session", "checkpoint"),
    },
    "waits": {
        ("input", "none"),
        ("auth", "none"),
        ("input_and_auth", "none"),
        ("input", "auth"),
        ("auth", "input"),
        ("input_and_auth", "input"),
        ("input_and_auth", "auth"),
    },
    "transcript": {
        ("full_transcript", "single_prompt"),
        ("incremental_user_messages_with_remote_state", "single_prompt"),
    },
    "output": {("text_and_artifacts", "text")},
}


@pytest.mark.parametrize("capability", KINDS)
def test_a_stronger_value_satisfies_a_weaker_one(capability: str) -> None:
    """02 §2.16: every pair; anything satisfies none and ephemeral, and each satisfies itself."""
    kind = KINDS[capability]
    refused = set()
    for required in kind:
        for actual in kind:
            profile = msgspec.structs.replace(FULL, **{capability: actual})
            needs: Any = {capability: required}
            for mismatch in profile.check(BackendRequirements(**needs)):
                assert mismatch == Mismatch(
                    capability=capability, required=required.value, actual=actual.value
                )
                refused.add((required.value, actual.value))

    assert refused == BEYOND[capability]


def test_every_mismatch_is_told_in_a_fixed_order() -> None:
    """02 §2.16: cancellation, continuation, decisions, overrides, frontend_tools, persistence, …"""
    strongest: Any = {name: list(kind)[-1] for name, kind in KINDS.items()}
    strongest["transcript"] = BackendTranscriptCapability.FULL_TRANSCRIPT

    found = REMOTE.check(BackendRequirements(**strongest))

    assert [mismatch.capability for mismatch in found] == list(KINDS)
    assert str(found[2]) == "decisions: needs live_and_durable, has none"
    assert BackendProfile.__struct_fields__ == tuple(KINDS)


def test_nothing_is_required_by_default() -> None:
    """02 §2.16: the weakest of each, which every backend has."""
    assert REMOTE.check(BackendRequirements()) == []
    assert FULL.check(BackendRequirements()) == []


# -- what a request needs ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seeded", "live", "needed"),
    [
        (False, False, "none"),
        (True, False, "durable_resume"),
        (False, True, "live_only"),
        (True, True, "live_and_durable"),
    ],
)
def test_which_decisions_a_root_request_needs(seeded: bool, live: bool, needed: str) -> None:
    """02 §2.16: seeded ones a durable resume, a channel live ones, both both."""
    asked: dict[str, Any] = {"decisions": DECISIONS} if seeded else {}
    if live:
        asked["control"] = live_channel()

    assert BackendRequirements.of_root(root_request(**asked)).decisions == needed


@pytest.mark.parametrize(
    ("overrides", "needed"),
    [
        (None, "none"),
        (InferenceOverride(), "inference_params"),
        (InferenceOverride(temperature=0.1), "inference_params"),
        (InferenceOverride(upstream_model="m", temperature=0.1), "model_and_params"),
    ],
)
def test_which_overrides_a_root_request_needs(
    overrides: InferenceOverride | None, needed: str
) -> None:
    """02 §2.16: another model is more than other parameters."""
    assert BackendRequirements.of_root(root_request(overrides=overrides)).overrides == needed


def test_what_else_a_root_request_needs() -> None:
    """02 §2.16: client tools must be executable, a continuation needs some state."""
    assert BackendRequirements.of_root(root_request()) == BackendRequirements()
    assert BackendRequirements.of_root(
        root_request(frontend_tools=FRONTEND_TOOLS, is_continuation=True)
    ) == BackendRequirements(
        frontend_tools=BackendFrontendToolCapability.EXECUTABLE,
        continuation=BackendContinuationCapability.IN_PROCESS_STATE,
    )


def test_what_a_delegate_request_needs() -> None:
    """02 §2.16: nothing by the seeds' one policy; else a checkpoint, or some state."""
    other: Any = "other"
    policy = BackendDelegatePolicy(persistence=other, continuation=other)

    assert BackendRequirements.of_delegate(delegate_request()) == BackendRequirements()
    assert BackendRequirements.of_delegate(delegate_request(policy=policy)) == BackendRequirements(
        persistence=BackendPersistenceCapability.CHECKPOINT,
        continuation=BackendContinuationCapability.IN_PROCESS_STATE,
    )


# -- beside the capabilities ------------------------------------------------------------------


def test_the_presets_say_the_same_in_both_languages() -> None:
    """02 §2.3, §2.16: full is full, remote is remote, there and back."""
    full, remote = BackendCapabilities.full(), BackendCapabilities.remote_stateless_text()

    assert BackendProfile.from_capabilities(full) == FULL
    assert BackendProfile.from_capabilities(remote) == REMOTE
    assert FULL.to_capabilities() == full
    assert REMOTE.to_capabilities() == remote


CAPABILITIES = st.builds(
    BackendCapabilities,
    cancellation=st.sampled_from(BackendCancellationCapability),
    decisions=st.booleans(),
    overrides=st.booleans(),
    frontend_tools=st.booleans(),
    continuation=st.sampled_from(BackendContinuationCapability),
    waits=st.sampled_from(BackendWaitCapability),
    transcript=st.sampled_from(BackendTranscriptCapability),
    output=st.sampled_from(BackendOutputCapability),
)
PROFILES = st.builds(
    BackendProfile, **{name: st.sampled_from(kind) for name, kind in KINDS.items()}
)


@st.composite
def requests(draw: st.DrawFn) -> BackendRootRunRequest:
    asked: dict[str, Any] = {}
    for ask in draw(st.sets(st.sampled_from(sorted(ASKS)))):
        asked |= ASKS[ask]
    if draw(st.booleans()):
        asked["control"] = live_channel()
    if draw(st.booleans()):
        asked["overrides"] = InferenceOverride(upstream_model="m")
    return root_request(**asked)


@given(CAPABILITIES, requests())
def test_a_profile_read_off_capabilities_refuses_the_same(
    capabilities: BackendCapabilities, request: BackendRootRunRequest
) -> None:
    """02 §2.16: the two never contradict; there and back is the same."""
    profile = BackendProfile.from_capabilities(capabilities)

    found = {m.capability for m in profile.check(BackendRequirements.of_root(request))}
    assert found == set(capabilities.unsupported_root_features(request))
    assert profile.to_capabilities() == capabilities


@given(PROFILES, requests())
def test_capabilities_read_off_a_profile_refuse_nothing_it_allows(
    profile: BackendProfile, request: BackendRootRunRequest
) -> None:
    """02 §2.16: fewer words never refuse more; the profile may."""
    refused = set(profile.to_capabilities().unsupported_root_features(request))
    found = profile.check(BackendRequirements.of_root(request))

    assert refused <= {mismatch.capability for mismatch in found}


class Telling(ExecutionBackend):
    """A backend that says more of itself."""

    def profile(self) -> BackendProfile:
        return BackendProfile(overrides=BackendOverrideCapability.INFERENCE_PARAMS)

    def capabilities(self) -> BackendCapabilities:
        return self.profile().to_capabilities()


def test_a_backends_own_profile_counts_else_its_capabilities() -> None:
    """02 §2.16: an optional ability is a second Protocol."""
    backend = Telling()
    other_model = root_request(overrides=InferenceOverride(upstream_model="m"))

    assert isinstance(backend, Profiled)
    assert profile_of(backend) == backend.profile()
    assert profile_of(LocalBackend()) == FULL
    assert profile_of(ExecutionBackend()) == REMOTE
    assert backend.capabilities().unsupported_root_features(other_model) == []
    assert profile_of(backend).check(BackendRequirements.of_root(other_model)) == [
        Mismatch(capability="overrides", required="model_and_params", actual="inference_params")
    ]


def test_a_local_backend_takes_everything_a_request_can_ask_for() -> None:
    """02 §2.13: LocalBackend is full."""
    request = asks_for_everything()
    request.control = live_channel()

    assert profile_of(LocalBackend()).check(BackendRequirements.of_root(request)) == []
