"""Threads, runs, tickets, commands, profiles and blobs in a Postgres database, for many machines.

Needs the extra `postgres`: `pip install 'awaken[postgres]'`.
"""

from typing import TYPE_CHECKING

from awaken.lazy import lazy_names

if TYPE_CHECKING:
    from awaken.stores.postgres.blobs import PostgresBlobs
    from awaken.stores.postgres.migrations import Migrated, migrate_address
    from awaken.stores.postgres.profiles import PostgresProfiles
    from awaken.stores.postgres.store import PostgresStore

__all__ = ["Migrated", "PostgresBlobs", "PostgresProfiles", "PostgresStore", "migrate_address"]

lazy_names(
    __name__,
    {
        ".blobs": "PostgresBlobs",
        ".migrations": "Migrated migrate_address",
        ".profiles": "PostgresProfiles",
        ".store": "PostgresStore",
    },
    extra="postgres",
)
