"""Dependencies, as callers give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from awaken.codec import Json, dumps
from awaken.core.deps import DepsMaker, RunDeps
from awaken.core.storable import parse_argument
from awaken.errors import ConfigError
from awaken.runtime.agent import Agent
from awaken.runtime.agent_arguments import check_function, parse_deps_type
from awaken.runtime.agent_override import OVERRIDES

MOST_KEY = 4 * 1024
"""The most bytes of a `deps_key`: it is stored with the run."""


def parse_deps_makers(makers: Mapping[type, DepsMaker] | None) -> dict[type, DepsMaker]:
    """
    Raises:
        ConfigError: a key is no class, or a value no function of the run.
    """
    given: Any = makers or {}
    if not isinstance(given, Mapping):
        raise ConfigError("Runtime(deps=…) takes functions by type, as in deps={Deps: make_deps}")
    for kind, make in given.items():
        parse_deps_type(kind, "Runtime(deps=…): ")
        check_function(make, f"the maker of {kind.__name__}", takes="the run")
    return dict(given)


def parse_deps(deps: Any, agent_id: str | None, agents: Iterable[object]) -> RunDeps | None:
    """The dependencies of a run of an agent: those of `Agent.override`, or else those that the
    caller gave.

    Raises:
        ConfigError: they are not of the agent's type.
    """
    changed = OVERRIDES.get().get(agent_id or "")
    if changed is not None and changed.deps is not None:
        deps = changed.deps
    if deps is None:
        return None
    for agent in agents:
        if isinstance(agent, Agent) and agent.id == agent_id:
            _check(agent, deps)
    return RunDeps(deps)


def parse_deps_key(key: Json) -> Json:
    """
    Raises:
        ConfigError: it is not a small JSON value.
    """
    plain: Json = parse_argument("deps_key", key, Any)
    size = len(dumps(plain))
    if size > MOST_KEY:
        raise ConfigError(f"deps_key is a small JSON value of at most {MOST_KEY} bytes, not {size}")
    return plain


def deps_types(agents: Iterable[object]) -> dict[str, type]:
    """The types of dependencies by agent id, for the agents that have some."""
    typed = [agent for agent in agents if isinstance(agent, Agent)]
    return {agent.id: agent.deps for agent in typed if agent.deps is not None}


def check_team(agents: Iterable[object], makers: Mapping[type, DepsMaker]) -> None:
    """
    Raises:
        ConfigError: an agent would run another one without the dependencies it needs.
    """
    known = {one.id: one for one in agents if isinstance(one, Agent)}
    for agent in known.values():
        for way in agent.handoffs:
            other = known.get(way)
            if other is not None and not _fits(agent, other):
                raise ConfigError(
                    f"agent {agent.id!r} may hand over to {way!r}, which needs other dependencies "
                    f"({_name(other.deps)}): give both the same type, or make it a delegate"
                )
        for id in agent.spec.delegates:
            other = known.get(id)
            if other is None or _fits(agent, other) or id in agent.delegate_deps:
                continue
            if other.deps not in makers:
                raise ConfigError(
                    f"agent {agent.id!r} delegates to {id!r}, which needs a {_name(other.deps)}: "
                    f"write delegates=[{id}.with_deps(function)], or give Runtime(deps=…) a maker"
                )


def _fits(agent: Agent[Any, Any], other: Agent[Any, Any]) -> bool:
    if other.deps is None:
        return True
    return agent.deps is not None and issubclass(agent.deps, other.deps)


def _check(agent: Agent[Any, Any], deps: Any) -> None:
    kind = type(deps).__name__
    if agent.deps is None:
        raise ConfigError(
            f"agent {agent.id!r} takes no dependencies: make it Agent(…, deps={kind}), or run it "
            "without deps"
        )
    if not isinstance(deps, agent.deps):
        raise ConfigError(
            f"the deps of agent {agent.id!r} are a {agent.deps.__name__}, not a {kind}"
        )


def _name(kind: type | None) -> str:
    return kind.__name__ if kind is not None else "none"
