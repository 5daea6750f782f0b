"""Agents elsewhere, as a user writes them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from awaken import Agent, RemoteAgent, Runtime
from awaken.backend import (
    BackendCapabilities,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackend,
    ExecutionBackendFactoryError,
)
from awaken.core.budget import Budget
from awaken.core.lifecycle import NATURAL_END
from awaken.core.secret import RedactedString
from awaken.core.spec import AgentSpec, RemoteEndpoint
from awaken.errors import ConfigError, ValidationFailed
from awaken.testing import ScriptedModel

pytestmark = pytest.mark.anyio

URL = "https://agents.example/a2a"
SECRET = "s3cret-t0ken-of-mine"


class Echo(ExecutionBackend):
    """Says what it was asked, and where it is."""

    def __init__(self, endpoint: RemoteEndpoint) -> None:
        self._endpoint = endpoint

    def capabilities(self) -> BackendCapabilities:
        return BackendCapabilities.remote_stateless_text()

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        said = request.new_messages[-1].text()
        return BackendRunResult(
            agent_id=request.agent_id,
            status=BackendRunStatus.completed(),
            termination=NATURAL_END,
            response=f"{said} at {self._endpoint.base_url}",
        )


class EchoFactory:
    """Makes those; one at `bad.example` it does not take."""

    def __init__(self, name: str = "echo") -> None:
        self._name = name

    def backend(self) -> str:
        return self._name

    def validate(self, endpoint: RemoteEndpoint) -> None:
        if "bad.example" in endpoint.base_url:
            raise ExecutionBackendFactoryError("nobody lives there")

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        return Echo(endpoint)


# -- what it comes to -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "backend"),
    [
        ("https://agents.example", "a2a"),
        ("http://127.0.0.1:8000/one", "a2a"),
        ("HTTPS://agents.example", "a2a"),
        ("python:my.agents:helper", "subprocess"),
    ],
)
def test_the_address_says_which_backend_is_meant(url: str, backend: str) -> None:
    assert RemoteAgent("far", url).spec.endpoint == RemoteEndpoint(backend=backend, base_url=url)


def test_a_backend_that_is_named_counts_more_than_the_address() -> None:
    endpoint = RemoteAgent("far", URL, backend="jobs").spec.endpoint
    assert endpoint is not None
    assert endpoint.backend == "jobs"


def test_everything_that_is_given_is_in_the_specification() -> None:
    budget = Budget(steps=3)
    agent = RemoteAgent(
        "far",
        URL,
        token=SECRET,
        target="writer",
        description="Writes.",
        timeout=1.5,
        budget=budget,
        options={"poll_interval_ms": 100},
    )
    assert agent.id == "far"
    assert agent.spec == AgentSpec(
        id="far",
        model_id="a2a",
        system_prompt="",
        description="Writes.",
        budget=budget,
        endpoint=RemoteEndpoint(
            backend="a2a",
            base_url=URL,
            auth={"type": "bearer", "token": SECRET},
            target="writer",
            timeout_ms=1500,
            options={"poll_interval_ms": 100},
        ),
    )


def test_a_redacted_token_is_sent_as_it_is() -> None:
    plain = RemoteAgent("far", URL, token=SECRET)
    assert RemoteAgent("far", URL, token=RedactedString(SECRET)).spec == plain.spec


def test_a_timeout_of_next_to_nothing_is_still_some_time() -> None:
    endpoint = RemoteAgent("far", URL, timeout=1e-9).spec.endpoint
    assert endpoint is not None
    assert endpoint.timeout_ms == 1


def test_its_secrets_are_not_shown() -> None:
    agent = RemoteAgent("far", URL, token=SECRET)
    assert repr(agent) == "RemoteAgent('far')"
    for shown in (repr(agent.spec), str(agent.spec), repr(agent.spec.endpoint)):
        assert SECRET not in shown


# -- what cannot work -------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"id": " "}, "an agent's id is text that is not blank, not ' '"),
    ({"id": 7}, "an agent's id is text that is not blank, not 7"),
    ({"url": None}, "agent 'far': url is text such as https://…, not None"),
    ({"url": "ftp://agents.example"}, "agent 'far': 'ftp://agents.example' is no address: give ht"),
    ({"url": "agents.example"}, "agent 'far': 'agents.example' is no address: give https://…"),
    ({"url": "https://"}, "agent 'far': endpoint base_url 'https://' is neither an http(s) URL"),
    ({"url": "python:helper"}, "agent 'far': endpoint base_url 'python:helper' is neither"),
    ({"url": URL + "?key=1"}, "must not have query or fragment"),
    ({"backend": " "}, "agent 'far': endpoint backend must not be blank"),
    ({"timeout": 0}, "agent 'far': timeout is above 0 seconds, not 0"),
    ({"timeout": float("nan")}, "agent 'far': timeout is above 0 seconds, not nan"),
    ({"timeout": float("inf")}, "agent 'far': timeout is above 0 seconds, not inf"),
    ({"timeout": "5"}, "agent 'far': timeout is above 0 seconds, not '5'"),
    ({"token": ""}, "agent 'far': endpoint bearer auth needs a token"),
    ({"token": "***"}, "agent 'far': endpoint bearer auth needs a token"),
    ({"options": ["poll"]}, "agent 'far': options are a mapping by name, not ['poll']"),
    ({"budget": 5}, "agent 'far': budget is a Budget"),
]


@pytest.mark.parametrize(("given", "why"), WRONG, ids=[str(given) for given, _ in WRONG])
def test_an_argument_that_cannot_work_is_named(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        RemoteAgent(**({"id": "far", "url": URL} | given))


@pytest.mark.parametrize("scheme", ["https", "ftp"])
def test_a_password_in_the_address_is_refused_and_not_repeated(scheme: str) -> None:
    with pytest.raises(ConfigError, match="give a token instead") as refused:
        RemoteAgent("far", f"{scheme}://me:{SECRET}@agents.example")
    assert SECRET not in str(refused.value)


# -- in a runtime -----------------------------------------------------------------------------


async def test_it_is_asked_for_by_its_name_or_as_it_is() -> None:
    agent = RemoteAgent("far", URL, backend="echo")
    async with Runtime([agent], backends=[EchoFactory()]) as runtime:
        assert (await runtime.run("far", "one")).response == f"one at {URL}"
        assert (await runtime.run(agent, "two")).response == f"two at {URL}"
        async with runtime.stream(agent, "three") as events:
            assert [text async for text in events.text()] == [f"three at {URL}"]


async def test_it_stands_beside_agents_that_run_here() -> None:
    near = Agent("near", model=ScriptedModel(["here"]))
    far = RemoteAgent("far", URL, backend="echo")
    async with Runtime([near, far], backends=[EchoFactory()]) as runtime:
        assert (await runtime.run("near", "one", thread="t")).response == "here"
        assert (await runtime.run("far", "two", thread="t")).response == f"two at {URL}"


async def test_a_backend_of_ones_own_can_take_the_place_of_a_known_one() -> None:
    async with Runtime([RemoteAgent("far", URL)], backends=[EchoFactory("a2a")]) as runtime:
        assert (await runtime.run("far", "one")).response == f"one at {URL}"


def test_a_backend_nobody_knows_is_named_with_what_to_do() -> None:
    with pytest.raises(ConfigError) as refused:
        Runtime([RemoteAgent("far", URL, backend="pigeon")])
    assert str(refused.value) == (
        "agent 'far': backend 'pigeon' is unknown; known: a2a, subprocess. For a backend of "
        "your own, pass its factory: Runtime(…, backends=[…])"
    )


def test_an_endpoint_its_backend_refuses_is_named_before_anything_runs() -> None:
    agent = RemoteAgent("far", "https://bad.example", backend="echo")
    with pytest.raises(ValidationFailed, match="endpoint of agent 'far' is invalid: nobody lives"):
        Runtime([agent], backends=[EchoFactory()])
