"""Running an agent without a runtime of one's own: one is opened for the run, and closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from awaken.contract.store import Store
from awaken.errors import ConfigError
from awaken.front.agent import Agent
from awaken.front.result import RunResult
from awaken.front.runtime import Input, Runtime
from awaken.front.stream import RunStream


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


@asynccontextmanager
async def stream(
    agent: Agent[Any, Any], input: Input, store: str | Store, options: dict[str, Any]
) -> AsyncIterator[RunStream]:
    """Run an agent and read its events as they come."""
    async with (
        Runtime([agent], store=store) as runtime,
        runtime.stream(agent, input, **options) as events,
    ):
        yield events
