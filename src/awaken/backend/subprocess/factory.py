"""Building a backend from an endpoint; no process is started, and no user module imported."""

from __future__ import annotations

import os

import msgspec

from awaken.backend.subprocess.backend import SubprocessBackend
from awaken.backend.subprocess.options import SubprocessOptions, agent_at
from awaken.codec import from_json
from awaken.core.backend import ExecutionBackendFactoryError
from awaken.core.spec import RemoteEndpoint

BACKEND = "subprocess"


class SubprocessBackendFactory:
    """Takes `RemoteEndpoint(backend="subprocess", base_url="python:module:name")`.

    `name` is an `Agent`, a list of agents, or a function without arguments that returns either. Of
    several agents, `target` names the one to run. `timeout_ms` is the most time that a whole run
    may take; `options` are those of `SubprocessOptions`.
    """

    def backend(self) -> str:
        return BACKEND

    def validate(self, endpoint: RemoteEndpoint) -> None:
        """
        Raises:
            ExecutionBackendFactoryError: the address, or an option, cannot work.
        """
        self._parts(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> SubprocessBackend:
        """
        Raises:
            ExecutionBackendFactoryError: the address, or an option, cannot work.
        """
        agent, options = self._parts(endpoint)
        return SubprocessBackend(
            agent, options, target=endpoint.target, timeout_ms=endpoint.timeout_ms
        )

    def _parts(self, endpoint: RemoteEndpoint) -> tuple[str, SubprocessOptions]:
        if os.name != "posix":
            raise ExecutionBackendFactoryError(
                f"backend '{BACKEND}' needs process groups, which {os.name!r} does not have"
            )
        agent = agent_at(endpoint.base_url)
        if agent is None:
            raise ExecutionBackendFactoryError(
                f"base_url {endpoint.address!r} names no agent: write python:package.module:name"
            )
        if endpoint.auth is not None:
            raise ExecutionBackendFactoryError(
                f"backend '{BACKEND}' takes no auth: name what the agent needs in options.pass_env"
            )
        if endpoint.timeout_ms <= 0:
            raise ExecutionBackendFactoryError(
                f"timeout_ms is the time a run may take, not {endpoint.timeout_ms}"
            )
        try:
            return agent, from_json(endpoint.options, SubprocessOptions)
        except msgspec.ValidationError as error:
            raise ExecutionBackendFactoryError(f"options: {error}") from error
