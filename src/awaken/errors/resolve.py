"""Errors in what an agent names, found before it runs."""

from __future__ import annotations

from collections.abc import Iterable

from awaken.errors.base import AwakenError
from awaken.errors.runtime import ResolveFailed


class ResolveError(AwakenError):
    """An agent's spec names something that the registries do not have, or that does not fit."""


def _missing(kind: str, wanted: str, agent_id: str, known: Iterable[str]) -> str:
    names = ", ".join(repr(name) for name in sorted(known)) or "none"
    return f"agent {agent_id!r} asks for {kind} {wanted!r}, which is not registered; known: {names}"


class ModelNotFound(ResolveError):
    """The agent's `model_id` is not a registered model or pool."""

    def __init__(self, model_id: str, agent_id: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(_missing("model", model_id, agent_id, known))
        self.model_id = model_id


class ModelPriceUnknown(ResolveError):
    """The agent has a money budget, and its model has no price."""

    def __init__(self, model_id: str, agent_id: str) -> None:
        super().__init__(
            f"agent {agent_id!r} has a money budget, but model {model_id!r} has no price: give "
            f"one, as in Runtime(prices={{{model_id!r}: Price(input=…, output=…)}})"
        )
        self.model_id = model_id
        self.agent_id = agent_id


class ProviderNotFound(ResolveError):
    """The model's provider is not registered."""

    def __init__(self, provider_id: str, model_id: str, known: Iterable[str] = ()) -> None:
        names = ", ".join(repr(name) for name in sorted(known)) or "none"
        super().__init__(
            f"model {model_id!r} asks for provider {provider_id!r}, which is not registered; "
            f"known: {names}"
        )
        self.provider_id = provider_id


class PluginNotFound(ResolveError):
    """One of the agent's `plugin_ids` is not a registered plugin."""

    def __init__(self, plugin_id: str, agent_id: str = "", known: Iterable[str] = ()) -> None:
        super().__init__(_missing("plugin", plugin_id, agent_id, known))
        self.plugin_id = plugin_id


class BackgroundToolNotFound(ResolveError):
    """One of the agent's `background_tools` is not a tool of the agent."""

    def __init__(self, tool_id: str, agent_id: str, known: Iterable[str]) -> None:
        super().__init__(
            f"agent {agent_id!r} lists {tool_id!r} in background_tools but has no such tool; "
            f"it has: {', '.join(known) or 'none'}"
        )
        self.tool_id = tool_id
        self.agent_id = agent_id


class DelegateNotFound(ResolveError):
    """One of the agent's `delegates` is not a registered agent."""

    def __init__(self, delegate_id: str, agent_id: str = "", known: Iterable[str] = ()) -> None:
        missing = _missing("delegate", delegate_id, agent_id, known)
        super().__init__(f"{missing}: add it to Runtime([…])")
        self.delegate_id = delegate_id


class InvalidPluginConfig(ResolveError):
    """A section of the agent's spec does not fit the plugin that reads it."""

    def __init__(self, plugin: str, section: str, why: object) -> None:
        super().__init__(f"section {section!r} of plugin {plugin!r} is invalid: {why}")
        self.plugin, self.section = plugin, section


class EnvBuildFailed(ResolveError):
    """The agent's plugins do not fit together."""

    def __init__(self, agent_id: str, why: object) -> None:
        super().__init__(f"plugins of agent {agent_id!r} do not fit together: {why}")
        self.agent_id = agent_id


class ToolIdConflict(ResolveError):
    """Two tools of an agent have the same id."""

    def __init__(self, tool_id: str, sources: str, *, in_sets: bool = False) -> None:
        how = ", as a toolset's prefixed('…') does" if in_sets else ""
        super().__init__(f"tool {tool_id!r} comes from {sources}: rename one of the two{how}")
        self.tool_id = tool_id


class RemoteAgentNotDirectlyRunnable(ResolveError, ResolveFailed):
    """An agent with an endpoint cannot be resolved as a local one."""

    def __init__(self, agent_id: str) -> None:
        super().__init__(f"agent '{agent_id}' is endpoint-backed and cannot be resolved locally")
        self.agent_id = agent_id


class UnsupportedRemoteBackend(ResolveError):
    """An endpoint names a backend that is not registered."""

    def __init__(self, agent_id: str, backend: str, known: Iterable[str] = ()) -> None:
        super().__init__(_missing("backend", backend, agent_id, known))
        self.backend = backend


class InvalidRemoteEndpointConfig(ResolveError):
    """The backend refused the configuration of an endpoint."""

    def __init__(self, agent_id: str, why: object) -> None:
        super().__init__(f"endpoint of agent {agent_id!r} is invalid: {why}")
        self.agent_id = agent_id


class BuildError(AwakenError):
    """A registration failed, before any run."""


class RegistryConflict(BuildError):
    """An id was registered twice."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} is registered twice: ids are unique, rename one")
        self.kind, self.name = kind, name


class ValidationFailed(BuildError):
    """One or more agents cannot be resolved; the message lists all of them."""


class DiscoveryFailed(BuildError):
    """A remote agent's card could not be fetched."""
