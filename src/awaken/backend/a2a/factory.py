"""Agents on other machines, by the Agent2Agent protocol: building backends, and finding agents by
the cards they publish.

What speaks the protocol needs the extra `a2a`, and is loaded on first use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import msgspec

from awaken.backend.a2a.config import BACKEND, read_config
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.contract.backend import ExecutionBackend, ExecutionBackendFactoryError
from awaken.domain.spec import AgentSpec, RemoteEndpoint
from awaken.domain.value import Value
from awaken.ids import UUID7, Ids

DEFAULT_TIMEOUT_MS = 10_000
MAX_TIMEOUT_MS = 30_000


class A2aBackendFactory:
    """Builds backends for endpoints of kind `a2a`."""

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, ids: Ids = UUID7) -> None:
        self._clock, self._ids = clock, ids

    def backend(self) -> str:
        return BACKEND

    def validate(self, endpoint: RemoteEndpoint) -> None:
        """
        Raises:
            ExecutionBackendFactoryError: the endpoint cannot work, or the extra is missing.
        """
        self.build(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        """A backend for the endpoint; no request is made yet.

        Raises:
            ExecutionBackendFactoryError: the endpoint cannot work, or the extra is missing.
        """
        config = read_config(endpoint)
        make = _load("awaken.backend.a2a.backend", "A2aBackend")
        backend: ExecutionBackend = make(config, clock=self._clock, ids=self._ids)
        return backend


class RemoteSource(Value, frozen=True, kw_only=True):
    """Where an agent publishes its card: at the origin of the endpoint's base URL.

    The endpoint also says how to speak to the agent that is found: its auth, target and options.
    """

    name: str
    endpoint: RemoteEndpoint
    timeout_ms: int = msgspec.field(default_factory=lambda: DEFAULT_TIMEOUT_MS)

    @property
    def timeout(self) -> float:
        """Seconds that fetching the card may take, between a millisecond and half a minute."""
        return min(max(self.timeout_ms, 1), MAX_TIMEOUT_MS) / 1000


async def discover(source: RemoteSource) -> AgentSpec:
    """The agent whose card is at `source`.

    Raises:
        DiscoveryFailed: there is no usable card; the text says why.
        ExecutionBackendFactoryError: the source's endpoint cannot work, or the extra is missing.
    """
    fetch: Callable[[RemoteSource], Awaitable[AgentSpec]] = _load(
        "awaken.backend.a2a.card", "fetch_agent"
    )
    return await fetch(source)


def _load(module: str, name: str) -> Any:
    """One name of a module that needs the protocol's SDK.

    Raises:
        ExecutionBackendFactoryError: the extra is not installed.
    """
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("awaken"):
            raise
        raise ExecutionBackendFactoryError(
            f"agents on A2A endpoints need {error.name!r}, which is not installed: "
            'pip install "awaken[a2a]"'
        ) from error
