"""Endpoints of the subprocess backend: what it takes, what it refuses before anything starts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from process_stage import backend_for, endpoint

from awaken.backend.subprocess import SubprocessBackendFactory
from awaken.core.backend import (
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendOutputCapability,
    BackendTranscriptCapability,
    BackendWaitCapability,
    ExecutionBackendFactoryError,
)
from awaken.core.spec import AgentSpec, RemoteEndpoint
from awaken.errors import ValidationFailed
from awaken.runtime.builder import AgentRuntimeBuilder
from awaken.stores.memory import MemoryStore

FACTORY = SubprocessBackendFactory()


def test_the_backend_says_what_it_can_do() -> None:
    """02 §2.3: no more than it does."""
    assert FACTORY.backend() == "subprocess"
    assert backend_for("echo").capabilities() == BackendCapabilities(
        cancellation=BackendCancellationCapability.COOPERATIVE_TOKEN_AND_REMOTE_ABORT,
        decisions=False,
        overrides=True,
        frontend_tools=False,
        continuation=BackendContinuationCapability.NONE,
        waits=BackendWaitCapability.NONE,
        transcript=BackendTranscriptCapability.FULL_TRANSCRIPT,
        output=BackendOutputCapability.TEXT,
    )


@pytest.mark.parametrize("address", ["python:app:agent", "python:a.b_2.c:make_agent", "python:ä:ö"])
def test_an_address_names_a_module_and_what_is_in_it(address: str) -> None:
    """01/R-7: besides http(s) URLs; whether there is such a module is not looked at."""
    found = RemoteEndpoint.read({"backend": "subprocess", "base_url": address})

    FACTORY.validate(found)


@pytest.mark.parametrize(
    "address",
    [
        "python:",
        "python:app",
        "python:app:",
        "python::agent",
        "python:app:agent:more",
        "python:app:agent.more",
        "python:app..b:agent",
        "python:1app:agent",
        "python:app/b:agent",
        "python:app:agent ",
        "python:app:agent\n",
        "python:app:agent?x=1",
        "Python:app:agent",
        "pythonapp:agent",
    ],
)
def test_what_is_no_address_is_no_endpoint(address: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="neither an http"):
        RemoteEndpoint.read({"backend": "subprocess", "base_url": address})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"base_url": "https://agent.example"}, "names no agent: write python:package.module:name"),
        ({"auth": {"type": "bearer", "token": "x"}}, "takes no auth"),
        ({"timeout_ms": 0}, "timeout_ms is the time a run may take, not 0"),
        ({"options": {"cvd": "/"}}, "unknown field `cvd`"),
        ({"options": {"cwd": 1}}, "Expected `str | null`, got `int` - at `$.cwd`"),
        ({"options": {"env": {"A": 1}}}, "at `$.env[...]`"),
        ({"options": {"env": {"A=B": "1"}}}, "Expected `str` matching regex"),
        ({"options": {"pass_env": ["A="]}}, "at `$.pass_env[0]`"),
        ({"options": {"grace_ms": -1}}, "Expected `int` >= 0 - at `$.grace_ms`"),
        ({"options": {"max_line_bytes": 10}}, "Expected `int` >= 1024"),
    ],
    ids=str,
)
def test_an_endpoint_that_cannot_work_is_refused(changes: dict[str, Any], text: str) -> None:
    """02 §2.7: before anything is started."""
    broken = msgspec.structs.replace(endpoint("echo"), **changes)

    for deed in (FACTORY.validate, FACTORY.build):
        with pytest.raises(ExecutionBackendFactoryError) as refused:
            deed(broken)
        assert text in str(refused.value)


def test_a_runtime_refuses_an_agent_whose_endpoint_cannot_work() -> None:
    spec = AgentSpec(
        id="far", model_id="m", system_prompt="", endpoint=endpoint("echo", options={"cvd": "/"})
    )
    builder = AgentRuntimeBuilder().with_agent_spec(spec).with_thread_run_store(MemoryStore())

    with pytest.raises(ValidationFailed, match=r"far.*unknown field `cvd`"):
        builder.with_agent_backend_factory(FACTORY).build()
