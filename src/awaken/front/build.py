"""From agents as users write them to a runtime's registries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from awaken.clock import Clock
from awaken.contract.llm import LlmExecutor
from awaken.contract.profile import ProfileStore
from awaken.contract.tool import Tool
from awaken.domain.spec import AgentSpec, ModelSpec
from awaken.errors import ConfigError, InvalidPluginConfig, KeyDecode
from awaken.front.agent import Agent, as_tool_object, listed
from awaken.front.loading import open_model
from awaken.ids import Ids
from awaken.llm.breaker import CircuitBreaker
from awaken.llm.retry import LlmRetryPolicy, RetryingExecutor
from awaken.plugin.hook import Plugin
from awaken.runtime import AgentRuntimeBuilder


class Assembly:
    """What all agents of a runtime share, and how a builder is filled with them."""

    def __init__(
        self,
        *,
        tools: Iterable[Tool | Callable[..., Any]],
        plugins: Iterable[Plugin],
        models: Mapping[str, LlmExecutor] | None,
        profiles: ProfileStore,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._tools = listed(tools, "the runtime's tools")
        self._plugins = listed(plugins, "the runtime's plugins")
        self._models = dict(models or {})
        self._profiles = profiles
        self._clock, self._ids = clock, ids
        self._breaker = CircuitBreaker(clock=clock)

    def builder(self, agents: Iterable[Agent | AgentSpec]) -> AgentRuntimeBuilder:
        builder = AgentRuntimeBuilder(clock=self._clock, ids=self._ids)
        builder.with_executor_wrapper(self._with_retries).with_profile_store(self._profiles)
        for item in self._tools:
            tool = as_tool_object("the runtime", item)
            builder.with_tool(tool.descriptor().id, tool)
        for plugin in self._plugins:
            builder.with_plugin(plugin)
        agents = listed(agents, "the runtime's agents")
        _check_handoffs(agents)
        descriptions = {
            spec.id: spec.description
            for spec in (a.spec if isinstance(a, Agent) else a for a in agents)
            if spec.description
        }
        models = dict(self._models)
        known: dict[str, Plugin] = {plugin.id: plugin for plugin in self._plugins}
        for agent in agents:
            if isinstance(agent, AgentSpec):
                builder.with_agent_spec(agent)
                continue
            model_id = agent.spec.model_id
            if model_id not in models:
                models[model_id] = (
                    open_model(agent.model) if isinstance(agent.model, str) else agent.model
                )
            ids = tuple(_register(builder, known, agent.id, plugin) for plugin in agent.plugins)
            spec = msgspec.structs.replace(agent.spec, plugin_ids=ids)
            builder.with_agent_spec(spec, agent.own_plugin(descriptions))
        for name, executor in models.items():
            builder.with_provider(name, executor)
            upstream = name.partition(":")[2] or executor.name
            builder.with_model_binding(
                ModelSpec(id=name, provider_id=name, upstream_model=upstream)
            )
        return builder

    def _with_retries(self, executor: LlmExecutor, spec: AgentSpec) -> LlmExecutor:
        try:
            policy = spec.config("retry", LlmRetryPolicy)
        except KeyDecode as error:
            raise InvalidPluginConfig("retry", "retry", error) from error
        return RetryingExecutor(
            executor, policy, clock=self._clock, breaker=self._breaker, scope=spec.model_id
        )


def _check_handoffs(agents: Sequence[Agent | AgentSpec]) -> None:
    known = {agent.id for agent in agents}
    for agent in agents:
        for other in agent.handoffs if isinstance(agent, Agent) else ():
            if other not in known:
                raise ConfigError(
                    f"agent {agent.id!r} may hand over to {other!r}, which this runtime does not "
                    f"have; it has: {', '.join(sorted(known))}"
                )


def _register(
    builder: AgentRuntimeBuilder, known: dict[str, Plugin], agent_id: str, plugin: Plugin
) -> str:
    """Know a plugin; two of one id, each its agent's own, are kept apart by the agent."""
    name = plugin.id
    if known.get(name) is plugin:
        return name
    if name in known:
        name = f"{agent_id}/{name}"
    known[name] = plugin
    builder.with_plugin(plugin, name)
    return name
