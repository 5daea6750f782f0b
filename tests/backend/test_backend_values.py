"""What goes to a backend and comes back: carriers, outputs, errors, factories (02 §2.1–§2.7)."""

from __future__ import annotations

import pytest
from backend_requests import delegate_request, root_request

from awaken.backend import (
    BACKEND_OUTPUT_STATE_KEY,
    BackendAbortRequest,
    BackendAgentNotFound,
    BackendControl,
    BackendDelegateContinuation,
    BackendDelegatePersistence,
    BackendDelegatePolicy,
    BackendLoopError,
    BackendOutputArtifact,
    BackendParentContext,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackend,
    ExecutionBackendError,
    ExecutionBackendFactory,
    ExecutionBackendFactoryError,
    ExecutionFailed,
    RemoteError,
    execution_capabilities,
)
from awaken.backend.subprocess import SubprocessBackendFactory
from awaken.codec import Json, dumps, from_json, loads
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import NATURAL_END
from awaken.core.spec import AgentSpec, RemoteEndpoint
from awaken.engine.registry import RegistryResolver, RegistrySet
from awaken.errors import (
    AgentLoopError,
    InferenceFailed,
    InvalidResume,
    PhaseError,
    RemoteAgentNotDirectlyRunnable,
    ResolveError,
    ResolveFailed,
    StorageError,
)
from awaken.plugin.resolved_agent import ResolvedBackendAgent

pytestmark = pytest.mark.anyio


# -- carriers ---------------------------------------------------------------------------------


def test_what_carriers_hold_by_default() -> None:
    """02 §2.1, §2.4: everything absent, and the one policy the seeds have."""
    assert BackendParentContext() == BackendParentContext(
        parent_run_id=None, parent_thread_id=None, parent_tool_call_id=None
    )
    control = BackendControl()
    assert (control.cancellation_token, control.decision_rx) == (None, None)
    assert BackendDelegatePolicy() == BackendDelegatePolicy(
        persistence=BackendDelegatePersistence.EPHEMERAL,
        continuation=BackendDelegateContinuation.DISABLED,
    )
    abort = BackendAbortRequest(
        agent_id="a", run_identity=RunIdentity(thread_id="t", run_id="r", agent_id="a")
    )
    assert (abort.parent, abort.persisted_state, abort.is_continuation) == (None, None, False)


def test_what_a_request_asks_for_by_default() -> None:
    """02 §2.4: no decisions, no overrides, no tools, nothing to go on with."""
    root, delegate = root_request(), delegate_request()

    assert (root.decisions, root.overrides, root.frontend_tools) == ((), None, ())
    assert (root.checkpoint_store, root.local, root.inbox) == (None, None, None)
    assert root.is_continuation is False
    assert delegate.policy == BackendDelegatePolicy()
    assert delegate.parent == BackendParentContext()


def test_what_a_result_holds_by_default() -> None:
    """02 §2.5: who, how it stands and how it ended; the rest may be absent."""
    result = BackendRunResult(
        agent_id="a", status=BackendRunStatus.completed(), termination=NATURAL_END
    )

    assert (result.status_reason, result.response, result.run_id) == (None, None, None)
    assert (result.inbox, result.state, result.steps) == (None, None, 0)
    assert result.output == BackendRunOutput()


# -- outputs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "fallback", "text"),
    [
        ("own", "fallback", "own"),
        ("own", None, "own"),
        ("", "fallback", ""),
        ("", None, ""),
        (None, "fallback", "fallback"),
        (None, "", ""),
        (None, None, None),
    ],
)
def test_text_or_counts_an_empty_text_as_text(
    own: str | None, fallback: str | None, text: str | None
) -> None:
    """02 §2.5: an empty string is present."""
    assert BackendRunOutput.from_text(own).text_or(fallback) == text


def test_outputs_are_equal_by_value() -> None:
    """02 §2.5: the default is all empty; `from_text` fills the text only."""
    artifact = BackendOutputArtifact(name="chart", content={"x": [1]})

    assert BackendRunOutput.from_text(None) == BackendRunOutput()
    assert BackendRunOutput.from_text("a") == BackendRunOutput(text="a", artifacts=(), raw=None)
    assert BackendRunOutput.from_text("") != BackendRunOutput()
    assert BackendRunOutput(artifacts=(artifact,)) == BackendRunOutput(
        artifacts=(BackendOutputArtifact(name="chart", content={"x": [1]}),)
    )
    assert BackendRunOutput(raw={"a": 1}) != BackendRunOutput(raw={"a": 2})


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (BackendRunOutput(), {}),
        (BackendRunOutput(text=""), {"text": ""}),
        (BackendRunOutput(raw=[1, {"a": None}]), {"raw": [1, {"a": None}]}),
        (
            BackendRunOutput(
                text="a", artifacts=(BackendOutputArtifact(id="1", content="x"),), raw=False
            ),
            {"text": "a", "artifacts": [{"id": "1", "content": "x"}], "raw": False},
        ),
        (BackendOutputArtifact(content=None), {"content": None}),
        (
            BackendOutputArtifact(id="1", name="n", media_type="text/csv", content={"x": 1}),
            {"id": "1", "name": "n", "media_type": "text/csv", "content": {"x": 1}},
        ),
    ],
)
def test_what_is_absent_is_not_written(
    value: BackendRunOutput | BackendOutputArtifact, json: Json
) -> None:
    """02 §2.5: `?` and `[]?` are omitted when absent or empty; the content never is."""
    assert loads(dumps(value)) == json
    assert from_json(json, type(value)) == value


def test_where_an_output_is_kept() -> None:
    """02 §2.10: the constant readers look for."""
    assert BACKEND_OUTPUT_STATE_KEY == "__runtime_backend_output"


# -- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text", "bare"),
    [
        (BackendAgentNotFound("ghost"), "agent not found: ghost", "ghost"),
        (ExecutionFailed("no room"), "execution failed: no room", "no room"),
        (RemoteError("502"), "remote error: 502", "502"),
    ],
)
def test_how_backend_errors_read(error: ExecutionBackendError, text: str, bare: str) -> None:
    """02 §2.7: a prefix for each kind; §2.9: the bare text stays an attribute."""
    assert str(error) == text
    assert error.message == bare


@pytest.mark.parametrize(
    "error",
    [
        InferenceFailed("boom"),
        StorageError("disk full"),
        PhaseError("hook"),
        InvalidResume("no such call"),
    ],
)
def test_a_loop_error_reads_exactly_as_itself(error: AgentLoopError) -> None:
    """02 §2.7: `Loop(e)` prints as the wrapped error, which stays within reach."""
    wrapped = BackendLoopError(error)

    assert str(wrapped) == str(error) == wrapped.message
    assert wrapped.error is error


async def test_a_backend_that_does_nothing_says_so() -> None:
    """02 §2.7: the defaults of a backend."""
    with pytest.raises(
        ExecutionFailed, match=r"^execution failed: backend does not support root execution$"
    ):
        await ExecutionBackend().execute_root(root_request())
    with pytest.raises(
        ExecutionFailed, match=r"^execution failed: backend does not support delegated execution$"
    ):
        await ExecutionBackend().execute_delegate(delegate_request())


async def test_aborting_is_fine_by_default() -> None:
    """02 §2.7: `abort()` defaults to success."""
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")

    await ExecutionBackend().abort(BackendAbortRequest(agent_id="a", run_identity=identity))


# -- factories --------------------------------------------------------------------------------


class Loft(ExecutionBackendFactory):
    """Builds backends for pigeons, and counts how often; or cannot."""

    def __init__(self, refusal: str | None = None) -> None:
        self.refusal = refusal
        self.built: list[RemoteEndpoint] = []

    def backend(self) -> str:
        return "pigeon"

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        self.built.append(endpoint)
        if self.refusal is not None:
            raise ExecutionBackendFactoryError(self.refusal)
        return ExecutionBackend()


ENDPOINT = RemoteEndpoint(backend="pigeon", base_url="https://loft.example")
SPEC = AgentSpec(id="remote", model_id="m", system_prompt="", endpoint=ENDPOINT)


def test_an_endpoint_is_validated_by_building_from_it() -> None:
    """02 §2.7: `validate(endpoint)` is build and discard; the error prints just its message."""
    able, unable = Loft(), Loft("no loft there")

    able.validate(ENDPOINT)
    assert able.built == [ENDPOINT]
    with pytest.raises(ExecutionBackendFactoryError) as caught:
        unable.validate(ENDPOINT)
    assert str(caught.value) == "no loft there"


def test_a_backend_is_built_once_and_on_first_use() -> None:
    """02 §2.7: the factory's, with the agent's endpoint; built and kept."""
    factory = Loft()
    agent = ResolvedBackendAgent(SPEC, factory)

    assert factory.built == []
    assert agent.backend() is agent.backend()
    assert factory.built == [ENDPOINT]


def test_a_ready_backend_is_not_built() -> None:
    """02 §2.7: a backend, or a factory and an endpoint."""
    backend, factory = ExecutionBackend(), Loft()

    assert ResolvedBackendAgent(SPEC, factory, backend).backend() is backend
    assert factory.built == []


def test_a_backend_that_cannot_be_built_says_which_and_why() -> None:
    """02 §2.7: the text, and §2.8: build errors propagate; another try is another build."""
    factory = Loft("no loft there")
    agent = ResolvedBackendAgent(SPEC, factory)
    text = "execution failed: failed to build backend 'pigeon': no loft there"

    with pytest.raises(ExecutionFailed) as caught:
        agent.backend()
    assert str(caught.value) == text
    with pytest.raises(ExecutionFailed) as caught:
        execution_capabilities(agent)
    assert str(caught.value) == text
    factory.refusal = None
    assert isinstance(agent.backend(), ExecutionBackend)


def test_a_local_agent_asked_out_of_a_remote_one() -> None:
    """02 §2.7: ResolveFailed with this text; by its other name it belongs to the registries."""
    registries = RegistrySet()
    registries.agents.register("remote", SPEC)
    registries.backends.register("pigeon", Loft())
    resolver = RegistryResolver(registries, builtin_plugins=lambda _: ())

    with pytest.raises(ResolveFailed) as caught:
        resolver.resolve("remote")

    text = "agent 'remote' is endpoint-backed and cannot be resolved locally"
    assert str(caught.value) == caught.value.message == text
    assert isinstance(caught.value, RemoteAgentNotDirectlyRunnable)
    assert isinstance(caught.value, ResolveError)


# -- where an agent is ------------------------------------------------------------------------


def test_an_endpoint_shows_no_credentials() -> None:
    endpoint = RemoteEndpoint(base_url="https://ann:pa55@far.example/a/@b")
    assert (
        repr(endpoint) == "RemoteEndpoint(backend='a2a', base_url='https://***@far.example/a/@b')"
    )


@pytest.mark.parametrize(
    "url", ["https://ann:pa#55@far.example", "https://far.example?key=pa55", "ftp://ann:pa55@far"]
)
def test_an_address_that_is_refused_shows_no_credentials(url: str) -> None:
    with pytest.raises(ValueError, match="base_url") as caught:
        RemoteEndpoint(base_url=url)
    assert "55" not in str(caught.value)


def test_a_process_that_is_given_a_url_shows_no_credentials() -> None:
    endpoint = RemoteEndpoint(backend="subprocess", base_url="https://ann:pa55@far.example")
    with pytest.raises(ExecutionBackendFactoryError, match="names no agent") as caught:
        SubprocessBackendFactory().validate(endpoint)
    assert "pa55" not in str(caught.value)
