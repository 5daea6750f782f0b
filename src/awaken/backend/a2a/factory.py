"""Building backends for Agent2Agent endpoints, and discovering agents by the cards they publish.

Importing this module needs no SDK. The protocol's code is loaded when a backend is built or a card
is fetched, and needs the extra `a2a`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import msgspec

from awaken.backend.a2a.config import BACKEND, A2aOptions, read_config
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import Json
from awaken.core.backend import ExecutionBackend, ExecutionBackendFactoryError
from awaken.core.spec import AgentSpec, RemoteEndpoint
from awaken.core.value import Value
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
        """A backend for the endpoint; no request is made yet.

        Raises:
            ExecutionBackendFactoryError: the endpoint cannot work, or the extra is missing.
        """
        config = read_config(endpoint)
        make = _load("awaken.backend.a2a.backend", "A2aBackend")
        backend: ExecutionBackend = make(config, clock=self._clock, ids=self._ids)
        return backend

    def config_schema(self) -> dict[str, Json]:
        """The JSON schema of an endpoint, for editors; secrets are password fields."""
        return _schema()


def _schema() -> dict[str, Json]:
    secret = {"type": "string", "minLength": 1, "format": "password", "writeOnly": True}
    auth = {
        "oneOf": [
            {
                "title": "Bearer token",
                "type": "object",
                "properties": {"type": {"const": "bearer"}, "token": secret},
                "required": ["type", "token"],
                "additionalProperties": False,
            },
            {
                "title": "API key",
                "type": "object",
                "properties": {
                    "type": {"const": "api_key"},
                    "header": {"type": "string", "default": "X-API-Key"},
                    "key": secret,
                },
                "required": ["type", "key"],
                "additionalProperties": False,
            },
        ]
    }
    schema = msgspec.json.schema(A2aOptions)
    definitions = schema["$defs"]
    return {
        "version": 1,
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "backend": {"const": BACKEND, "default": BACKEND},
                "base_url": {"type": "string", "format": "uri", "minLength": 1},
                "auth": auth,
                "target": {"type": ["string", "null"]},
                "timeout_ms": {"type": "integer", "minimum": 1, "default": 300_000},
                "options": definitions.pop("A2aOptions"),
            },
            "required": ["base_url"],
            "additionalProperties": False,
            "$defs": definitions,
        },
        "display_name": "A2A agent",
        "description": "An agent on another machine, reached by the Agent2Agent protocol 1.0.",
        "default_config": {
            "backend": BACKEND,
            "base_url": "",
            "timeout_ms": 300_000,
            "options": {"poll_interval_ms": 2000, "return_immediately": True},
        },
        "ui_schema": {
            "auth": {"token": {"ui:widget": "password"}, "key": {"ui:widget": "password"}},
        },
    }


DEFAULT_TIMEOUT_MS = 10_000
MAX_TIMEOUT_MS = 30_000


class RemoteSource(Value, frozen=True, kw_only=True):
    """The place of an agent's card: the origin of the endpoint's base URL.

    The endpoint's auth, target and options are also used for the agent that is found.
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
