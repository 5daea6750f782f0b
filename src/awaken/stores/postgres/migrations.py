"""The version of a schema: setting it up, bringing it up to date, refusing what does not fit."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from awaken.core.value import Value
from awaken.errors import StoreUnavailable
from awaken.stores.postgres.address import Address, parse_address
from awaken.stores.postgres.connections import Schema, connect, end
from awaken.stores.postgres.errors import explain
from awaken.stores.sql.migrations import Migration, load_migrations

_LOCK = 0x41574B4E
"""The advisory lock that one migration at a time holds."""
_STEP_SECONDS = 3600.0
"""Seconds that a step may take, and that one waits for another process's."""
_OLDEST_SERVER = 150_000
_VERSION = "SELECT max(number) FROM @migrations"
# Every user may read these; who is synchronous, and how far it is, only some may.
_STANDBYS = """
SELECT count(*), current_setting('synchronous_standby_names'),
       current_setting('synchronous_commit')
FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup'
"""
# Columns whose sequences say whether a row was ever written, even if it is deleted.
_NUMBERED = ("nodes.id", "threads.pk")
# A user that may not read the sequence has not made it, and could not finish the schema.
_HAS_NUMBERED = """
SELECT NOT has_sequence_privilege(sequence, 'SELECT')
       OR pg_sequence_last_value(sequence) IS NOT NULL
FROM (SELECT pg_get_serial_sequence($1, $2)::regclass AS sequence) AS numbers
"""
# `to_regclass` would answer from the cache of its connection. A transaction that has waited for the
# lock would not see the tables that were made meanwhile; a query of the catalog sees them.
_EXISTS = """
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_class AS tables
    JOIN pg_catalog.pg_namespace AS schemas ON schemas.oid = tables.relnamespace
    WHERE schemas.nspname = $1 AND tables.relname = $2
)
"""
_NOT_WAITED_FOR = ("off", "local")
log = logging.getLogger("awaken.stores")


class Migrated(Value, frozen=True, kw_only=True):
    """The steps that brought a schema up to date, or would, and the version after them."""

    schema: str
    steps: tuple[str, ...]
    version: int


async def migrate_address(address: str, *, dry_run: bool = False) -> Migrated:
    """Bring the schema of an address up to date. With `dry_run`, nothing is changed.

    Raises:
        ConfigError: the address is not one of Postgres.
        StoreUnavailable: the database cannot be used; the text says why.
    """
    place = parse_address(address)
    migrations = load_migrations("postgres")
    try:
        connection = await connect(place, direct=True)
        try:
            missing = await migrate(connection, place, migrations, dry_run=dry_run)
            version = await version_of(connection, Schema(place.schema)) or 0
        finally:
            await end(connection)
    except Exception as error:
        raise explain(place.display, error) from error
    return Migrated(
        schema=place.schema,
        steps=tuple(step.name for step in missing),
        version=len(migrations) if missing else version,
    )


async def version_of(connection: asyncpg.Connection, schema: Schema) -> int | None:
    """The version of the schema's tables, or `None` if it has none yet."""
    if not await connection.fetchval(_EXISTS, schema.name, "migrations"):
        return None
    return int(await connection.fetchval(schema.statement(_VERSION)) or 0)


async def prepare(
    connection: asyncpg.Connection, address: Address, migrations: Sequence[Migration]
) -> None:
    """Set an empty schema up, and check the version of any other.

    Raises:
        StoreUnavailable: this awaken cannot work with it; the text says what to do.
    """
    server = int(await connection.fetchval("SELECT current_setting('server_version_num')"))
    if server < _OLDEST_SERVER:
        raise StoreUnavailable(f"{address.display} is Postgres {server // 10_000}: 15 is needed")
    schema, latest = Schema(address.schema), len(migrations)
    version = await version_of(connection, schema)
    if version is None or version < latest:
        version = await _set_up(connection, schema, migrations)
    if version < latest:
        raise StoreUnavailable(
            f"schema {schema.name!r} of {address.display} has version {version}, this awaken needs "
            f"{latest}: run `awaken db migrate --store …` with this address"
        )
    # The next version still has everything that this one uses.
    if version > latest + 1:
        raise StoreUnavailable(
            f"schema {schema.name!r} of {address.display} has version {version}, this awaken works "
            f"with {latest} and {latest + 1}: upgrade awaken (pip install --upgrade awaken)"
        )


async def check_standbys(connection: asyncpg.Connection, address: Address) -> None:
    """Warn if a failover could lose commits that were answered for."""
    count, names, commit = await connection.fetchrow(_STANDBYS)
    if count and (not names or commit in _NOT_WAITED_FOR):
        log.warning(
            "%s has standbys, and commits do not wait for any of them: after a failover the last "
            "commits may be lost, and calls may be made again. Set synchronous_standby_names, and "
            "synchronous_commit = on",
            address.display,
        )


async def migrate(
    connection: asyncpg.Connection,
    address: Address,
    migrations: Sequence[Migration],
    *,
    dry_run: bool = False,
) -> list[Migration]:
    """Bring a schema up to date; returns the steps it lacked. An empty schema is set up in one
    transaction; otherwise each step has its own."""
    schema = Schema(address.schema)
    version = await version_of(connection, schema)
    missing = list(migrations[version or 0 :])
    if missing and version is None and not dry_run:
        await _set_up(connection, schema, migrations)
    for step in () if dry_run or version is None else missing:
        async with _lock_schema(connection):
            if (await version_of(connection, schema) or 0) < step.number:
                await _apply(connection, schema, step)
    return missing


async def _set_up(
    connection: asyncpg.Connection, schema: Schema, migrations: Sequence[Migration]
) -> int:
    """Take all missing steps in one transaction, if no node has used the schema yet. Returns the
    version of the schema afterwards.

    Earlier releases set a schema up in several transactions: a process that died between two of
    them has left an older version, without a node.
    """
    async with _lock_schema(connection):
        version = await version_of(connection, schema) or 0
        if version < len(migrations) and not await _was_used(connection, schema):
            for step in migrations[version:]:
                await _apply(connection, schema, step)
            version = len(migrations)
    return version


async def _was_used(connection: asyncpg.Connection, schema: Schema) -> bool:
    """Whether the schema has, or ever had, a node or a thread."""
    for column in _NUMBERED:
        table, _, name = column.partition(".")
        if not await connection.fetchval(_EXISTS, schema.name, table):
            continue
        if await connection.fetchval(_HAS_NUMBERED, f'"{schema.name}".{table}', name):
            return True
    return False


@asynccontextmanager
async def _lock_schema(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """A transaction in which no other process changes the tables of a schema."""
    # Each statement has to see what was committed while this one waited for the lock.
    async with connection.transaction(isolation="read_committed"):
        # A lock of the transaction: a session's own would be another one's behind a pooler.
        await connection.execute("SET LOCAL statement_timeout = 0")
        if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):
            log.info("another process sets up tables in this database: waiting for it")
            await connection.execute(
                "SELECT pg_advisory_xact_lock($1)", _LOCK, timeout=_STEP_SECONDS
            )
        yield


async def _apply(connection: asyncpg.Connection, schema: Schema, step: Migration) -> None:
    """Take one step. The caller holds the lock."""
    await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema.name}"')
    await connection.execute(f'SET LOCAL search_path = "{schema.name}"')
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS migrations (number int PRIMARY KEY, name text NOT NULL, "
        "at timestamptz NOT NULL DEFAULT now())"
    )
    await connection.execute(step.script, timeout=_STEP_SECONDS)
    await connection.execute(
        "INSERT INTO migrations (number, name) VALUES ($1, $2)", step.number, step.name
    )
