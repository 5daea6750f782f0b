"""Agents elsewhere, as a runtime knows them: a backend that does what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from awaken import Runtime
from awaken.backend import (
    BackendAbortRequest,
    BackendCancellationCapability,
    BackendCapabilities,
    BackendContinuationCapability,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackend,
)
from awaken.codec import Json
from awaken.core.lifecycle import NATURAL_END, SUSPENDED_END
from awaken.core.message import Message
from awaken.core.run import PersistedState
from awaken.core.spec import AgentSpec, RemoteEndpoint

FAKE = "fake"
Does = Callable[[BackendRootRunRequest], Awaitable[BackendRunResult]]


def far_agent(id: str = "far", backend: str = FAKE) -> AgentSpec:
    endpoint = RemoteEndpoint(backend=backend, base_url="https://far.example")
    return AgentSpec(id=id, model_id="far-model", system_prompt="", endpoint=endpoint)


def can(**abilities: Any) -> BackendCapabilities:
    """A backend that can do little, and these things."""
    return msgspec.structs.replace(BackendCapabilities.remote_stateless_text(), **abilities)


LASTING = can(
    cancellation=BackendCancellationCapability.REMOTE_ABORT,
    continuation=BackendContinuationCapability.REMOTE_STATE,
)
"""Its work can be stopped, and found again."""


def says(text: str, **more: Any) -> BackendRunResult:
    return BackendRunResult(
        agent_id="far",
        status=BackendRunStatus.completed(),
        termination=NATURAL_END,
        response=text,
        **more,
    )


def asks(question: str, **state: Json) -> BackendRunResult:
    return BackendRunResult(
        agent_id="far",
        status=BackendRunStatus.waiting_input(question),
        termination=SUSPENDED_END,
        response=question,
        state=PersistedState(extensions=state) if state else None,
    )


class FarBackend(ExecutionBackend):
    """Does one thing after the other, a run or a turn each, and keeps what it was asked."""

    def __init__(
        self, *script: BackendRunResult | Does, can: BackendCapabilities = LASTING
    ) -> None:
        self._script = list(script)
        self._can = can
        self.requests: list[BackendRootRunRequest] = []
        self.aborts: list[BackendAbortRequest] = []

    def capabilities(self) -> BackendCapabilities:
        return self._can

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        self.requests.append(request)
        does = self._script.pop(0)
        return does if isinstance(does, BackendRunResult) else await does(request)

    async def abort(self, request: BackendAbortRequest) -> None:
        self.aborts.append(request)

    def new_messages(self) -> list[list[str]]:
        """What each request brought."""
        return [texts(request.new_messages) for request in self.requests]


class Far:
    """A factory that hands out one backend, whatever the endpoint."""

    def __init__(self, backend: ExecutionBackend, name: str = FAKE) -> None:
        self._backend, self._name = backend, name

    def backend(self) -> str:
        return self._name

    def validate(self, endpoint: RemoteEndpoint) -> None:
        return

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        return self._backend


class Held:
    """Work that is under way until it is let go."""

    def __init__(self, **saves: Json) -> None:
        self.under_way, self.let_go = asyncio.Event(), asyncio.Event()
        self._saves = saves

    async def __call__(self, request: BackendRootRunRequest) -> BackendRunResult:
        if self._saves:
            assert request.save_state is not None
            await request.save_state(self._saves)
        self.under_way.set()
        await self.let_go.wait()
        return says("let go")


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text() for message in messages]


def runtime_of(backend: ExecutionBackend, *agents: Any, **options: Any) -> Runtime:
    return Runtime([far_agent(), *agents], backends=[Far(backend)], **options)
