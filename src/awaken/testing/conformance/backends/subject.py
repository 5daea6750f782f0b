"""What the checks need of a backend: its agents, and a way to observe them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Any

from awaken.core.backend import BackendRootRunRequest, ExecutionBackend
from awaken.core.registry import ExecutionResolver
from awaken.errors import AgentNotFound


class BackendPart(StrEnum):
    """The agents of a subject, by what each does."""

    ECHO = "echo"
    """Answers with exactly the text of the last message."""
    RECALLING = "recalling"
    """Answers with the text of the first user message; for backends that read all messages."""
    SLOW = "slow"
    """Never ends by itself."""
    FAILING = "failing"
    """Fails."""
    ASKING = "asking"
    """Waits for an answer; with one, it completes."""


class _NoAgents:
    """A resolver without agents."""

    def resolve(self, agent_id: str) -> Any:
        raise AgentNotFound(agent_id)

    def resolve_execution(self, agent_id: str) -> Any:
        raise AgentNotFound(agent_id)

    def agent_ids(self) -> Sequence[str]:
        return ()


class BackendSubject(ABC):
    """A backend to be checked; each check gets a new one."""

    resolver: ExecutionResolver = _NoAgents()
    """The resolver in every request."""

    @abstractmethod
    def backend(self, part: BackendPart) -> ExecutionBackend:
        """A backend with that agent; it may be the same one each time."""

    def agent_id(self, part: BackendPart) -> str:
        """The id of the agent in requests."""
        return part.value

    async def prepare(self, request: BackendRootRunRequest) -> BackendRootRunRequest:
        """The request with everything else that this backend needs.

        The answer in a continuation is its new message, unless this method changes it.
        """
        return request

    @abstractmethod
    async def until_working(self) -> None:
        """Wait until the slow agent of the last request is working."""

    @abstractmethod
    async def until_stopped(self) -> None:
        """Wait until it has stopped; only called if the backend declares that it can stop it."""

    def left_behind(self) -> Sequence[str]:
        """What finished runs have left: processes, connections, threads."""
        return ()


BackendCheck = Callable[[BackendSubject], Awaitable[None]]
