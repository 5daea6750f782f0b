"""Registries of agents, tools, models, pools, providers, plugins and backends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from awaken.core.backend import ExecutionBackendFactory
from awaken.core.llm import LlmExecutor
from awaken.core.pool import ModelPoolSpec
from awaken.core.spec import AgentSpec, ModelSpec
from awaken.core.tool_context import Tool
from awaken.errors import BuildError, RegistryConflict
from awaken.plugin.hook import Plugin

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
