"""What a backend says of itself and of a run: capabilities, statuses, outputs, errors (02 §2)."""

from __future__ import annotations

import pytest

from awaken.backend import (
    BackendAgentNotFound,
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendControl,
    BackendDelegateRunRequest,
    BackendLoopError,
    BackendOutputArtifact,
    BackendOutputCapability,
    BackendRootRunRequest,
    BackendRunOutput,
    BackendRunStatus,
    BackendTranscriptCapability,
    BackendWaitCapability,
    ExecutionBackend,
    ExecutionBackendError,
    ExecutionBackendFactoryError,
    ExecutionFailed,
    LocalBackend,
    RemoteError,
    execution_capabilities,
    map_termination,
    validate_delegate_execution_request,
    validate_root_execution_request,
)
from awaken.codec import dumps
from awaken.contract.control import DecisionQueue
from awaken.contract.events import NullEventSink
from awaken.domain.identity import RunIdentity
from awaken.domain.inference import InferenceOverride
from awaken.domain.lifecycle import (
    BEHAVIOR_REQUESTED,
    CANCELLED,
    NATURAL_END,
    SUSPENDED_END,
    Blocked,
    Failed,
    RunStatus,
    Stopped,
    StoppedReason,
    TerminationReason,
)
from awaken.domain.message import Message
from awaken.domain.run import WaitingReason
from awaken.domain.spec import AgentSpec, RemoteEndpoint
from awaken.domain.suspension import ToolCallResume
from awaken.domain.tool import ToolDescriptor
from awaken.errors import AgentNotFound, InferenceFailed
from awaken.plugin.agent import ResolvedAgent, ResolvedBackendAgent
from awaken.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class NoAgents:
    """A resolver for requests nobody gets to run."""

    def resolve(self, agent_id: str) -> ResolvedAgent:
        raise AgentNotFound(agent_id)

    def resolve_execution(self, agent_id: str) -> ResolvedAgent:
        raise AgentNotFound(agent_id)

    def agent_ids(self) -> list[str]:
        return []


def root_request() -> BackendRootRunRequest:
    message = Message.user("hello")
    return BackendRootRunRequest(
        agent_id="remote",
        messages=[message],
        new_messages=[message],
        sink=NullEventSink(),
        resolver=NoAgents(),
        run_identity=RunIdentity(thread_id="thread", run_id="run", agent_id="remote"),
    )


def delegate_request() -> BackendDelegateRunRequest:
    message = Message.user("hello")
    return BackendDelegateRunRequest(
        agent_id="remote",
        messages=[message],
        new_messages=[message],
        sink=NullEventSink(),
        resolver=NoAgents(),
    )


def asks_for_everything() -> BackendRootRunRequest:
    request = root_request()
    request.is_continuation = True
    request.frontend_tools = [ToolDescriptor(id="ui", name="ui", description="")]
    request.overrides = InferenceOverride()
    request.decisions = [("call-1", ToolCallResume.approve())]
    return request


# -- the seeds --------------------------------------------------------------------------------


def test_backend_status_timeout_is_first_class_at_runtime_boundary() -> None:
    """02/B1 [S]: a timeout is done, for the reason `timeout`, whatever the termination says."""
    status = BackendRunStatus.timeout()
    termination = Failed(value="polling timeout exceeded")

    assert status.durable_run_status(termination) is RunStatus.DONE
    assert status.durable_status_reason(termination) == "timeout"
    assert status.result_status_label(termination) == "timeout"


def test_backend_status_waiting_is_first_class_at_runtime_boundary() -> None:
    """02/B2 [S]: waiting for input wins over an error beside it."""
    status = BackendRunStatus.waiting_input("need details")
    termination = Failed(value="should not win")

    assert status.durable_run_status(termination) is RunStatus.WAITING
    assert status.durable_status_reason(termination) == "input_required"
    assert status.result_status_label(termination) == "waiting_input"


# -- statuses ---------------------------------------------------------------------------------

WAITING, DONE = RunStatus.WAITING, RunStatus.DONE


@pytest.mark.parametrize(
    ("status", "display", "run_status", "reason", "label"),
    [
        (BackendRunStatus.waiting_input(), "waiting_input", WAITING, "input_required", None),
        (
            BackendRunStatus.waiting_input("which city?"),
            "waiting_input: which city?",
            WAITING,
            "input_required",
            "waiting_input",
        ),
        (BackendRunStatus.waiting_auth(), "waiting_auth", WAITING, "auth_required", None),
        (
            BackendRunStatus.waiting_auth("sign in"),
            "waiting_auth: sign in",
            WAITING,
            "auth_required",
            "waiting_auth",
        ),
        (BackendRunStatus.suspended(), "suspended", WAITING, "suspended", None),
        (
            BackendRunStatus.suspended("approve"),
            "suspended: approve",
            WAITING,
            "suspended",
            "suspended",
        ),
        (BackendRunStatus.failed("boom"), "failed: boom", DONE, "error", "failed"),
        (BackendRunStatus.failed(""), "failed: ", DONE, "error", "failed"),
        (BackendRunStatus.cancelled(), "cancelled", DONE, "cancelled", None),
        (BackendRunStatus.timeout(), "timeout", DONE, "timeout", None),
    ],
)
@pytest.mark.parametrize("termination", [NATURAL_END, SUSPENDED_END, Failed(value="no")])
def test_every_status_but_completed_wins_over_the_termination(
    status: BackendRunStatus,
    display: str,
    run_status: RunStatus,
    reason: str,
    label: str | None,
    termination: TerminationReason,
) -> None:
    """02/B14: the rows of §2.6, with and without the optional message."""
    assert str(status) == display
    assert status.durable_run_status(termination) is run_status
    assert status.durable_status_reason(termination) == reason
    assert status.result_status_label(termination) == (label or display)


@pytest.mark.parametrize(
    ("termination", "run_status", "reason"),
    [
        (NATURAL_END, DONE, "natural"),
        (BEHAVIOR_REQUESTED, DONE, "behavior_requested"),
        (CANCELLED, DONE, "cancelled"),
        (Blocked(value="no"), DONE, "blocked:no"),
        (Failed(value="boom"), DONE, "error"),
        (Stopped(value=StoppedReason(code="max_rounds")), DONE, "stopped:max_rounds"),
        (SUSPENDED_END, WAITING, None),
    ],
)
def test_completed_asks_the_termination(
    termination: TerminationReason, run_status: RunStatus, reason: str | None
) -> None:
    """02/B14: only Completed consults the termination (§2.6)."""
    status = BackendRunStatus.completed()

    assert str(status) == "completed"
    assert status.durable_run_status(termination) is run_status
    assert status.durable_status_reason(termination) == reason
    assert status.result_status_label(termination) == run_status.value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("input_required", WaitingReason.USER_INPUT),
        ("user_input_required", WaitingReason.USER_INPUT),
        ("auth_required", WaitingReason.TOOL_PERMISSION),
        ("suspended", WaitingReason.TOOL_PERMISSION),
        ("awaiting_tasks", WaitingReason.BACKGROUND_TASKS),
        ("rate_limit", WaitingReason.RATE_LIMIT),
        ("manual_pause", WaitingReason.MANUAL_PAUSE),
        ("something else", WaitingReason.EXTERNAL_EVENT),
        ("", WaitingReason.EXTERNAL_EVENT),
        (None, WaitingReason.EXTERNAL_EVENT),
    ],
)
def test_what_a_status_reason_waits_for(text: str | None, reason: WaitingReason) -> None:
    """02/B14: every row of the waiting-reason map (§2.11)."""
    assert WaitingReason.from_status_reason(text) is reason


@pytest.mark.parametrize(
    ("termination", "status"),
    [
        (NATURAL_END, BackendRunStatus.completed()),
        (BEHAVIOR_REQUESTED, BackendRunStatus.completed()),
        (CANCELLED, BackendRunStatus.cancelled()),
        (
            Stopped(value=StoppedReason(code="max_rounds")),
            BackendRunStatus.failed("stopped: max_rounds"),
        ),
        (
            Stopped(value=StoppedReason(code="timeout", detail="61 s")),
            BackendRunStatus.failed("stopped: timeout (61 s)"),
        ),
        (Blocked(value="not allowed"), BackendRunStatus.failed("blocked: not allowed")),
        (SUSPENDED_END, BackendRunStatus.suspended()),
        (Failed(value="inference failed: boom"), BackendRunStatus.failed("inference failed: boom")),
    ],
)
def test_map_termination(termination: TerminationReason, status: BackendRunStatus) -> None:
    """02 §2.15: how a local run's end looks from outside."""
    assert map_termination(termination) == status


# -- capabilities -----------------------------------------------------------------------------


def test_a_full_backend_can_do_everything() -> None:
    """02 §2.3: `full()` is the default value."""
    full = BackendCapabilities.full()

    assert full == BackendCapabilities()
    assert full.cancellation is BackendCancellationCapability.COOPERATIVE_TOKEN
    assert (full.decisions, full.overrides, full.frontend_tools) == (True, True, True)
    assert full.continuation is BackendContinuationCapability.IN_PROCESS_STATE
    assert full.waits is BackendWaitCapability.INPUT_AND_AUTH
    assert full.transcript is BackendTranscriptCapability.FULL_TRANSCRIPT
    assert full.output is BackendOutputCapability.TEXT_AND_ARTIFACTS
    assert LocalBackend().capabilities() == full


def test_a_stateless_remote_backend_can_do_little() -> None:
    """02 §2.3: `remote_stateless_text()`, which is also what a backend has that says nothing."""
    remote = BackendCapabilities.remote_stateless_text()

    assert remote.cancellation is BackendCancellationCapability.NONE
    assert (remote.decisions, remote.overrides, remote.frontend_tools) == (False, False, False)
    assert remote.continuation is BackendContinuationCapability.NONE
    assert remote.waits is BackendWaitCapability.NONE
    assert remote.transcript is BackendTranscriptCapability.SINGLE_PROMPT
    assert remote.output is BackendOutputCapability.TEXT
    assert ExecutionBackend().capabilities() == remote


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


def test_capabilities_are_written_as_their_names() -> None:
    """02 §2.2: values in the snake_case of their names."""
    for enum in (
        BackendCancellationCapability,
        BackendContinuationCapability,
        BackendWaitCapability,
        BackendTranscriptCapability,
        BackendOutputCapability,
    ):
        assert [member.value for member in enum] == [member.name.lower() for member in enum]
    assert [member.value for member in BackendTranscriptCapability] == [
        "full_transcript",
        "incremental_user_messages_with_remote_state",
        "single_prompt",
    ]


def test_what_a_root_request_lacks_is_named_in_a_fixed_order() -> None:
    """02 §2.3: decisions, overrides, frontend_tools, continuation."""
    remote = BackendCapabilities.remote_stateless_text()

    assert remote.unsupported_root_features(asks_for_everything()) == [
        "decisions",
        "overrides",
        "frontend_tools",
        "continuation",
    ]
    assert BackendCapabilities.full().unsupported_root_features(asks_for_everything()) == []
    assert remote.unsupported_root_features(root_request()) == []


def test_a_decision_channel_alone_asks_for_decisions() -> None:
    """02 §2.3: decisions given, or a channel to give them by."""
    request = root_request()
    request.control = BackendControl(decision_rx=DecisionQueue())

    remote = BackendCapabilities.remote_stateless_text()

    assert remote.unsupported_root_features(request) == ["decisions"]


def test_state_elsewhere_is_enough_to_continue() -> None:
    """02 §2.3: only `none` refuses a continuation."""
    request = root_request()
    request.is_continuation = True
    able = BackendCapabilities(continuation=BackendContinuationCapability.REMOTE_STATE)

    assert able.unsupported_root_features(request) == []


def test_the_ephemeral_policy_asks_for_nothing() -> None:
    """02 §2.3: the default policy of a delegate passes everywhere."""
    remote = BackendCapabilities.remote_stateless_text()

    assert remote.unsupported_delegate_features(delegate_request()) == []


# -- choosing and refusing --------------------------------------------------------------------


def test_a_request_beyond_the_backend_is_refused_with_all_it_lacks() -> None:
    """02/B9: the text names the agent and every missing feature, before anything happened."""
    remote = ResolvedBackendAgent(
        AgentSpec(id="remote", model_id="m", system_prompt=""), backend=ExecutionBackend()
    )

    with pytest.raises(ExecutionFailed) as caught:
        validate_root_execution_request(remote, asks_for_everything())

    assert str(caught.value) == (
        "execution failed: agent 'remote' backend does not support: "
        "decisions, overrides, frontend_tools, continuation"
    )
    validate_root_execution_request(remote, root_request())
    validate_delegate_execution_request(remote, delegate_request())


def test_a_local_agent_has_the_local_backend() -> None:
    """02 §2.8: Local is LocalBackend's, anything else its own backend's."""
    local = ResolvedAgent.new("local", "m", "sys", ScriptedModel([]))
    remote = ResolvedBackendAgent(
        AgentSpec(id="remote", model_id="m", system_prompt=""), backend=ExecutionBackend()
    )

    assert execution_capabilities(local) == BackendCapabilities.full()
    assert execution_capabilities(remote) == BackendCapabilities.remote_stateless_text()
    validate_root_execution_request(local, asks_for_everything())


class CountingFactory:
    """Builds a backend, and counts how often; or cannot."""

    def __init__(self, refusal: str | None = None) -> None:
        self.refusal = refusal
        self.built = 0

    def backend(self) -> str:
        return "pigeon"

    def validate(self, endpoint: RemoteEndpoint) -> None:
        self.build(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        if self.refusal is not None:
            raise ExecutionBackendFactoryError(self.refusal)
        self.built += 1
        return ExecutionBackend()


def remote_spec() -> AgentSpec:
    endpoint = RemoteEndpoint(backend="pigeon", base_url="https://loft.example")
    return AgentSpec(id="remote", model_id="m", system_prompt="", endpoint=endpoint)


def test_a_backend_is_built_once() -> None:
    """02 §2.7: built on first use and kept."""
    factory = CountingFactory()
    agent = ResolvedBackendAgent(remote_spec(), factory)

    assert agent.backend() is agent.backend()
    assert factory.built == 1


def test_a_backend_that_cannot_be_built_says_which_and_why() -> None:
    """02 §2.7: the factory's text alone, then the failed build around it."""
    agent = ResolvedBackendAgent(remote_spec(), CountingFactory("no loft there"))

    with pytest.raises(ExecutionFailed) as caught:
        agent.backend()

    assert str(caught.value) == "execution failed: failed to build backend 'pigeon': no loft there"
    assert str(ExecutionBackendFactoryError("no loft there")) == "no loft there"


async def test_a_backend_that_does_nothing_says_so() -> None:
    """02 §2.7: the defaults of a backend; aborting is always fine."""
    with pytest.raises(
        ExecutionFailed, match=r"^execution failed: backend does not support root execution$"
    ):
        await ExecutionBackend().execute_root(root_request())
    with pytest.raises(
        ExecutionFailed, match=r"^execution failed: backend does not support delegated execution$"
    ):
        await ExecutionBackend().execute_delegate(delegate_request())


# -- errors and outputs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (BackendAgentNotFound("ghost"), "agent not found: ghost"),
        (ExecutionFailed("no room"), "execution failed: no room"),
        (RemoteError("502"), "remote error: 502"),
        (BackendLoopError(InferenceFailed("boom")), "inference failed: boom"),
    ],
)
def test_how_backend_errors_read(error: ExecutionBackendError, text: str) -> None:
    """02 §2.7: a prefix for each kind; a loop error reads exactly as itself."""
    assert str(error) == text


def test_the_bare_text_of_an_error_stays_an_attribute() -> None:
    """02 §2.9: remote lifecycles finish with the text without its prefix."""
    assert ExecutionFailed("no room").message == "no room"
    assert BackendLoopError(InferenceFailed("boom")).message == "inference failed: boom"


def test_text_or_counts_an_empty_text_as_text() -> None:
    """02 §2.5: an empty string is present."""
    assert BackendRunOutput.from_text("").text_or("fallback") == ""
    assert BackendRunOutput.from_text("own").text_or("fallback") == "own"
    assert BackendRunOutput.from_text(None).text_or("fallback") == "fallback"
    assert BackendRunOutput().text_or(None) is None


def test_outputs_are_equal_by_value_and_written_without_what_is_empty() -> None:
    """02 §2.5: default is all empty, and empty fields are left out."""
    artifact = BackendOutputArtifact(name="chart", content={"x": 1})

    assert BackendRunOutput.from_text("a") == BackendRunOutput(text="a")
    assert BackendRunOutput.from_text(None) == BackendRunOutput()
    assert dumps(BackendRunOutput()) == b"{}"
    assert dumps(BackendRunOutput(text="a", artifacts=(artifact,))) == (
        b'{"text":"a","artifacts":[{"name":"chart","content":{"x":1}}]}'
    )
