"""Ending a server of uvicorn that runs in the process of the tests."""

from __future__ import annotations

import asyncio

import uvicorn


async def end_server(server: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    """End it at once, with all its connections, as if its process was killed.

    Connections are cut until the server has ended: a client may connect while it stops, and from
    Python 3.12 on a server that is closed waits until its last connection is closed, for ever if
    that carries a stream whose client stays.
    """
    server.should_exit = server.force_exit = True
    has_ended = False
    while not has_ended:
        _cut_connections(server)
        has_ended = bool((await asyncio.wait([serving], timeout=0.01))[0])
    await serving
    _cut_connections(server)


def _cut_connections(server: uvicorn.Server) -> None:
    for connection in list(server.server_state.connections):
        connection.transport.abort()
