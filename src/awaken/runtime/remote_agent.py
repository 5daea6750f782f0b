"""An agent that runs elsewhere, as a user writes it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from awaken.core.budget import Budget
from awaken.core.secret import RedactedString, redact_address
from awaken.core.spec import AgentSpec, RemoteEndpoint
from awaken.errors import ConfigError
from awaken.runtime.agent_arguments import parse_budget
from awaken.runtime.open_by_name import load

_SCHEMES = {"http": "a2a", "https": "a2a", "python": "subprocess"}


class RemoteAgent:
    """An agent in another process or on another machine. It is run, delegated to and cancelled like
    any other agent.

    Args:
        id: the name by which callers here ask for it.
        url: `https://…` for an agent that speaks A2A, or `python:package.module:agent` for an
            `Agent` to be run in a process of its own.
        token: a bearer token, sent to that address and nowhere else.
        target: its name there, if the address serves more than one.
        description: what other agents here are told about it.
        timeout: the most seconds one activation of a run may take.
        budget: the most a run may use of what can be counted here: steps and time.
        backend: the kind of backend, if the address does not tell.
        options: further options of the backend; see `docs/backends.md`.

    Raises:
        ConfigError: an argument cannot work; the text says which, and what to do.
    """

    def __init__(
        self,
        id: str,
        url: str,
        *,
        token: str | RedactedString | None = None,
        target: str | None = None,
        description: str | None = None,
        timeout: float = 300.0,
        budget: Budget | None = None,
        backend: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        given: Any = id
        if not isinstance(given, str) or not given.strip():
            raise ConfigError(f"an agent's id is text that is not blank, not {id!r}")
        address: Any = url
        if not isinstance(address, str):
            raise ConfigError(f"agent {id!r}: url is text such as https://…, not {url!r}")
        if re.match(r"[^/]*//[^/?#]*@", address):
            raise ConfigError(
                f"agent {id!r}: the url carries a user name or a password, which would end up in "
                "logs: give a token instead"
            )
        backend = backend or _SCHEMES.get(url.partition(":")[0].lower())
        if backend is None:
            raise ConfigError(
                f"agent {id!r}: {redact_address(url)!r} is no address: give https://… for an agent "
                "that speaks A2A, python:package.module:agent for one in a process of its own, or "
                "a backend"
            )
        seconds: Any = timeout
        if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
            raise ConfigError(f"agent {id!r}: timeout is above 0 seconds, not {timeout!r}")
        more: Any = options or {}
        if not isinstance(more, Mapping):
            raise ConfigError(f"agent {id!r}: options are a mapping by name, not {options!r}")
        if isinstance(token, RedactedString):
            token = token.expose_secret()
        try:
            endpoint = RemoteEndpoint(
                backend=backend,
                base_url=url,
                auth=None if token is None else {"type": "bearer", "token": token},
                target=target,
                timeout_ms=max(1, round(timeout * 1000)),
                options=dict(more),
            )
        except ValueError as error:
            raise ConfigError(f"agent {id!r}: {error}") from error
        self.id = id
        self.endpoint = endpoint
        self.spec = AgentSpec(
            id=id,
            model_id=backend,
            system_prompt="",
            description=description,
            budget=parse_budget(budget, f"agent {id!r}"),
            endpoint=endpoint,
        )

    def __repr__(self) -> str:
        return f"RemoteAgent({self.id!r})"


async def find_agent(name: str, where: str | RemoteEndpoint) -> AgentSpec:
    """Read the agent card at an address. Returns the agent's spec, with the id `<name>/<its id>`.

    Raises:
        AwakenError: there is no usable agent at the address; the text says why.
    """
    if not name.strip() or "/" in name:
        raise ConfigError(f"source {name!r}: a name is not blank, and has no '/'")
    endpoint = where if isinstance(where, RemoteEndpoint) else RemoteAgent(name, where).endpoint
    source = load("awaken.backend.a2a", "RemoteSource")(name=name, endpoint=endpoint)
    spec: AgentSpec = await load("awaken.backend.a2a", "discover")(source)
    return msgspec.structs.replace(spec, id=f"{name}/{spec.id}")
