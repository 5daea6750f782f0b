"""A load balancer in small: it gives each connection to a node that lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from awaken.errors import ConfigError
from awaken.server.serve import bind

HOST = "127.0.0.1"
_PORTS = range(8700, 8720)
_PIECE = 65_536
_PATIENCE = 100
"""How many times a node is looked for, ten times a second."""


class Front:
    """Listens on one port, and passes bytes on to nodes and back.

    All connections go to the first of the nodes that takes them. A server without keys signs the
    tokens of streams with a secret of its own, so a page is to stay with its node while that lives.

    Args:
        ports: returns the ports of the nodes.
    """

    def __init__(self, ports: Callable[[], Sequence[int]]) -> None:
        self._ports = ports
        self._server: asyncio.Server | None = None
        self.address = ""

    async def open(self) -> None:
        for port in (*_PORTS, 0):
            with suppress(ConfigError):
                listening = bind(HOST, port)
                break
        self._server = await asyncio.start_server(self._serve, sock=listening)
        self.address = f"http://{HOST}:{listening.getsockname()[1]}"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        node = await self._find()
        if node is None:
            writer.close()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(reader, node[1]))
                group.create_task(_pass_on(node[0], writer))
        except* (_Ended, OSError):
            pass
        finally:
            writer.transport.abort()
            node[1].transport.abort()

    async def _find(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in range(_PATIENCE):
            for port in self._ports():
                with suppress(OSError):
                    return await asyncio.open_connection(HOST, port)
            await asyncio.sleep(0.1)
        return None


class _Ended(Exception):
    """One side has closed the connection."""


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    # What was written is sent before the connection is cut.
    with suppress(OSError):
        writer.write_eof()
    raise _Ended
