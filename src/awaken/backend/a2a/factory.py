"""Agents on other machines, by the Agent2Agent protocol: the door.

What speaks the protocol needs the extra `a2a` and is loaded when a backend is built.
"""

from __future__ import annotations

import msgspec

from awaken.backend.a2a.config import BACKEND, A2aOptions, read_config
from awaken.backend.a2a.extra import load
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import Json
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
        make = load("awaken.backend.a2a.backend", "A2aBackend")
        backend: ExecutionBackend = make(config, clock=self._clock, ids=self._ids)
        return backend

    def config_schema(self) -> dict[str, Json]:
        """What an editor needs to show and check an endpoint; secrets are password fields."""
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
