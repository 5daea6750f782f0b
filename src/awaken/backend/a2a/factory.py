"""Agents on other machines, by the Agent2Agent protocol: the door.

What speaks the protocol needs the extra `a2a` and is loaded when a backend is built.
"""

from __future__ import annotations

from awaken.backend.a2a.config import BACKEND, read_config
from awaken.backend.a2a.extra import load_a2a
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.contract.backend import ExecutionBackend
from awaken.domain.spec import RemoteEndpoint
from awaken.ids import UUID7, Ids


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
        """A backend for the endpoint; nobody is asked anything yet.

        Raises:
            ExecutionBackendFactoryError: the endpoint cannot work, or the extra is missing.
        """
        config = read_config(endpoint)
        make = load_a2a("awaken.backend.a2a.backend", "A2aBackend")
        backend: ExecutionBackend = make(config, clock=self._clock, ids=self._ids)
        return backend
