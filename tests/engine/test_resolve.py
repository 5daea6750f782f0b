"""From a spec to an agent that can run (01 §5.3)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from awaken.codec import Json
from awaken.core.backend import ExecutionBackend, ExecutionBackendFactoryError, ExecutionFailed
from awaken.core.lifecycle import Phase
from awaken.core.llm import LlmExecutor
from awaken.core.registry import ExecutionResolver
from awaken.core.spec import AgentSpec, ModelPoolSpec, ModelSpec, RemoteEndpoint
from awaken.core.state.command import EffectSpec
from awaken.core.state.snapshot import Snapshot
from awaken.core.tool_context import Tool
from awaken.engine.registry import ModelAndProvider, RegistryResolver, RegistrySet
from awaken.errors import (
    AgentNotFound,
    AwakenError,
    DelegateNotFound,
    EnvBuildFailed,
    InvalidPluginConfig,
    InvalidRemoteEndpointConfig,
    ModelNotFound,
    PluginNotFound,
    ProviderNotFound,
    RemoteAgentNotDirectlyRunnable,
    ToolIdConflict,
    UnsupportedRemoteBackend,
)
from awaken.plugin.context import PhaseContext
from awaken.plugin.hook import ConfigSchema, Plugin
from awaken.plugin.registrar import Registrar
from awaken.plugin.resolved_agent import ResolvedAgent, ResolvedBackendAgent
from awaken.testing import ScriptedModel
from awaken.tool import tool


async def work() -> str:
    """Work."""
    return "worked"


def named(name: str) -> Tool:
    return tool(work, name=name)


class Bringing:
    """Brings tools and a hook, and reads a section."""

    id = "bringing"

    def __init__(self, *tools: str) -> None:
        self._tools = tools

    def register(self, registrar: Registrar) -> None:
        registrar.hook(Phase.STEP_START, self.hook)
        for name in self._tools:
            registrar.tool(named(name))

    async def hook(self, ctx: PhaseContext) -> None:
        return None

    def config_schemas(self) -> Sequence[ConfigSchema]:
        schema: Json = {
            "type": "object",
            "properties": {"limit": {"type": "integer"}},
            "required": ["limit"],
        }
        return [ConfigSchema(key="bringing", json_schema=schema)]


class Factory:
    """A backend that only accepts one address, and may fail to be built."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.built = 0

    def backend(self) -> str:
        return "a2a"

    def validate(self, endpoint: RemoteEndpoint) -> None:
        if "good" not in endpoint.base_url:
            raise ExecutionBackendFactoryError(f"{endpoint.base_url} is not good")

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        self.built += 1
        if self.broken:
            raise ExecutionBackendFactoryError("no room")
        return ExecutionBackend()


def make_delegate(spec: AgentSpec, _: ExecutionResolver) -> Tool:
    return named(f"agent_run_{spec.id}")


def spec_of(id: str = "agent", **changes: Any) -> AgentSpec:
    fields: dict[str, Any] = {"id": id, "model_id": "model", "system_prompt": "Be brief."}
    return AgentSpec(**(fields | changes))


def resolver_of(
    *specs: AgentSpec,
    tools: Sequence[str] = (),
    plugins: Sequence[Plugin] = (),
    factory: Factory | None = None,
    builtin: Sequence[Plugin] = (),
) -> RegistryResolver:
    known = RegistrySet()
    for spec in specs:
        known.agents.register(spec.id, spec)
    for name in tools:
        known.tools.register(name, named(name))
    for plugin in plugins:
        known.plugins.register(plugin.id, plugin)
    known.models.register(
        "model", ModelSpec(id="model", provider_id="provider", upstream_model="upstream-1")
    )
    known.models.register(
        "orphan", ModelSpec(id="orphan", provider_id="nobody", upstream_model="u")
    )
    known.providers.register("provider", ScriptedModel([], name="provider"))
    if factory is not None:
        known.backends.register(factory.backend(), factory)
    return RegistryResolver(known, builtin_plugins=lambda _: builtin, make_delegate=make_delegate)


def endpoint(host: str = "good", backend: str = "a2a") -> RemoteEndpoint:
    return RemoteEndpoint(backend=backend, base_url=f"https://{host}.example")


# -- finding ----------------------------------------------------------------------------------


def test_an_agent_is_resolved_with_everything_it_names() -> None:
    """01 §5.3: spec, upstream model, executor, env and sorted descriptors."""
    resolver = resolver_of(
        spec_of(plugin_ids=("bringing",)), tools=["b", "a"], plugins=[Bringing("c")]
    )

    agent = resolver.resolve("agent")

    assert agent.spec.id == "agent"
    assert agent.upstream_model == "upstream-1"
    assert agent.llm_executor.name == "provider"
    assert [descriptor.id for descriptor in agent.descriptors] == ["a", "b", "c"]
    assert [entry.plugin_id for entry in agent.env.hooks[Phase.STEP_START]] == ["bringing"]
    assert resolver.agent_ids() == ["agent"]


MISSING: dict[str, tuple[AgentSpec, type[AwakenError], str]] = {
    "model": (spec_of(model_id="ghost"), ModelNotFound, "'agent'.*'ghost'.*'model', 'orphan'"),
    "provider": (spec_of(model_id="orphan"), ProviderNotFound, "'orphan'.*'nobody'.*'provider'"),
    "plugin": (spec_of(plugin_ids=("ghost",)), PluginNotFound, "'agent'.*'ghost'.*'bringing'"),
    "delegate": (spec_of(delegates=("ghost",)), DelegateNotFound, "'agent'.*'ghost'.*'agent'"),
    "backend": (
        spec_of(endpoint=endpoint(backend="pigeon")),
        UnsupportedRemoteBackend,
        "'agent'.*'pigeon'.*'a2a'",
    ),
}


@pytest.mark.parametrize("kind", MISSING)
def test_what_is_missing_is_named_beside_what_is_known(kind: str) -> None:
    """01/R-1, bad input: who asks, for what, and what there is, in order (D-30)."""
    spec, error, text = MISSING[kind]
    resolver = resolver_of(spec, plugins=[Bringing()], factory=Factory())

    with pytest.raises(error, match=text):
        resolver.resolve_execution("agent")


def test_an_unknown_agent_is_named_beside_those_there_are() -> None:
    """01/R-1, D-30."""
    resolver = resolver_of(spec_of("b"), spec_of("a"))

    with pytest.raises(AgentNotFound, match=r"'ghost'; registered: 'a', 'b'"):
        resolver.resolve("ghost")
    with pytest.raises(AgentNotFound):
        resolver.resolve_execution("ghost")
    with pytest.raises(AgentNotFound, match="none is registered"):
        resolver_of().resolve("ghost")


# -- choosing tools ---------------------------------------------------------------------------

SELECTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["a", "b", "from_plugin"]),
    ({"allowed_tools": ("a",)}, ["a"]),
    ({"allowed_tools": ("a", "from_plugin")}, ["a", "from_plugin"]),
    ({"excluded_tools": ("a",)}, ["b", "from_plugin"]),
    ({"excluded_tools": ("from_plugin",)}, ["a", "b"]),
    ({"allowed_tools": ("a", "b"), "excluded_tools": ("b",)}, ["a"]),
    ({"allowed_tools": ()}, []),
    ({"excluded_tools": ("ghost",)}, ["a", "b", "from_plugin"]),
    ({"allowed_tool_patterns": ("from_*",)}, ["from_plugin"]),
    ({"allowed_tools": ("a",), "allowed_tool_patterns": ("from_*",)}, ["a", "from_plugin"]),
    ({"excluded_tool_patterns": ("*",)}, []),
]


@pytest.mark.parametrize(("chosen", "expected"), SELECTIONS)
def test_allowed_and_excluded_tools(chosen: dict[str, Any], expected: list[str]) -> None:
    """01/R-2: allow, then exclude; `[]` removes all, unknown exclusions nothing; plugins obey."""
    spec = spec_of(plugin_ids=("bringing",), **chosen)
    resolver = resolver_of(spec, tools=["a", "b"], plugins=[Bringing("from_plugin")])

    agent = resolver.resolve("agent")

    assert sorted(agent.tools) == expected
    assert [descriptor.id for descriptor in agent.descriptors] == expected


def test_a_pattern_that_fits_no_tool_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """01 §5.1: usually a typing error."""
    resolver = resolver_of(spec_of(excluded_tool_patterns=("delet_*",)), tools=["delete_file"])

    with caplog.at_level(logging.WARNING, logger="awaken.registry"):
        resolver.resolve("agent")

    assert "'delet_*' matches no tool" in caplog.text


def test_a_plugin_tool_and_a_runtime_tool_of_one_id_clash() -> None:
    """01/R-3, bad input: the tool and the agent are named, and what to do."""
    spec = spec_of(plugin_ids=("bringing",))

    with pytest.raises(ToolIdConflict, match=r"'echo'.*agent 'agent'.*rename one") as conflict:
        resolver_of(spec, tools=["echo"], plugins=[Bringing("echo")]).resolve("agent")
    assert conflict.value.tool_id == "echo"


def test_a_delegate_and_a_runtime_tool_of_one_id_clash() -> None:
    """D-22: where the reference lets the delegate win."""
    with pytest.raises(ToolIdConflict, match=r"'agent_run_helper'.*'helper'"):
        resolver_of(
            spec_of(delegates=("helper",)), spec_of("helper"), tools=["agent_run_helper"]
        ).resolve("agent")


def test_two_plugins_that_do_not_fit_together_are_an_env_error() -> None:
    """01 §5.3: `EnvBuild`, naming the agent and the clash."""

    class Telling(Bringing):
        def __init__(self, id: str) -> None:
            super().__init__()
            self.id = id

        def register(self, registrar: Registrar) -> None:
            registrar.effect(EffectSpec("tell", str), self.tell)

        async def tell(self, payload: Any, snapshot: Snapshot) -> None:
            return None

    resolver = resolver_of(
        spec_of(plugin_ids=("one", "two")), plugins=[Telling("one"), Telling("two")]
    )

    with pytest.raises(EnvBuildFailed, match=r"'agent'.*'tell'"):
        resolver.resolve("agent")


# -- sections ---------------------------------------------------------------------------------


@pytest.mark.parametrize("section", [{"limit": "many"}, {}, "text"])
def test_a_section_that_breaks_its_schema_fails(section: Json) -> None:
    """01/R-4, bad input: plugin, section and place are named."""
    spec = spec_of(plugin_ids=("bringing",), sections={"bringing": section})

    with pytest.raises(InvalidPluginConfig, match=r"section 'bringing' of plugin 'bringing'"):
        resolver_of(spec, plugins=[Bringing()]).resolve("agent")


@pytest.mark.parametrize("sections", [{}, {"bringing": {"limit": 3}}])
def test_a_missing_or_fitting_section_passes(sections: dict[str, Json]) -> None:
    """01/R-4."""
    spec = spec_of(plugin_ids=("bringing",), sections=sections)

    assert resolver_of(spec, plugins=[Bringing()]).resolve("agent").spec is spec


def test_a_section_nobody_reads_is_warned_of_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    """01 §5.3: a warning, for the plugin may come back (G-3)."""
    spec = spec_of(sections={"bringing": {"limit": "anything"}, "retry": {}})

    with caplog.at_level(logging.WARNING, logger="awaken.registry"):
        agent = resolver_of(spec, plugins=[Bringing()]).resolve("agent")

    assert "no plugin reads section 'bringing'" in caplog.text
    assert "'retry'" not in caplog.text
    assert agent.spec.sections == spec.sections


# -- sharing ----------------------------------------------------------------------------------


class Scoped(Bringing):
    """A plugin that keeps something of a run."""

    id = "scoped"

    def for_run(self) -> Scoped:
        return Scoped()


def test_runs_share_an_agent_unless_a_plugin_keeps_something_of_a_run() -> None:
    """D-4: resolved once where that is safe, each time where it is not."""
    shared = resolver_of(spec_of(plugin_ids=("bringing",)), plugins=[Bringing()])
    scoped = resolver_of(spec_of(plugin_ids=("scoped",)), plugins=[Scoped()])

    assert shared.resolve("agent") is shared.resolve("agent")
    one, two = scoped.resolve("agent"), scoped.resolve("agent")
    assert one.env.plugins[0] is not two.env.plugins[0]


def test_an_executor_may_be_wrapped() -> None:
    """01 §5.3 step 2: retries, say, by whoever knows of them."""
    seen: list[str] = []

    def wrap(
        spec: AgentSpec, models: Sequence[ModelAndProvider], pool: ModelPoolSpec | None
    ) -> LlmExecutor:
        seen.append(spec.id)
        return ScriptedModel([], name=f"wrapped {models[0][1].name}")

    plain = resolver_of(spec_of())
    resolver = RegistryResolver(plain.registries, builtin_plugins=lambda _: (), wrap_executor=wrap)

    assert resolver.resolve("agent").llm_executor.name == "wrapped provider"
    assert seen == ["agent"]


# -- agents that run elsewhere ----------------------------------------------------------------


def test_an_endpoint_agent_is_not_resolved_locally() -> None:
    """01/R-5: locally it fails; as an execution it is not local."""
    resolver = resolver_of(spec_of(endpoint=endpoint()), factory=Factory())

    with pytest.raises(RemoteAgentNotDirectlyRunnable, match="'agent' is endpoint-backed"):
        resolver.resolve("agent")
    assert isinstance(resolver.resolve_execution("agent"), ResolvedBackendAgent)
    assert isinstance(resolver_of(spec_of()).resolve_execution("agent"), ResolvedAgent)


def test_a_remote_agent_needs_no_model_no_plugins_and_no_tools() -> None:
    """01/R-9: they are not even looked at."""
    spec = spec_of(model_id="ghost", plugin_ids=("ghost",), endpoint=endpoint())

    execution = resolver_of(spec, factory=Factory()).resolve_execution("agent")

    assert isinstance(execution, ResolvedBackendAgent)
    assert execution.spec is spec


def test_a_backend_is_built_on_first_use_and_once() -> None:
    """01 §5.3: lazily, and cached."""
    factory = Factory()
    resolver = resolver_of(spec_of(endpoint=endpoint()), factory=factory)
    execution = resolver.resolve_execution("agent")
    assert isinstance(execution, ResolvedBackendAgent)
    assert factory.built == 0

    assert execution.backend() is execution.backend()
    assert resolver.resolve_execution("agent") is execution
    assert factory.built == 1


def test_a_backend_that_cannot_be_built_says_so_on_use() -> None:
    """01 §5.3: the failure surfaces on use."""
    resolver = resolver_of(spec_of(endpoint=endpoint()), factory=Factory(broken=True))
    execution = resolver.resolve_execution("agent")
    assert isinstance(execution, ResolvedBackendAgent)

    with pytest.raises(ExecutionFailed, match="failed to build backend 'a2a': no room"):
        execution.backend()


def test_an_endpoint_its_backend_refuses_is_an_error() -> None:
    """01 §5.3, bad input: the agent is named, and why."""
    resolver = resolver_of(spec_of(endpoint=endpoint("bad")), factory=Factory())

    with pytest.raises(InvalidRemoteEndpointConfig, match=r"'agent'.*bad.example is not good"):
        resolver.resolve_execution("agent")


@pytest.mark.parametrize(
    ("remote", "error"),
    [
        (endpoint("bad"), InvalidRemoteEndpointConfig),
        (endpoint(backend="pigeon"), UnsupportedRemoteBackend),
    ],
)
def test_a_remote_delegate_is_checked_with_the_agent_that_has_it(
    remote: RemoteEndpoint, error: type[AwakenError]
) -> None:
    """01 §5.3 step 6: a known backend and a valid endpoint."""
    specs = (spec_of(delegates=("helper",)), spec_of("helper", endpoint=remote))

    with pytest.raises(error, match="'helper'"):
        resolver_of(*specs, factory=Factory()).resolve("agent")


def test_delegates_become_tools() -> None:
    """01 §5.3 step 6: one `agent_run_<id>` each, chosen like other tools."""
    specs = (
        spec_of(delegates=("helper", "far"), excluded_tools=("agent_run_far",)),
        spec_of("helper"),
        spec_of("far", endpoint=endpoint()),
    )

    agent = resolver_of(*specs, tools=["a"], factory=Factory()).resolve("agent")

    assert sorted(agent.tools) == ["a", "agent_run_helper"]
