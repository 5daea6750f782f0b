"""Building a runtime's registries from the agents that a user passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from awaken.clock import Clock
from awaken.core.backend import ExecutionBackendFactory
from awaken.core.budget import Price
from awaken.core.llm import LlmExecutor
from awaken.core.profile import ProfileStore
from awaken.core.spec import AgentSpec, ModelPoolSpec, ModelSpec
from awaken.errors import ConfigError
from awaken.ext.compaction.config import summary_model
from awaken.ext.handoff import Handoff
from awaken.ids import Ids
from awaken.plugin.hook import Plugin
from awaken.runtime.agent import Agent
from awaken.runtime.agent_arguments import (
    GivenTool,
    check_effort,
    parse_list,
    parse_prices,
    tools_of,
)
from awaken.runtime.builder import AgentRuntimeBuilder
from awaken.runtime.model_stack import Models, ModelStack
from awaken.runtime.open_by_name import open_backend
from awaken.runtime.output import OutputShape
from awaken.runtime.remote_agent import RemoteAgent

AnyAgent = Agent[Any, Any] | RemoteAgent | AgentSpec


class Assembly:
    """What all agents of a runtime share; makes builders filled with it."""

    def __init__(
        self,
        *,
        tools: Iterable[GivenTool],
        plugins: Iterable[Plugin],
        models: Mapping[str, LlmExecutor | ModelPoolSpec] | None,
        model_specs: Iterable[ModelSpec],
        prices: Mapping[str, Price] | None,
        backends: Iterable[ExecutionBackendFactory],
        profiles: ProfileStore,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._tools = tools_of("the runtime", tools)
        self._plugins = parse_list(plugins, "the runtime's plugins")
        self._models = Models(models or {}, model_specs, parse_prices(prices or {}))
        self._backends = {factory.backend(): factory for factory in backends}
        self._profiles = profiles
        self._clock, self._ids = clock, ids
        self._stack = ModelStack(clock)

    def builder(self, given: Iterable[AnyAgent]) -> AgentRuntimeBuilder:
        builder = AgentRuntimeBuilder(clock=self._clock, ids=self._ids)
        builder.with_executor_wrapper(self._stack).with_profile_store(self._profiles)
        for tool in self._tools:
            builder.with_tool(tool.descriptor().id, tool)
        for plugin in self._plugins:
            builder.with_plugin(plugin)
        agents = [
            agent.spec if isinstance(agent, RemoteAgent) else agent
            for agent in parse_list(given, "the runtime's agents")
        ]
        self._add_backends(builder, agents)
        _check_handoffs(agents)
        descriptions = {
            spec.id: spec.description
            for spec in (a.spec if isinstance(a, Agent) else a for a in agents)
            if spec.description
        }
        received = _collect_handoffs(agents)
        models = self._models.copy()
        known: dict[str, Plugin] = {plugin.id: plugin for plugin in self._plugins}
        for agent in agents:
            if isinstance(agent, AgentSpec):
                check_effort(agent)
                builder.with_agent_spec(agent)
                continue
            models.add(agent.spec.model_id, agent.model)
            if (name := summary_model(agent.spec)) is not None:
                models.add(name, name)
            ids = tuple(_register(builder, known, agent.id, plugin) for plugin in agent.plugins)
            spec = msgspec.structs.replace(agent.spec, plugin_ids=ids)
            builder.with_agent_spec(spec, agent.own_plugin(descriptions, received.get(agent.id)))
        for way in (way for ways in received.values() for way in ways.values()):
            name = way.overlay.model_id if way.overlay is not None else None
            if name is not None:
                models.add(name, name)
        models.register(builder)
        return builder

    async def close(self) -> None:
        """Close the models that were opened by name."""
        await self._models.close()

    def _add_backends(
        self, builder: AgentRuntimeBuilder, agents: Sequence[Agent[Any, Any] | AgentSpec]
    ) -> None:
        """Register the backends that agents name; those that come with the library are loaded by
        name."""
        backends = dict(self._backends)
        for agent in agents:
            endpoint = agent.spec.endpoint if isinstance(agent, Agent) else agent.endpoint
            if endpoint is not None and endpoint.backend not in backends:
                backends[endpoint.backend] = open_backend(endpoint.backend, agent.id)
        for factory in backends.values():
            builder.with_agent_backend_factory(factory)


def with_teams(agents: Iterable[AnyAgent]) -> tuple[AnyAgent, ...]:
    """The agents, and behind them those that they name as objects. An agent that is named twice is
    there once; one that is listed here under the same id takes its place."""
    everyone = list({id(agent): agent for agent in agents}.values())
    own = {agent.id for agent in everyone}
    for agent in everyone:  # the list grows
        team = agent.team if isinstance(agent, Agent) else ()
        known = {id(one) for one in everyone}
        everyone.extend(one for one in team if one.id not in own and id(one) not in known)
    return tuple(everyone)


def shapes_of(agents: Iterable[AnyAgent]) -> dict[str, OutputShape]:
    """The output types, by agent id."""
    typed = [agent for agent in agents if isinstance(agent, Agent)]
    return {agent.id: agent.output for agent in typed if agent.output is not None}


def _check_handoffs(agents: Sequence[Agent[Any, Any] | AgentSpec]) -> None:
    known = {agent.id: agent for agent in agents}
    for agent in agents:
        for way in agent.ways if isinstance(agent, Agent) else ():
            other = known.get(way.agent)
            if other is None:
                raise ConfigError(
                    f"agent {agent.id!r} may hand over to {way.agent!r}, which this runtime does "
                    f"not have; it has: {', '.join(sorted(known))}: add it to Runtime([…])"
                )
            if isinstance(other, AgentSpec) and other.endpoint is not None:
                raise ConfigError(
                    f"agent {agent.id!r} may hand over to {way.agent!r}, which runs elsewhere; a "
                    "run does not leave its process: make it a delegate"
                )
            if isinstance(other, AgentSpec) and (way.returns or way.input_filter != "all"):
                raise ConfigError(
                    f"agent {agent.id!r} hands over to {way.agent!r} with a filter or a way back, "
                    "which a bare AgentSpec has no plugin for: make it an Agent"
                )


def _collect_handoffs(
    agents: Sequence[Agent[Any, Any] | AgentSpec],
) -> dict[str, dict[str, Handoff]]:
    """The handoffs to each agent, by the agent they come from."""
    received: dict[str, dict[str, Handoff]] = {}
    for agent in agents:
        for way in agent.ways if isinstance(agent, Agent) else ():
            if way.agent != agent.id:
                received.setdefault(way.agent, {})[agent.id] = way
    return received


def _register(
    builder: AgentRuntimeBuilder, known: dict[str, Plugin], agent_id: str, plugin: Plugin
) -> str:
    """Register a plugin. Returns its name: its id, or `agent/id` if another plugin has that id."""
    name = plugin.id
    if known.get(name) is plugin:
        return name
    if name in known:
        name = f"{agent_id}/{name}"
    known[name] = plugin
    builder.with_plugin(plugin, name)
    return name
