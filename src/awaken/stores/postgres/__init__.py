"""Threads, runs, tickets, commands, profiles and blobs in a Postgres database, for many machines.

Needs the extra `postgres`: `pip install 'awaken[postgres]'`.
"""

from awaken.stores.postgres.blobs import PostgresBlobs
from awaken.stores.postgres.profiles import PostgresProfiles
from awaken.stores.postgres.store import PostgresStore

__all__ = ["PostgresBlobs", "PostgresProfiles", "PostgresStore"]
