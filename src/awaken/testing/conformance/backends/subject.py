"""What a backend is checked with: its agents, and a way to look at them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Any

from awaken.contract.backend import BackendRootRunRequest, ExecutionBackend
from awaken.contract.registry import ExecutionResolver
from awaken.errors import AgentNotFound


class BackendPart(StrEnum):
    """The agents a subject has, each by what it does."""

    ECHO = "echo"
    """Says exactly the text of the last message it was sent."""
    RECALLING = "recalling"
    """Says the text of the first message of a user it can see; for those that read it all."""
    SLOW = "slow"
    """Never ends by itself."""
    FAILING = "failing"
    """Breaks."""
    ASKING = "asking"
    """Needs somebody's answer first; with one, it ends well."""


class _Nobody:
    """A resolver for backends that look nothing up."""

    def resolve(self, agent_id: str) -> Any:
        raise AgentNotFound(agent_id)

    def resolve_execution(self, agent_id: str) -> Any:
        raise AgentNotFound(agent_id)

    def agent_ids(self) -> Sequence[str]:
        return ()


class BackendSubject(ABC):
    """A backend that is to be checked; each check has one of its own."""

    resolver: ExecutionResolver = _Nobody()
    """Goes with every request."""

    @abstractmethod
    def backend(self, part: BackendPart) -> ExecutionBackend:
        """A backend with that agent; the same one, or another, each time."""

    def agent_id(self, part: BackendPart) -> str:
        """What requests call the agent."""
        return part.value

    async def prepare(self, request: BackendRootRunRequest) -> BackendRootRunRequest:
        """A root's request with what this backend needs besides.

        The answer a continuation brings is its new message, unless something else is put in here.
        """
        return request

    @abstractmethod
    async def until_working(self) -> None:
        """Wait until the slow agent that was asked last is at work."""

    @abstractmethod
    async def until_stopped(self) -> None:
        """Wait until it no longer is; not called unless the backend claims that it can stop it."""

    def left_behind(self) -> Sequence[str]:
        """What is still there of runs that are over: processes, connections, threads."""
        return ()


BackendCheck = Callable[[BackendSubject], Awaitable[None]]
