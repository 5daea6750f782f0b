"""A run of an agent elsewhere is followed like any other."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec
import pytest
from follow_kit import Reader

from awaken import Runtime
from awaken.backend import (
    BackendCapabilities,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
    ExecutionBackend,
)
from awaken.core.event import is_terminal
from awaken.core.lifecycle import NATURAL_END
from awaken.core.spec import RemoteEndpoint
from awaken.runtime.remote_agent import RemoteAgent

pytestmark = pytest.mark.anyio


class HeldBackend(ExecutionBackend):
    """Answers when it is allowed to."""

    def __init__(self) -> None:
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    def capabilities(self) -> BackendCapabilities:
        return BackendCapabilities.remote_stateless_text()

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        self.asked.set()
        await self.may_answer.wait()
        return BackendRunResult(
            agent_id=request.agent_id,
            status=BackendRunStatus.completed(),
            termination=NATURAL_END,
            response="far away",
        )


class HeldFactory(msgspec.Struct):
    """Makes the one backend there is."""

    one: HeldBackend

    def backend(self) -> str:
        return "held"

    def validate(self, endpoint: RemoteEndpoint) -> None:
        return

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        return self.one


async def test_whoever_joins_while_it_works_elsewhere_gets_its_answer() -> None:
    held, reader = HeldBackend(), Reader()
    agent = RemoteAgent("far", "http://far.example", backend="held")
    async with Runtime([agent], backends=[HeldFactory(held)]) as runtime:
        async with asyncio.TaskGroup() as group:
            run = group.create_task(runtime.run("far", "go", thread="t"))
            await held.asked.wait()
            async with aclosing(runtime.follow("t")) as events:
                async for event in events:
                    reader.read(event)
                    if reader.texts:  # the step has begun
                        held.may_answer.set()
                    if is_terminal(event.event):
                        break
        assert run.result().response == "far away"
    assert list(reader.texts.values()) == ["far away"]
    assert reader.has_ended
