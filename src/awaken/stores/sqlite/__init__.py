"""Threads in one SQLite file: durable, for one process or a few on one machine."""

from awaken.stores.sqlite.profile import SqliteProfiles
from awaken.stores.sqlite.store import SqliteStore
from awaken.stores.sqlite.upkeep import Compacted

__all__ = ["Compacted", "SqliteProfiles", "SqliteStore"]
