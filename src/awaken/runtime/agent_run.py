"""Running an agent without a runtime of one's own: one is opened for the run, and closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Never

from awaken.core.store.store import Store
from awaken.errors import ConfigError
from awaken.runtime.agent import Agent
from awaken.runtime.result import RunResult
from awaken.runtime.run_arguments import Input
from awaken.runtime.runtime import Runtime
from awaken.runtime.stream import RunStream


async def run(
    agent: Agent[Any, Any], input: Input, store: str | Store, options: dict[str, Any]
) -> RunResult[Any]:
    """Run an agent, and wait for the background tasks that it starts."""
    async with Runtime([agent], store=store) as runtime:
        return await runtime.run_to_rest(agent, input, **options)


def run_sync(
    agent: Agent[Any, Any], input: Input, store: str | Store, options: dict[str, Any]
) -> RunResult[Any]:
    """`run`, for programs without an event loop.

    Raises:
        ConfigError: it was called inside an event loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run(agent, input, store, options))
    raise ConfigError("run_sync was called inside an event loop: await agent.run(…) instead")


class AgentStream(AbstractAsyncContextManager[RunStream]):
    """The events of a run of an agent; opening it opens a runtime and starts the run."""

    def __init__(
        self, agent: Agent[Any, Any], input: Input, store: str | Store, options: dict[str, Any]
    ) -> None:
        self._opening = _stream(agent, input, store, options)

    async def __aenter__(self) -> RunStream:
        return await self._opening.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._opening.__aexit__(kind, error, trace)

    def __aiter__(self) -> Never:
        raise ConfigError("open the stream first: async with agent.stream(…) as events")


@asynccontextmanager
async def _stream(
    agent: Agent[Any, Any], input: Input, store: str | Store, options: dict[str, Any]
) -> AsyncIterator[RunStream]:
    async with (
        Runtime([agent], store=store) as runtime,
        runtime.stream(agent, input, **options) as events,
    ):
        yield events
