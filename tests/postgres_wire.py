"""A proxy between a store and Postgres: it counts trips, and can cut or swallow what passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import quote

_START = 8
"""The first message of a client has no letter; all others begin with one and their length."""

_KEY = b"K\0\0\0\x0c"
"""How the message begins that tells a client the number of its session."""


class Wire:
    """What passes between the clients of `port` and the server.

    `trips` counts how often a client asked the server to answer, without the beginnings of
    connections; `bytes` counts what went through, both ways. `holds_answers` keeps what the server
    says from the clients; `refuses` ends every new connection at once; `hides_sessions` makes up
    the number of the session, as poolers do.
    `loses_hints` lets the first notification through on each connection, the node's own test.
    `loses_commit` closes all connections when a transaction was committed, before its answer.
    `delay` is how many seconds everything takes on its way. `stops_at` is the trip, counted from 1
    over all connections, from which on nothing reaches the server; then `stopped` is set.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._streams: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.port = 0
        self.trips = 0
        self.bytes = 0
        self.refuses = False
        self.holds_answers = False
        self.hides_sessions = False
        self.loses_hints = False
        self.loses_commit = False
        self.delay = 0.0
        self.stops_at: int | None = None
        self.stopped = asyncio.Event()
        self.held = asyncio.Event()
        """Set when an answer was held back."""

    @property
    def sessions(self) -> int:
        """How many connections are open."""
        return len(self._tasks)

    def swallow(self) -> None:
        """Let nothing through any more, in either direction, without closing a connection."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    def cut(self) -> None:
        """Close every connection."""
        for stream in self._streams:
            stream.transport.abort()

    async def close(self) -> None:
        """Close every connection, and wait until their ends are seen."""
        self.flow()
        self.cut()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._streams.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            if self.refuses:
                return writer.transport.abort()
            there, back = await asyncio.open_connection("127.0.0.1", self._server_port)
            self._streams.add(back)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._answers(there, writer))
                await self._questions(reader, back)
                back.transport.abort()
                writer.transport.abort()
        self._tasks.discard(task)

    async def _questions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readexactly(_START):
                length = int.from_bytes(head[:4])
                rest = await reader.readexactly(length - _START)
                await self._pass(writer, head + rest)
                if head[4:8] != (80877103).to_bytes(4):  # a question for TLS, before the start
                    break
            while True:
                head = await reader.readexactly(5)
                rest = await reader.readexactly(int.from_bytes(head[1:]) - 4)
                # Sync, or a query in the simple form: the server is to answer now.
                self.trips += head[:1] in (b"S", b"Q")
                if self.stops_at is not None and self.trips >= self.stops_at:
                    self.stopped.set()
                    self.swallow()
                is_lost = self.loses_commit and rest.startswith(b"COMMIT")
                self.holds_answers = self.holds_answers or is_lost
                await self._pass(writer, head + rest)
                if is_lost:
                    await self.held.wait()
                    self.loses_commit = self.holds_answers = False
                    self.cut()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.loses_hints:
            return await self._without_hints(reader, writer)
        with suppress(OSError):
            while data := await reader.read(65536):
                if self.holds_answers:
                    self.held.set()
                    continue
                if self.hides_sessions and (at := data.find(_KEY)) >= 0:
                    data = data[: at + 5] + bytes(4) + data[at + 9 :]
                await self._pass(writer, data)
            writer.transport.abort()

    async def _without_hints(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass the server's messages on, but for notifications after the first."""
        has_heard = False
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(5)
                rest = await reader.readexactly(int.from_bytes(head[1:]) - 4)
                is_hint = head[:1] == b"A"
                if not (is_hint and has_heard):
                    await self._pass(writer, head + rest)
                has_heard = has_heard or is_hint
        writer.transport.abort()  # the server has closed it, and a client waits for that

    async def _pass(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        await self._flowing.wait()
        self.bytes += len(data)
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def wired(dsn: str) -> AsyncIterator[tuple[Wire, str]]:
    """A proxy to the server of an address, and the address through it; the lease and hints go to
    the server itself."""
    port = int(dsn.rpartition(":")[2].partition("/")[0])
    wire = Wire(port)
    server = await asyncio.start_server(wire._serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire, f"{dsn.replace(f':{port}/', f':{wire.port}/')}?direct={quote(dsn, safe='')}"
    finally:
        server.close()
        await wire.close()
