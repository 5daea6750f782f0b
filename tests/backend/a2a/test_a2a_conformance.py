"""The backend against the suite every backend passes (02 §2), with agents elsewhere."""

from __future__ import annotations

import asyncio

import pytest
from a2a_harness import RunningAgent, backend_for

from awaken.core.backend import ExecutionBackend
from awaken.testing.conformance import (
    BackendCheck,
    BackendPart,
    BackendSubject,
    backend_checks,
)

pytestmark = pytest.mark.anyio


class A2aSubject(BackendSubject):
    """Agents at one endpoint, each a target of its own; `name` keeps checks apart."""

    def __init__(self, agent: RunningAgent, name: str, started: int) -> None:
        self._agent = agent
        self._name = name
        self._started = started

    def backend(self, part: BackendPart) -> ExecutionBackend:
        return backend_for(self._agent.base, target=f"{part.value}-{self._name}")

    async def until_working(self) -> None:
        self._started = await control_slow(self._agent, f"started={self._started + 1}")

    async def until_stopped(self) -> None:
        await control_slow(self._agent, "stopped")


async def control_slow(agent: RunningAgent, query: str) -> int:
    """What the agent says of its slow runs, when it does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", agent.port)
    try:
        writer.write(
            f"GET /control/slow?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        )
        answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    return int(answer.rpartition(b"\r\n\r\n")[2])


@pytest.fixture
async def subject(agent: RunningAgent, request: pytest.FixtureRequest) -> BackendSubject:
    return A2aSubject(agent, request.node.name, await control_slow(agent, ""))


@pytest.mark.parametrize("check", backend_checks(), ids=lambda check: check.__name__)
async def test_a2a_backend(check: BackendCheck, subject: BackendSubject) -> None:
    await check(subject)
