"""Connections to Postgres: opening them, keeping some, and running the statements of a schema."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from awaken.core.aio.owned_tasks import start_task
from awaken.core.secret import redact_address
from awaken.errors import StoreUnavailable
from awaken.stores.postgres.address import Address
from awaken.stores.postgres.errors import is_lost

CONNECT_SECONDS = 3.0
STATEMENT_SECONDS = 10.0


class Db:
    """A connection, and the schema whose tables its statements name.

    In the text of a statement `@threads` is a table or a function of the schema, and `?` the next
    parameter.
    """

    def __init__(self, connection: asyncpg.Connection, schema: Schema) -> None:
        self.connection = connection
        self.schema = schema

    async def rows(self, text: str, *values: Any) -> list[Any]:
        found: list[Any] = await self.connection.fetch(self.schema.statement(text), *values)
        return found

    async def row(self, text: str, *values: Any) -> Any:
        """The first row, or `None`."""
        return await self.connection.fetchrow(self.schema.statement(text), *values)

    async def value(self, text: str, *values: Any) -> Any:
        """The first column of the first row, or `None`."""
        return await self.connection.fetchval(self.schema.statement(text), *values)

    async def run(self, text: str, *values: Any) -> int:
        """Run a statement; returns how many rows it wrote."""
        status: str = await self.connection.execute(self.schema.statement(text), *values)
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0


class Schema:
    """The names of a schema's tables in statements."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._statements: dict[str, str] = {}

    def statement(self, text: str) -> str:
        known = self._statements.get(text)
        if known is None:
            first, *parts = text.replace("@", f'"{self.name}".').split("?")
            known = first + "".join(f"${n}{part}" for n, part in enumerate(parts, start=1))
            self._statements[text] = known
        return known


async def connect(address: Address, *, direct: bool = False) -> asyncpg.Connection:
    """A new connection; a direct one has a session of its own even if there is a pooler, unless the
    address names the pooler alone. Of several hosts, the first that can be used is taken."""
    # asyncpg would spend its whole timeout on a first host that does not answer.
    *others, last = address.hosts(direct=direct)
    is_pooled = not address.has_session(direct=direct)
    for dsn in others:
        try:
            return await _connect_to(dsn, is_pooled)
        except Exception as error:
            if not is_lost(error):
                raise
    return await _connect_to(last, is_pooled)


async def _connect_to(dsn: str, is_pooled: bool) -> asyncpg.Connection:
    connection = await asyncpg.connect(
        dsn,
        timeout=CONNECT_SECONDS,
        command_timeout=STATEMENT_SECONDS,
        # A pooler gives each transaction another session, which has not prepared the statement.
        statement_cache_size=0 if is_pooled else 512,
        max_cached_statement_lifetime=0,
    )
    if not is_pooled:
        try:
            await connection.execute(
                "SET idle_in_transaction_session_timeout = '10s'; SET jit = off; "
                f"SET statement_timeout = '{int(STATEMENT_SECONDS)}s'"
            )
        except BaseException:
            connection.terminate()  # no caller gets it
            raise
    return connection


class Connector:
    """Makes the connections of one event loop.

    A caller that is cancelled does not wait until its connection is made. `close` does: an event
    loop that ends before would leave the connection behind, half made.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._left: set[asyncio.Task[asyncpg.Connection]] = set()

    async def connect(self, *, direct: bool = False) -> asyncpg.Connection:
        """See `connect`."""
        connecting = start_task(connect(self._address, direct=direct))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            self._left.add(connecting)
            connecting.add_done_callback(self._end)
            raise

    def _end(self, connecting: asyncio.Task[asyncpg.Connection]) -> None:
        self._left.discard(connecting)
        if not connecting.cancelled() and connecting.exception() is None:
            connecting.result().terminate()

    async def close(self) -> None:
        """Wait for the connections that no caller waits for."""
        if self._left:
            await asyncio.wait(self._left, timeout=CONNECT_SECONDS)


async def check_pooler(connection: asyncpg.Connection, address: Address, *, direct: bool) -> None:
    """Check that a pooler between this process and the database was named in the address.

    Raises:
        StoreUnavailable: there is one that the address does not name.
    """
    if not address.has_session(direct=direct):
        return
    # A pooler tells a client of a session that it has made up.
    said = connection.get_server_pid()
    if said == await connection.fetchval("SELECT pg_backend_pid()"):
        return
    if address.is_pooled:
        raise StoreUnavailable(
            f"{redact_address(address.direct)} leads to a pooler: direct= is for the database "
            "itself"
        )
    raise StoreUnavailable(
        f"{address.display} leads to a pooler: add pooler=transaction to the address, and give "
        "that of the database itself with direct=postgresql://…"
    )


class ConnectionPool:
    """Up to `size` connections of one event loop, opened when they are needed."""

    def __init__(self, size: int, open: Callable[[], Awaitable[asyncpg.Connection]]) -> None:
        self._open = open
        self._room = asyncio.Semaphore(size)
        self._free: list[asyncpg.Connection] = []
        self._is_closed = False

    @asynccontextmanager
    async def use(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection for one caller; one that broke is not used again."""
        async with self._room:
            connection = await self._take()
            try:
                yield connection
            except BaseException as error:
                # A statement of a cancelled caller may still be under way.
                if is_lost(error) or isinstance(error, asyncio.CancelledError):
                    connection.terminate()
                raise
            finally:
                if self._is_closed:
                    connection.terminate()
                elif not connection.is_closed():
                    self._free.append(connection)

    def give(self, connection: asyncpg.Connection) -> None:
        """Keep a connection that was opened for something else."""
        self._free.append(connection)

    async def _take(self) -> asyncpg.Connection:
        while self._free:
            connection = self._free.pop()
            if not connection.is_closed():
                return connection
        return await self._open()

    async def close(self) -> None:
        self._is_closed = True
        while self._free:
            await end(self._free.pop())


async def end(connection: asyncpg.Connection) -> None:
    """Close a connection, whatever state it is in."""
    try:
        await connection.close(timeout=CONNECT_SECONDS)
    except Exception:
        connection.terminate()
