"""A real server on a real socket, for the tests of what is served."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from awaken.server.http_protocol import LimitedHttpProtocol
from awaken.server.serve import bind
from uvicorn_kit import end_server


@asynccontextmanager
async def served(application: ASGIApp) -> AsyncIterator[str]:
    """Serve an application on a free port, as `awaken serve` does; gives its address."""
    listening = bind("127.0.0.1", 0)
    config = uvicorn.Config(
        application,
        http=LimitedHttpProtocol,
        log_level="error",
        lifespan="off",
        loop="none",
        proxy_headers=False,
        timeout_keep_alive=600,  # a slow machine must not look like a client that is gone
    )
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    with listening:
        async with _serving(server, listening):
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@asynccontextmanager
async def _serving(server: uvicorn.Server, listening: socket.socket) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(server.serve([listening]))
        while not server.started:  # noqa: ASYNC110 uvicorn has no event for it
            await asyncio.sleep(0.01)
        yield
        await end_server(server, serving)


@contextmanager
def _no_signals() -> Iterator[None]:
    yield
