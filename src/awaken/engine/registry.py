"""Registries, and the resolver that makes agents ready to run.

There are registries of agents, tools, models, pools, providers, plugins and backends. Resolving
leads from an agent's spec to its model, plugins, environment and tools.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from awaken.core.backend import ExecutionBackendFactory, ExecutionBackendFactoryError
from awaken.core.budget import Price
from awaken.core.llm import AnswerSource, LlmExecutor
from awaken.core.registry import ExecutionResolver, ResolvedModel
from awaken.core.schema import validate_against_schema
from awaken.core.spec import AgentSpec, ModelPoolSpec, ModelSpec
from awaken.core.tool import ToolError
from awaken.core.tool_context import Tool
from awaken.errors import (
    AgentNotFound,
    BackgroundToolNotFound,
    BuildError,
    DelegateNotFound,
    EnvBuildFailed,
    InvalidPluginConfig,
    InvalidRemoteEndpointConfig,
    ModelNotFound,
    ModelPriceUnknown,
    PluginNotFound,
    ProviderNotFound,
    RegistryConflict,
    RemoteAgentNotDirectlyRunnable,
    ResolveFailed,
    StateError,
    ToolIdConflict,
    UnsupportedRemoteBackend,
)
from awaken.plugin.env import ExecutionEnv
from awaken.plugin.hook import Configured, Plugin
from awaken.plugin.resolved_agent import ResolvedAgent, ResolvedBackendAgent, ResolvedExecution

__all__ = ["MapRegistry", "RegistryHandle", "RegistryResolver", "RegistrySet"]

log = logging.getLogger("awaken.registry")


T = TypeVar("T")


class MapRegistry(Generic[T]):
    """Items by id. An id can be registered once; `ids` is sorted."""

    def __init__(self, kind: str, items: Iterable[tuple[str, T]] = ()) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}
        for id, item in items:
            self.register(id, item)

    def register(self, id: str, item: T) -> None:
        """
        Raises:
            RegistryConflict: the id is taken.
            BuildError: the id is blank.
        """
        if not id.strip():
            raise BuildError(f"{self.kind} id {id!r} is blank: give it a name")
        if id in self._items:
            raise RegistryConflict(self.kind, id)
        self._items[id] = item

    def get(self, id: str) -> T | None:
        return self._items.get(id)

    def ids(self) -> list[str]:
        return sorted(self._items)

    def __contains__(self, id: str) -> bool:
        return id in self._items


class RegistrySet:
    """All registries that agents are resolved from. Filled once, then only read."""

    def __init__(self) -> None:
        self.agents: MapRegistry[AgentSpec] = MapRegistry("agent")
        self.tools: MapRegistry[Tool] = MapRegistry("tool")
        self.models: MapRegistry[ModelSpec] = MapRegistry("model")
        self.pools: MapRegistry[ModelPoolSpec] = MapRegistry("model pool")
        self.providers: MapRegistry[LlmExecutor] = MapRegistry("provider")
        self.plugins: MapRegistry[Plugin] = MapRegistry("plugin")
        self.backends: MapRegistry[ExecutionBackendFactory] = MapRegistry("backend")


class RegistryHandle(Generic[T]):
    """Holds the current registries; replacing them affects later runs only."""

    def __init__(self, first: T) -> None:
        self._current = first
        self.version = 1

    def snapshot(self) -> T:
        return self._current

    def replace(self, replacement: T) -> int:
        """Use another set from now on; returns the new version."""
        self._current = replacement
        self.version += 1
        return self.version


BuiltinPlugins = Callable[[AgentSpec], Sequence[Plugin]]
ModelAndProvider = tuple[ModelSpec, LlmExecutor]
MakeDelegate = Callable[[AgentSpec, ExecutionResolver], Tool]
InBackground = Callable[[Tool], Tool]


class WrapExecutor(Protocol):
    """Wraps the executor of an agent's model, or those of its pool, for example with retries."""

    def __call__(
        self, spec: AgentSpec, models: Sequence[ModelAndProvider], pool: ModelPoolSpec | None
    ) -> AnswerSource: ...


class RegistryResolver:
    """Resolves agents from one set of registries.

    The caller passes in what registries do not have: the plugins of every agent, the wrapper of
    model executors, and the functions that make delegate tools and background tools.
    """

    def __init__(
        self,
        registries: RegistrySet,
        *,
        builtin_plugins: BuiltinPlugins,
        wrap_executor: WrapExecutor | None = None,
        make_delegate: MakeDelegate | None = None,
        in_background: InBackground | None = None,
    ) -> None:
        self.registries = registries
        self._builtin_plugins = builtin_plugins
        self._wrap_executor = wrap_executor
        self._make_delegate = make_delegate
        self._in_background = in_background
        self._ready: dict[str, ResolvedAgent] = {}
        self._remote: dict[str, ResolvedBackendAgent] = {}

    def agent_ids(self) -> list[str]:
        return self.registries.agents.ids()

    def resolve(self, agent_id: str) -> ResolvedAgent:
        """A local agent that is ready to run.

        Raises:
            AgentNotFound: no such agent.
            ResolveError: something the agent names is missing or does not fit.
        """
        ready = self._ready.get(agent_id)
        if ready is not None:
            return ready
        spec = self._spec(agent_id)
        if spec.endpoint is not None:
            raise RemoteAgentNotDirectlyRunnable(agent_id)
        agent = self._assemble(spec)
        if agent.env.is_shareable:
            self._ready[agent_id] = agent
        return agent

    def resolve_execution(self, agent_id: str) -> ResolvedExecution:
        """A local or remote agent; the models and tools of a remote one are not resolved."""
        spec = self._spec(agent_id)
        if spec.endpoint is None:
            return self.resolve(agent_id)
        if agent_id not in self._remote:
            factory = self._backend_factory(spec)
            self._remote[agent_id] = ResolvedBackendAgent(spec, factory)
        return self._remote[agent_id]

    def reads(self, spec: AgentSpec) -> tuple[str, ...] | None:
        pool = self.registries.pools.get(spec.model_id)
        ids = [spec.model_id] if pool is None else [member.model_id for member in pool.members]
        models = [self.registries.models.get(id) for id in ids]
        said = [model.modalities.input for model in models if model and model.modalities]
        if not any(said):
            return None
        return tuple(kind for kind in said[0] if all(kind in kinds for kinds in said if kinds))

    def resolve_model(self, spec: AgentSpec) -> ResolvedModel:
        """The model or pool that a spec names.

        Raises:
            ModelNotFound, ProviderNotFound: it is not registered.
            ModelPriceUnknown: the agent has a money budget, and its model has no price.
        """
        pool = self.registries.pools.get(spec.model_id)
        ids = [spec.model_id] if pool is None else [member.model_id for member in pool.members]
        found = [self._model(id, spec) for id in ids]
        model, provider = found[0]
        executor: AnswerSource = provider
        if self._wrap_executor is not None:
            executor = self._wrap_executor(spec, found, pool)
        elif pool is not None:
            raise ResolveFailed(
                f"model pool {pool.id!r} cannot be used: this resolver has no wrap_executor"
            )
        return ResolvedModel(
            upstream_model=model.upstream_model if pool is None else pool.id,
            executor=executor,
            prices={each.id: price for each, _ in found if (price := _price(each, spec))},
            context_window=_least(each.context_window for each, _ in found),
            max_output_tokens=_least(each.max_output_tokens for each, _ in found),
        )

    def _model(self, model_id: str, spec: AgentSpec) -> ModelAndProvider:
        models, providers = self.registries.models, self.registries.providers
        model = models.get(model_id)
        if model is None:
            known = [*models.ids(), *self.registries.pools.ids()]
            raise ModelNotFound(model_id, spec.id, known)
        provider = providers.get(model.provider_id)
        if provider is None:
            raise ProviderNotFound(model.provider_id, model.id, providers.ids())
        return model, provider

    def _spec(self, agent_id: str) -> AgentSpec:
        """The spec of an agent id.

        An agent of a remote source is found as `source/id`, or by the id alone if there is no
        local agent with that id.
        """
        agents = self.registries.agents
        spec = agents.get(agent_id) or agents.get(agent_id.removeprefix("local/"))
        if spec is None and "/" not in agent_id:
            elsewhere = [id for id in agents.ids() if id.partition("/")[2] == agent_id]
            spec = agents.get(elsewhere[0]) if elsewhere else None
        if spec is None:
            raise AgentNotFound(agent_id, self.registries.agents.ids())
        return spec

    def _assemble(self, spec: AgentSpec) -> ResolvedAgent:
        model = self.resolve_model(spec)
        plugins = [self._plugin(plugin_id, spec) for plugin_id in spec.plugin_ids]
        builtin = self._builtin_plugins(spec)
        _check_sections(spec, [*plugins, *builtin])
        try:
            env = ExecutionEnv.from_plugins(plugins, spec.active_hook_filter, builtin=builtin)
        except StateError as error:
            raise EnvBuildFailed(spec.id, error) from error
        agent = ResolvedAgent(
            spec=spec,
            upstream_model=model.upstream_model,
            llm_executor=model.executor,
            tool_executor=spec.tool_executor,
            env=env,
            prices=model.prices,
            context_window=model.context_window,
            max_output_tokens=model.max_output_tokens,
        )
        return agent.with_tools(self._tools(spec, env))

    def _plugin(self, plugin_id: str, spec: AgentSpec) -> Plugin:
        plugin = self.registries.plugins.get(plugin_id)
        if plugin is None:
            raise PluginNotFound(plugin_id, spec.id, self.registries.plugins.ids())
        return plugin

    def _tools(self, spec: AgentSpec, env: ExecutionEnv) -> dict[str, Tool]:
        known = self.registries.tools
        tools: dict[str, Tool] = {id: tool for id in known.ids() if (tool := known.get(id))}
        named: dict[str, str] = {}
        for delegate in spec.delegates:
            tool = self._delegate(delegate, spec)
            name = tool.descriptor().id
            known_as = f"delegates {named[name]!r} and" if name in named else "a tool and delegate"
            _add(tools, name, tool, f"{known_as} {delegate!r} of agent {spec.id!r}")
            named[name] = delegate
        for tool_id, tool in env.tools.items():
            if tool_id in tools and tool_id in env.spare_tools:
                continue
            _add(tools, tool_id, tool, f"the runtime's tools and those of agent {spec.id!r}")
        selection = spec.tool_selection
        for glob in selection.find_unmatched(tools):
            log.warning("agent %r: tool pattern %r matches no tool", spec.id, glob)
        visible = selection.visible(tools)
        found = {tool_id: tool for tool_id, tool in tools.items() if tool_id in visible}
        for tool_id in spec.background_tools:
            if tool_id not in found:
                raise BackgroundToolNotFound(tool_id, spec.id, sorted(found))
            if self._in_background is not None:
                found[tool_id] = self._in_background(found[tool_id])
        return found

    def _delegate(self, delegate_id: str, spec: AgentSpec) -> Tool:
        delegate = self.registries.agents.get(delegate_id)
        if delegate is None or self._make_delegate is None:
            raise DelegateNotFound(delegate_id, spec.id, self.registries.agents.ids())
        if delegate.endpoint is not None:
            self._backend_factory(delegate)
        return self._make_delegate(delegate, self)

    def _backend_factory(self, spec: AgentSpec) -> ExecutionBackendFactory:
        assert spec.endpoint is not None, "only endpoint agents have backends"
        factory = self.registries.backends.get(spec.endpoint.backend)
        if factory is None:
            raise UnsupportedRemoteBackend(
                spec.id, spec.endpoint.backend, self.registries.backends.ids()
            )
        try:
            factory.validate(spec.endpoint)
        except ExecutionBackendFactoryError as error:
            raise InvalidRemoteEndpointConfig(spec.id, error) from error
        return factory


def _least(limits: Iterable[int | None]) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _price(model: ModelSpec, spec: AgentSpec) -> Price | None:
    if model.input_price is not None and model.output_price is not None:
        return Price(
            input=model.input_price,
            output=model.output_price,
            cache_read=model.cache_read_price,
            cache_write=model.cache_write_price,
        )
    if spec.budget is not None and spec.budget.money is not None:
        raise ModelPriceUnknown(model.id, spec.id)
    return None


def _add(tools: dict[str, Tool], tool_id: str, tool: Tool, sources: str) -> None:
    if tool_id in tools:
        raise ToolIdConflict(tool_id, sources)
    tools[tool_id] = tool


def _check_sections(spec: AgentSpec, plugins: Sequence[Plugin]) -> None:
    """Check every section against the schema of the plugin that reads it."""
    claimed = {"retry"}
    for plugin in plugins:
        if not isinstance(plugin, Configured):
            continue
        for schema in plugin.config_schemas():
            claimed.add(schema.key)
            if schema.key not in spec.sections:
                continue
            try:
                validate_against_schema(schema.json_schema, spec.sections[schema.key])
            except ToolError as error:
                raise InvalidPluginConfig(plugin.id, schema.key, error.message) from error
    for section in sorted(spec.sections.keys() - claimed):
        log.warning("agent %r: no plugin reads section %r", spec.id, section)
