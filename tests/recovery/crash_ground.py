"""Where the processes of a proof keep their threads: a file, or a schema of Postgres; and over
which bus they hear each other.

A process that was killed is known to be dead here, so nobody waits until its lease is over: the
lease is ended, and a node may take threads of dead ones as soon as it is there. How long that
takes otherwise is what `cluster_kills.py` measures.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import asyncpg
import msgspec

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "stores")]

from nats_kit import open_server  # noqa: E402

from awaken.core.store.store import Store  # noqa: E402
from awaken.stores.postgres import PostgresStore  # noqa: E402
from awaken.stores.postgres.lease import PostgresLease  # noqa: E402
from awaken.stores.sqlite import SqliteStore  # noqa: E402
from postgres_kit import clean, running_postgres  # noqa: E402

_NO_QUARANTINE = """
CREATE FUNCTION {schema}.was_there() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.held_since := NEW.held_since - interval '1 hour'; RETURN NEW; END $$;
CREATE TRIGGER was_there BEFORE INSERT ON {schema}.nodes
FOR EACH ROW EXECUTE FUNCTION {schema}.was_there()
"""
_BLOBS = """
SELECT id FROM {schema}.blobs
UNION SELECT 'parts of ' || upload FROM {schema}.blob_parts
      WHERE upload NOT IN (SELECT upload FROM {schema}.blobs)
UNION SELECT 'upload ' || pk FROM {schema}.blob_uploads
      WHERE pk NOT IN (SELECT upload FROM {schema}.blobs)
"""


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """The servers there are; without Postgres, threads are in a file."""

    postgres: str = ""
    nats: str = ""

    def at(self, home: Path) -> Site:
        """The place for one play, which is empty. Each process has one at a time."""
        if not self.postgres:
            return Site(store=f"sqlite:///{home / 'awaken.db'}", bus=self._bus(home))
        PostgresLease.can_claim = PostgresLease.held  # type: ignore[method-assign]
        schema = f"p{os.getpid()}"
        asyncio.run(_empty(self.postgres, schema))
        site = f"{self.postgres}?schema={schema}&pool=3"
        return Site(store=site, bus=self._bus(home), postgres=self.postgres, schema=schema)

    def _bus(self, home: Path) -> str | None:
        return f"{self.nats}/{home.name}" if self.nats else None


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of one play."""

    store: str
    bus: str | None = None
    postgres: str = ""
    schema: str = ""

    def open(self) -> Store:
        if self.postgres:
            return PostgresStore(self.store)
        return SqliteStore(self.store.removeprefix("sqlite:///"))

    async def kept_blobs(self) -> set[str]:
        """The ids of the blobs there are, and of what is left of others."""
        if not self.postgres:
            folder = Path(f"{self.store.removeprefix('sqlite:///')}-blobs")
            return {path.name for path in folder.rglob("*") if path.is_file()}  # noqa: ASYNC240
        connection = await asyncpg.connect(self.postgres)
        try:
            return {row[0] for row in await connection.fetch(_BLOBS.format(schema=self.schema))}
        finally:
            await connection.close()

    def bury(self) -> None:
        """End the leases of all nodes: those that worked are dead, and say nothing more. The last
        renewal of a killed process may still be on its way: it gets no time."""
        if self.postgres:
            text = f"UPDATE {self.schema}.nodes SET lease_until = clock_timestamp(), ttl = '0'"
            asyncio.run(_execute(self.postgres, text))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--postgres", action="store_true", help="on Postgres, not in a file")
    parser.add_argument("--nats", action="store_true", help="with a live bus")


@contextmanager
def ground_of(options: argparse.Namespace) -> Iterator[Ground]:
    """Start the servers that were asked for."""
    with ExitStack() as stack:
        postgres = nats = ""
        if options.postgres:
            postgres = stack.enter_context(running_postgres()).dsn
        if options.nats:
            port = stack.enter_context(open_server()).port
            nats = f"nats://127.0.0.1:{port}"
        yield Ground(postgres=postgres, nats=nats)


async def _empty(dsn: str, schema: str) -> None:
    """Make a schema, or empty it if this process has used it before."""
    connection = await asyncpg.connect(dsn)
    try:
        found = await connection.fetchval("SELECT to_regnamespace($1)", schema)
    finally:
        await connection.close()
    if found is not None:
        return await clean(dsn, schema)
    store = PostgresStore(f"{dsn}?schema={schema}")
    await store.open()
    await store.close()
    await _execute(dsn, _NO_QUARANTINE.format(schema=schema))


async def _execute(dsn: str, text: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(text)
    finally:
        await connection.close()
