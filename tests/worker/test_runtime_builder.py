"""Putting an engine together, piece by piece (01 §6.1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from awaken.core.backend import ExecutionBackend, ExecutionBackendFactoryError
from awaken.core.message import Message
from awaken.core.spec import AgentSpec, ModelSpec, RemoteEndpoint
from awaken.core.store.threads import RunQuery
from awaken.errors import (
    AgentNotFound,
    BuildError,
    RegistryConflict,
    ResolveFailed,
    ValidationFailed,
)
from awaken.plugin.registrar import Registrar
from awaken.runtime.builder import AgentRuntimeBuilder
from awaken.stores.memory import MemoryProfiles, MemoryStore
from awaken.testing import EchoTool, ScriptedModel
from awaken.worker import RunRequest

pytestmark = pytest.mark.anyio


class Quiet:
    """A plugin that brings nothing."""

    id = "quiet"

    def register(self, registrar: Registrar) -> None:
        return


class Factory:
    """A backend for addresses that are good."""

    def backend(self) -> str:
        return "pigeon"

    def validate(self, endpoint: RemoteEndpoint) -> None:
        if "good" not in endpoint.base_url:
            raise ExecutionBackendFactoryError("no such loft")

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        return ExecutionBackend()


def spec(id: str = "agent", model: str = "model", host: str | None = None) -> AgentSpec:
    endpoint = host and RemoteEndpoint(backend="pigeon", base_url=f"https://{host}.example")
    return AgentSpec(id=id, model_id=model, system_prompt="", endpoint=endpoint or None)


def builder(*script: str) -> AgentRuntimeBuilder:
    return (
        AgentRuntimeBuilder()
        .with_agent_spec(spec())
        .with_model_binding(ModelSpec(id="model", provider_id="provider", upstream_model="up"))
        .with_provider("provider", ScriptedModel(script))
        .with_thread_run_store(MemoryStore())
    )


def request(agent: str = "agent") -> RunRequest:
    return RunRequest(thread_id="t", agent_id=agent, messages=(Message.user("hi"),))


async def test_what_was_put_together_runs() -> None:
    """01 §6.1."""
    runtime = (
        builder("hello")
        .with_tool("echo", EchoTool())
        .with_plugin(Quiet())
        .with_profile_store(MemoryProfiles())
        .build()
    )

    result = await runtime.run_to_completion(request())

    assert result.response == "hello"


TWICE: dict[str, Callable[[AgentRuntimeBuilder], object]] = {
    "agent 'agent'": lambda b: b.with_agent_spec(spec()),
    "tool 'echo'": lambda b: b.with_tool("echo", EchoTool()).with_tool("echo", EchoTool()),
    "plugin 'quiet'": lambda b: b.with_plugin(Quiet()).with_plugin(Quiet()),
    "model 'model'": lambda b: b.with_model_binding(
        ModelSpec(id="model", provider_id="p", upstream_model="u")
    ),
    "provider 'provider'": lambda b: b.with_provider("provider", ScriptedModel([])),
    "backend 'pigeon'": lambda b: b.with_agent_backend_factory(
        Factory()
    ).with_agent_backend_factory(Factory()),
}


@pytest.mark.parametrize("what", TWICE)
def test_the_same_thing_twice_is_refused_when_building(what: str) -> None:
    """01 §6.1, bad input: one conflict kind a registry; errors collect, the first is raised."""
    made = builder()
    TWICE[what](made)
    made.with_agent_spec(spec())

    for build in (made.build, made.build_unchecked):
        with pytest.raises(RegistryConflict, match=f"{what} is registered twice.*rename one"):
            build()


def test_a_runtime_needs_a_store() -> None:
    """Bad input: which call is missing."""
    made = AgentRuntimeBuilder()

    with pytest.raises(BuildError, match="with_thread_run_store"):
        made.build()


def test_building_looks_at_every_agent() -> None:
    """01 §6.1: all that cannot run are named, joined by "; " and in order (D-30)."""
    made = builder().with_agent_spec(spec("b", "ghost")).with_agent_spec(spec("a", "phantom"))

    with pytest.raises(ValidationFailed) as failed:
        made.build()

    first, second = str(failed.value).split("; agent ")
    assert "'a' asks for model 'phantom'" in first
    assert "'b' asks for model 'ghost'" in second


async def test_an_unchecked_runtime_finds_out_when_asked() -> None:
    """01 §6.1: the good agents run, the bad one is `ResolveFailed`, and nothing is written."""
    runtime = builder("fine").with_agent_spec(spec("bad", "ghost")).build_unchecked()

    with pytest.raises(ResolveFailed, match=r"'bad' asks for model 'ghost'.*'model'"):
        await runtime.run(request("bad"))
    assert await runtime.store.load_thread("t") is None
    assert list(await runtime.store.list_runs(RunQuery())) == []

    assert (await runtime.run(request())).response == "fine"


@pytest.mark.parametrize(("host", "text"), [("bad", "no such loft"), ("good", None)])
def test_endpoint_agents_are_checked_by_their_backend(host: str, text: str | None) -> None:
    """01 §6.1: backend known and endpoint valid; their models are not looked at."""
    made = builder().with_agent_spec(spec("far", "ghost", host))

    with pytest.raises(ValidationFailed, match=r"'far' asks for backend 'pigeon'.*known: none"):
        made.build()
    made.with_agent_backend_factory(Factory())
    if text is None:
        made.build()
    else:
        with pytest.raises(ValidationFailed, match=rf"'far'.*{text}"):
            made.build()


async def test_replacing_what_is_known_affects_later_runs_only() -> None:
    """01/R-8: version 2; the new ids resolve, the old ones do not."""
    runtime = builder("one").build()
    other = (
        AgentRuntimeBuilder()
        .with_agent_spec(spec("other"))
        .with_model_binding(ModelSpec(id="model", provider_id="p", upstream_model="u"))
        .with_provider("p", ScriptedModel(["two"]))
    )

    assert runtime.registry.version == 1
    assert runtime.registry.replace(other.build_resolver()) == 2

    with pytest.raises(AgentNotFound, match="'other'"):
        await runtime.run(request("agent"))
    assert (await runtime.run(request("other"))).response == "two"
