"""A real server on a real socket, for the tests of what is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from awaken.server.listening import bind


@asynccontextmanager
async def served(application: ASGIApp) -> AsyncIterator[str]:
    """Serve an application on a free port; gives its address."""
    listening = bind("127.0.0.1", 0)
    config = uvicorn.Config(application, log_level="error", lifespan="off", loop="none")
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve([listening]))
        while not server.started:  # noqa: ASYNC110 uvicorn has no event for it
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = server.force_exit = True
        await serving


@contextmanager
def _no_signals() -> Iterator[None]:
    yield
