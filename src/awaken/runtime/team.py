"""The other agents that an agent works with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeGuard

from awaken import backend
from awaken.core.spec import AgentSpec
from awaken.core.tool_context import Tool
from awaken.ext.handoff import Handoff
from awaken.runtime.agent_arguments import parse_list
from awaken.runtime.remote_agent import RemoteAgent
from awaken.tool.function import tool_of

if TYPE_CHECKING:
    from awaken.runtime.agent import Agent


class Delegate:
    """An agent as a delegate with dependencies of its own, made by `Agent.with_deps`."""

    __slots__ = ("agent", "id", "make")

    def __init__(self, agent: Agent[Any, Any], make: Callable[[Any], Any]) -> None:
        self.agent, self.id, self.make = agent, agent.id, make


class AgentTeam:
    """The agents that an agent delegates to, runs in the background, and hands over to.

    - `members`: those that were given as objects; they come with the agent.
    - `delegates`: the ids of all that it may give tasks to.
    - `delegate_deps`: functions that make the dependencies of delegates, by id.
    - `ways`: its hand-overs.
    - `background`: the names of the tools whose calls run in the background; `background_tools`
      are those that are the agent's own.

    Raises:
        ConfigError: an argument is not a list, or has something that cannot be used so.
    """

    def __init__(
        self,
        whose: str,
        delegates: Iterable[Agent[Any, Any] | RemoteAgent | Delegate | str],
        background: Iterable[Agent[Any, Any] | RemoteAgent | Tool | Callable[..., Any]],
        handoffs: Iterable[Agent[Any, Any] | str | Handoff],
    ) -> None:
        told = parse_list(delegates, f"{whose}: delegates")
        beside = parse_list(background, f"{whose}: background")
        agents = [one for one in beside if is_agent(one)]
        own: list[Any] = [one for one in beside if not is_agent(one)]
        self.background_tools = [tool_of(whose, one) for one in own]
        self.ways = tuple(Handoff.of(item) for item in parse_list(handoffs, f"{whose}: handoffs"))
        self.delegate_deps = {one.id: one.make for one in told if isinstance(one, Delegate)}
        self.members: tuple[Agent[Any, Any] | RemoteAgent, ...] = tuple(
            one.agent if isinstance(one, Delegate) else one
            for one in (*told, *agents, *[way.given for way in self.ways])
            if isinstance(one, Delegate) or is_agent(one)
        )
        self.delegates = (*map(_id, told), *map(_id, agents))
        self.background = (
            *[tool.descriptor().id for tool in self.background_tools],
            *[backend.delegate_tool_name(agent.id) for agent in agents],
        )


def is_agent(one: object) -> TypeGuard[Agent[Any, Any] | RemoteAgent]:
    """Whether it is an agent, here or elsewhere."""
    return isinstance(getattr(one, "spec", None), AgentSpec)


def _id(agent: Agent[Any, Any] | RemoteAgent | Delegate | str) -> str:
    return agent if isinstance(agent, str) else agent.id
